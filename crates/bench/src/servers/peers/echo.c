/* One thread per connection, as a textbook writes it. Prints its port. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *arg) {
  int fd = (int)(long)arg;
  char buf[4096];
  ssize_t n;
  while ((n = read(fd, buf, sizeof buf)) > 0 && write(fd, buf, n) == n) {}
  close(fd);
  return NULL;
}

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  pthread_attr_t attr;
  if (bind(listener, (void *)&at, len) || listen(listener, 4096)) return perror("listen"), 1;
  getsockname(listener, (void *)&at, &len);
  printf("%d\n", ntohs(at.sin_port)), fflush(stdout);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, 64 << 10);
  for (;;) {
    pthread_t thread;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || pthread_create(&thread, &attr, serve, (void *)(long)fd)) return perror("connection"), 1;
  }
}

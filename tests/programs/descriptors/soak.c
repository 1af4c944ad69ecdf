//@ engines
//@ seconds: 120
/* Servers and clients whose threads come and go, and wait in every form: neither memory, descriptors nor host threads grow.
 * SOAK_SECONDS says for how long, two seconds by default. */
#include "../check.h"
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CLIENTS = 60, TURNS = 12, MESSAGE = 4000 };

static int listeners[2];
static struct sockaddr_in by_internet;
static struct sockaddr_un by_name;
static socklen_t name_length;
static atomic_int serving;

static uint32_t random_below(uint32_t *state, uint32_t limit) {
  *state = *state * 1664525 + 1013904223;
  return (uint32_t)((uint64_t)*state * limit >> 32);
}

/* Waits until it can be read, in one of five forms. */
static void wait_for(int fd, uint32_t form) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  if (form == 0) need(poll(&one, 1, -1) == 1);
  if (form == 1) need(ppoll(&one, 1, &(struct timespec){60, 0}, NULL) == 1);
  if (form == 2 && fd < FD_SETSIZE) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    need(select(fd + 1, &set, NULL, NULL, NULL) == 1);
  }
  if (form == 3) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
    int set = epoll_create1(0);
    need(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(set, &event, 1, -1) == 1);
    close(set);
  }
}

static void *serve(void *argument) {
  int fd = (int)(long)argument;
  uint32_t seed = (uint32_t)fd;
  char bytes[MESSAGE];
  for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n) break;
    if (random_below(&seed, 4) == 0) wait_for(fd, random_below(&seed, 4));
  }
  close(fd);
  atomic_fetch_sub(&serving, 1);
  return NULL;
}

static void *accept_all(void *argument) {
  /* pthread_detach() would read the block of a thread that has ended and freed it (glibc bug 19951). */
  pthread_attr_t detached;
  pthread_t thread;
  need(pthread_attr_init(&detached) == 0 && pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
  for (int fd; (fd = accept(*(int *)argument, NULL, NULL)) >= 0;) {
    atomic_fetch_add(&serving, 1);
    need(pthread_create(&thread, &detached, serve, (void *)(long)fd) == 0);
  }
  return NULL;
}

static void talk(int fd, uint32_t *seed) {
  char sent[MESSAGE], got[MESSAGE];
  for (uint32_t turns = random_below(seed, TURNS) + 1; turns > 0; turns--) {
    ssize_t size = random_below(seed, MESSAGE) + 1;
    memset(sent, (char)size, (size_t)size);
    need(send(fd, sent, (size_t)size, MSG_NOSIGNAL) == size);
    wait_for(fd, random_below(seed, 5));
    need(recv(fd, got, (size_t)size, MSG_WAITALL) == size);
    must(memcmp(sent, got, (size_t)size) == 0);
  }
}

static void *client(void *argument) {
  uint32_t seed = (uint32_t)(long)argument * 2654435761u;
  int by = random_below(&seed, 2) ? AF_INET : AF_UNIX, fd = socket(by, SOCK_STREAM, 0);
  need(fd >= 0);
  need(by == AF_INET ? connect(fd, (void *)&by_internet, sizeof by_internet) == 0
                     : connect(fd, (void *)&by_name, name_length) == 0);
  talk(fd, &seed);
  struct linger reset = {.l_onoff = 1};
  char byte;
  switch (random_below(&seed, 4)) {
    case 0: need(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0); break;
    case 1: need(shutdown(fd, SHUT_WR) == 0 && read(fd, &byte, 1) == 0); break;
    case 2: need(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 1000}, sizeof(struct timeval)) == 0);
            need(recv(fd, &byte, 1, 0) == -1 && errno == EAGAIN); break;
  }
  close(fd);
  return NULL;
}

/* What the host shows of this process to another: its threads, descriptors and memory. */
struct seen {
  int threads, descriptors;
  long pages;
};
static int entries(pid_t of, const char *folder) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", of, folder);
  DIR *listing = opendir(path);
  need(listing);
  int n = 0;
  while (readdir(listing)) n++;
  closedir(listing);
  return n;
}
static struct seen look(void) {
  int answer[2];
  struct seen seen;
  need(pipe(answer) == 0);
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    pid_t of = getppid();
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", of);
    FILE *memory = fopen(path, "r");
    seen = (struct seen){.threads = entries(of, "task"), .descriptors = entries(of, "fd")};
    need(memory && fscanf(memory, "%*d %ld", &seen.pages) == 1);
    need(write(answer[1], &seen, sizeof seen) == sizeof seen);
    _exit(0);
  }
  need(read(answer[0], &seen, sizeof seen) == sizeof seen);
  need(waitpid(child, NULL, 0) == child);
  close(answer[0]), close(answer[1]);
  return seen;
}

static void begin_to_listen(void) {
  listeners[0] = socket(AF_INET, SOCK_STREAM, 0), listeners[1] = socket(AF_UNIX, SOCK_STREAM, 0);
  by_internet = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  by_name = (struct sockaddr_un){.sun_family = AF_UNIX};
  socklen_t length = sizeof by_internet;
  name_length = sizeof by_name;
  need(!bind(listeners[0], (void *)&by_internet, length) && !listen(listeners[0], CLIENTS));
  need(!getsockname(listeners[0], (void *)&by_internet, &length));
  need(!bind(listeners[1], (void *)&by_name, sizeof(sa_family_t)) && !listen(listeners[1], CLIENTS));
  need(!getsockname(listeners[1], (void *)&by_name, &name_length));
}

CASE(nothing_grows) {
  const char *text = getenv("SOAK_SECONDS");
  int64_t end = now_ns(CLOCK_MONOTONIC) + (text ? atoi(text) : 2) * INT64_C(1000000000);
  pthread_t acceptors[2], clients[CLIENTS];
  begin_to_listen();
  for (int i = 0; i < 2; i++) acceptors[i] = start(accept_all, &listeners[i]);
  struct seen first = {0}, last = {0};
  long round = 0;
  /* The first rounds find out how much is needed at once. */
  for (; round < 12 || now_ns(CLOCK_MONOTONIC) < end; round++) {
    for (long i = 0; i < CLIENTS; i++) clients[i] = start(client, (void *)(round * CLIENTS + i + 1));
    for (int i = 0; i < CLIENTS; i++) finish(clients[i]);
    wait_until(atomic_load(&serving) == 0);
    if (round % 10 == 9) last = look();
    if (round == 9) first = last;
  }
  last = look();
  must(last.descriptors == first.descriptors);
  /* No more than that ever wait at once. */
  must(last.threads <= 2 * CLIENTS + 16);
  must(last.pages <= first.pages + first.pages / 8 + 512 + 16 * (last.threads - first.threads));
  if (text)
    fprintf(stderr, "%ld rounds; threads %d, then %d; descriptors %d, then %d; pages %ld, then %ld\n", round, first.threads,
            last.threads, first.descriptors, last.descriptors, first.pages, last.pages);
  for (int i = 0; i < 2; i++) {
    need(shutdown(listeners[i], SHUT_RDWR) == 0);
    finish(acceptors[i]);
    close(listeners[i]);
  }
  say("done");
}

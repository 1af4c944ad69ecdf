//@ engines
//@ libs: -lrt
/* Calls that end at once: those that can only fail or do not wait, and the time that a call leaves. */
#include "../check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int two[2];

CASE(accept_that_can_only_fail) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int listener = socket(AF_INET, SOCK_STREAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
  int datagram = socket(AF_INET, SOCK_DGRAM, 0);
  need(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 5) == 0);
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
  say("unknown flag %s", result(accept4(listener, NULL, NULL, 0x40000000)));
  say("unknown flag beside a known one %s", result(accept4(listener, NULL, NULL, SOCK_NONBLOCK | 1)));
  say("not listening %s", result(accept(stream, NULL, NULL)));
  say("not listening, four arguments %s", result(accept4(stream, NULL, NULL, SOCK_CLOEXEC)));
  say("of a pair %s", result(accept(two[0], NULL, NULL)));
  say("of a pair, unknown flag %s", result(accept4(two[0], NULL, NULL, 99)));
  say("of datagrams %s", result(accept(datagram, NULL, NULL)));
  say("none %s", result(accept(0x7fff, NULL, NULL)));
  close(two[0]), close(two[1]);
  need(pipe(two) == 0);
  say("of a pipe %s", result(accept(two[0], NULL, NULL)));
  say("connects a pipe %s", result(connect(two[1], (void *)&address, sizeof address)));
  int counter = eventfd(0, 0);
  say("receives of a counter %s", result(recv(counter, two, 1, 0)));
  close(two[0]), close(two[1]), close(listener), close(stream), close(datagram), close(counter);
}

static void *send_later(void *unused) {
  settle();
  need(write(two[1], "abc", 3) == 3);
  return unused;
}

/* These sockets keep no errors apart. */
CASE(queue_of_errors) {
  static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
  for (int i = 0; i < COUNT(types); i++) {
    char bytes[8];
    need(socketpair(AF_UNIX, types[i], 0, two) == 0);
    pthread_t thread = start(send_later, NULL);
    say("received %s", result(recv(two[0], bytes, sizeof bytes, MSG_ERRQUEUE)));
    finish(thread);
    close(two[0]), close(two[1]);
  }
}

CASE(state_of_a_message_queue) {
  struct mq_attr limits = {.mq_maxmsg = 2, .mq_msgsize = 8};
  char name[64];
  snprintf(name, sizeof name, "/entresol-at-once-%d", getpid());
  mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &limits);
  need(queue != -1 && mq_unlink(name) == 0);
  char bytes[128] = "";
  say("read %d", read(queue, bytes, sizeof bytes) > 0);
  say("%.6s", bytes);
  struct iovec vector = {bytes, sizeof bytes};
  need(lseek(queue, 0, SEEK_SET) == 0);
  say("readv %d", readv(queue, &vector, 1) > 0);
  say("write %s", result(write(queue, "a", 1)));
  mq_close(queue);
}

static void nothing(int signal) { (void)signal; }

/* What is left is a little less than what was given. */
static void tell(const char *what, long answer, struct timespec left) {
  say("%s: %s, %d seconds left", what, result(answer), (int)left.tv_sec);
}
CASE(time_left) {
  need(pipe(two) == 0 && write(two[1], "a", 1) == 1);
  struct pollfd one = {.fd = two[0], .events = POLLIN};
  struct timespec left = {.tv_sec = 5};
  tell("ppoll", syscall(SYS_ppoll, &one, 1, &left, NULL, 8), left);
  left = (struct timespec){.tv_sec = 5};
  tell("too many", syscall(SYS_ppoll, &one, 5000000, &left, NULL, 8), left);
  left = (struct timespec){.tv_sec = 5};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(two[0], &set);
  tell("pselect", syscall(SYS_pselect6, two[0] + 1, &set, NULL, NULL, &left, NULL), left);
  struct timeval time = {.tv_sec = 5};
  long answer = select(two[0] + 1, &set, NULL, NULL, &time);
  tell("select", answer, (struct timespec){.tv_sec = time.tv_sec});
  /* glibc makes the other call. */
  long seconds[2] = {4, 1500000};
  answer = syscall(SYS_select, two[0] + 1, &set, NULL, NULL, seconds);
  say("by its own number: %s, %d", result(answer), seconds[0] == 5 && seconds[1] < 500000 && seconds[1] > 0);
  long empty[2] = {2, -2000000}, bad[2] = {2, -1};
  answer = syscall(SYS_select, 0, NULL, NULL, NULL, empty);
  say("no time: %s", result(answer));
  say("bad time: %s", result(syscall(SYS_select, two[0] + 1, &set, NULL, NULL, bad)));
  say("no address: %s", result(syscall(SYS_select, two[0] + 1, &set, NULL, NULL, 8)));
  left = (struct timespec){.tv_sec = 5};
  tell("too few", syscall(SYS_pselect6, -1, &set, NULL, NULL, &left, NULL), left);
  left = (struct timespec){0};
  tell("does not wait", syscall(SYS_ppoll, &one, 1, &left, NULL, 8), left);
  uint64_t mask = 1u << (SIGUSR1 - 1), none = 0;
  signal(SIGUSR1, nothing);
  need(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, 8) == 0);
  raise(SIGUSR1);
  left = (struct timespec){.tv_sec = 5};
  tell("interrupted", syscall(SYS_ppoll, &one, 0, &left, &none, 8), left);
  raise(SIGUSR1);
  left = (struct timespec){.tv_sec = 5};
  uint64_t both[2] = {(uint64_t)(uintptr_t)&none, 8};
  tell("pselect, interrupted", syscall(SYS_pselect6, 0, NULL, NULL, NULL, &left, both), left);
  close(two[0]), close(two[1]);
}

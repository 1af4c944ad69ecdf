/* What calls that wait leave in their output parameters, in every way they end: something was ready, nothing was and the
 * time limit is zero, time was over, a signal came, an error. */
#include "../check.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* Two pipes: nothing is in the first; something is in the second, if wanted. */
static int empty[2], other[2];
static void open_pipes(bool ready) {
  need(pipe(empty) == 0 && pipe(other) == 0);
  if (ready) need(write(other[1], "x", 1) == 1);
}
static void close_pipes(void) {
  for (int i = 0; i < 2; i++) close(empty[i]), close(other[i]);
}

static void nothing(int signal) { (void)signal; }
static void interrupt_soon(void) {
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = nothing}, NULL);
  need(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, NULL) == 0);
}

/* The time that a call says is left: as it was, zero, or something between. */
static const char *left(int64_t ns, int64_t before) {
  return ns == before ? "all" : ns == 0 ? "none" : ns > 0 && ns < before ? "some" : "nonsense";
}

enum way { READY, ZERO, ELAPSED, INTERRUPTED, BAD };
static const char *const ways[] = {"ready", "zero", "elapsed", "interrupted", "bad"};
static const int64_t limits[] = {INT64_C(100000000000), 0, 2000000, INT64_C(100000000000), INT64_C(100000000000)};

static void begin(enum way way) {
  open_pipes(way == READY);
  if (way == INTERRUPTED) interrupt_soon();
}

/* `raw`: the system call itself, which says how much time is left. */
static void try_select(enum way way, int kind) {
  static const char *const kinds[] = {"select", "pselect", "raw select", "raw pselect6", "pselect with a mask"};
  begin(way);
  fd_set sets[3];
  for (int i = 0; i < 3; i++) FD_ZERO(&sets[i]);
  FD_SET(empty[0], &sets[0]), FD_SET(other[0], &sets[0]);
  FD_SET(empty[0], &sets[2]);
  int bad = other[1] + 1, n = bad + 1;
  if (way == BAD) FD_SET(bad, &sets[0]);
  struct timeval tv = {limits[way] / 1000000000, limits[way] % 1000000000 / 1000};
  struct timespec ts = timespec_of(limits[way]);
  sigset_t none;
  sigemptyset(&none);
  long answer = kind == 0   ? select(n, &sets[0], &sets[1], &sets[2], &tv)
                : kind == 1 ? pselect(n, &sets[0], &sets[1], &sets[2], &ts, NULL)
                : kind == 2 ? syscall(SYS_select, n, &sets[0], &sets[1], &sets[2], &tv)
                : kind == 3 ? syscall(SYS_pselect6, n, &sets[0], &sets[1], &sets[2], &ts, NULL)
                            : pselect(n, &sets[0], &sets[1], &sets[2], &ts, &none);
  int error = errno;
  const char *time = "";
  if (way != READY && way != BAD && (kind == 0 || kind == 2)) time = left(tv.tv_sec * INT64_C(1000000000) + tv.tv_usec * 1000, limits[way]);
  if (way != READY && way != BAD && kind == 3) time = left(ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec, limits[way]);
  errno = error;
  say("%s, %s: %s, empty %d, other %d, bad %d, except %d, left %s", kinds[kind], ways[way], result(answer),
      !!FD_ISSET(empty[0], &sets[0]), !!FD_ISSET(other[0], &sets[0]), !!FD_ISSET(bad, &sets[0]),
      !!FD_ISSET(empty[0], &sets[2]), time);
  close_pipes();
}

CASE(selects) {
  for (int kind = 0; kind < 5; kind++) {
    for (enum way way = READY; way <= BAD; way++) try_select(way, kind);
  }
}

/* More descriptors than one first looks at. */
CASE(large_sets) {
  begin(ZERO);
  static unsigned long set[64];
  struct timespec zero = {0};
  set[empty[0] / 64] |= 1ul << empty[0] % 64;
  say("zero %s", result(syscall(SYS_pselect6, 4096, set, NULL, NULL, &zero, NULL)));
  say("left in it %d", set[empty[0] / 64] != 0);
  close_pipes();
}

/* A signal that the mask of the call lets through is there already. */
CASE(selects_let_a_signal_through) {
  sigset_t mask, none;
  sigemptyset(&none), sigemptyset(&mask), sigaddset(&mask, SIGUSR1);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = nothing}, NULL);
  for (enum way way = READY; way <= ZERO; way++) {
    sigprocmask(SIG_BLOCK, &mask, NULL);
    raise(SIGUSR1);
    begin(way);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(empty[0], &set), FD_SET(other[0], &set);
    long answer = pselect(other[1] + 2, &set, NULL, NULL, &(struct timespec){0}, &none);
    say("%s: %s, empty %d, other %d", ways[way], result(answer), !!FD_ISSET(empty[0], &set), !!FD_ISSET(other[0], &set));
    sigset_t pending;
    sigpending(&pending);
    say("still pending %d", sigismember(&pending, SIGUSR1));
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
    close_pipes();
  }
}

static void try_poll(enum way way, int kind) {
  static const char *const kinds[] = {"poll", "ppoll", "raw ppoll"};
  begin(way);
  struct pollfd fds[] = {{empty[0], POLLIN, 0x7fff}, {other[0], POLLIN, 0x7fff}, {-1, POLLIN, 0x7fff}, {other[1] + 1, POLLIN, 0x7fff}};
  struct timespec ts = timespec_of(limits[way]);
  int n = way == BAD ? 4 : 3;
  long answer = kind == 0   ? poll(fds, n, limits[way] / 1000000)
                : kind == 1 ? ppoll(fds, n, &ts, NULL)
                            : syscall(SYS_ppoll, fds, n, &ts, NULL, 8);
  int error = errno;
  const char *time = kind == 2 && way > READY && way < BAD ? left(ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec, limits[way]) : "";
  errno = error;
  say("%s, %s: %s, %#x %#x %#x %#x, left %s", kinds[kind], ways[way], result(answer), fds[0].revents, fds[1].revents,
      fds[2].revents, fds[3].revents, time);
  close_pipes();
}

CASE(polls) {
  for (int kind = 0; kind < 3; kind++) {
    for (enum way way = READY; way <= BAD; way++) try_poll(way, kind);
  }
}

CASE(epolls) {
  for (enum way way = READY; way < BAD; way++) {
    begin(way);
    int epoll = epoll_create1(0);
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, empty[0], &(struct epoll_event){EPOLLIN, {.u64 = 1}}) == 0);
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, other[0], &(struct epoll_event){EPOLLIN, {.u64 = 2}}) == 0);
    struct epoll_event events[2] = {{77, {.u64 = 77}}, {77, {.u64 = 77}}};
    long answer = epoll_wait(epoll, events, 2, limits[way] / 1000000);
    say("%s: %s, %u %u", ways[way], result(answer), (unsigned)events[0].data.u64, (unsigned)events[1].data.u64);
    close(epoll);
    close_pipes();
  }
}

/* Messages: what the caller's structures hold afterwards. */
CASE(messages) {
  static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
  for (int i = 0; i < COUNT(types); i++) {
    for (enum way way = READY; way < BAD; way++) {
      int pair[2];
      need(socketpair(AF_UNIX, types[i], 0, pair) == 0);
      if (way == READY) need(send(pair[1], "hello", 5, 0) == 5);
      if (way == ELAPSED) {
        struct timeval time = {0, 2000};
        need(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
      }
      if (way == INTERRUPTED) interrupt_soon();
      int flags = way == ZERO ? MSG_DONTWAIT : 0;
      char text[16] = "before", control[64];
      struct sockaddr_storage from = {.ss_family = 77};
      struct iovec part = {text, way == READY ? 3 : 16};
      struct msghdr message = {&from, sizeof from, &part, 1, control, sizeof control, 0x7777};
      long answer = recvmsg(pair[0], &message, flags);
      say("recvmsg, %s: %s, name %u, control %zu, flags %#x, %.6s, family %d", ways[way], result(answer),
          message.msg_namelen, message.msg_controllen, message.msg_flags, text, from.ss_family);
      if (way == READY) need(send(pair[1], "hello", 5, 0) == 5);
      if (way == INTERRUPTED) interrupt_soon();
      socklen_t length = sizeof from;
      answer = recvfrom(pair[0], text, 2, flags, (void *)&from, &length);
      say("recvfrom, %s: %s, name %u, %.6s", ways[way], result(answer), length, text);
      close(pair[0]), close(pair[1]);
    }
  }
}

CASE(children) {
  for (int way = 0; way < 3; way++) {
    pid_t child = fork();
    if (child == 0) {
      if (way == 1) pause();
      _exit(7);
    }
    siginfo_t info;
    if (way == 0) need(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    int status = 0x777;
    struct timeval untouched = {77, 77};
    struct rusage usage = {.ru_utime = untouched, .ru_maxrss = -5};
    long answer = wait4(child, &status, way == 1 ? WNOHANG : 0, &usage);
    say("wait4 %d: %d, status %#x, usage %s", way, answer == child ? 1 : (int)answer, status,
        usage.ru_maxrss == -5 ? "untouched" : "written");
    memset(&info, 7, sizeof info);
    answer = waitid(P_PID, child, &info, WEXITED | WNOHANG);
    say("waitid %d: %s, pid %d", way, result(answer), answer == 0 ? info.si_pid : 0);
    if (way == 1) kill(child, SIGKILL), waitpid(child, NULL, 0);
  }
}

CASE(queues) {
  int id = msgget(IPC_PRIVATE, 0600);
  need(id >= 0);
  struct {
    long type;
    char text[16];
  } message = {9, "before"};
  const char *answer = result(msgrcv(id, &message, 16, 0, IPC_NOWAIT));
  say("nothing: %s, type %ld, %s", answer, message.type, message.text);
  interrupt_soon();
  answer = result(msgrcv(id, &message, 16, 0, 0));
  say("interrupted: %s, type %ld, %s", answer, message.type, message.text);
  message.type = 3;
  need(msgsnd(id, &message, 4, 0) == 0);
  message.type = 9;
  answer = result(msgrcv(id, &message, 2, 0, 0));
  say("too long: %s, type %ld", answer, message.type);
  answer = result(msgrcv(id, &message, 2, 0, MSG_NOERROR));
  say("cut: %s, type %ld", answer, message.type);
  msgctl(id, IPC_RMID, NULL);
}

/* A file of which the host has only a part in memory is read to its end all the same. */
CASE(parts_of_files) {
  enum { SIZE = 1 << 20 };
  static char buffer[SIZE];
  char path[] = "outputs-XXXXXX";
  int fd = mkstemp(path);
  need(fd >= 0 && write(fd, buffer, SIZE) == SIZE);
  unlink(path);
  need(fsync(fd) == 0);
  for (int kind = 0; kind < 2; kind++) {
    posix_fadvise(fd, SIZE / 4, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    need(lseek(fd, 0, SEEK_SET) == 0);
    struct iovec part = {buffer, SIZE};
    long answer = kind ? readv(fd, &part, 1) : read(fd, buffer, SIZE);
    say("%s %s, then at %s", kind ? "readv" : "read", result(answer), result(lseek(fd, 0, SEEK_CUR)));
  }
  close(fd);
}

/* SO_RCVLOWAT: fewer bytes are not enough for a call that waits. */
static void *send_rest(void *socket) {
  settle();
  need(send((int)(intptr_t)socket, "and enough", 10, 0) == 10);
  return NULL;
}
CASE(enough_to_receive) {
  for (int kind = 0; kind < 3; kind++) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), here = socket(AF_INET, SOCK_STREAM, 0), there;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    need(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    need(getsockname(listener, (void *)&at, &length) == 0 && connect(here, (void *)&at, sizeof at) == 0);
    there = accept(listener, NULL, NULL);
    int enough = 10;
    need(setsockopt(here, SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough) == 0 && send(there, "first", 5, 0) == 5);
    settle();
    pthread_t sender = start(send_rest, (void *)(intptr_t)there);
    char text[32];
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    long answer = kind == 0 ? read(here, text, 32) : kind == 1 ? recv(here, text, 32, 0) : recvmsg(here, &message, 0);
    say("%d: %s", kind, result(answer));
    finish(sender);
    close(listener), close(here), close(there);
  }
}

//@ flags: -std=c++20
// What unwinds from a waiting call: cancellation runs the destructors of all frames above it in order, handlers see
// who called, and may throw to there.
#include "check.hpp"
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unwind.h>

static int pipe_fds[2], full_pipe[2], socket_fds[2], listener, epoll_fd;
static sem_t never, ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t forever;
static const timespec long_time = {1000, 0};

static void in_read() {
  char byte;
  must(read(pipe_fds[0], &byte, 1) == -2, "nothing to read");
}
static void in_recv() {
  char byte;
  must(recv(socket_fds[0], &byte, 1, 0) == -2, "nothing to receive");
}
static void in_write() {
  static char much[1 << 20];
  for (;;) must(write(full_pipe[1], much, sizeof much) != -1, "no error");
}
static void in_accept() { accept(listener, nullptr, nullptr); }
static void in_poll() {
  pollfd fd = {socket_fds[0], POLLIN, 0};
  poll(&fd, 1, -1);
}
static void in_select() { select(0, nullptr, nullptr, nullptr, nullptr); }
static void in_epoll() {
  epoll_event event;
  epoll_wait(epoll_fd, &event, 1, -1);
}
static void in_nanosleep() { nanosleep(&long_time, nullptr); }
static void in_clock_nanosleep() { clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, nullptr); }
static void in_sleep() { sleep(1000); }
static void in_pause() { pause(); }
static void in_sem_wait() { sem_wait(&never); }
static void in_sigwait() {
  sigset_t set;
  int signal;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigwait(&set, &signal);
}
static void in_join() { pthread_join(forever, nullptr); }
static void in_child() { waitpid(-1, nullptr, 0); }
static void in_open() {
  std::string fifo = "/tmp/entresol-cancel-" + std::to_string(getpid());
  unlink(fifo.c_str());
  must(mkfifo(fifo.c_str(), 0600) == 0, "a fifo");
  struct Remove {
    std::string &name;
    ~Remove() { unlink(name.c_str()); }
  } remove{fifo};
  must(open(fifo.c_str(), O_RDONLY) == -2, "nobody writes");
}
struct Unlock {
  ~Unlock() { must(pthread_mutex_unlock(&mutex) == 0, "the mutex is locked again"); }
};
static void in_cond_wait() {
  pthread_mutex_lock(&mutex);
  Unlock unlock;
  for (;;) pthread_cond_wait(&cond, &mutex);
}
static void in_cond_timedwait() {
  pthread_mutex_lock(&mutex);
  Unlock unlock;
  timespec end = {INT32_MAX, 0};
  for (;;) pthread_cond_timedwait(&cond, &mutex, &end);
}

static const struct {
  const char *name;
  void (*wait)();
} points[] = {
    {"read", in_read},           {"recv", in_recv},     {"write", in_write},
    {"accept", in_accept},       {"poll", in_poll},     {"select", in_select},
    {"epoll_wait", in_epoll},    {"nanosleep", in_nanosleep}, {"clock_nanosleep", in_clock_nanosleep},
    {"sleep", in_sleep},         {"pause", in_pause},   {"sem_wait", in_sem_wait},
    {"sigwait", in_sigwait},     {"pthread_join", in_join},   {"waitpid", in_child},
    {"open", in_open},           {"pthread_cond_wait", in_cond_wait}, {"pthread_cond_timedwait", in_cond_timedwait},
};

// What happened, in order.
static std::string story;

struct Tell {
  const char *word;
  ~Tell() { story += std::string(" ~") + word; }
};

static void tell(void *word) { story += std::string(" ") + static_cast<const char *>(word); }

[[gnu::noinline]] static void inner(void (*wait)()) {
  Tell inner{"inner"};
  wait();
  story += " came-back";
}

[[gnu::noinline]] static void outer(void (*wait)()) {
  Tell outer{"outer"};
  pthread_cleanup_push(tell, const_cast<char *>("handler"));
  try {
    inner(wait);
  } catch (abi::__forced_unwind &) {
    story += " caught";
    throw;
  }
  pthread_cleanup_pop(0);
}

static thread_local Tell of_thread{"thread_local"};

static void *wait_at(void *index) {
  Tell first{"first"};
  of_thread.word = "of-thread";
  sem_post(&ready);
  outer(points[reinterpret_cast<intptr_t>(index)].wait);
  return nullptr;
}

static void *sleep_forever(void *) {
  while (pause()) {}
  return nullptr;
}

static void at_every_point(bool wait_first) {
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    story.clear();
    pthread_t thread;
    must(pthread_create(&thread, nullptr, wait_at, reinterpret_cast<void *>(i)) == 0, "a thread");
    while (sem_wait(&ready) == -1) {}
    if (wait_first) usleep(10000);
    must(pthread_cancel(thread) == 0, "cancelled");
    void *value;
    pthread_join(thread, &value);
    say(std::string(points[i].name) + ":" + story + (value == PTHREAD_CANCELED ? "" : ", not cancelled"));
  }
  must(pthread_mutex_trylock(&mutex) == 0, "the mutex is free");
  pthread_mutex_unlock(&mutex);
}

// ---- handlers --------------------------------------------------------------------------------------------------

static std::atomic<bool> waiting, saw_caller, in_library, throwing, done;
static void call_it(void (*wait)());
static void (*volatile caller)(void (*)()) = call_it;

static _Unwind_Reason_Code look(_Unwind_Context *context, void *) {
  void *before = reinterpret_cast<void *>(_Unwind_GetIP(context) - 1);
  if (_Unwind_FindEnclosingFunction(before) == reinterpret_cast<void *>(caller)) saw_caller = true;
  return _URC_NO_REASON;
}

static void handler(int, siginfo_t *, void *frame) {
  Dl_info where;
  void *ip = reinterpret_cast<void *>(static_cast<ucontext_t *>(frame)->uc_mcontext.gregs[REG_RIP]);
  // Signals may come while this runs, however far apart they were sent: the library that they find then is our own
  // call of it, or the way of the exception, and out of those nobody may throw.
  if (!waiting.exchange(false)) return;
  // It may have come too early, before the call: the next one will not.
  if (dladdr(ip, &where) && std::string(where.dli_fname).find("libc.so") != std::string::npos) {
    _Unwind_Backtrace(look, nullptr);
    in_library = true;
    if (throwing) throw std::runtime_error("out of the handler");
  }
  waiting = true;
}

[[gnu::noinline, gnu::noclone]] static void call_it(void (*wait)()) {
  Tell frame{"frame"};
  sem_post(&ready);
  waiting = true;
  wait();
  waiting = false;
  story += " came-back";
}

static void once_read() {
  char byte;
  read(pipe_fds[0], &byte, 1);
}
static void once_nanosleep() {
  nanosleep(&long_time, nullptr);
}
static void once_sem_wait() { sem_wait(&never); }

static void *wait_once(void *body) {
  try {
    caller(reinterpret_cast<void (*)()>(body));
  } catch (const std::runtime_error &error) {
    story += std::string(" ") + error.what();
  }
  done = true;
  return nullptr;
}

static void from_handlers(int flags, bool throws, void (*wait)(), const char *name, void (*release)()) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | flags;
  sigaction(SIGUSR1, &action, nullptr);
  story.clear();
  waiting = saw_caller = in_library = done = false;
  throwing = throws;
  pthread_t thread;
  pthread_create(&thread, nullptr, wait_once, reinterpret_cast<void *>(wait));
  while (sem_wait(&ready) == -1) {}
  // A call that starts over ends when it has been seen; the others end by the signal, and what a handler throws ends
  // them all. To release those would leave a byte, or a count, to the next who waits.
  while (!done && !(release && flags && !throws && in_library)) {
    pthread_kill(thread, SIGUSR1);
    usleep(5000);
  }
  if (!done) release();
  pthread_join(thread, nullptr);
  say(std::string(name) + (flags ? " with restart:" : ":") + (saw_caller ? " caller seen," : " caller not seen,") +
      (in_library ? " in the library," : " elsewhere,") + story);
}

static void let_read() { must(write(pipe_fds[1], "x", 1) == 1, "a byte"); }
static void let_wait() { sem_post(&never); }

int main() {
  must(pipe(pipe_fds) == 0 && pipe(full_pipe) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fds) == 0, "descriptors");
  listener = socket(AF_INET, SOCK_STREAM, 0);
  must(listen(listener, 1) == 0, "a listening socket");
  epoll_fd = epoll_create1(0);
  sem_init(&never, 0, 0);
  sem_init(&ready, 0, 0);
  pthread_create(&forever, nullptr, sleep_forever, nullptr);
  pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  for (bool throws : {false, true})
    for (int flags : {0, SA_RESTART}) {
      from_handlers(flags, throws, once_read, "read", let_read);
      from_handlers(flags, throws, once_nanosleep, "nanosleep", nullptr);
      from_handlers(flags, throws, once_sem_wait, "sem_wait", let_wait);
    }
  at_every_point(true);
  at_every_point(false);
  kill(child, SIGKILL);
}

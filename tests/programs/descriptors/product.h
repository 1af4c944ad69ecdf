/* The product of (a kind of file) x (a form of call) x (a way in which a wait ends) x (one thread that waits, or a hundred).
 *
 * A program has tables of files and of forms, and a CASE for each file. Each combination writes one line, which says how many
 * of the threads ended with which result. All of them wait for one file: an event is for one of those that move data, and
 * for all that only ask. */
#ifndef PRODUCT_H
#define PRODUCT_H

#define WAITERS 100
#include "waiters.h"
#include "waiter_signals.h"
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>

/* The file that is waited for, a duplicate of it, its other end, and what some forms need besides. */
static int fd = -1, kept = -1, peer = -1, set = -1, extra = -1;
/* How much one call moves. */
static size_t unit = 1;
/* For calls with a time limit of their own; -1: none. */
static int timeout_ms = -1;

enum {
  TRANSFERS = 1, /* read(2), write(2) and their kin */
  SOCKETS = 2,   /* recv(2), send(2) and their kin */
  PIPES = 4,     /* splice(2) and its kin */
  ASKS = 8,      /* poll(2) and its kin */
  ACCEPTS = 16,
  QUEUES = 32,
  MANY_FORMS = 64, /* all forms of these; of other files only the first */
};

struct file {
  const char *name;
  int forms;
  void (*make)(void);
  void (*satisfy)(void); /* what one call waits for comes, or room for it */
  void (*hang_up)(void); /* the other end goes away */
  void (*clean_up)(void);
  bool coalesces;        /* what comes twice may be found once */
  bool in_turn;          /* there is room for one, and then for one more */
  bool makes_room;       /* by itself: a wait may end before anything is done */
  bool own;              /* each process finds its own there */
  bool shuts_down;       /* shutdown(2) */
  bool has_limit;        /* SO_RCVTIMEO or SO_SNDTIMEO */
};

struct form {
  const char *name;
  int of; /* one of the above */
  long (*call)(struct waiter *);
  bool has_limit; /* a time limit of its own */
  bool first;     /* used for files without MANY_FORMS, too */
  bool by_one;    /* by one thread only: what many are told depends on who comes first */
};

static const struct timespec *limit_of(struct timespec *time) {
  *time = timespec_of(timeout_ms * INT64_C(1000000));
  return timeout_ms < 0 ? NULL : time;
}
static void close_it(int *number) {
  if (*number >= 0) close(*number);
  *number = -1;
}
__attribute__((unused)) static void set_nonblocking(int of, bool on) {
  int flags = fcntl(of, F_GETFL);
  need(flags >= 0 && fcntl(of, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

/* Which event the forms of polling ask for. */
static short asked;
static uint32_t asked_of_epoll(void) { return asked == POLLIN ? EPOLLIN : EPOLLOUT; }
static bool only_count;
static long answer(long n, long events) { return n < 0 ? n : n * 1000 + (only_count ? 0 : events); }

static long do_poll(struct waiter *w) {
  struct pollfd one = {.fd = w->fd, .events = asked};
  long n = poll(&one, 1, timeout_ms);
  return answer(n, one.revents);
}
static long do_ppoll(struct waiter *w) {
  struct pollfd two[2] = {{.fd = -1}, {.fd = w->fd, .events = asked}};
  struct timespec time;
  long n = ppoll(two, 2, limit_of(&time), NULL);
  return answer(n, two[1].revents);
}
static long do_select(struct waiter *w) {
  fd_set one;
  FD_ZERO(&one);
  FD_SET(w->fd, &one);
  struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  fd_set *in = asked == POLLIN ? &one : NULL, *out = in ? NULL : &one;
  long n = select(w->fd + 1, in, out, NULL, timeout_ms < 0 ? NULL : &time);
  return answer(n, n >= 0 ? FD_ISSET(w->fd, &one) : 0);
}
static long do_pselect(struct waiter *w) {
  fd_set one;
  FD_ZERO(&one);
  FD_SET(w->fd, &one);
  sigset_t mask;
  struct timespec time;
  need(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
  fd_set *in = asked == POLLIN ? &one : NULL, *out = in ? NULL : &one;
  long n = pselect(w->fd + 1, in, out, NULL, limit_of(&time), &mask);
  return answer(n, n >= 0 ? FD_ISSET(w->fd, &one) : 0);
}
static long do_epoll_wait(struct waiter *w) {
  struct epoll_event event = {0};
  return answer(epoll_wait(w->fd, &event, 1, timeout_ms), event.events);
}
static long do_epoll_pwait(struct waiter *w) {
  struct epoll_event event = {0};
  sigset_t mask;
  need(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
  return answer(epoll_pwait(w->fd, &event, 1, timeout_ms, &mask), event.events);
}
static long do_epoll_pwait2(struct waiter *w) {
  struct epoll_event event = {0};
  struct timespec time;
  return answer(epoll_pwait2(w->fd, &event, 1, limit_of(&time), NULL), event.events);
}
#define FORMS_THAT_ASK                                                                                          \
  {"poll", ASKS, do_poll, .has_limit = true, .first = true}, {"ppoll", ASKS, do_ppoll, .has_limit = true},                                   \
      {"select", ASKS, do_select, .has_limit = true}, {"pselect", ASKS, do_pselect, .has_limit = true},                      \
      {"epoll_wait", ASKS, do_epoll_wait, .has_limit = true, .first = true}, {"epoll_pwait", ASKS, do_epoll_pwait, .has_limit = true},       \
      {"epoll_pwait2", ASKS, do_epoll_pwait2, .has_limit = true}

/* Nothing that is opened later gets its number when it is closed. */
static int high(int low) {
  int moved = fcntl(low, F_DUPFD, 200);
  need(low >= 0 && moved >= 0 && close(low) == 0);
  return moved;
}
static bool is_of_epoll(const struct form *form) { return strncmp(form->name, "epoll", 5) == 0; }
static int waited_for(const struct form *form) { return is_of_epoll(form) ? set : fd; }

static void make(const struct file *file, const struct form *form) {
  only_count = false;
  file->make();
  kept = high(dup(fd)), fd = high(fd);
  if (is_of_epoll(form)) {
    struct epoll_event event = {.events = asked_of_epoll()};
    set = high(epoll_create1(0));
    need(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
  }
}
static void unmake(const struct file *file) {
  if (file->clean_up) file->clean_up();
  close_it(&fd), close_it(&kept), close_it(&peer), close_it(&set), close_it(&extra);
  timeout_ms = -1;
}
static void begin_all(const struct form *form, int count) {
  for (int i = 0; i < count; i++) waiters[i].fd = waited_for(form);
  begin(count, form->call);
}
static bool is_ready(void) {
  struct pollfd one = {.fd = kept, .events = asked};
  return poll(&one, 1, 0) == 1;
}
static void satisfy_all(const struct file *file, const struct form *form, int count) {
  int first = over(count);
  if (form->of == ASKS) {
    if (asked == POLLIN) file->satisfy();
    while (!is_ready()) file->satisfy();
  } else if (asked == POLLOUT) {
    for (int i = first; i < count; i = over(count)) {
      if (file->in_turn || !is_ready()) file->satisfy();
      if (file->in_turn) wait_until(over(count) > i);
      else sched_yield();
    }
  } else {
    for (int i = first; i < count; i++) {
      file->satisfy();
      if (file->coalesces || i < 3) wait_until(over(count) > i);
    }
  }
}

/* The ways in which a wait ends. Each says whether it is one for this file and form, or does it. */
typedef bool way_fn(const struct file *, const struct form *, int count, bool try);

static bool it_comes(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return true;
  begin_all(form, count);
  satisfy_all(file, form, count);
  return true;
}
static bool the_other_end_closes(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return file->hang_up != NULL;
  only_count = true;
  begin_all(form, count);
  file->hang_up();
  return true;
}
static bool it_is_shut_down(const struct file *file, const struct form *form, int count, bool try) {
  /* select(2) would go on waiting for room. */
  if (try) return file->shuts_down && (asked == POLLIN || form->of != ASKS);
  only_count = true;
  begin_all(form, count);
  /* Says ENOTCONN where nothing is connected, and wakes all the same. */
  shutdown(fd, asked == POLLIN ? SHUT_RD : SHUT_RDWR);
  return true;
}
static bool a_signal_comes(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return !file->makes_room;
  begin_all(form, count);
  signal_all(count, SIGUSR1);
  return true;
}
static bool a_signal_restarts_it(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return form->of != ASKS && !file->makes_room;
  begin_all(form, count);
  signal_all(count, SIGUSR2);
  satisfy_all(file, form, count);
  return true;
}
static void set_limit(int ms) {
  struct timeval time = {ms / 1000, ms % 1000 * 1000};
  need(setsockopt(fd, SOL_SOCKET, asked == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO, &time, sizeof time) == 0);
}
static bool its_time_is_over(const struct file *file, const struct form *form, int count, bool try) {
  bool by_socket = file->has_limit && !form->has_limit && form->of != PIPES;
  if (try) return (by_socket || form->has_limit) && !file->makes_room;
  int64_t from = now_ns(CLOCK_MONOTONIC), from_tick = now_ns(CLOCK_MONOTONIC_COARSE);
  if (by_socket) set_limit(15);
  else timeout_ms = 15;
  for (int i = 0; i < count; i++) {
    struct waiter *w = &waiters[i];
    *w = (struct waiter){.call = form->call, .fd = waited_for(form), .number = i};
    w->thread = start(wait_in, w);
  }
  for (int i = 0; i < count; i++) wait_until(atomic_load(&waiters[i].ended));
  /* The host counts a socket's limit in ticks, and may be behind with them when it begins. */
  must(now_ns(CLOCK_MONOTONIC) - from >= INT64_C(15000000) ||
       (by_socket && now_ns(CLOCK_MONOTONIC_COARSE) - from_tick >= INT64_C(15000000)));
  return true;
}
/* A call on a socket with a time limit is not restarted. */
static bool a_signal_comes_within_its_time(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return file->has_limit && form->of != ASKS && form->of != PIPES && !file->makes_room;
  set_limit(60000);
  begin_all(form, count);
  signal_all(count, SIGUSR2);
  return true;
}
static bool its_number_is_closed(const struct file *file, const struct form *form, int count, bool try) {
  /* poll(2) and its kin tell whether the number was closed already when they were woken. */
  if (try) return form->of != ASKS || is_of_epoll(form) || !file->makes_room;
  begin_all(form, count);
  int *number = is_of_epoll(form) ? &set : &fd;
  int again = is_of_epoll(form) ? fcntl(set, F_DUPFD, 200) : -1;
  close_it(number);
  satisfy_all(file, form, count);
  for (int i = 0; i < count; i++) wait_until(atomic_load(&waiters[i].ended));
  if (again >= 0) close(again);
  return true;
}
/* By a file that is ready: those that only ask look there when they are woken. */
static bool its_number_is_replaced(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return true;
  only_count = true;
  begin_all(form, count);
  int number = waited_for(form), again = is_of_epoll(form) ? fcntl(set, F_DUPFD, 200) : -1;
  int other = eventfd(1, 0);
  need(dup2(other, number) == number);
  close(other);
  satisfy_all(file, form, count);
  for (int i = 0; i < count; i++) wait_until(atomic_load(&waiters[i].ended));
  if (again >= 0) close(again);
  return true;
}
/* It finds no waiters of its own, and the flags that the parent's descriptors were opened with. */
static bool a_child_does_it(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return true;
  begin_all(form, count);
  int before = fcntl(kept, F_GETFL);
  bool for_each = form->of != ASKS && asked == POLLIN && !file->coalesces;
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    must(fcntl(fd, F_GETFL) == before && (before & O_NONBLOCK) == 0);
    for (int i = 0; i < (for_each ? count : 1); i++) file->satisfy();
    _exit(atomic_load(&check_failed));
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  must(status == 0);
  if (!for_each) satisfy_all(file, form, count);
  return true;
}
/* Both processes have threads that wait for it. */
static bool waited_for_in_parent_and_child(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return asked == POLLIN && !file->coalesces && !file->own && form->of != ASKS;
  int ready[2];
  need(pipe(ready) == 0);
  begin_all(form, count);
  pid_t child = fork();
  need(child >= 0);
  if (child == 0) {
    begin_all(form, count);
    need(write(ready[1], "", 1) == 1);
    for (int i = 0; i < count; i++) {
      finish(waiters[i].thread);
      must(waiters[i].result >= 0);
    }
    _exit(atomic_load(&check_failed));
  }
  char byte;
  need(read(ready[0], &byte, 1) == 1);
  close(ready[0]), close(ready[1]);
  for (int i = 0; i < 2 * count; i++) file->satisfy();
  int status;
  need(waitpid(child, &status, 0) == child);
  must(status == 0);
  return true;
}
/* By a message to ourselves. */
static bool its_descriptor_was_passed_on(const struct file *file, const struct form *form, int count, bool try) {
  if (try) return form->first;
  int two[2], *number = is_of_epoll(form) ? &set : &fd;
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
  } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
  struct iovec part = {&(char){0}, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  memcpy(CMSG_DATA(&control.header), number, sizeof(int));
  need(sendmsg(two[0], &message, 0) == 1);
  close(*number);
  need(recvmsg(two[1], &message, 0) == 1);
  memcpy(number, CMSG_DATA(&control.header), sizeof(int));
  close(two[0]), close(two[1]);
  begin_all(form, count);
  satisfy_all(file, form, count);
  return true;
}

static const struct way {
  const char *name;
  way_fn *end;
} ways[] = {
    {"it comes", it_comes},
    {"the other end closes", the_other_end_closes},
    {"it is shut down", it_is_shut_down},
    {"a signal comes", a_signal_comes},
    {"a signal restarts it", a_signal_restarts_it},
    {"its time is over", its_time_is_over},
    {"a signal comes within its time", a_signal_comes_within_its_time},
    {"its number is closed", its_number_is_closed},
    {"its number is replaced", its_number_is_replaced},
    {"a child does it", a_child_does_it},
    {"waited for in parent and child", waited_for_in_parent_and_child},
    {"its descriptor was passed on", its_descriptor_was_passed_on},
};

/* All combinations of one file; how many, if they are only counted. */
static int all_ways_of(const struct file *file, const struct form *forms, int form_count, bool only_counted) {
  static const int counts[] = {1, WAITERS};
  int n = 0;
  prepare_signals();
  for (const struct form *form = forms; form < forms + form_count; form++)
    for (const struct way *way = ways; way < ways + COUNT(ways); way++)
      for (int k = 0; k < COUNT(counts); k++) {
        bool is_one = file->forms & form->of && (form->first || file->forms & MANY_FORMS);
        if (!is_one || (form->by_one && counts[k] > 1) || !way->end(file, form, counts[k], true)) continue;
        n++;
        if (only_counted) continue;
        make(file, form);
        way->end(file, form, counts[k], false);
        char text[128];
        snprintf(text, sizeof text, "%s, %s", form->name, way->name);
        join(text, counts[k]);
        unmake(file);
      }
  return n;
}

#endif

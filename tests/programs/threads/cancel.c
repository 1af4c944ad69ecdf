/* Cancellation: deferred at every kind of waiting call, and asynchronous. */
//@ forms: static musl musl-static
#include "../check.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>

static int pipe_fds[2], socket_fds[2];
static sem_t never, ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t forever;

static void in_sleep(void) { sleep(1000); }
static void in_usleep(void) { usleep(500000000); }
static void in_nanosleep(void) { nanosleep(&(struct timespec){.tv_sec = 1000}, NULL); }
static void in_clock_nanosleep(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1000}, NULL); }
static void in_pause(void) { pause(); }
static void in_read(void) {
  char byte;
  must(read(pipe_fds[0], &byte, 1) == -2);
}
static void in_recv(void) {
  char byte;
  must(recv(socket_fds[0], &byte, 1, 0) == -2);
}
static void in_write(void) {
  static char much[1 << 20];
  for (;;) must(write(pipe_fds[1], much, sizeof much) != -1);
}
static void in_poll(void) { poll(&(struct pollfd){.fd = socket_fds[0], .events = POLLIN}, 1, -1); }
static void in_select(void) { select(0, NULL, NULL, NULL, NULL); }
static void in_sem_wait(void) { sem_wait(&never); }
static void in_sem_timedwait(void) { sem_timedwait(&never, &(struct timespec){.tv_sec = INT32_MAX}); }
static void in_sigwait(void) {
  sigset_t set;
  int signal;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigwait(&set, &signal);
}
static void in_sigsuspend(void) {
  sigset_t set;
  sigemptyset(&set);
  sigsuspend(&set);
}
static void in_join(void) { pthread_join(forever, NULL); }
static void in_testcancel(void) {
  for (;;) pthread_testcancel();
}

static void unlock_mutex(void *unused) {
  (void)unused;
  /* The handler finds the mutex locked again. */
  must(pthread_mutex_unlock(&mutex) == 0);
}
static void in_cond_wait(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock_mutex, NULL);
  for (;;) pthread_cond_wait(&cond, &mutex);
  pthread_cleanup_pop(1);
}
static void in_cond_timedwait(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock_mutex, NULL);
  for (;;) pthread_cond_timedwait(&cond, &mutex, &(struct timespec){.tv_sec = INT32_MAX});
  pthread_cleanup_pop(1);
}

static const struct {
  const char *name;
  void (*wait)(void);
} points[] = {
    {"sleep", in_sleep},         {"usleep", in_usleep},       {"nanosleep", in_nanosleep},
    {"clock_nanosleep", in_clock_nanosleep},                  {"pause", in_pause},
    {"read", in_read},           {"recv", in_recv},           {"write", in_write},
    {"poll", in_poll},           {"select", in_select},       {"sem_wait", in_sem_wait},
    {"sem_timedwait", in_sem_timedwait},                      {"sigwait", in_sigwait},
    {"sigsuspend", in_sigsuspend},                            {"pthread_join", in_join},
    {"pthread_cond_wait", in_cond_wait},                      {"pthread_cond_timedwait", in_cond_timedwait},
    {"pthread_testcancel", in_testcancel},
};

static atomic_int cleanups;
static void clean_up(void *unused) {
  (void)unused;
  cleanups++;
}

static void *wait_at(void *index) {
  pthread_cleanup_push(clean_up, NULL);
  pthread_cleanup_push(clean_up, NULL);
  sem_post(&ready);
  points[(intptr_t)index].wait();
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *sleep_forever(void *unused) {
  while (pause()) {}
  return unused;
}

static void prepare(void) {
  need(pipe(pipe_fds) == 0);
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fds) == 0);
  sem_init(&never, 0, 0);
  sem_init(&ready, 0, 0);
  forever = start(sleep_forever, NULL);
}

static void at_every_point(bool wait_first) {
  prepare();
  for (int i = 0; i < COUNT(points); i++) {
    cleanups = 0;
    pthread_t thread = start(wait_at, (void *)(intptr_t)i);
    while (sem_wait(&ready) == -1) {}
    if (wait_first) settle();
    int cancelled = pthread_cancel(thread);
    void *value = finish(thread);
    say("%s: %s, %s, cleanups %d", points[i].name, errname(cancelled),
        value == PTHREAD_CANCELED ? "cancelled" : "not cancelled", cleanups);
  }
  must(pthread_mutex_trylock(&mutex) == 0);
  pthread_mutex_unlock(&mutex);
}

CASE(while_it_waits) { at_every_point(true); }
CASE(before_it_waits) { at_every_point(false); }

static atomic_bool stop, disabled;

static void *disable_first(void *unused) {
  (void)unused;
  int old, state = -1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  disabled = true;
  sem_post(&ready);
  wait_until(stop);
  usleep(1000);
  pthread_setcancelstate(old, &state);
  say("still here; state was %s", state == PTHREAD_CANCEL_DISABLE ? "disabled" : "enabled");
  pthread_testcancel();
  say("never said");
  return NULL;
}

CASE(disabled) {
  prepare();
  pthread_t thread = start(disable_first, NULL);
  while (sem_wait(&ready) == -1) {}
  pthread_cancel(thread);
  stop = true;
  say("%s", finish(thread) == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
}

static void *spin_asynchronously(void *unused) {
  (void)unused;
  int old;
  pthread_cleanup_push(clean_up, NULL);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  sem_post(&ready);
  for (;;) __asm__ volatile("");
  pthread_cleanup_pop(0);
  return NULL;
}

CASE(asynchronous) {
  prepare();
  for (int i = 0; i < 100; i++) {
    cleanups = 0;
    pthread_t thread = start(spin_asynchronously, NULL);
    while (sem_wait(&ready) == -1) {}
    must(pthread_cancel(thread) == 0);
    must(finish(thread) == PTHREAD_CANCELED);
    must(cleanups == 1);
  }
  say("100 cancelled");
}

static void *cancel_self(void *unused) {
  (void)unused;
  pthread_cancel(pthread_self());
  say("deferred: goes on");
  pthread_testcancel();
  return NULL;
}

CASE(oneself) { say("%s", finish(start(cancel_self, NULL)) == PTHREAD_CANCELED ? "cancelled" : "not cancelled"); }

static void *end_at_once(void *unused) { return unused; }

CASE(one_that_has_ended) {
  pthread_t thread = start(end_at_once, (void *)7);
  settle();
  say("cancel %s", errname(pthread_cancel(thread)));
  say("value %ld", (long)(intptr_t)finish(thread));
}

static atomic_bool never_true;

static void *churn(void *unused) {
  while (!never_true) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock_mutex, NULL);
    pthread_testcancel();
    sched_yield();
    pthread_cleanup_pop(1);
    nanosleep(&(struct timespec){0, 1000}, NULL);
  }
  return unused;
}

CASE(at_any_moment) {
  for (int round = 0; round < 50; round++) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(churn, NULL);
    for (int i = 0; i < 4; i++) must(pthread_cancel(threads[i]) == 0);
    for (int i = 0; i < 4; i++) must(finish(threads[i]) == PTHREAD_CANCELED);
  }
  say("mutex %s", errname(pthread_mutex_trylock(&mutex)));
  pthread_mutex_unlock(&mutex);
}

/* fork, exec and the end of threads (table B8), and threads that use one timer. */
#include "raw.h"

#define RT (SIGRTMIN + 5)

CASE(fork_inherits_no_timer) {
  handle(RT);
  int id = timer_for(RT);
  arm(id, 30 * MS, 0);
  pid_t child = fork();
  if (child == 0) {
    /* A slow fork may come after the expiry, and the parent's count is inherited. */
    handled = 0;
    setting now;
    say("gettime %s, delete %s", result(gettime(id, &now)), result(delete(id)));
    sleep_ms(60);
    say("handled in the child %d", handled);
    int own = timer_for(RT);
    arm(own, MS, 0);
    wait_until(handled);
    say("its own one %d", handled);
    _exit(0);
  }
  wait_until(handled);
  int status;
  while (waitpid(child, &status, 0) == -1) need(errno == EINTR);
  say("in the parent %d, delete %s", handled, result(delete(id)));
}

CASE(fork_inherits_no_pending_signal) {
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, MS);
  sleep_ms(10);
  pid_t child = fork();
  if (child == 0) {
    say("pending in the child %d", is_pending(RT));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  say("in the parent %d", is_pending(RT));
  delete(id);
}

static void *make_one(void *id) {
  *(int *)id = timer_for(RT);
  arm(*(int *)id, 10 * MS, 0);
  return NULL;
}
CASE(a_timer_outlives_its_maker) {
  int id = -1;
  handle(RT);
  finish(start(make_one, &id));
  wait_until(handled);
  say("handled %d, delete %s", handled, result(delete(id)));
}

static void leave_timers(void) {
  int id = timer_for(RT);
  arm(id, 2 * MS, 2 * MS);
  handle(RT);
  wait_until(handled);
}
CASE(the_end_of_a_process_with_timers) {
  for (int i = 0; i < 5; i++) in_child("child", leave_timers);
}

/* The second time, by exec: no timer, whatever was pending of one. */
static void after_exec(void) {
  setting now;
  say("gettime %s", result(gettime(0, &now)));
  say("timer's signal pending %d", is_pending(SIGUSR1));
  say("mode %d", prctl(PR_TIMER_CREATE_RESTORE_IDS, 2, 0, 0, 0));
  sleep_ms(30);
  say("nor later %d", is_pending(SIGUSR1));
}
static void before_exec(void) {
  block(SIGUSR1);
  int id = timer_for(SIGUSR1);
  arm(id, MS, MS);
  sleep_ms(10);
  say("pending before %d", is_pending(SIGUSR1));
  prctl(PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0);
  setenv("PTIMERS_AFTER_EXEC", "1", 1);
  execl("/proc/self/exe", "lifecycle", "exec_takes_all_timers", NULL);
}
CASE(exec_takes_all_timers) {
  if (getenv("PTIMERS_AFTER_EXEC")) {
    block(SIGUSR1);
    after_exec();
    _exit(0);
  }
  in_child("child", before_exec);
}

static atomic_bool stop;
static int shared_timer;
static atomic_long deliveries, overruns;
static void count_it(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  deliveries++;
  overruns += info->si_overrun;
}
static void *set_and_read(void *index) {
  setting s, old;
  for (int i = 0; !stop; i++) {
    s = after(MS / 10 + (i + (intptr_t)index * 7) % 5 * MS / 10, i % 2 ? MS / 5 : 0);
    must(settime(shared_timer, 0, &s, &old) == 0);
    must(ns_of(old.it_value) <= MS);
    must(gettime(shared_timer, &old) == 0);
    must(overrun_of(shared_timer) >= 0);
  }
  return NULL;
}
CASE(one_timer_and_four_threads) {
  struct sigaction action = {.sa_sigaction = count_it, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(RT, &action, NULL) == 0);
  shared_timer = timer_for(RT);
  stop = false;
  pthread_t threads[4];
  for (intptr_t i = 0; i < 4; i++) threads[i] = start(set_and_read, (void *)i);
  sleep_ms(300);
  stop = true;
  for (int i = 0; i < 4; i++) finish(threads[i]);
  delete(shared_timer);
  long seen = deliveries;
  sleep_ms(10);
  must(deliveries == seen);
  say("done");
}

static void *make_and_delete(void *unused) {
  (void)unused;
  setting now;
  while (!stop) {
    int id = timer_for(RT);
    arm(id, MS / 2, MS);
    must(gettime(id, &now) == 0);
    if (id % 3 == 0) usleep(100);
    must(delete(id) == 0);
    must(gettime(id, &now) == -1 && errno == EINVAL);
  }
  return NULL;
}
CASE(four_threads_make_and_delete) {
  struct sigaction action = {.sa_sigaction = count_it, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(RT, &action, NULL) == 0);
  stop = false;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) threads[i] = start(make_and_delete, NULL);
  sleep_ms(300);
  stop = true;
  for (int i = 0; i < 4; i++) finish(threads[i]);
  long seen = deliveries;
  sleep_ms(10);
  must(deliveries == seen);
  say("done");
}

static void *only_delete(void *id) { return (void *)(intptr_t)(delete(*(int *)id) == 0); }
CASE(one_of_many_deletes) {
  for (int round = 0; round < 100; round++) {
    int id = timer_for(RT);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(only_delete, &id);
    intptr_t deleted = 0;
    for (int i = 0; i < 4; i++) deleted += (intptr_t)finish(threads[i]);
    must(deleted == 1);
  }
  say("done");
}

/* Every expiry is delivered or counted, with blocked and ignored times between. */
CASE(expiries_are_deliveries_and_overruns) {
  struct sigaction action = {.sa_sigaction = count_it, .sa_flags = SA_SIGINFO | SA_RESTART};
  need(sigaction(RT, &action, NULL) == 0);
  deliveries = overruns = 0;
  int id = timer_for(RT);
  int64_t begin = now_ns(CLOCK_MONOTONIC) + 5 * MS;
  setting s = {.it_value = timespec_of(begin), .it_interval = timespec_of(MS)};
  need(settime(id, TIMER_ABSTIME, &s, NULL) == 0);
  for (int i = 0; i < 5; i++) {
    sleep_ms(10);
    block(RT);
    sleep_ms(15);
    unblock(RT);
    sleep_ms(5);
    set_disposition(RT, SIG_IGN);
    sleep_ms(15);
    need(sigaction(RT, &action, NULL) == 0);
  }
  block(RT);
  long sum = deliveries + overruns;
  int64_t periods = (now_ns(CLOCK_MONOTONIC) - begin) / MS + 1;
  siginfo_t info;
  if (take(RT, &info) == RT) sum += 1 + info.si_overrun;
  int64_t later = (now_ns(CLOCK_MONOTONIC) - begin) / MS + 1;
  must(sum <= later && sum >= periods - 1);
  delete(id);
  say("done");
}

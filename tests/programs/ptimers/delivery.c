/* Signals of timers: queues, overruns, re-arming, dispositions, targets (tables B5 and B6). */
#include "raw.h"

#define RT (SIGRTMIN + 4)

CASE(many_expiries_are_one_signal) {
  block(RT);
  int id = timer_for(RT);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  arm(id, 10 * MS, 10 * MS);
  sleep_ms(105);
  siginfo_t info;
  must(take(RT, &info) == RT);
  int64_t expiries = (now_ns(CLOCK_MONOTONIC) - before) / (10 * MS);
  must(info.si_overrun >= 8 && info.si_overrun + 1 <= expiries);
  must(overrun_of(id) == info.si_overrun);
  delete(id);
  say("another %d", take(RT, &info));
}

CASE(the_next_period_begins_at_delivery) {
  block(RT);
  int id = timer_for(RT);
  siginfo_t info;
  int64_t before = now_ns(CLOCK_MONOTONIC), sum = 0;
  arm(id, 5 * MS, 5 * MS);
  for (int i = 0; i < 10; i++) {
    await(RT, &info);
    sum += 1 + info.si_overrun;
    must(now_ns(CLOCK_MONOTONIC) >= before + sum * 5 * MS);
    if (i % 3 == 0) sleep_ms(12);
  }
  delete(id);
  int64_t periods = (now_ns(CLOCK_MONOTONIC) - before) / (5 * MS);
  must(sum <= periods);
  say("done");
}

CASE(a_handler_s_overruns) {
  handle(RT);
  int id = timer_for(RT);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  arm(id, 2 * MS, 2 * MS);
  wait_until(handled >= 20);
  must(now_ns(CLOCK_MONOTONIC) >= before + 40 * MS);
  delete(id);
  say("code %d, id the same %d", last_code, last_id == id);
}

CASE(several_timers_with_one_standard_signal) {
  int ids[5];
  siginfo_t info;
  block(SIGUSR1);
  for (int i = 0; i < 5; i++) {
    ids[i] = timer_for(SIGUSR1);
    arm(ids[i], MS + i * 2 * MS, 0);
  }
  sleep_ms(30);
  for (int i = 0; i < 5; i++) {
    must(take(SIGUSR1, &info) == SIGUSR1);
    say("timer %d", info.si_timerid - ids[0]);
  }
  say("another %d", take(SIGUSR1, &info));
  for (int i = 0; i < 5; i++) delete(ids[i]);
}

CASE(beside_a_kill) {
  siginfo_t info;
  block(SIGUSR1);
  int id = timer_for(SIGUSR1);
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGUSR1);
  arm(id, MS, 0);
  sleep_ms(15);
  kill(getpid(), SIGUSR1);
  int got;
  while ((got = take(SIGUSR1, &info))) say("code %d", info.si_code);
  delete(id);
}

CASE(set_anew_while_pending) {
  siginfo_t info;
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, 0);
  sleep_ms(15);
  say("pending %d", is_pending(RT));
  arm(id, 3600 * 1000 * MS, 0);
  say("still seen %d", is_pending(RT));
  say("but not taken %d", take(RT, &info));
  say("nor seen any more %d", is_pending(RT));
  arm(id, MS, 0);
  await(RT, &info);
  say("the new one: overrun %d", info.si_overrun);
  delete(id);
}

CASE(disarmed_while_pending) {
  handle(RT);
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, MS);
  sleep_ms(15);
  arm(id, 0, 0);
  say("still seen %d", is_pending(RT));
  unblock(RT);
  say("handled %d", handled);
  delete(id);
}

CASE(deleted_while_pending) {
  handle(RT);
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, MS);
  sleep_ms(15);
  delete(id);
  say("still seen %d", is_pending(RT));
  unblock(RT);
  say("handled %d", handled);
}

CASE(a_stale_signal_does_not_hide_others) {
  siginfo_t info;
  block(RT);
  int a = timer_for(RT), b = timer_for(RT);
  arm(a, MS, 0);
  sleep_ms(10);
  arm(b, MS, 0);
  sleep_ms(10);
  delete(a);
  must(take(RT, &info) == RT);
  say("of b %d", info.si_timerid == b);
  delete(b);
}

CASE(expired_twice_but_pending_once) {
  siginfo_t info;
  block(RT);
  int id = timer_for(RT);
  arm(id, MS, 0);
  sleep_ms(10);
  arm(id, MS, 0);
  sleep_ms(10);
  must(take(RT, &info) == RT);
  say("overrun %d, another %d", info.si_overrun, take(RT, &info));
  delete(id);
}

CASE(ignored_then_handled) {
  set_disposition(RT, SIG_IGN);
  int id = timer_for(RT);
  arm(id, 5 * MS, 5 * MS);
  sleep_ms(60);
  say("pending %d", is_pending(RT));
  handle(RT);
  wait_until(handled);
  must(first_overrun >= 9);
  int first = handled;
  wait_until(handled > first);
  delete(id);
  say("done");
}

CASE(once_and_ignored) {
  set_disposition(RT, SIG_IGN);
  int id = timer_for(RT);
  arm(id, 2 * MS, 0);
  sleep_ms(20);
  handle(RT);
  sleep_ms(10);
  say("handled %d", handled);
  setting now;
  gettime(id, &now);
  say("left %ld", (long)ns_of(now.it_value));
  delete(id);
}

CASE(ignored_while_pending) {
  siginfo_t info;
  block(RT);
  int periodic = timer_for(RT), once = timer_for(RT);
  arm(periodic, 5 * MS, 5 * MS);
  arm(once, 5 * MS, 0);
  sleep_ms(30);
  say("pending %d", is_pending(RT));
  set_disposition(RT, SIG_IGN);
  say("flushed: pending %d", is_pending(RT));
  sleep_ms(20);
  handle(RT);
  say("back: pending %d", is_pending(RT));
  must(take(RT, &info) == RT);
  say("the periodic one %d", info.si_timerid == periodic);
  must(info.si_overrun >= 8);
  delete(periodic);
  delete(once);
}

CASE(ignored_and_blocked) {
  siginfo_t info;
  set_disposition(RT, SIG_IGN);
  block(RT);
  int id = timer_for(RT);
  arm(id, 2 * MS, 0);
  sleep_ms(20);
  say("pending %d", is_pending(RT));
  say("taken %d", take(RT, &info) == RT);
  delete(id);
}

CASE(ignored_by_default) {
  set_disposition(SIGURG, SIG_DFL);
  int id = timer_for(SIGURG);
  arm(id, 3 * MS, 3 * MS);
  sleep_ms(20);
  handle(SIGURG);
  sleep_ms(30);
  say("from default to a handler: revived %d", handled > 0);
  set_disposition(SIGURG, SIG_IGN);
  handle(SIGURG);
  sleep_ms(30);
  say("from ignored to a handler: revived %d", handled > 0);
  delete(id);
}

CASE(deleted_while_parked) {
  set_disposition(RT, SIG_IGN);
  int id = timer_for(RT);
  arm(id, 2 * MS, 2 * MS);
  sleep_ms(20);
  say("delete %s", result(delete(id)));
  handle(RT);
  sleep_ms(10);
  say("handled %d", handled);
}

CASE(disarmed_while_parked) {
  set_disposition(RT, SIG_IGN);
  int id = timer_for(RT);
  arm(id, 2 * MS, 2 * MS);
  sleep_ms(20);
  arm(id, 0, 0);
  handle(RT);
  sleep_ms(10);
  say("handled %d", handled);
  arm(id, 2 * MS, 0);
  wait_until(handled);
  say("handled %d", handled);
  delete(id);
}

CASE(many_parked_timers) {
  int ids[200];
  set_disposition(RT, SIG_IGN);
  for (int i = 0; i < 200; i++) {
    ids[i] = timer_for(RT);
    arm(ids[i], MS, 3600 * 1000 * MS);
  }
  sleep_ms(60);
  handle(RT);
  wait_until(handled >= 200);
  say("handled %d", handled);
  for (int i = 0; i < 200; i++) delete(ids[i]);
}

CASE(read_while_the_signal_waits) {
  siginfo_t info;
  block(RT);
  int id = timer_for(RT);
  arm(id, 4 * MS, 4 * MS);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  setting now;
  for (int i = 0; i < 10; i++) {
    sleep_ms(4);
    gettime(id, &now);
    must(ns_of(now.it_value) > 0 && ns_of(now.it_value) <= 4 * MS);
  }
  must(take(RT, &info) == RT);
  int64_t expiries = (now_ns(CLOCK_MONOTONIC) - before) / (4 * MS) + 1;
  must(info.si_overrun >= 7 && info.si_overrun + 1 <= expiries);
  delete(id);
  say("done");
}

static atomic_int stop;
static _Atomic pid_t tids[3];
static _Thread_local int here;
static atomic_int by_thread[3];
static void note_thread(int signal) {
  (void)signal;
  by_thread[here]++;
}
static void *be_there(void *index) {
  here = (int)(intptr_t)index;
  tids[here] = gettid();
  while (!stop) usleep(500);
  return NULL;
}

static int aimed_at(pid_t tid, int signal) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal, .sigev_notify_thread_id = tid};
  int id = -1;
  need(create(CLOCK_MONOTONIC, &event, &id) == 0);
  return id;
}

CASE(aimed_at_threads) {
  pthread_t threads[3];
  stop = 0;
  set_disposition(RT, note_thread);
  for (intptr_t i = 0; i < 3; i++) {
    tids[i] = by_thread[i] = 0;
    threads[i] = start(be_there, (void *)i);
  }
  for (int i = 0; i < 3; i++) wait_until(tids[i]);
  int ids[3];
  for (int i = 0; i < 3; i++) ids[i] = aimed_at(tids[i], RT);
  for (int i = 0; i < 3; i++) arm(ids[i], MS, i == 1 ? 2 * MS : 0);
  wait_until(by_thread[0] && by_thread[1] >= 10 && by_thread[2]);
  say("once %d %d", by_thread[0], by_thread[2]);
  for (int i = 0; i < 3; i++) delete(ids[i]);
  stop = 1;
  for (int i = 0; i < 3; i++) finish(threads[i]);
}

CASE(blocked_by_the_thread_it_is_aimed_at) {
  siginfo_t info;
  set_disposition(RT, note_thread);
  block(RT);
  stop = 0;
  tids[1] = by_thread[1] = 0;
  int id = aimed_at(gettid(), RT);
  arm(id, MS, 0);
  sleep_ms(10);
  unblock(SIGUSR2);
  pthread_t thread = start(be_there, (void *)1);
  wait_until(tids[1]);
  sleep_ms(5);
  say("nobody else takes it %d", by_thread[1]);
  say("taken %d", take(RT, &info) == RT);
  delete(id);
  stop = 1;
  finish(thread);
}

CASE(ignored_while_pending_for_a_thread) {
  siginfo_t info;
  block(RT);
  set_disposition(RT, note_thread);
  int id = aimed_at(gettid(), RT);
  arm(id, 2 * MS, 2 * MS);
  sleep_ms(20);
  say("pending %d", is_pending(RT));
  set_disposition(RT, SIG_IGN);
  say("pending %d", is_pending(RT));
  set_disposition(RT, note_thread);
  say("pending %d", is_pending(RT));
  must(take(RT, &info) == RT && info.si_overrun >= 7);
  delete(id);
}

static void *end_soon(void *wait) {
  tids[2] = gettid();
  if (wait) block(RT);
  while (!stop) usleep(500);
  return NULL;
}
static void aimed_at_the_dead(void *blocks) {
  stop = 0;
  tids[2] = 0;
  set_disposition(RT, note_thread);
  for (int i = 0; i < 3; i++) by_thread[i] = 0;
  pthread_t thread = start(end_soon, blocks);
  wait_until(tids[2]);
  int id = aimed_at(tids[2], RT);
  arm(id, MS, MS);
  if (blocks) sleep_ms(10);
  else wait_until(by_thread[0]);
  stop = 1;
  finish(thread);
  sleep_ms(5);
  by_thread[0] = 0;
  sleep_ms(20);
  setting now;
  say("gets nothing %d", by_thread[0]);
  say("gettime %s", result(gettime(id, &now)));
  must(now.it_interval.tv_nsec == MS);
  setting once = after(MS, 0);
  say("settime %s", result(settime(id, 0, &once, NULL)));
  sleep_ms(10);
  say("nothing again %d", by_thread[0]);
  say("delete %s", result(delete(id)));
}
CASE(aimed_at_a_thread_that_dies) { aimed_at_the_dead(NULL); }
CASE(aimed_at_a_thread_that_dies_with_it_pending) { aimed_at_the_dead(&stop); }

static void *take_one(void *unused) {
  (void)unused;
  siginfo_t info;
  await(RT, &info);
  return (void *)(intptr_t)info.si_code;
}
CASE(a_thread_in_sigwait_takes_it) {
  block(RT);
  pthread_t thread = start(take_one, NULL);
  sleep_ms(5);
  int id = timer_for(RT);
  arm(id, MS, 0);
  say("code %d", (int)(intptr_t)finish(thread));
  delete(id);
}

CASE(it_ends_a_sleep) {
  handle(RT);
  int id = timer_for(RT);
  /* Again and again, for the first may come before the sleep. */
  arm(id, 5 * MS, 5 * MS);
  struct timespec left, hour = {3600, 0};
  say("%s", result(nanosleep(&hour, &left)));
  must(left.tv_sec >= 3500);
  say("pause %s", result(pause()));
  int ends[2];
  char byte;
  need(pipe(ends) == 0);
  struct sigaction action = {.sa_sigaction = note_it, .sa_flags = SA_SIGINFO};
  need(sigaction(RT, &action, NULL) == 0);
  arm(id, 5 * MS, 5 * MS);
  say("read %s", result(read(ends[0], &byte, 1)));
  delete(id);
}

static void by_default(void) {
  set_disposition(RT, SIG_DFL);
  int id = timer_for(RT);
  arm(id, MS, 0);
  for (;;) pause();
}
static void kill_by_timer(void) {
  int id = timer_for(SIGKILL);
  arm(id, MS, 0);
  for (;;) pause();
}
static void alarm_by_default(void) {
  int id = -1;
  need(create(CLOCK_REALTIME, NULL, &id) == 0);
  arm(id, MS, 0);
  for (;;) {}
}
CASE(a_signal_that_ends) {
  in_child("real-time signal", by_default);
  in_child("SIGKILL", kill_by_timer);
  in_child("SIGALRM, in a loop", alarm_by_default);
}

static atomic_int calls;
static void on_thread(union sigval value) { calls += value.sival_int; }
CASE(a_thread_is_told) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_thread, .sigev_value.sival_int = 1};
  timer_t timers[20];
  calls = 0;
  for (int i = 0; i < 20; i++) {
    need(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0);
    setting s = after(MS + i * MS / 4, 0);
    need(timer_settime(timers[i], 0, &s, NULL) == 0);
  }
  wait_until(calls == 20);
  sleep_ms(5);
  say("calls %d", calls);
  for (int i = 0; i < 20; i++) must(timer_delete(timers[i]) == 0);
}

CASE(everybody_at_once) {
  enum { N = 500 };
  static int ids[N];
  static bool seen[N];
  siginfo_t info;
  block(RT);
  for (int i = 0; i < N; i++) ids[i] = timer_for(RT);
  int64_t at = now_ns(CLOCK_MONOTONIC) + 20 * MS;
  setting s = {.it_value = timespec_of(at)};
  for (int i = 0; i < N; i++) need(settime(ids[i], TIMER_ABSTIME, &s, NULL) == 0);
  for (int i = 0; i < N; i++) {
    await(RT, &info);
    must(now_ns(CLOCK_MONOTONIC) >= at);
    int which = info.si_timerid - ids[0];
    need(which >= 0 && which < N);
    must(!seen[which]);
    seen[which] = true;
  }
  say("all %d, another %d", N, take(RT, &info));
  for (int i = 0; i < N; i++) delete(ids[i]);
}

CASE(in_the_order_of_expiry) {
  siginfo_t info;
  block(RT);
  int ids[8];
  int64_t at = now_ns(CLOCK_MONOTONIC) + 5 * MS;
  for (int i = 0; i < 8; i++) ids[i] = timer_for(RT);
  for (int i = 0; i < 8; i++) {
    setting s = {.it_value = timespec_of(at + (i * 5 % 8) * MS)};
    need(settime(ids[i], TIMER_ABSTIME, &s, NULL) == 0);
  }
  sleep_ms(40);
  for (int i = 0; i < 8; i++) {
    must(take(RT, &info) == RT);
    say("timer %d", info.si_timerid - ids[0]);
  }
  for (int i = 0; i < 8; i++) delete(ids[i]);
}

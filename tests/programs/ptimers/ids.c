/* Which ids timers get (tables B3 and B4), each case in a fresh process, whose ids begin at 0. */
#include "raw.h"

static long mode(long op) { return prctl(PR_TIMER_CREATE_RESTORE_IDS, op, 0, 0, 0); }

static const char *next_id(void) {
  int id = -1;
  return create(CLOCK_MONOTONIC, NULL, &id) == 0 ? result(id) : errname(errno);
}

static const char *exact(int wanted) {
  int id = wanted;
  if (create(CLOCK_MONOTONIC, NULL, &id) != 0) return errname(errno);
  must(id == wanted);
  return result(id);
}

static void count_up(void) {
  for (int i = 0; i < 3; i++) say("id %s", next_id());
  say("delete %s", result(delete(1)));
  say("not used again: %s", next_id());
}
CASE(ids_count_up) { in_child("child", count_up); }

static void burn(void) {
  struct sigevent bad = by_signal(65);
  int id = -7;
  say("bad event %s", result(create(CLOCK_MONOTONIC, &bad, &id)));
  say("untouched %d", id);
  say("after a bad event: %s", next_id());
  say("bad clock %s", result(create(10, NULL, &id)));
  say("raw clock %s", result(create(CLOCK_MONOTONIC_RAW, NULL, &id)));
  say("after bad clocks: %s", next_id());
  say("bad place %s", result(create(CLOCK_MONOTONIC, NULL, (int *)8)));
  say("after a bad place: %s", next_id());
  say("unreadable event %s", result(create(CLOCK_MONOTONIC, (struct sigevent *)8, &id)));
  say("after an unreadable event: %s", next_id());
}
CASE(failing_creations_burn_ids) { in_child("child", burn); }

static void fork_starts_anew(void) {
  next_id();
  next_id();
  pid_t child = fork();
  if (child == 0) {
    setting now;
    say("inherited? %s", result(gettime(0, &now)));
    say("first id %s", next_id());
    _exit(0);
  }
  waitpid(child, NULL, 0);
  say("in the parent: %s", next_id());
}
CASE(fork_begins_at_zero) { in_child("child", fork_starts_anew); }

static void modes(void) {
  say("get %s", result(mode(2)));
  say("on %s", result(mode(1)));
  say("get %s", result(mode(2)));
  say("on again %s", result(mode(1)));
  say("3: %s", result(mode(3)));
  say("-1: %s", result(mode(-1)));
  say("argument 3: %s", result(prctl(PR_TIMER_CREATE_RESTORE_IDS, 0, 1, 0, 0)));
  say("argument 5: %s", result(prctl(PR_TIMER_CREATE_RESTORE_IDS, 2, 0, 0, 1)));
  say("still %s", result(mode(2)));
  pid_t child = fork();
  if (child == 0) {
    say("in a child %s", result(mode(2)));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  say("off %s", result(mode(0)));
  say("get %s", result(mode(2)));
}
CASE(the_mode_for_exact_ids) { in_child("child", modes); }

static void *look_at_mode(void *unused) {
  (void)unused;
  say("in a thread %s", result(mode(2)));
  mode(0);
  return NULL;
}
static void one_for_all(void) {
  mode(1);
  finish(start(look_at_mode, NULL));
  say("after it %s", result(mode(2)));
}
CASE(the_mode_is_the_process_s) { in_child("child", one_for_all); }

static void exact_ids(void) {
  need(mode(1) == 0);
  say("5000: %s", exact(5000));
  say("100: %s", exact(100));
  say("5000 again: %s", exact(5000));
  say("negative: %s", exact(-1));
  say("least: %s", exact(INT_MIN));
  int *nowhere = (int *)8;
  say("unreadable: %s", result(create(CLOCK_MONOTONIC, NULL, nowhere)));
  mode(0);
  say("normal: %s", next_id());
  say("normal: %s", next_id());
}
CASE(exact_ids_move_the_counter) { in_child("child", exact_ids); }

static void the_last_id(void) {
  need(mode(1) == 0);
  say("INT_MAX: %s", exact(INT_MAX));
  mode(0);
  say("normal: %s", next_id());
  say("delete %s", result(delete(INT_MAX)));
}
CASE(after_the_last_id_comes_zero) { in_child("child", the_last_id); }

static void skipping(void) {
  need(mode(1) == 0);
  for (int i = 299; i >= 0; i--) need(strcmp(exact(i), errname(EBUSY)) != 0);
  mode(0);
  say("after 300 taken ones: %s", next_id());
  say("2: %s", result(delete(2)));
  mode(1);
  say("2 again: %s", exact(2));
  mode(0);
  say("next: %s", next_id());
}
CASE(taken_ids_are_passed_over) { in_child("child", skipping); }

static void order_of_checks(void) {
  need(mode(1) == 0);
  struct sigevent bad = by_signal(65);
  int id = -1;
  say("bad clock first: %s", result(create(10, &bad, (int *)8)));
  say("then the wanted id: %s", result(create(CLOCK_MONOTONIC, &bad, (int *)8)));
  say("that it is one: %s", result(create(CLOCK_MONOTONIC, &bad, &id)));
  id = 7;
  say("then the event: %s", result(create(CLOCK_MONOTONIC, &bad, &id)));
  say("7 is free: %s", exact(7));
  id = 7;
  say("taken before the event: %s", result(create(CLOCK_MONOTONIC, &bad, &id)));
}
CASE(errors_come_in_order) { in_child("child", order_of_checks); }

/* As CRIU did before there was a way to ask. */
static void create_and_delete(void) {
  for (int want = 0; want < 500; want += 50) {
    int id = -1;
    for (;;) {
      need(create(CLOCK_MONOTONIC, NULL, &id) == 0);
      if (id == want) break;
      must(id < want);
      need(delete(id) == 0);
    }
  }
  setting now;
  for (int id = 0; id < 500; id++) must((gettime(id, &now) == 0) == (id % 50 == 0));
  say("done");
}
CASE(creating_until_the_id_fits) { in_child("child", create_and_delete); }

static void odd_ids(void) {
  next_id();
  setting s = after(MS, 0);
  for (int i = 0; i < 4; i++) {
    int id = (int[]){-1, 1, INT_MAX, INT_MIN}[i];
    say("settime %s, gettime %s", result(settime(id, 0, &s, NULL)), result(gettime(id, &s)));
    say("overrun %s, delete %s", result(overrun_of(id)), result(delete(id)));
  }
  say("delete %s", result(delete(0)));
  say("twice %s", result(delete(0)));
}
CASE(ids_of_nobody) { in_child("child", odd_ids); }

static void across_exec(void) {
  if (getenv("PTIMERS_IDS_AFTER")) {
    say("mode after %s", result(mode(2)));
    say("next after exec: %s", next_id());
    pid_t child = fork();
    if (child == 0) {
      say("in a child: %s", next_id());
      _exit(0);
    }
    waitpid(child, NULL, 0);
    _exit(0);
  }
  for (int i = 0; i < 4; i++) next_id();
  need(mode(1) == 0);
  setenv("PTIMERS_IDS_AFTER", "1", 1);
  execl("/proc/self/exe", "ids", "exec_keeps_the_counter", NULL);
}
CASE(exec_keeps_the_counter) {
  if (getenv("PTIMERS_IDS_AFTER")) across_exec();
  in_child("child", across_exec);
}

static void spawn_by_vfork(void) {
  if (getenv("PTIMERS_IDS_AFTER")) {
    say("next in the spawned: %s", next_id());
    _exit(0);
  }
  for (int i = 0; i < 4; i++) next_id();
  setenv("PTIMERS_IDS_AFTER", "1", 1);
  pid_t child = vfork();
  if (child == 0) {
    execl("/proc/self/exe", "ids", "a_vfork_child_begins_at_zero", NULL);
    _exit(1);
  }
  waitpid(child, NULL, 0);
  say("in the parent: %s", next_id());
}
CASE(a_vfork_child_begins_at_zero) {
  if (getenv("PTIMERS_IDS_AFTER")) spawn_by_vfork();
  in_child("child", spawn_by_vfork);
}

static void limited(void) {
  struct rlimit none = {0, 0};
  need(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
  struct sigevent silent = {.sigev_notify = SIGEV_NONE};
  int id = -1;
  say("with a limit of 0: %s", next_id());
  say("even without a signal: %s", result(create(CLOCK_MONOTONIC, &silent, &id)));
  say("after the clock's error: %s", result(create(10, NULL, &id)));
  struct sigevent bad = by_signal(65);
  say("before the event's: %s", result(create(CLOCK_MONOTONIC, &bad, &id)));
}
CASE(the_limit_on_pending_signals) { in_child("child", limited); }

static pthread_barrier_t barrier;
static int made[4][500];
static void *make_many(void *index) {
  int *mine = made[(intptr_t)index];
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 500; i++) need(create(CLOCK_MONOTONIC, NULL, &mine[i]) == 0);
  return NULL;
}
static void concurrently(void) {
  enum { HIGHEST = 2000 + 4 * 96 };
  static bool seen[HIGHEST];
  pthread_t threads[4];
  pthread_barrier_init(&barrier, NULL, 4);
  for (intptr_t i = 0; i < 4; i++) threads[i] = start(make_many, (void *)i);
  for (int i = 0; i < 4; i++) finish(threads[i]);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 500; j++) {
      /* Linux leaves no gaps; threads that meet may leave some here (CAVEATS). */
      need(made[i][j] >= 0 && made[i][j] < HIGHEST);
      must(!seen[made[i][j]]);
      must(j == 0 || made[i][j] > made[i][j - 1]);
      seen[made[i][j]] = true;
    }
  for (int id = 0; id < HIGHEST; id++) must((delete(id) == 0) == seen[id]);
  say("done");
}
CASE(threads_get_different_ids) { in_child("child", concurrently); }

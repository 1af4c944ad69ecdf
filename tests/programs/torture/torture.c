//@ by: torture
//@ libs: -lm
/* Many threads, each doing at random whatever might break if a thread were ever resumed with anything but its
 * own state. Arguments: seconds, threads, seed, and optionally the activities (names with commas between) for
 * hunting a break down. The last line counts the checks and what broke; the status is 1 if anything did. */
#include "clocks.h"
#include "processes.h"

static const struct activity {
  const char *name;
  void (*run)(void);
} activities[] = {
    {"compute", hold_over_computation},
    {"compute", hold_over_computation},
    {"call", hold_over_call},
    {"call", hold_over_call},
    {"malloc", allocate},
    {"malloc", allocate},
    {"stdio", print},
    {"tls", look_at_tls},
    {"errno", keep_errno},
    {"rounding", round_numbers},
    {"pi", lock_inheriting},
    {"pi-chain", lock_two_inheriting},
    {"robust", use_robust},
    {"condvar", wait_condition},
    {"churn", have_children},
    {"sleep", sleep_a_little},
    {"yield", yield},
    {"self", know_myself},
    {"clocks", look_at_clocks},
    {"cpu-timer", watch_cpu_timer},
    {"priority", change_priority},
    {"parcel", send_parcel},
    {"letters", exchange_letters},
    {"letters", exchange_letters},
    {"poll", wait_for_nothing},
    {"timerfd", wait_for_timerfd},
    {"file", use_file},
    {"queue", queue_to_anybody},
    {"queue", queue_to_anybody},
    {"sigqueue", queue_to_worker},
    {"sigqueue", queue_to_worker},
    {"tgkill", signal_myself},
    {"sigwait", wait_for_queued},
    {"fault", fault},
    {"timer", wait_for_timer},
    {"itimer", set_interval_timer},
    {"fork", fork_child},
    {"exec", run_program},
    {"system", run_shell},
};

enum { ACTIVITIES = sizeof activities / sizeof *activities };

static const struct activity *chosen[ACTIVITIES];
static int chosen_count;
static atomic_bool stop;

static bool in_list(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
  }
  return false;
}

static void choose(const char *list) {
  for (int i = 0; i < ACTIVITIES; i++)
    if (!list || in_list(list, activities[i].name)) chosen[chosen_count++] = &activities[i];
}

static void *work(void *argument) {
  me = argument;
  me->tid = gettid();
  me->thread = pthread_self();
  fill_tls();
  init_signal_stack();
  atomic_store(&me->begun, true);
  while (!atomic_load(&stop)) {
    const struct activity *activity = chosen[dice(chosen_count)];
    atomic_store(&me->activity, activity->name);
    activity->run();
  }
  atomic_store(&me->activity, "end");
  drop_signal_stack();
  atomic_store(&me->ended, true);
  return NULL;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

/* The workers have long finished what they were doing, or something is lost. */
static bool all_end_within(int count, int seconds) {
  for (int i = 0; i < seconds * 10; i++) {
    int ended = 0;
    for (int j = 0; j < count; j++) ended += atomic_load(&workers[j].ended);
    if (ended == count && atomic_load(&children) == 0) return true;
    pause_ms(100);
  }
  for (int i = 0; i < count; i++)
    if (!atomic_load(&workers[i].ended))
      printf("torture: thread %d (tid %d) does not end, in %s\n", i, workers[i].tid, atomic_load(&workers[i].activity));
  printf("torture: %ld children are left\n", atomic_load(&children));
  return false;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "program") == 0) return be_program(argv);
  if (argc < 4) {
    fprintf(stderr, "usage: torture SECONDS THREADS SEED [ACTIVITY,…]\n");
    return 2;
  }
  int seconds = atoi(argv[1]), threads = atoi(argv[2]);
  uint64_t seed = strtoull(argv[3], NULL, 10), checks = 0;
  choose(argc > 4 ? argv[4] : NULL);
  if (seconds < 1 || threads < 1 || chosen_count == 0) return 2;
  init_locks();
  init_waits();
  init_signals();
  common = fopen("/dev/null", "w");
  printf("torture: %s, %d threads, seed %llu\n", choose_hold(), threads, (unsigned long long)seed);
  fflush(stdout);

  workers = calloc(threads, sizeof *workers);
  worker_count = threads;
  for (int i = 0; i < threads; i++) {
    workers[i].index = i;
    workers[i].random = (seed * 1000003 + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    workers[i].activity = "start";
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      printf("torture: cannot start thread %d\n", i);
      return 1;
    }
  }
  int64_t end = monotonic_ns() + seconds * INT64_C(1000000000);
  while (monotonic_ns() < end) pause_ms(100);
  atomic_store(&stop, true);
  stop_interval_timers();
  if (!all_end_within(threads, 60)) {
    fflush(stdout);
    _exit(1);
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    checks += workers[i].checks;
  }
  count_signals();
  printf("torture: %llu checks, %ld corruptions\n", (unsigned long long)checks, atomic_load(&corruptions));
  return atomic_load(&corruptions) != 0;
}

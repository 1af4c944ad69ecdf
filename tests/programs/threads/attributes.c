/* What a thread is born with and what one may ask and tell it: stacks, guards, names, clocks, signals. */
#include "../check.h"
#include <setjmp.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void *show_own_stack(void *unused) {
  (void)unused;
  pthread_attr_t attr;
  void *address;
  size_t size, guard;
  char here;
  need(pthread_getattr_np(pthread_self(), &attr) == 0);
  pthread_attr_getstack(&attr, &address, &size);
  pthread_attr_getguardsize(&attr, &guard);
  say("stack of %zu, guard %zu, on it %d", size, guard, &here > (char *)address && &here < (char *)address + size);
  return NULL;
}

CASE(stack_sizes) {
  static const size_t sizes[] = {16384, 65536, 1 << 20, 8 << 20, 64 << 20};
  for (int i = 0; i < COUNT(sizes); i++) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    say("set %zu: %s", sizes[i], errname(pthread_attr_setstacksize(&attr, sizes[i])));
    int error = pthread_create(&thread, &attr, show_own_stack, NULL);
    if (error == 0) finish(thread);
    else say("create %s", errname(error));
  }
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  say("too small %s", errname(pthread_attr_setstacksize(&attr, 1000)));
  finish(start(show_own_stack, NULL));
}

CASE(guard_sizes) {
  for (size_t guard = 0; guard <= 4 * page_size(); guard += 2 * page_size()) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 20);
    say("set %s", errname(pthread_attr_setguardsize(&attr, guard)));
    need(pthread_create(&thread, &attr, show_own_stack, NULL) == 0);
    finish(thread);
  }
}

/* Uses its stack to the end. */
static int deepen(volatile char *above, int left) {
  volatile char page[4096];
  page[0] = page[4095] = above[0];
  return left == 0 ? page[0] : deepen(page, left - 1) + page[4095];
}

static void *use_stack(void *pages) {
  char first = 1;
  return (void *)(intptr_t)deepen(&first, (int)(intptr_t)pages);
}

CASE(whole_stack_is_usable) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 1 << 20);
  need(pthread_create(&thread, &attr, use_stack, (void *)220) == 0);
  say("depth %ld", (long)(intptr_t)finish(thread));
}

static void overflow(void) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 1 << 20);
  need(pthread_create(&thread, &attr, use_stack, (void *)1000000) == 0);
  finish(thread);
}

/* The guard stops it; nothing else is hurt. */
CASE(overflow_meets_the_guard) { in_child("overflow", overflow); }

CASE(own_memory_as_stack) {
  size_t size = 256 * 1024;
  for (int round = 0; round < 20; round++) {
    void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    need(pthread_attr_setstack(&attr, place, size) == 0);
    need(pthread_create(&thread, &attr, round ? use_stack : show_own_stack, (void *)30) == 0);
    finish(thread);
    must(munmap(place, size) == 0);
  }
  static char in_data[131072] __attribute__((aligned(4096)));
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  say("in the data segment %s", errname(pthread_attr_setstack(&attr, in_data, sizeof in_data)));
  need(pthread_create(&thread, &attr, show_own_stack, NULL) == 0);
  finish(thread);
}

static atomic_bool stop;
static void *wait_for_stop(void *unused) {
  wait_until(stop);
  return unused;
}

CASE(names) {
  char name[16];
  stop = false;
  pthread_t thread = start(wait_for_stop, NULL);
  say("set %s", errname(pthread_setname_np(pthread_self(), "first")));
  say("too long %s", errname(pthread_setname_np(pthread_self(), "sixteen letters.")));
  say("of another %s", errname(pthread_setname_np(thread, "second")));
  must(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
  say("mine %s", name);
  must(pthread_getname_np(thread, name, sizeof name) == 0);
  say("the other's %s", name);
  say("short buffer %s", errname(pthread_getname_np(thread, name, 3)));
  stop = true;
  finish(thread);
}

static void *use_cpu(void *unused) {
  for (volatile int i = 0; i < 20000000; i++) {}
  wait_until(stop);
  return unused;
}

CASE(cpu_clocks) {
  clockid_t clock;
  struct timespec time;
  stop = false;
  pthread_t thread = start(use_cpu, NULL);
  say("clock id %s", errname(pthread_getcpuclockid(thread, &clock)));
  int64_t first = now_ns(clock);
  settle();
  int64_t second = now_ns(clock);
  must(second >= first && second > 0);
  say("own clock %s", errname(pthread_getcpuclockid(pthread_self(), &clock)));
  must(now_ns(clock) > 0 && now_ns(clock) <= now_ns(CLOCK_PROCESS_CPUTIME_ID) + 1000000);
  say("sleep by own clock %s", errname(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){0, 1}, NULL)));
  say("resolution %s", result(clock_getres(clock, &time)));
  stop = true;
  finish(thread);
}

static volatile sig_atomic_t signalled;
static _Thread_local volatile sig_atomic_t signalled_here;
static void on_signal(int signal) {
  signalled = signal;
  signalled_here = signal;
}

static void *wait_for_signal(void *unused) {
  while (!signalled_here) sched_yield();
  return unused;
}

CASE(kill_reaches_its_thread) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t threads[5];
  for (int i = 0; i < 5; i++) threads[i] = start(wait_for_signal, NULL);
  for (int i = 4; i >= 0; i--) {
    say("null signal %s", errname(pthread_kill(threads[i], 0)));
    say("kill %s", errname(pthread_kill(threads[i], SIGUSR1)));
    finish(threads[i]);
  }
  say("not a signal %s", errname(pthread_kill(pthread_self(), 65)));
  must(signalled_here == 0);
  union sigval value = {.sival_int = 5};
  say("queue %s", errname(pthread_sigqueue(pthread_self(), SIGUSR1, value)));
  say("here %d", signalled_here == SIGUSR1);
}

static void *inherit(void *unused) {
  (void)unused;
  int policy;
  struct sched_param param;
  pthread_getschedparam(pthread_self(), &policy, &param);
  say("policy %d priority %d", policy, param.sched_priority);
  return NULL;
}

CASE(inherited_scheduling) {
  pthread_attr_t attr;
  pthread_t thread;
  struct sched_param param = {0};
  need(pthread_setschedparam(pthread_self(), SCHED_BATCH, &param) == 0);
  finish(start(inherit, NULL));
  pthread_attr_init(&attr);
  pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
  need(pthread_create(&thread, &attr, inherit, NULL) == 0);
  finish(thread);
}

/* pthread_attr_setaffinity_np: on its CPU from its first instruction. */
static void *where(void *cpu) {
  cpu_set_t set;
  need(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0);
  must(CPU_COUNT(&set) == 1 && CPU_ISSET((int)(intptr_t)cpu, &set));
  for (int i = 0; i < 100; i++) {
    must(sched_getcpu() == (int)(intptr_t)cpu);
    sched_yield();
  }
  return NULL;
}

CASE(born_on_a_cpu) {
  cpu_set_t all, one;
  need(sched_getaffinity(0, sizeof all, &all) == 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    pthread_attr_t attr;
    pthread_t thread;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_attr_init(&attr);
    need(pthread_attr_setaffinity_np(&attr, sizeof one, &one) == 0);
    need(pthread_create(&thread, &attr, where, (void *)(intptr_t)cpu) == 0);
    finish(thread);
  }
  say("done");
}

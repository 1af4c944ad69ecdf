//@ hardened
//@ shared: late_threads.c
//@ libs: -ldl
/* A library that comes while threads run, brings thread-local storage, starts threads in its constructor and
 * makes system calls by instructions of its own. */
#include "../check.h"
#include <dlfcn.h>

static void *library;

static void *symbol(const char *name) {
  void *place = dlsym(library, name);
  need(place != NULL);
  return place;
}

static void load(void) {
  need(getenv("LIBRARY"));
  library = dlopen(getenv("LIBRARY"), RTLD_NOW);
  if (!library) say("%s", dlerror());
  need(library);
}

static atomic_bool stop;

static void *spin(void *unused) {
  (void)unused;
  unsigned long count = 0;
  do count++;
  while (!stop);
  return (void *)(uintptr_t)(count != 0);
}

CASE(loaded_among_threads) {
  pthread_t threads[4];
  stop = false;
  for (int i = 0; i < 4; i++) threads[i] = start(spin, NULL);
  load();
  long (*run_threads)(int, int) = symbol("run_threads");
  int (*constructed)(void) = symbol("constructed");
  say("constructor's thread answered %d", constructed());
  say("sum %ld", run_threads(8, 1000));
  stop = true;
  for (int i = 0; i < 4; i++) must(finish(threads[i]) != NULL);
  say("close %d", dlclose(library));
}

CASE(loaded_often) {
  for (int i = 0; i < 20; i++) {
    load();
    long (*run_threads)(int, int) = symbol("run_threads");
    must(run_threads(2, 10) == 20);
    must(dlclose(library) == 0);
  }
  say("done");
}

static void *use_tls(void *function) {
  int (*next_local)(void) = (int (*)(void))function;
  for (int i = 1; i <= 1000; i++) {
    must(next_local() == i);
    if (i % 100 == 0) sched_yield();
  }
  return NULL;
}

/* Threads that are older than the library get its thread-local storage when they first touch it. */
static atomic_bool loaded;

static void *old_thread(void *unused) {
  (void)unused;
  wait_until(loaded);
  return use_tls(symbol("next_local"));
}

CASE(thread_local_storage_of_old_threads) {
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) threads[i] = start(old_thread, NULL);
  load();
  loaded = true;
  for (int i = 0; i < 6; i++) finish(threads[i]);
  say("done");
}

CASE(raw_calls) {
  load();
  long (*raw)(long, long, long, long) = symbol("raw_call");
  say("getpid is right %d", raw(SYS_getpid, 0, 0, 0) == getpid());
  say("gettid is right %d", raw(SYS_gettid, 0, 0, 0) == gettid());
  say("close %s", errname((int)-raw(SYS_close, -1, 0, 0)));
  say("write %ld", raw(SYS_write, 1, (long)"raw_calls: written\n", 19));
  for (int i = 0; i < 2000; i++) must(raw(SYS_sched_yield, 0, 0, 0) == 0);
}

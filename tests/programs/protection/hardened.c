//@ hardened
//@ libs: -ldl
/* Memory that was writable must not become executable: what such a host refuses, and what goes on working there. */
#include "../check.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/shm.h>

/* Linux 6.3 */
enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1, PAGE = 4096 };

static const unsigned char answer_42[] = {0xb8, 42, 0, 0, 0, 0xc3};

static const char *outcome(bool succeeded) { return succeeded ? "succeeds" : errname(errno); }

/* As compilers at run time make code. */
static void make_code(void) {
  int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  say("writable and executable: %s",
      outcome(mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, anonymous, -1, 0) != MAP_FAILED));
  void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, anonymous, -1, 0);
  need(at != MAP_FAILED);
  say("executable later: %s", outcome(!mprotect(at, PAGE, PROT_READ | PROT_EXEC)));
  say("by key: %s", outcome(!syscall(SYS_pkey_mprotect, at, PAGE, PROT_READ | PROT_EXEC, -1)));
  at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, anonymous, -1, 0);
  say("executable at once: %s", outcome(at != MAP_FAILED));
  say("executable still: %s", outcome(!mprotect(at, PAGE, PROT_READ | PROT_EXEC)));
  say("writable later: %s", outcome(!mprotect(at, PAGE, PROT_READ | PROT_WRITE)));
  say("and back: %s", outcome(!mprotect(at, PAGE, PROT_READ | PROT_EXEC)));
  int shared = shmget(IPC_PRIVATE, PAGE, 0700);
  need(shared != -1);
  say("shared memory: %s", outcome(shmat(shared, NULL, SHM_EXEC | SHM_RDONLY) != (void *)-1));
  need(!shmctl(shared, IPC_RMID, NULL));
  int file = memfd_create("code", MFD_CLOEXEC);
  need(write(file, answer_42, sizeof answer_42) == sizeof answer_42);
  int (*code)(void) = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  say("from a file: %s", outcome(code != MAP_FAILED));
  if (code != MAP_FAILED) say("it answers %d", code());
}

CASE(code) { make_code(); }

/* The vDSO's function, and the C library's. */
CASE(cpu) {
  int (*call)(unsigned *, unsigned *, void *) = NULL;
  void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (vdso) call = (int (*)(unsigned *, unsigned *, void *))dlsym(vdso, "__vdso_getcpu");
  need(call);
  cpu_set_t all;
  need(!sched_getaffinity(0, sizeof all, &all));
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    need(!sched_setaffinity(0, sizeof one, &one));
    unsigned now = -1;
    must(!call(&now, NULL, NULL) && now == (unsigned)cpu);
    must(sched_getcpu() == cpu);
  }
}

static void *count_up(void *counter) {
  for (int i = 0; i < 1000; i++) {
    atomic_fetch_add((atomic_int *)counter, 1);
    sched_yield();
  }
  return NULL;
}

static atomic_int handled;

static void on_signal(int number) {
  (void)number;
  atomic_fetch_add(&handled, 1);
}

/* Threads, signals, libraries that come late, children, and programs that they execute. */
static void live(void) {
  atomic_int counter = 0;
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) need(!pthread_create(&threads[i], NULL, count_up, &counter));
  for (int i = 0; i < 8; i++) need(!pthread_join(threads[i], NULL));
  say("threads counted to %d", counter);

  signal(SIGUSR1, on_signal);
  raise(SIGUSR1);
  need(!kill(getpid(), SIGUSR1));
  say("%d signals handled", handled);

  void *late = dlopen("libm.so.6", RTLD_NOW);
  double (*root)(double) = late ? (double (*)(double))dlsym(late, "sqrt") : NULL;
  say("a late library %s", root && root(49) == 7 ? "works" : dlerror());
  void *own = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
  pid_t (*id)(void) = own ? (pid_t(*)(void))dlsym(own, "getpid") : NULL;
  say("a C library of its own %s", id && id() == getpid() ? "works" : dlerror());
}

CASE(life) { live(); }

static void live_with_children(void) {
  live();
  in_child("child", live);
}

CASE(children) { live_with_children(); }

static void execute(void) {
  execl("/proc/self/exe", "hardened", "children", (char *)NULL);
  say("not executed: %s", errname(errno));
}

CASE(programs) {
  in_child("child", execute);
  say("the shell %s", ended(system("exit 7")));
}

/* From here on by the program's own wish, wherever it runs. */
static void harden_and_live(void) {
  if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)) say("cannot be hardened: %s", errname(errno));
  live_with_children();
  make_code();
  in_child("child", execute);
}

CASE(own_wish) { in_child("child", harden_and_live); }

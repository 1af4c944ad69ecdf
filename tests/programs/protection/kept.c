//@ flags: -fPIE -pie -Wl,-z,relro,-z,now
/* "No protection lost": facts on which a hardened program relies. Each is found out in a child of its own and said as a
 * line, so that natively and under Entresol the same lines must come out. */
#include "../check.h"
#include <fcntl.h>
#include <linux/prctl.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

extern char **environ;
enum { PAGE = 4096 };

/* An access to memory, and the signal that it raises; 0: none. */
static sigjmp_buf after_fault;
static int fault_code;

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  fault_code = info->si_code;
  siglongjmp(after_fault, number);
}

static int faults(void (*access)(volatile char *), volatile void *at) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  int number = sigsetjmp(after_fault, 1);
  if (number == 0) access(at);
  return number;
}

static void read_it(volatile char *at) { (void)*at; }
static void write_it(volatile char *at) { *at = 1; }
static void execute_it(volatile char *at) { ((void (*)(void))at)(); }

static void say_fault(const char *what, void (*access)(volatile char *), volatile void *at) {
  fault_code = 0;
  int number = faults(access, at);
  say("%s: signal %d code %d", what, number, number ? fault_code : 0);
}

static char *map(int rights, int flags, size_t size) {
  char *at = mmap(NULL, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  need(at != MAP_FAILED);
  return at;
}

static const char constant[] = "constant";
static char data[16] = {(char)0xc3};
static void (*const volatile relocated)(volatile char *) = read_it;

CASE(memory) {
  char *at = map(PROT_NONE, 0, PAGE);
  say_fault("read PROT_NONE", read_it, at);
  say_fault("write PROT_NONE", write_it, at);
  say_fault("execute PROT_NONE", execute_it, at);
  at = map(PROT_READ, 0, PAGE);
  say_fault("read PROT_READ", read_it, at);
  say_fault("write PROT_READ", write_it, at);
  at = map(PROT_READ | PROT_WRITE, 0, PAGE);
  *at = (char)0xc3;
  say_fault("execute PROT_WRITE", execute_it, at);
  need(!mprotect(at, PAGE, PROT_READ | PROT_EXEC));
  say_fault("execute PROT_EXEC", execute_it, at);
  say_fault("write PROT_EXEC", write_it, at);
  need(!munmap(at, PAGE));
  say_fault("read unmapped", read_it, at);
  at = map(PROT_READ | PROT_WRITE, 0, 2 * PAGE);
  need(!mprotect(at, PAGE, PROT_NONE));
  say_fault("write guard", write_it, at + PAGE - 1);
  say_fault("write behind guard", write_it, at + PAGE);
}

CASE(program) {
  say_fault("write code", write_it, (char *)(uintptr_t)read_it);
  say_fault("write constant", write_it, (char *)constant);
  say_fault("write RELRO", write_it, (char *)(uintptr_t)&relocated);
  say_fault("execute data", execute_it, data);
  char local[16] = {(char)0xc3};
  say_fault("execute stack", execute_it, local);
  char *heap = malloc(16);
  need(heap);
  *heap = (char)0xc3;
  say_fault("execute heap", execute_it, heap);
  say_fault("write code of the C library", write_it, (char *)(uintptr_t)getpid);
  say_fault("write vDSO", write_it, (char *)getauxval(AT_SYSINFO_EHDR));
  say_fault("read page 0", read_it, NULL);
  say_fault("read above user addresses", read_it, (char *)0x8000000000000000);
}

static void *overflow(void *argument) {
  static char stack[64 << 10];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  pthread_attr_t attributes;
  void *low;
  size_t size, guard;
  need(!pthread_getattr_np(pthread_self(), &attributes) && !pthread_attr_getstack(&attributes, &low, &size));
  need(!pthread_attr_getguardsize(&attributes, &guard));
  say("guard: %zu", guard);
  say_fault("write the end of the stack", write_it, low);
  /* Whether a guard is a mapping does not matter. */
  say("write below the stack: signal %d", faults(write_it, (char *)low - 1));
  say("write the end of the guard: signal %d", faults(write_it, (char *)low - guard));
  return argument;
}

CASE(stacks) {
  finish(start(overflow, NULL));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  need(!pthread_attr_setguardsize(&attributes, 16 * PAGE));
  pthread_t thread;
  need(!pthread_create(&thread, &attributes, overflow, NULL));
  finish(thread);
}

/* Rights of mappings that this process has. */
CASE(mappings) {
  FILE *maps = fopen("/proc/self/maps", "r");
  need(maps);
  char line[4096], rights[8];
  int both = 0, shared = 0;
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%*s %7s", rights) != 1) continue;
    both += rights[1] == 'w' && rights[2] == 'x';
    shared += rights[1] == 'w' && rights[3] == 's';
  }
  fclose(maps);
  say("writable and executable: %d, shared and writable: %d", both, shared);
}

static long asked(int option) { return prctl(option, 0, 0, 0, 0); }

static void *change_mine(void *argument) {
  say("no_new_privs %s", result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)));
  say("slack %s", result(prctl(PR_SET_TIMERSLACK, 77777, 0, 0, 0)));
  say("bounds %s", result(prctl(PR_CAPBSET_READ, 0, 0, 0, 0)));
  say("death signal %s", result(prctl(PR_SET_PDEATHSIG, SIGUSR2, 0, 0, 0)));
  say("mine: no_new_privs %ld, slack %ld", asked(PR_GET_NO_NEW_PRIVS), asked(PR_GET_TIMERSLACK));
  return argument;
}

static void threads_own(void) {
  finish(start(change_mine, NULL));
  int signal = -1;
  prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
  say("main's: no_new_privs %ld, slack %ld, death signal %d", asked(PR_GET_NO_NEW_PRIVS), asked(PR_GET_TIMERSLACK),
      signal);
  say("seccomp %ld", asked(PR_GET_SECCOMP));
}
CASE(of_a_thread) { in_child("child", threads_own); }

static void inherited(void) {
  need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  need(!prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
  need(!prctl(PR_SET_PDEATHSIG, SIGUSR2, 0, 0, 0));
  umask(0137);
  struct rlimit limit = {100, 200};
  need(!setrlimit(RLIMIT_NOFILE, &limit));
  fflush(stdout);
  pid_t child = fork();
  need(child >= 0);
  if (!child) {
    int signal = -1;
    prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    say("no_new_privs %ld, dumpable %ld, death signal %d, mask %o, files %lu %lu", asked(PR_GET_NO_NEW_PRIVS),
        asked(PR_GET_DUMPABLE), signal, umask(0), (long)limit.rlim_cur, (long)limit.rlim_max);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
}
CASE(inherited_by_fork) { in_child("child", inherited); }

/* A new program, which is this one, tells what it has. */
__attribute__((constructor)) static void tell_if_asked(void) {
  const char *wanted = getenv("CHECK_TELL");
  if (!wanted) return;
  int variables = 0, descriptors = 0, signal = -1;
  for (char **entry = environ; *entry; entry++) variables++;
  for (int fd = 3; fd < 100; fd++) descriptors += fcntl(fd, F_GETFD) >= 0;
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  struct sigaction ignored, caught;
  sigaction(SIGUSR1, NULL, &ignored);
  sigaction(SIGUSR2, NULL, &caught);
  prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
  if (!strcmp(wanted, "addresses")) {
    printf("%p %p %p %p %p\n", (void *)(uintptr_t)tell_if_asked, (void *)&variables, malloc(16),
           (void *)(uintptr_t)getpid, (void *)getauxval(AT_SYSINFO_EHDR));
  } else {
    printf("variables %d, descriptors %d, secure %lu, random %d\n", variables, descriptors, getauxval(AT_SECURE),
           getauxval(AT_RANDOM) != 0);
    printf("blocked %d, ignored %d, caught %d\n", sigismember(&blocked, SIGUSR1), ignored.sa_handler == SIG_IGN,
           caught.sa_handler != SIG_DFL);
    printf("no_new_privs %ld, dumpable %ld, death signal %d, seccomp %ld\n", asked(PR_GET_NO_NEW_PRIVS),
           asked(PR_GET_DUMPABLE), signal, asked(PR_GET_SECCOMP));
  }
  fflush(stdout);
  _exit(0);
}

static void execute(const char *wanted) {
  char variable[64];
  snprintf(variable, sizeof variable, "CHECK_TELL=%s", wanted);
  char *arguments[] = {"kept", NULL}, *variables[] = {variable, NULL};
  execve("/proc/self/exe", arguments, variables);
  _exit(97);
}

static void handler(int number) { (void)number; }

static void execute_with_much(void) {
  need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
  need(!prctl(PR_SET_PDEATHSIG, SIGUSR2, 0, 0, 0));
  need(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 && socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, handler);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  execute("state");
}
CASE(inherited_by_exec) { in_child("child", execute_with_much); }

/* Each address of two runs, page by page: they differ. */
static void addresses(unsigned long *found) {
  int ends[2];
  need(!pipe(ends));
  pid_t child = fork();
  need(child >= 0);
  if (!child) {
    dup2(ends[1], 1);
    execute("addresses");
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  need(fscanf(from, "%lx %lx %lx %lx %lx", found, found + 1, found + 2, found + 3, found + 4) == 5);
  fclose(from);
  need(waitpid(child, NULL, 0) == child);
}

CASE(addresses_are_random) {
  static const char *names[] = {"program", "stack", "heap", "C library", "vDSO"};
  unsigned long first[5], again[5];
  int differs[5] = {0};
  addresses(first);
  for (int run = 0; run < 4; run++) {
    addresses(again);
    for (int i = 0; i < 5; i++) differs[i] |= first[i] / PAGE != again[i] / PAGE;
  }
  for (int i = 0; i < 5; i++) say("%s: %s", names[i], differs[i] ? "differs" : "the same");
}

static void canaries(void) {
  uintptr_t canary, pointer;
  __asm__("mov %%fs:0x28, %0" : "=r"(canary));
  __asm__("mov %%fs:0x30, %0" : "=r"(pointer));
  say("canary %d, its low byte %d, pointer guard %d", canary != 0, (int)(canary & 0xff), pointer != 0);
}
CASE(canary) { canaries(); }

/* Memory that is not to be inherited, dumped or read from outside. */
CASE(memory_and_children) {
  char *dont = map(PROT_READ | PROT_WRITE, 0, PAGE), *wiped = map(PROT_READ | PROT_WRITE, 0, PAGE);
  *dont = *wiped = 7;
  need(!madvise(dont, PAGE, MADV_DONTFORK) && !madvise(wiped, PAGE, MADV_WIPEONFORK));
  fflush(stdout);
  pid_t child = fork();
  need(child >= 0);
  if (!child) {
    say_fault("MADV_DONTFORK", read_it, dont);
    say("MADV_WIPEONFORK: %d", *wiped);
    _exit(0);
  }
  int status;
  need(waitpid(child, &status, 0) == child);
  say("child: %s", ended(status));
}

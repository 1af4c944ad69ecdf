/* The interpreter of random programs: what all of its parts share.
 *
 * A program is a text: one operation a line, `WHO NAME ARGUMENTS…`, where WHO is 0 for the thread that reads the
 * program or the slot of a worker. An operation that opens a child process is followed by what the child does, up to `end`.
 * Each operation writes what it observed as one line. Nothing that depends on scheduling, addresses or ids may be
 * written: ids are named (`me`, `parent`, `worker 2`), and what comes later is awaited before it is told. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { WORKERS = 5, ARGS = 8, EVENTS = 4096 };

/* The signal that workers wait for. Every thread blocks it, because only then a descriptor reads it (CAVEATS). */
enum { WAITED_FOR = 50 };

/* Opens a child process; must not be done by a vfork child, which shares its parent's memory. */
enum { OPENS = 1, NO_VFORK = 2, TOP_ONLY = 4, MAIN_ONLY = 8 };

struct op {
    const char *name;
    void (*run)(const long *a);
    int weight, flags, args;
    const int *ranges;
};

struct step {
    const struct op *op;
    int who, end; /* Where the steps of a child end. */
    long a[ARGS];
};

enum { ABSENT, IDLE, BUSY, WAITING, SHARING };

struct worker {
    pthread_t handle;
    pid_t tid;
    int state, kind;
    bool guarded;
    sigset_t mask;
    _Atomic int command, started, done;
    const struct step *step;
    long result;
    int error;
    long parameter;
};

void add_op(const char *name, void (*run)(const long *), int weight, int flags, const int *ranges, int args);

/* Defines an operation: its weight in random programs, its flags, and for each argument how many values it has. */
#define OP(NAME, WEIGHT, FLAGS, ...)                                                                            \
    static void op_##NAME(const long *a);                                                                       \
    __attribute__((constructor)) static void register_##NAME(void) {                                            \
        static const int ranges[] = {__VA_ARGS__};                                                              \
        add_op(#NAME, op_##NAME, WEIGHT, FLAGS, ranges, sizeof ranges / sizeof *ranges);                        \
    }                                                                                                           \
    static void op_##NAME(__attribute__((unused)) const long *a)

#define COUNT(ARRAY) ((long)(sizeof(ARRAY) / sizeof *(ARRAY)))
#define PICK(ARRAY, I) ((ARRAY)[(unsigned long)(I) % COUNT(ARRAY)])

extern struct worker workers[WORKERS]; /* Slot 0 is the thread that reads the program. */
extern __thread int self;              /* The caller's slot. */
extern pid_t leader, starter;          /* This process, and its parent. */
extern int depth;                      /* How many forks lie between this process and the first one. */
extern bool in_vfork;
extern int logged_in_vfork; /* How much a vfork child has logged so far: the signal of its end comes after that. */
extern bool shared_descriptors; /* A child has, or had, this process's descriptors. */
extern bool shared_folders;     /* The same of its working directory and root. */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void begin_line(const char *name, const long *a, int args);
void end_line(void);
const char *error_name(int error);
/* "0", "5" or the error's name. */
const char *outcome(long result);
const char *plain(long result); /* As `outcome`, but what is above 0 is told as "+". */
void run_steps(int from, int to);
struct step *here(void); /* The step that the caller executes. */
int index_of(const struct step *step);
void pause_shortly(void);
long now_ms(void);
char thread_state(pid_t tid);
void fail(const char *what) __attribute__((noreturn));

bool begin_worker(int slot, size_t stack, size_t guard);
bool settled(int slot); /* The worker has come to rest; true if its call has ended. */

void prepare_descriptors(void);

/* signals.c */
struct event {
    int signal, code, who, from, flags;
    long value;
    uint64_t mask;
    _Atomic bool written; /* After all else. */
};
extern struct event events[EVENTS];
extern _Atomic int logged;
extern _Atomic int *logged_at_top; /* The same of the first process, for its children. */
extern _Atomic int *may_begin;     /* A child that has just been made may do its steps. */
extern uint64_t read_by_descriptors; /* Signals for which there has been a `signalfd`. */
extern int drained;
extern bool hide_taker; /* Linux itself may give the next events to any thread. */
extern bool unordered;  /* The next events come in any order. */
void begin_signals(void);   /* At the beginning of all. */
void prepare_signals(void); /* Every signal has its handler. */
void tell_events(void);
void await_events(int count);
void await_end_signal(int before); /* One that tells of a child: it may have sent others itself. */
void await_signals(int sig, int before, int count); /* So many that are logged after the first `before`. */
bool handled(int sig);              /* Has a handler. */
bool leaves_traces(int sig);        /* Has a handler that changes something for later. */
bool fatal(int sig);                /* Would end or stop the process. */
bool deliverable(int sig);          /* Some thread does not block it. */
/* For the process, where Linux asks thread `first` before all others: it may end the wait of any thread that waits. */
bool goes_astray(int first, int sig);
bool goes_astray_in_parent(int sig); /* When this process began, for the parent's first thread. */
bool deliverable_elsewhere(int sig); /* Some other thread does not block it. */
bool blocked_by(int slot, int sig);
bool reads_signals(int slot); /* It waits for a descriptor of signals. */
bool waits_for_another_number(int slot); /* Its file has got another number since its wait began. */
void after_fork(void);
bool parent_takes(int sig); /* When this process began. */
/* A child whose end sends no signal; it is waited for by `end_of`. */
pid_t quiet_fork(void);
int end_of(pid_t pid);
void keep_dispositions(void);
void restore_dispositions(void);
const char *signal_name(int sig);
const char *who_is(pid_t pid);
extern const int common_signals[8];

/* Reads the program and runs it, on this thread and on workers. */
#include "core.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct worker workers[WORKERS];
__thread int self;
pid_t leader, starter;
int depth;
bool in_vfork;
int logged_in_vfork;

static struct op ops[256];
static int op_count;
static struct step steps[4096];
static int step_count;
static __thread struct step *current;
static __thread char line[8192];
static __thread int length;

void add_op(const char *name, void (*run)(const long *), int weight, int flags, const int *ranges, int args) {
    ops[op_count++] = (struct op){name, run, weight, flags, args, ranges};
}

void fail(const char *what) {
    dprintf(2, "interpreter: %s: %s\n", what, strerror(errno));
    _exit(98);
}

long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void pause_shortly(void) {
    struct timespec t = {0, 100000};
    nanosleep(&t, 0);
}

void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line + length, sizeof line - length, format, list);
    va_end(list);
    length += n;
    if (length >= (int)sizeof line) length = sizeof line - 1;
}

void begin_line(const char *name, const long *a, int args) {
    length = 0;
    for (int i = 0; i < depth; i++) say("  ");
    say("%d %s", self, name);
    for (int i = 0; i < args; i++) say(" %ld", a[i]);
    say(":");
}

void end_line(void) {
    line[length] = '\n';
    int all = length + 1;
    for (int at = 0; at < all;) {
        ssize_t n = write(1, line + at, all - at);
        if (n > 0) at += n;
        else if (errno != EINTR) _exit(97);
    }
    length = 0;
}

const char *error_name(int error) {
    const char *name = strerrorname_np(error);
    static __thread char number[16];
    if (name) return name;
    snprintf(number, sizeof number, "E%d", error);
    return number;
}

const char *outcome(long result) {
    static __thread char texts[4][24];
    static __thread int turn;
    if (result == -1) return error_name(errno);
    char *text = texts[turn++ % 4];
    snprintf(text, 24, "%ld", result);
    return text;
}

const char *plain(long result) { return result > 0 ? "+" : outcome(result); }

struct step *here(void) { return current; }
int index_of(const struct step *step) { return step - steps; }

OP(nothing, 0, 0, 1) {}

/* From /proc, as any program could ask. Of the thread itself nothing but R makes sense. */
char thread_state(pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return '?';
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return '?';
    text[n] = 0;
    char *end = strrchr(text, ')');
    return end ? end[2] : '?';
}

static void execute(struct step *step) {
    struct step *before = current;
    current = step;
    begin_line(step->op->name, step->a, step->op->args);
    if (in_vfork) logged_in_vfork = atomic_load(&logged);
    step->op->run(step->a);
    if (in_vfork) logged_in_vfork = atomic_load(&logged);
    tell_events();
    end_line();
    current = before;
}

void wait_as_told(void);
void wait_on_channel(void);

void *work(void *argument) {
    self = (int)(long)argument;
    struct worker *me = &workers[self];
    me->tid = gettid();
    for (;;) {
        while (atomic_load(&me->command) == 0) syscall(SYS_futex, &me->command, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
        int command = atomic_exchange(&me->command, 0);
        if (command == 2) break;
        if (command == 3) wait_as_told();
        else if (command == 4) wait_on_channel();
        else execute((struct step *)me->step);
        atomic_store(&me->done, 1);
        syscall(SYS_futex, &me->done, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
    return (void *)(long)(self * 11);
}

/* Runs the steps of [from, to). */
void run_steps(int from, int to) {
    for (int i = from; i < to;) {
        struct step *step = &steps[i];
        int next = step->op->flags & OPENS ? step->end + 1 : i + 1;
        struct worker *w = &workers[step->who];
        bool elsewhere = step->who != 0 && self == 0 && depth == 0;
        if ((step->op->flags & NO_VFORK && in_vfork) || (step->op->flags & TOP_ONLY && depth > 0)) {
        } else if (!elsewhere || step->op->flags & MAIN_ONLY) {
            execute(step);
        } else if (w->state == IDLE) {
            w->step = step;
            atomic_store(&w->done, 0);
            atomic_store(&w->command, 1);
            syscall(SYS_futex, &w->command, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
            while (atomic_load(&w->done) == 0) syscall(SYS_futex, &w->done, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
        }
        i = next;
    }
}

static const struct op *find(const char *name) {
    for (int i = 0; i < op_count; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    dprintf(2, "interpreter: no operation %s\n", name);
    exit(98);
}

static void parse(FILE *file) {
    static char text[512];
    int open[64], opened = 0;
    while (fgets(text, sizeof text, file)) {
        char name[64];
        int who, used = 0;
        if (text[0] == '#' || sscanf(text, "%d %63s%n", &who, name, &used) < 2) continue;
        if (strcmp(name, "end") == 0) {
            if (opened > 0) steps[open[--opened]].end = step_count;
            /* A place of its own, so that the opener's end is a step that is never run. */
            steps[step_count++] = (struct step){.op = find("nothing"), .who = 0};
            continue;
        }
        struct step *step = &steps[step_count];
        *step = (struct step){.op = find(name), .who = who % WORKERS};
        char *at = text + used;
        for (int i = 0; i < step->op->args; i++) step->a[i] = strtol(at, &at, 10);
        if (step->op->flags & OPENS) open[opened++] = step_count;
        if (++step_count >= 4000) break;
    }
    while (opened > 0) steps[open[--opened]].end = step_count;
}

/* What a random program may consist of, for the generator. */
static void list_ops(void) {
    for (int i = 0; i < op_count; i++) {
        printf("%s %d %d", ops[i].name, ops[i].weight, ops[i].flags);
        for (int k = 0; k < ops[i].args; k++) printf(" %d", ops[i].ranges[k]);
        puts("");
    }
}

void finish_workers(void);

/* What `execve` of itself shows: what survived. */
int report_after_exec(int argc, char **argv);

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--ops") == 0) return list_ops(), 0;
    if (argc > 1 && strcmp(argv[1], "--after-exec") == 0) return report_after_exec(argc, argv);
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    if (!file) fail(argv[1]);
    parse(file);
    fclose(file);
    /* A session of its own: signals to the group reach nobody else. */
    setsid();
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    /* A process that is left behind by mistake does not spin for ever. */
    struct rlimit seconds = {30, 30};
    setrlimit(RLIMIT_CPU, &seconds);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    leader = getpid();
    starter = getppid();
    workers[0] = (struct worker){.tid = leader, .state = IDLE};
    begin_signals();
    prepare_descriptors();
    run_steps(0, step_count);
    finish_workers();
    begin_line("finished", 0, 0);
    tell_events();
    end_line();
    return 7;
}

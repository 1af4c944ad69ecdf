/* Counters of CPUs, to which threads add in restartable sequences: a thread that others interrupt there starts over. */
#include <pthread.h>
#include <sys/rseq.h>

#define ROUNDS 60

static volatile long counters[4096];

/* Whether the sequence was completed. */
static int add(struct rseq *area)
{
    unsigned cpu = area->cpu_id_start;
    __asm__ goto(".pushsection __rseq_cs, \"aw\"\n"
                 ".balign 32\n"
                 "3: .long 0, 0\n"
                 ".quad 1f, 2f - 1f, 4f\n"
                 ".popsection\n"
                 ".pushsection __rseq_failure, \"ax\"\n"
                 ".byte 0x0f, 0xb9, 0x3d\n"
                 ".long 0x53053053\n"
                 "4: jmp %l[started_over]\n"
                 ".popsection\n"
                 "leaq 3b(%%rip), %%rax\n"
                 "movq %%rax, %[sequence]\n"
                 "1: cmpl %[cpu], %[current]\n"
                 "jne 4b\n"
                 "addq $1, %[counter]\n"
                 "2:\n"
                 :
                 : [sequence] "m"(area->rseq_cs), [current] "m"(area->cpu_id), [cpu] "r"(cpu), [counter] "m"(counters[cpu])
                 : "rax", "memory", "cc"
                 : started_over);
    return 1;
started_over:
    return 0;
}

static void *count(void *unused)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (int i = 0; i < ROUNDS; i++)
        while (!add(area)) {
        }
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    long sum = 0;
    if (__rseq_size == 0)
        return 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4096; i++)
        sum += counters[i];
    return sum == 3 * ROUNDS ? 0 : 3;
}

/* Waits of processes that are some milliseconds old: whoever waits is there until the wait ends, and is seen by others. */
#include "../futex/futex.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>

static _Atomic uint32_t *word;
static int semaphore;

static void wait_for_word(void) { futex(word, FUTEX_WAIT, 0, NULL, NULL, 0); }
static bool word_is_waited_for(void) { return waiters(word, 0) == 1; }
static bool wake_word(void) { return futex(word, FUTEX_WAKE, 1, NULL, NULL, 0) == 1; }

static void wait_for_semaphore(void) { semop(semaphore, &(struct sembuf){.sem_op = -1}, 1); }
static void wait_for_semaphore_for_a_while(void) {
  semtimedop(semaphore, &(struct sembuf){.sem_op = -1}, 1, &(struct timespec){.tv_sec = 20});
}
static bool semaphore_is_waited_for(void) { return semctl(semaphore, 0, GETNCNT) == 1; }
static bool post_semaphore(void) { return semop(semaphore, &(struct sembuf){.sem_op = 1}, 1) == 0; }

static void look(const char *what, void (*wait)(void), bool (*is_there)(void), bool (*end)(void)) {
  long gaps = 0, ended = 0;
  for (int i = 0; i < 8; i++) {
    *word = 0;
    pid_t child = fork();
    if (child == 0) {
      wait();
      _exit(0);
    }
    wait_until(is_there());
    for (int64_t until = now_ns(CLOCK_MONOTONIC) + 12 * 1000000; now_ns(CLOCK_MONOTONIC) < until;) gaps += !is_there();
    ended += end();
    /* One that has missed its end does not keep the others. */
    *word = 1;
    futex(word, FUTEX_WAKE, 1, NULL, NULL, 0);
    int status;
    need(waitpid(child, &status, 0) == child);
  }
  say("%s: gaps %ld, ended %ld", what, gaps, ended);
}

CASE(a_wait_without_a_gap) {
  word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  semaphore = semget(IPC_PRIVATE, 1, 0600);
  need(word != MAP_FAILED && semaphore >= 0);
  look("word", wait_for_word, word_is_waited_for, wake_word);
  look("semaphore", wait_for_semaphore, semaphore_is_waited_for, post_semaphore);
  look("semaphore, for a while", wait_for_semaphore_for_a_while, semaphore_is_waited_for, post_semaphore);
  need(semctl(semaphore, 0, IPC_RMID) == 0);
}

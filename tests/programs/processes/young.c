/* Waits of processes that are some milliseconds old: whoever waits is there until the wait ends, and is seen by others. */
#include "../futex/futex.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
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

/* A call that moves all or nothing, while the process grows older. */
static char bytes[1 << 16];
static long write_pieces(int fd) {
  struct iovec all[3] = {{bytes, 30000}, {bytes, 20000}, {bytes, 10000}};
  return writev(fd, all, 3);
}
static long receive_all(int fd) {
  struct iovec all[2] = {{bytes, 1000}, {bytes, 1000}};
  return recvmsg(fd, &(struct msghdr){.msg_iov = all, .msg_iovlen = 2}, MSG_WAITALL);
}
static long receive_several(int fd) {
  struct iovec one = {bytes, 64};
  struct mmsghdr all[20];
  for (int i = 0; i < 20; i++) all[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
  return recvmmsg(fd, all, 20, 0, NULL);
}
static long splice_all(int fd) {
  int two[2];
  need(pipe(two) == 0 && fcntl(two[1], F_SETPIPE_SZ, 1 << 16) > 0 && write(two[1], bytes, 60000) == 60000);
  return splice(two[0], NULL, fd, NULL, 60000, 0);
}

static void move(const char *what, int type, long (*call)(int), long (*help)(int, int)) {
  long whole = 0;
  for (int i = 0; i < 6; i++) {
    int two[2];
    need(type ? socketpair(AF_UNIX, type, 0, two) == 0 : pipe2(two, 0) == 0);
    if (!type) need(fcntl(two[1], F_SETPIPE_SZ, 8192) == 8192);
    pid_t child = fork();
    if (child == 0) {
      close(two[0]);
      long done = call(two[1]);
      _exit(done == (call == receive_all ? 2000 : call == receive_several ? 20 : 60000));
    }
    close(two[1]);
    for (int round = 0; help(two[0], round) > 0; round++) sleep_ms(1);
    int status;
    need(waitpid(child, &status, 0) == child && WIFEXITED(status));
    whole += WEXITSTATUS(status);
    close(two[0]);
  }
  say("%s: whole %ld", what, whole);
}
static long take_some(int fd, int round) {
  (void)round;
  static char taken[4096];
  return read(fd, taken, sizeof taken);
}
static long give_some(int fd, int round) { return round < 20 ? send(fd, bytes, 100, MSG_NOSIGNAL) : 0; }

CASE(a_part_is_not_enough) {
  move("writev", 0, write_pieces, take_some);
  move("splice", 0, splice_all, take_some);
  move("recvmsg", SOCK_STREAM, receive_all, give_some);
  move("recvmmsg", SOCK_DGRAM, receive_several, give_some);
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

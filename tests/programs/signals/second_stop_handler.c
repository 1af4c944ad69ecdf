/* A program with one thread gives a stop signal one handler and then another: each runs when another process sends the
 * signal, which does not stop the program. */
#include "../check.h"
#include <sys/wait.h>

static volatile int ran;
static void first(int signal) { ran = signal > 0 ? 1 : 0; }
static void second(int signal) { ran = signal > 0 ? 2 : 0; }

CASE(each_handler_of_a_stop_signal_runs) {
  int ask[2], answer[2];
  must(pipe(ask) == 0 && pipe(answer) == 0);
  pid_t me = getpid(), sender = fork();
  char byte = 0;
  if (sender == 0) {
    for (int i = 0; i < 2; i++)
      if (read(ask[0], &byte, 1) != 1 || kill(me, SIGTSTP) != 0 || write(answer[1], &byte, 1) != 1)
        _exit(1);
    _exit(0);
  }
  for (int i = 1; i <= 2; i++) {
    struct sigaction action = {.sa_handler = i == 1 ? first : second};
    must(sigaction(SIGTSTP, &action, NULL) == 0);
    must(write(ask[1], &byte, 1) == 1);
    while (read(answer[0], &byte, 1) != 1)
      ;
    wait_until(ran == i);
  }
  int status;
  must(waitpid(sender, &status, 0) == sender && status == 0);
}

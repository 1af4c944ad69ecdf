/* Signals to waiters: SIGUSR1 ends calls, SIGUSR2 restarts them. */
#include <signal.h>

static atomic_int handled;
static void count_it(int signal) { handled += signal > 0; }
static void prepare_signals(void) {
  struct sigaction action = {.sa_handler = count_it};
  need(sigaction(SIGUSR1, &action, NULL) == 0);
  action.sa_flags = SA_RESTART;
  need(sigaction(SIGUSR2, &action, NULL) == 0);
  signal(SIGPIPE, SIG_IGN);
}
static void signal_all(int count, int signal) {
  atomic_store(&handled, 0);
  for (int i = 0; i < count; i++) need(pthread_kill(waiters[i].thread, signal) == 0);
  wait_until(atomic_load(&handled) == count);
}

//@ flags: -std=c++20 -fnon-call-exceptions -rdynamic
// What unwinds through a signal frame, whose restorer may be replaced: backtraces name who was interrupted, and
// exceptions leave handlers.
#include "check.hpp"
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unwind.h>

static std::string seen;

// The functions of this program, each with a mark if it was interrupted and not called from.
static _Unwind_Reason_Code note(_Unwind_Context *frame, void *) {
  int interrupted = 0;
  uintptr_t at = _Unwind_GetIPInfo(frame, &interrupted);
  // The function is looked up by the byte before, which is right for a return address.
  at += interrupted;
  Dl_info info;
  if (dladdr(_Unwind_FindEnclosingFunction(reinterpret_cast<void *>(at)), &info) && info.dli_sname &&
      std::strncmp(info.dli_sname, "frame_", 6) == 0)
    seen += std::string(" ") + info.dli_sname + (interrupted ? "!" : "");
  return _URC_NO_REASON;
}

extern "C" {
__attribute__((noinline)) void frame_handler(int) {
  seen.clear();
  _Unwind_Backtrace(note, nullptr);
}
__attribute__((noinline)) void frame_faulting_handler(int signal, siginfo_t *, void *) {
  frame_handler(signal);
  throw std::runtime_error("a fault");
}
__attribute__((noinline)) int frame_fault(volatile int *at) {
  int read = *at;
  return read + 1;
}
__attribute__((noinline)) void frame_raises() {
  raise(SIGUSR1);
  asm volatile("");
}
__attribute__((noinline)) void frame_outer() {
  frame_raises();
  asm volatile("");
}
}

static void raised() {
  signal(SIGUSR1, frame_handler);
  frame_outer();
  say("handler called from" + seen);
}

static void faults(int flags) {
  struct sigaction action = {};
  action.sa_sigaction = frame_faulting_handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | flags;
  must(sigaction(SIGSEGV, &action, nullptr) == 0, "sigaction");
  for (int i = 0; i < 3; i++) {
    try {
      frame_fault(reinterpret_cast<int *>(8));
    } catch (std::runtime_error &error) {
      say(std::string("caught ") + error.what() + ", handler called from" + seen);
    }
  }
}

static void thrown_from_alternate_stack() {
  static char stack[1 << 16];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  must(sigaltstack(&alternate, nullptr) == 0, "sigaltstack");
  faults(SA_ONSTACK);
}

static void *in_thread(void *) {
  frame_outer();
  return nullptr;
}

static void raised_in_threads() {
  signal(SIGUSR1, frame_handler);
  for (int i = 0; i < 4; i++) {
    pthread_t thread;
    must(pthread_create(&thread, nullptr, in_thread, nullptr) == 0, "a thread");
    must(pthread_join(thread, nullptr) == 0, "its end");
    say("handler called from" + seen);
  }
}

int main() {
  raised();
  faults(0);
  thrown_from_alternate_stack();
  raised_in_threads();
}

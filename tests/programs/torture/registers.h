/* Registers: every one that user code can see is filled with a pattern, held over a long computation or a system
 * call, and compared. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include "torture.h"
#include <cpuid.h>
#include <signal.h>

/* In, and out again. The assembly below knows the offsets. */
struct registers {
  uint8_t vector[32][64];
  uint64_t mask[8];
  uint8_t x87[112];
  /* rax rbx rcx rdx rsi rdi rbp r8 … r14; r15 points here, rsp stays. */
  uint64_t general[16];
  uint64_t flags;
  uint64_t mxcsr;
  uint64_t red_zone[16];
  /* Rounds of computation; 0 asks for the system call rax. */
  uint64_t spins;
};

struct hold {
  struct registers in, out;
};

_Static_assert(offsetof(struct registers, mask) == 2048, "known to the assembly");
_Static_assert(offsetof(struct registers, x87) == 2112, "known to the assembly");
_Static_assert(offsetof(struct registers, general) == 2224, "known to the assembly");
_Static_assert(offsetof(struct registers, flags) == 2352, "known to the assembly");
_Static_assert(offsetof(struct registers, mxcsr) == 2360, "known to the assembly");
_Static_assert(offsetof(struct registers, red_zone) == 2368, "known to the assembly");
_Static_assert(offsetof(struct registers, spins) == 2496, "known to the assembly");
_Static_assert(offsetof(struct hold, out) == 2504, "known to the assembly");

void hold_sse(struct hold *), hold_avx(struct hold *), hold_avx512(struct hold *);

/* The order matters: nothing between popfq and pushfq may change a flag, and nothing between the stores into the
 * red zone and the loads from it may push. The loop counts by lea and jrcxz for that reason. */
__asm__(
    ".pushsection .text\n"
    ".set OUT, 2504\n"
    ".macro HOLD name, load, store, leave\n"
    ".globl \\name\n"
    ".hidden \\name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "  sub $24, %rsp\n"
    "  stmxcsr (%rsp); fnstcw 4(%rsp)\n"
    "  mov %rdi, %r15\n"
    "  frstor 2112(%r15)\n"
    "  ldmxcsr 2360(%r15)\n"
    "  \\load\n"
    "  pushq 2352(%r15); popfq\n"
    "  .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  mov 2368+8*\\i(%r15), %rax; mov %rax, -128+8*\\i(%rsp)\n"
    "  .endr\n"
    "  GENERAL_IN\n"
    "  mov 2496(%r15), %rcx\n"
    "  jrcxz 2f\n"
    "1: lea -1(%rcx), %rcx\n"
    "  jrcxz 3f\n"
    "  jmp 1b\n"
    "2: syscall\n"
    "3: GENERAL_OUT\n"
    "  .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  mov -128+8*\\i(%rsp), %rax; mov %rax, OUT+2368+8*\\i(%r15)\n"
    "  .endr\n"
    "  pushfq; popq OUT+2352(%r15)\n"
    "  cld\n"
    "  \\store\n"
    "  stmxcsr OUT+2360(%r15)\n"
    "  fnsave OUT+2112(%r15)\n"
    "  \\leave\n"
    "  ldmxcsr (%rsp); fldcw 4(%rsp)\n"
    "  add $24, %rsp\n"
    "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
    "  ret\n"
    ".size \\name, .-\\name\n"
    ".endm\n"

    ".macro GENERAL_IN\n"
    "  mov 2224(%r15), %rax; mov 2232(%r15), %rbx; mov 2248(%r15), %rdx; mov 2256(%r15), %rsi\n"
    "  mov 2264(%r15), %rdi; mov 2272(%r15), %rbp; mov 2280(%r15), %r8; mov 2288(%r15), %r9\n"
    "  mov 2296(%r15), %r10; mov 2304(%r15), %r11; mov 2312(%r15), %r12; mov 2320(%r15), %r13\n"
    "  mov 2328(%r15), %r14\n"
    ".endm\n"
    ".macro GENERAL_OUT\n"
    "  mov %rax, OUT+2224(%r15); mov %rbx, OUT+2232(%r15); mov %rdx, OUT+2248(%r15); mov %rsi, OUT+2256(%r15)\n"
    "  mov %rdi, OUT+2264(%r15); mov %rbp, OUT+2272(%r15); mov %r8, OUT+2280(%r15); mov %r9, OUT+2288(%r15)\n"
    "  mov %r10, OUT+2296(%r15); mov %r11, OUT+2304(%r15); mov %r12, OUT+2312(%r15); mov %r13, OUT+2320(%r15)\n"
    "  mov %r14, OUT+2328(%r15)\n"
    ".endm\n"

    ".macro SSE_IN\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  movdqu 64*\\n(%r15), %xmm\\n\n"
    "  .endr\n"
    ".endm\n"
    ".macro SSE_OUT\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  movdqu %xmm\\n, OUT+64*\\n(%r15)\n"
    "  .endr\n"
    ".endm\n"
    ".macro SSE_LEAVE\n"
    ".endm\n"

    /* From the clean state: with a pattern of zeros the upper halves stay in it. */
    ".macro AVX_IN\n"
    "  vzeroall\n"
    "  cmpb $0, 24(%r15)\n"
    "  je 4f\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  vmovdqu 64*\\n(%r15), %ymm\\n\n"
    "  .endr\n"
    "4:\n"
    ".endm\n"
    ".macro AVX_OUT\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "  vmovdqu %ymm\\n, OUT+64*\\n(%r15)\n"
    "  .endr\n"
    ".endm\n"
    ".macro AVX_LEAVE\n"
    "  vzeroupper\n"
    ".endm\n"

    ".macro AVX512_IN\n"
    "  vzeroall\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "  vmovdqu64 64*\\n(%r15), %zmm\\n\n"
    "  .endr\n"
    "  .irp n, 0,1,2,3,4,5,6,7\n"
    "  kmovq 2048+8*\\n(%r15), %k\\n\n"
    "  .endr\n"
    ".endm\n"
    ".macro AVX512_OUT\n"
    "  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "  vmovdqu64 %zmm\\n, OUT+64*\\n(%r15)\n"
    "  .endr\n"
    "  .irp n, 0,1,2,3,4,5,6,7\n"
    "  kmovq %k\\n, OUT+2048+8*\\n(%r15)\n"
    "  .endr\n"
    ".endm\n"

    "HOLD hold_sse, SSE_IN, SSE_OUT, SSE_LEAVE\n"
    "HOLD hold_avx, AVX_IN, AVX_OUT, AVX_LEAVE\n"
    "HOLD hold_avx512, AVX512_IN, AVX512_OUT, AVX_LEAVE\n"
    ".popsection\n");

static int vectors, vector_bytes, masks;
static void (*hold)(struct hold *);

/* What the processor has and the host has switched on (XCR0). */
static const char *choose_hold(void) {
  unsigned a, b, c, d, xcr0 = 0, high;
  __cpuid(1, a, b, c, d);
  if (c & bit_OSXSAVE) __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  bool leaf7 = __get_cpuid_count(7, 0, &a, &b, &c, &d);
  if (leaf7 && (b & bit_AVX512F) && (b & bit_AVX512BW) && (xcr0 & 0xe6) == 0xe6) {
    hold = hold_avx512, vectors = 32, vector_bytes = 64, masks = 8;
    return "AVX-512";
  }
  if (leaf7 && (b & bit_AVX2) && (xcr0 & 6) == 6) {
    hold = hold_avx, vectors = 16, vector_bytes = 32;
    return "AVX2";
  }
  hold = hold_sse, vectors = 16, vector_bytes = 16;
  return "SSE2";
}

enum { FLAG_BITS = 0xcd5 }; /* carry, parity, adjust, zero, sign, direction, overflow */

static void fill(void *place, size_t size, bool zeros) {
  for (size_t i = 0; i < size; i += 8) {
    uint64_t value = zeros ? 0 : next_random(&me->random);
    memcpy((char *)place + i, &value, size - i < 8 ? size - i : 8);
  }
}

/* Eight valid numbers, any rounding and precision, any condition codes, top of stack and masked exceptions. */
static void fill_x87(uint8_t *image) {
  uint32_t words[7] = {0};
  static const uint32_t precisions[] = {0x000, 0x200, 0x300};
  words[0] = 0xffff007f | precisions[dice(3)] | (uint32_t)dice(4) << 10;
  words[1] = 0xffff0000 | ((uint32_t)dice(65536) & 0x7f3f);
  words[2] = 0xffff0000;
  memcpy(image, words, sizeof words);
  for (int i = 0; i < 8; i++) {
    uint64_t mantissa = next_random(&me->random) | UINT64_C(1) << 63;
    uint16_t exponent = 0x3000 + (uint16_t)dice(0x1000);
    memcpy(image + 28 + 10 * i, &mantissa, 8);
    memcpy(image + 36 + 10 * i, &exponent, 2);
  }
}

static void fill_registers(struct registers *in) {
  bool zeros = dice(8) == 0;
  memset(in, 0, sizeof *in);
  for (int i = 0; i < vectors; i++) fill(in->vector[i], vector_bytes, zeros);
  fill(in->mask, masks * 8, zeros);
  /* hold_avx looks at this byte to tell zeros from a pattern. */
  if (!zeros && in->vector[0][24] == 0) in->vector[0][24] = 1;
  fill_x87(in->x87);
  fill(in->general, sizeof in->general, false);
  in->flags = (dice(65536) & FLAG_BITS) | 0x202;
  in->mxcsr = 0x1f80 | (dice(65536) & 0xe07f);
  fill(in->red_zone, sizeof in->red_zone, false);
}

static void compare_bytes(const char *what, int index, const void *in, const void *out, size_t size) {
  const uint8_t *a = in, *b = out;
  me->checks++;
  for (size_t i = 0; i < size; i++) {
    if (a[i] == b[i]) continue;
    uint64_t old = 0, new = 0;
    size_t at = i & ~(size_t)7, left = size - at < 8 ? size - at : 8;
    memcpy(&old, a + at, left);
    memcpy(&new, b + at, left);
    broken("%s %d, from byte %zu: %016llx became %016llx", what, index, at, (unsigned long long)old,
           (unsigned long long)new);
    return;
  }
}

static void compare_registers(const struct hold *held, bool call) {
  const struct registers *in = &held->in, *out = &held->out;
  for (int i = 0; i < vectors; i++) compare_bytes("vector", i, in->vector[i], out->vector[i], vector_bytes);
  for (int i = 0; i < masks; i++) compare_bytes("mask", i, &in->mask[i], &out->mask[i], 8);
  compare_bytes("x87 control, status, tags", 0, in->x87, out->x87, 12);
  for (int i = 0; i < 8; i++) compare_bytes("x87 number", i, in->x87 + 28 + 10 * i, out->x87 + 28 + 10 * i, 10);
  for (int i = 0; i < 14; i++) {
    /* A call changes rax and uses up r11; rcx is the loop's, and a call's return address. */
    if (i == 2 || (call && (i == 0 || i == 10))) continue;
    compare_bytes("general register (rax rbx rcx rdx rsi rdi rbp r8…)", i, &in->general[i], &out->general[i], 8);
  }
  check((out->flags & FLAG_BITS) == (in->flags & FLAG_BITS), "flags %#lx became %#lx", in->flags, out->flags);
  compare_bytes("mxcsr", 0, &in->mxcsr, &out->mxcsr, 4);
  compare_bytes("red zone", 0, in->red_zone, out->red_zone, sizeof in->red_zone);
}

/* Long enough for many ticks, now and then. */
static void hold_over_computation(void) {
  struct hold held;
  static const uint64_t most[] = {1000, 20000, 20000, 200000, 200000, 3000000};
  fill_registers(&held.in);
  held.in.spins = 1 + dice(most[dice(6)]);
  hold(&held);
  compare_registers(&held, false);
}

static void call_holding(long number, long a, long b, long c, long d, long expected) {
  struct hold held;
  fill_registers(&held.in);
  uint64_t *general = held.in.general;
  general[0] = number, general[5] = a, general[4] = b, general[3] = c, general[9] = d;
  general[7] = general[8] = 0;
  held.in.spins = 0;
  hold(&held);
  compare_registers(&held, true);
  long answer = (long)held.out.general[0];
  check(answer == expected, "system call %ld answered %ld and not %ld", number, answer, expected);
}

/* The `syscall` instruction stands in this program's own text: no libc on the way. */
static void hold_over_call(void) {
  static uint32_t word;
  struct timespec little = {0, (long)dice(60000)};
  switch (dice(7)) {
  case 0: return call_holding(SYS_sched_yield, 0, 0, 0, 0, 0);
  case 1: return call_holding(SYS_getppid, 0, 0, 0, 0, getppid());
  case 2: return call_holding(SYS_gettid, 0, 0, 0, 0, me->tid);
  case 3: {
    /* A handler would end it. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    call_holding(SYS_nanosleep, (long)&little, 0, 0, 0, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return;
  }
  case 4: return call_holding(SYS_futex, (long)&word, 0x81, 1, 0, 0);
  case 5: return call_holding(SYS_futex, (long)&word, 0x80, 1, 0, -EAGAIN);
  case 6: break;
  }
  int fds[2];
  char bytes[8];
  if (pipe(fds) == 0) {
    call_holding(SYS_write, fds[1], (long)"torture", 8, 0, 8);
    call_holding(SYS_read, fds[0], (long)bytes, 8, 0, 8);
    check(strcmp(bytes, "torture") == 0, "a pipe gave other bytes");
    close(fds[0]);
    close(fds[1]);
  }
}

#endif

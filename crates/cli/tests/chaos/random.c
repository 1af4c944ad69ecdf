/* Where a program gets random numbers; it says what it got, and fails so that this is shown. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static unsigned char bytes[3000];

/* A number that all of the bytes decide. */
static void show(const char *source, ssize_t len, ssize_t wanted) {
  uint64_t number = 0;
  for (ssize_t i = 0; i < len; i++) number = number * 31 + bytes[i];
  printf("number of %s: %016llx%s\n", source, (unsigned long long)number, len == wanted ? "" : " wrong length");
}

int main(void) {
  show("few", getrandom(bytes, 16, 0), 16);
  show("many", getrandom(bytes, 3000, 0), 3000);
  show("GRND_NONBLOCK", getrandom(bytes, 257, GRND_NONBLOCK), 257);
  show("GRND_RANDOM", getrandom(bytes, 256, GRND_RANDOM), 256);
  memcpy(bytes, (void *)getauxval(AT_RANDOM), 16);
  show("AT_RANDOM", 16, 16);
  if (getrandom(bytes, 1, 8) != -1 || errno != EINVAL) puts("wrong number of errors");
  if (getrandom(bytes, 1, 6) != -1 || errno != EINVAL) puts("wrong number of errors");

  /* The vDSO's, of Linux 6.11 and later, as a C library uses it. */
  void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
  ssize_t (*random)(void *, size_t, unsigned, void *, size_t) = vdso ? dlsym(vdso, "__vdso_getrandom") : NULL;
  if (random) {
    uint32_t form[16] = {0};
    if (random(NULL, 0, 0, form, -1) != 0 || form[0] == 0) puts("wrong number of bytes of a state");
    static _Alignas(64) unsigned char state[4096];
    show("vDSO", random(bytes, 40, 0, state, form[0]), 40);
  }
  return 1;
}

# needs: valgrind cc
# version: valgrind --version
# does: memcheck of a program with threads
prepare() { printf '#include <pthread.h>\n#include <stdio.h>\nstatic long n; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\nstatic void *f(void *a) { for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&m); n += i; pthread_mutex_unlock(&m); } return a; }\nint main(void) { pthread_t t[4]; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, f, 0); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); printf("%%ld\\n", n); }\n' >"$SHARED/a.c"; cc -g -pthread "$SHARED/a.c" -o "$SHARED/a"; }
run() { ${RUN/ --require/} valgrind -q --error-exitcode=9 "$SHARED/a"; }

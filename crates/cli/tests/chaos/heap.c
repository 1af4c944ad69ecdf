// Right: the heap grows by 64 MiB, in a program with an access that is a scheduling point.
#include <unistd.h>

static int x;
static volatile int *at = &x;

int main(void) {
    *at = *at + 1;
    return sbrk(64 << 20) == (void *)-1;
}

/* sched_setattr(2)'s structure, whatever the C library's headers know of it. */
#ifndef ATTR_H
#define ATTR_H
#include <stdint.h>

struct attr {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
  uint32_t util_min, util_max;
  uint8_t beyond[64];
};

/* SCHED_ATTR_SIZE_VER0 and _VER1. */
enum { SIZE_0 = 48, SIZE_1 = 56 };

#endif

/* Room for the signals of others. */
#ifndef ROOM_H
#define ROOM_H

#include "../check.h"
#include <sys/resource.h>

/* The host counts what all processes of a user have pending together, and refuses others what it counts: pthread_cancel
 * and timer_create answer EAGAIN. So whoever is sent a storm takes no more than a part of it. */
static void leave_room(void) {
  struct rlimit limit;
  need(getrlimit(RLIMIT_SIGPENDING, &limit) == 0);
  limit.rlim_cur = limit.rlim_max / 4;
  need(setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
}

#endif

//@ cpus: default
/* Many threads, each of which has a guard below its stack; all of them are tried. */
#include "guards.h"

CASE(thousand) { overflow_each(1000); }

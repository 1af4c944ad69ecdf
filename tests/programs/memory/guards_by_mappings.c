//@ cpus: default
//@ options: --guards=mappings
/* As on a host that knows no markers. */
#include "guards.h"

CASE(thousand) { overflow_each(1000); }

# needs: make cc
# version: make --version
# does: make -j4 of 40 C files
prepare() { cd "$SHARED"; for n in $(seq 40); do printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint f%s(void) { return puts("%s"); }\n' "$n" "$n" >"f$n.c"; done; }
run() { cp "$SHARED"/*.c "$WORK" && $RUN make -s -j4 CFLAGS=-O2 $(cd "$SHARED" && ls f*.c | sed 's/c$/o/'); }
answer() { ls "$WORK"/*.o | wc -l; nm "$WORK"/f*.o | grep -c ' T f'; }

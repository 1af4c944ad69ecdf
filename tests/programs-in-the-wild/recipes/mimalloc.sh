# package: libmimalloc2.0
# needs: /usr/lib/x86_64-linux-gnu/libmimalloc.so.2 cc
# version: dpkg-query --show libmimalloc2.0
# does: 8 threads allocate and free each other's blocks
prepare() { allocating_program; }
run() { LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libmimalloc.so.2 $RUN "$SHARED/allocate" 40000000; }

# package: libjemalloc2
# needs: /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 cc
# version: dpkg-query --show libjemalloc2
# does: 8 threads allocate and free each other's blocks
prepare() { allocating_program; }
run() { LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 $RUN "$SHARED/allocate" 40000000; }

# package: libtcmalloc-minimal4
# needs: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 cc
# version: dpkg-query --show libtcmalloc-minimal4
# does: 8 threads allocate and free each other's blocks
prepare() { allocating_program; }
run() { LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 $RUN "$SHARED/allocate" 40000000; }

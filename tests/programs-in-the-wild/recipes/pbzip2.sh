# version: pbzip2 --version
# does: compresses 32 MB with 4 threads
prepare() { text 32M >"$SHARED/text"; }
run() { $RUN pbzip2 -p4 -c "$SHARED/text" >"$WORK/out"; }
answer() { bzip2 -dc "$WORK/out" | sha256sum; }

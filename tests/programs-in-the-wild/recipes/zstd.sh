# version: zstd --version
# does: compresses 256 MB with 4 threads
prepare() { text 64M >"$SHARED/part"; for _ in 1 2 3 4; do cat "$SHARED/part"; done >"$SHARED/text"; rm "$SHARED/part"; }
run() { $RUN zstd -q -T4 -6 -c "$SHARED/text" >"$WORK/out"; }
answer() { zstd -dc "$WORK/out" | sha256sum; }

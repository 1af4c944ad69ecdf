# version: dpkg-query --show pixz
# does: compresses 16 MB with 4 threads
prepare() { text 16M >"$SHARED/text"; }
run() { $RUN pixz -p 4 -3 "$SHARED/text" "$WORK/out"; }
answer() { xz -dc "$WORK/out" | head -c 16777216 | sha256sum; }

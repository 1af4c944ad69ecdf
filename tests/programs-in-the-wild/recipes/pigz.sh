# version: pigz --version
# does: compresses 64 MB with 4 threads
prepare() { text 64M >"$SHARED/text"; }
run() { $RUN pigz -p 4 -c "$SHARED/text" >"$WORK/out"; }
answer() { gzip -dc "$WORK/out" | sha256sum; }

# version: plzip --version
# does: compresses 16 MB with 4 threads
prepare() { text 16M >"$SHARED/text"; }
run() { $RUN plzip -n 4 -3 -B 2MiB -c "$SHARED/text" >"$WORK/out"; }
answer() { sha256sum <"$WORK/out"; }

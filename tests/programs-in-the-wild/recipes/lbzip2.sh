# version: lbzip2 --version
# does: compresses 32 MB with 4 threads
prepare() { text 32M >"$SHARED/text"; }
run() { $RUN lbzip2 -n 4 -c "$SHARED/text" >"$WORK/out"; }
answer() { sha256sum <"$WORK/out"; }

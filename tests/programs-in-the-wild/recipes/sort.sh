# package: coreutils
# version: sort --version
# does: sorts two million lines with 4 threads
prepare() { text 48M >"$SHARED/text"; }
run() { $RUN sort --parallel=4 -S 400M "$SHARED/text" -o "$WORK/out"; }
answer() { sha256sum <"$WORK/out"; }

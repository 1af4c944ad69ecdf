# package: xz-utils
# version: xz --version
# does: compresses 32 MB with 4 threads
prepare() { text 32M >"$SHARED/text"; }
run() { $RUN xz -T4 -3 --block-size=4MiB -c "$SHARED/text" >"$WORK/out"; }
answer() { sha256sum <"$WORK/out"; }

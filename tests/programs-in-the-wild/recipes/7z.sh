# package: p7zip-full
# version: 7z | head -n 3
# does: packs 32 MB with 4 threads
prepare() { text 32M >"$SHARED/text"; }
run() { $RUN 7z a -bso0 -bsp0 -mx=3 -mmt=4 "$WORK/out.7z" "$SHARED/text"; }
answer() { 7z e -so "$WORK/out.7z" | sha256sum; }

# needs: rg
# version: rg --version
# does: searches 200 files of 256 KB
prepare() { text 256K >"$SHARED/part"; mkdir "$SHARED/tree"; for n in $(seq 200); do cp "$SHARED/part" "$SHARED/tree/$n"; done; rm "$SHARED/part"; }
run() { cd "$SHARED"; for _ in 1 2 3 4 5 6 7 8; do $RUN rg -j 4 --no-messages -c '7[0-9]{2} line qu?' tree >"$WORK/out"; done; }
answer() { sort "$WORK/out" | sha256sum; }

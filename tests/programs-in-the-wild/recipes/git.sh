# version: git --version
# does: clones a repository of 300 commits and collects its garbage
prepare() {
    git init -q "$SHARED/repo" && cd "$SHARED/repo" && git config user.email a@b.c && git config user.name n
    for n in $(seq 300); do echo "$n $RANDOM" >>"file$((n % 20))"; git add . && git commit -q -m "$n"; done
}
run() { export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'; $RUN git clone -q --no-hardlinks "$SHARED/repo" "$WORK/copy" && $RUN git -C "$WORK/copy" gc -q --aggressive; }
answer() { git -C "$WORK/copy" rev-parse HEAD && git -C "$WORK/copy" fsck --full; }

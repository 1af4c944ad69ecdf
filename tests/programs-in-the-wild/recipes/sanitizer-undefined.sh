# package: gcc
# needs: cc
# version: cc --version
# does: the same under -fsanitize=undefined with its defaults
prepare() { allocating_program -g -fsanitize=undefined; }
run() { $RUN "$SHARED/allocate" 10000000; }

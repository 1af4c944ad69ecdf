# package: gcc
# needs: cc
# version: cc --version
# does: the same under -fsanitize=thread with its defaults
prepare() { allocating_program -g -fsanitize=thread; }
run() { $RUN "$SHARED/allocate" 1000000; }

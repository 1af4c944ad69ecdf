# package: gcc
# needs: cc
# version: cc --version
# does: the same under -fsanitize=address with its defaults
prepare() { allocating_program -g -fsanitize=address; }
run() { $RUN "$SHARED/allocate" 2000000; }

#!/bin/sh
# A stand-in for `entresol` that runs the program natively:
#   ENTRESOL=tests/native.sh ENTRESOL_TESTS_AS=root cargo test -p entresol-tests
# compares every program with itself, so what fails is a program that is not deterministic
# (and `nested`, which wants to see an option of `run` at work).
while [ "$#" -gt 0 ] && [ "$1" != "--" ]; do shift; done
shift
exec "$@"

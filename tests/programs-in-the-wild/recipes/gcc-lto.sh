# package: gcc
# needs: gcc
# version: gcc --version
# does: links 24 files with -flto=4
prepare() { cd "$SHARED"; for n in $(seq 24); do { for m in $(seq 60); do echo "int f${n}_$m(int x) { for (int i = 0; i < $m; i++) x = x * 31 + i; return x; }"; done; } >"f$n.c"; gcc -O2 -flto -c "f$n.c"; done
    { for n in $(seq 24); do echo "int f${n}_7(int);"; done; echo 'int printf(const char *, ...); int main(void) { int x = 1;'; for n in $(seq 24); do echo "x = f${n}_7(x);"; done; echo 'printf("%d\n", x); }'; } >main.c; gcc -O2 -flto -c main.c; }
run() { $RUN gcc -O2 -flto=4 -flto-partition=max "$SHARED"/*.o -o "$WORK/out"; }
answer() { "$WORK/out"; }

# needs: cargo rustc
# version: cargo --version
# does: builds a small workspace, 4 jobs
prepare() {
    cd "$SHARED"; printf '[workspace]\nmembers = ["a*"]\nresolver = "2"\n' >Cargo.toml
    for n in 1 2 3 4 5 6; do mkdir -p "a$n/src"; printf '[package]\nname = "a%s"\nversion = "0.1.0"\nedition = "2021"\n' "$n" >"a$n/Cargo.toml"
        { for m in $(seq 80); do echo "pub fn f$m(x: u64) -> Vec<u64> { (0..x).map(|y| y * $m + $n).filter(|z| z % 3 == 0).collect() }"; done; } >"a$n/src/lib.rs"; done
}
run() {
    local toolchain
    toolchain=$(cd "$SHARED" && HOME=$CALLER_HOME rustc --print sysroot)
    cp -r "$SHARED" "$WORK/tree" && cd "$WORK/tree" && CARGO_HOME=$WORK/cargo PATH=$toolchain/bin:$PATH $RUN cargo build -q --offline -j 4
}
answer() { ls "$WORK/tree/target/debug"/*.rlib | wc -l; }

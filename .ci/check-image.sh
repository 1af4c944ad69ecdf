#!/usr/bin/env bash
# Checks the image's diet on the built file: it runs inside somebody else's process, so what it may contain
# is decided here and not by good intentions. Usage: .ci/check-image.sh libentresol.so
set -euo pipefail

image=${1:?usage: $0 libentresol.so}
failures=0

# check WHAT OFFENDERS: fails when OFFENDERS is not empty.
check() {
    if [ -z "$2" ]; then
        printf 'ok      %s\n' "$1"
    else
        printf 'FAILED  %s\n' "$1"
        head -n 10 <<<"$2" | sed 's/^/            /'
        failures=$((failures + 1))
    fi
}

dynamic=$(readelf --wide --dynamic "$image")
segments=$(readelf --wide --segments "$image")
symbols=$(nm --dynamic "$image")
assembly=$(objdump --disassemble --no-show-raw-insn --wide "$image")

[ "$(wc -l <<<"$assembly")" -gt 20 ] || { echo "FAILED  the disassembly of $image is empty" >&2; exit 1; }

check "needs no other library" "$(grep NEEDED <<<"$dynamic" || true)"
check "has no text relocations" "$(grep TEXTREL <<<"$dynamic" || true)"
relocations=$(readelf --wide --relocs "$image" | grep -o 'R_X86_64_[A-Z0-9_]*' || true)
check "relocates itself: needs no symbol" "$(grep -v '^R_X86_64_RELATIVE$' <<<"$relocations" || true)"
check "has an entry point" "$(readelf --file-header "$image" | grep -E 'Entry point address: +0x0$' || true)"
check "exports the auditing interface only" "$(grep -v ' T la_[a-z0-9_]*$' <<<"$symbols" || true)"
for symbol in la_version la_objopen la_activity la_preinit; do
    check "exports $symbol" "$(grep -q " T $symbol\$" <<<"$symbols" || echo "missing")"
done
check "does not slow down calls between libraries" "$(grep -E 'la_(symbind|x86_64_gnu_plt)' <<<"$symbols" || true)"
check "has no thread-local storage" "$(grep -E '^ +TLS ' <<<"$segments" || true)"
executable=$(grep -cE '^ +LOAD .* R?W? ?E ' <<<"$segments" || true)
check "has exactly one executable segment" "$([ "$executable" = 1 ] || echo "$executable executable segments")"
check "has no segment both writable and executable" "$(grep -E '^ +(LOAD|GNU_STACK) .* RWE ' <<<"$segments" || true)"
check "never touches the program's thread pointer (%fs)" "$(grep -E '%fs:' <<<"$assembly" || true)"
# Saving and restoring the program's extended state names no such register: it is xsave and xrstor on memory.
check "computes with no wide vector or mask register" "$(grep -E '%[yz]mm[0-9]|%k[0-7]\b' <<<"$assembly" || true)"
check "executes no x87 or MMX arithmetic" "$(grep -E '%st\b|%mm[0-7]' <<<"$assembly" || true)"

vector=$(grep -cE '%xmm[0-9]' <<<"$assembly" || true)
printf 'note    %s instructions use a sixteen-byte vector register\n' "$vector"
[ "$failures" = 0 ] || { printf '%s: %s checks failed\n' "$image" "$failures" >&2; exit 1; }

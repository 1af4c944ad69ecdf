# shellcheck shell=bash
# Shared by `kernels` and `libraries`: the folder that a guest gets, and how results become a page.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
workspace=$(cd "$here/../.." && pwd)

# static_build WORDS…: builds without a C library beside it, so that the result starts wherever Linux does.
static_build() {
    (cd "$workspace" && cargo "$1" --quiet --release --target x86_64-unknown-linux-gnu --target-dir target/static \
        --config 'target.x86_64-unknown-linux-gnu.rustflags=["-Ctarget-feature=+crt-static"]' "${@:2}")
}

# kit COMMAND FOLDER: puts the command, the corpus and the test that runs it into FOLDER/matrix, laid out as the test expects.
kit() {
    local runner
    runner=$(static_build test --package entresol-tests --test programs --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*programs-[^"]*\)".*/\1/p')
    rm -rf "$2/matrix"
    mkdir -p "$2/matrix/release/deps" "$2/matrix/tests"
    cp "$1" "$2/matrix/entresol"
    cp "$runner" "$2/matrix/release/deps/programs"
    cp -r "$workspace/tests/programs" "$2/matrix/tests/"
}

# corpus FOLDER WORDS…: the words of a command line that runs a part of the corpus for the root folder FOLDER.
corpus() {
    echo "CARGO_MANIFEST_DIR=$1/matrix/tests ENTRESOL=$1/matrix/entresol $1/matrix/release/deps/programs --color never ${*:2}"
}

# drop_uncompiled FOLDER LOG: takes the programs that LOG says were not compiled out of the corpus there, and names them.
drop_uncompiled() {
    local name source library
    failed "$2" | sed 's/@.*//' | sort -u | while read -r name; do
        source=$(echo "$1/matrix/tests/programs/$name".c*)
        library=$(sed -n 's,^//@ shared: ,,p' "$source")
        rm "$source" ${library:+"$(dirname "$source")/$library"}
        echo "$name"
    done
}

# failed LOG: the names of the tests that failed.
failed() {
    sed -n 's/^test \(.*[^ ]\) *\.\.\. FAILED$/\1/p' "$1" | sort
}

# names: the lines of the input as a list for the page.
names() {
    # shellcheck disable=SC2016
    sed 's/.*/`&`/' | paste -sd, | sed 's/,/, /g'
}

# cell LOG: how a run of the test ended: how many programs passed of those that succeed natively, and the names of the others.
cell() {
    local passed natively differing
    passed=$(sed -n 's/^test result: .*\. \([0-9]*\) passed; .*/\1/p' "$1")
    if [ -z "$passed" ]; then echo "did not end"; return; fi
    natively=$(awk '/^---- / { name = $2 } /^fails natively/ { print name }' "$1")
    differing=$(failed "$1" | grep -vxF "${natively:-none}" || true)
    echo "$passed of $((passed + $(grep -c . <<<"$differing" || true)))${differing:+, not $(names <<<"$differing")}" \
        "${natively:+($(names <<<"$natively") fails natively)}"
}

# page RESULTS HEADING FILE: RESULTS has lines of row, column and cell, with tabs between them; they become a table, which
# replaces the text below `## HEADING` in FILE, or is added at its end.
page() {
    local table
    table=$(awk -F '\t' '
        !($1 in rows) { rows[$1] = ++height; row[height] = $1 }
        !($2 in columns) { columns[$2] = ++width; column[width] = $2 }
        { cell[$1, $2] = $3 }
        END {
            printf "| |"; for (x = 1; x <= width; x++) printf " %s |", column[x]
            printf "\n|---|"; for (x = 1; x <= width; x++) printf "---|"
            for (y = 1; y <= height; y++) {
                printf "\n| %s |", row[y]
                for (x = 1; x <= width; x++) printf " %s |", cell[row[y], column[x]]
            }
            print ""
        }' "$1")
    [ -e "$3" ] || sed -n 's/^#> \?//p' "${BASH_SOURCE[0]}" >"$3"
    HEADING="## $2" TABLE=$table awk '
        function section() { print ENVIRON["HEADING"]; print ENVIRON["TABLE"]; done = 1 }
        $0 == ENVIRON["HEADING"] { section(); inside = 1; next }
        inside && /^## / { inside = 0; print "" }
        !inside { print }
        END { if (!done) { print ""; section() } }' "$3" >"$3.part"
    mv "$3.part" "$3"
}

# The beginning of the page:
#> # The matrix
#>
#> Which kernels and C libraries Entresol was tried on, and what came out. `tests/matrix/kernels` and `tests/matrix/libraries`
#> make this page (`--markdown docs/MATRIX.md`). A program of the corpus passes if it ends and writes under Entresol what it does
#> natively in the same place.

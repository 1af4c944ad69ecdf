#!/usr/bin/env python3
"""Prints which tests failed and why, from the output of `cargo test`, in a page: a record that keeps only the last
lines of a run has the reasons then, not just the names. `.ci/run` prints it as its last words; `digest.py --check`
tries it on itself."""

import re
import sys

LINES = 28  # In all: with what follows it still fits into the thirty lines that a record keeps.
LINES_EACH = 8
WIDTH = 160
HEAD = re.compile(r"^---- (.+?)(?: stdout)? ----$")
END = re.compile(r"^(failures:|test result: .*)$")
# What decides, wherever it stands: how it ended, what we said before the end, and what a thread that hangs does.
DECIDING = re.compile(
    r"\bhung\b|\bNOT |ended with|fails natively|panicked at|internal fault|entresol:|no progress|watchdog|signal \d+"
    r"|^[-+] |^\s*thread \d+ .* (?:R \(running\)|D \()",
)
# The same on every machine: the way to a backtrace.
NOISE = re.compile(r"^note: run with `RUST_BACKTRACE|^\s*$|^(stdout|stderr):$")


def failures(lines):
    """The blocks that libtest and libtest-mimic print, by the test's name; a later run of it replaces an earlier."""
    found, name = {}, None
    for line in lines:
        if head := HEAD.match(line):
            name = head[1]
            found[name] = []
        elif END.match(line):
            name = None
        elif name is not None and not NOISE.match(line):
            found[name].append(line)
    return found


def chosen(lines, room):
    """The first lines, the last of them given up for lines further below that decide."""
    if len(lines) <= room:
        return lines
    first = max(1, (room + 1) // 2)
    below = [line for line in lines[first:] if DECIDING.search(line)]
    below = below[: room - first]
    rest = lines[first : first + room - first - len(below)]
    return lines[:first] + [line for line in rest if line not in below] + below


def digest(lines):
    found = failures(lines)
    if not found:
        return []
    shown = list(found.items())[: LINES - 2]
    each = min(LINES_EACH, max(0, (LINES - 2 - len(shown)) // len(shown)))
    text = [f"why ({len(found)} failed):"]
    for name, block in shown:
        text.append(f"{name}:"[:WIDTH])
        text += [f"    {line}"[:WIDTH] for line in (chosen(block, each) if each else [])]
    if len(found) > len(shown):
        text.append(f"and {len(found) - len(shown)} more")
    return text


def check():
    """Two kinds of harness, a program that hung, more failures than there is room for, and none."""
    hung = ["natively ended with status 0", "under Entresol hung; its threads:", "/proc/7 program"]
    hung += [f'  thread {id} "spare" S (sleeping) wchan futex' for id in range(9)]
    hung += ["case: line 7: NOT a == b"]
    hung += ['  thread 99 "program" R (running) wchan 0 ' + "x" * 300]
    log = ["test a ... ok", "failures:", "", "---- folder/hangs::case ----", *hung, "", "---- tests::unit stdout ----"]
    log += ["", "thread 'tests::unit' panicked at src/lib.rs:1:", "left: 1", "", "failures:", "    tests::unit"]
    log += ["", "test result: FAILED. 1 passed; 2 failed", "---- no test ---- but a line", "a line that belongs to none"]
    text = digest(log)
    assert text[0] == "why (2 failed):" and text[1] == "folder/hangs::case:", text
    assert "    under Entresol hung; its threads:" in text and any("R (running)" in line for line in text), text
    assert any("NOT a == b" in line for line in text), text
    assert "tests::unit:" in text and "    left: 1" in text, text
    assert not any("none" in line or "more" in line for line in text), text
    many = digest(["failures:"] + [line for n in range(90) for line in (f"---- t{n} ----", "a", "b")])
    assert many[-1] == "and 64 more", many
    ten = digest(["failures:"] + [line for n in range(10) for line in (f"---- t{n} ----", "a", "b")])
    assert ten[1:3] == ["t0:", "    a"] and len(ten) == 21, ten
    for page in (text, many, ten):
        assert len(page) <= LINES and max(map(len, page)) <= WIDTH, page
    assert digest(["error: could not compile", "test result: ok. 3 passed"]) == []


def main():
    if sys.argv[1:] == ["--check"]:
        check()
        return
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        print("\n".join(digest(log.read().splitlines())))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks the layers: crates use crates of lower layers only; pure ones (P) have no unsafe code, in their tests neither,
and no standard library; inside a crate few files import each other in a circle; host calls are made where they belong;
few methods connect kernel, personality and machine.
The table is the design's (ARCHITECTURE.md); a crate that is not in it is an error."""

import json
import pathlib
import re
import subprocess
import sys

# Crate: (layer, pure). A crate may use crates of lower layers only.
CRATES = {
    "ids": (0, True),
    "abi": (1, True),
    "sync": (2, False),
    "patch": (3, True),
    "state": (3, True),
    "sched": (3, True),
    "time": (3, True),
    "signal": (3, True),
    "procfs": (3, True),
    "record": (3, True),
    "chaos": (3, True),
    "perfetto": (3, False),
    "lab": (4, True),
    "kernel": (5, True),
    "linux": (6, True),
    "arch": (6, False),
    "sim": (7, False),
    "host": (7, False),
    "image": (8, False),
    "api": (8, False),
    "mount": (8, False),
    "tool": (8, False),
    "profile": (8, False),
    "watch": (9, False),
    "bench": (10, False),
    "observe": (10, False),
    "laboratory": (11, False),
    "simulate": (11, False),
    "cli": (12, False),
    "tests": (13, False),
    "fuzz": (13, False),
}
# Either the simulated machine or the host: nothing of one may lean on the other.
APART = {("host", "sim"), ("image", "sim"), ("kernel", "lab"), ("linux", "lab"), ("image", "lab"), ("bench", "image"), ("bench", "sim"), ("observe", "image"), ("observe", "sim"), ("watch", "image")}


# Folders of a crate, from below: a file may import files of its own folder and of those before it.
FOLDERS = {"host": ("base", "carriers", "process", "serving", "services", "traps")}
# Files of one crate that import each other in a circle: at most so many.
CIRCLE_MAX = 3
# Raw host calls outside `host`: none, except here, where the number may only fall.
HOST_CALLS = {"sim": 1}
HOST_CALL = re.compile(r"\bm(?:achine)?\.(?:host|ask)\(|\bsyscall!\(")
# Crates that make system calls because they are about them.
MAKES_CALLS = {"linux", "host", "arch", "image", "api", "mount", "tool", "watch", "bench", "laboratory", "simulate", "cli", "tests"}
# The traits between kernel, personality and machine, and how many methods they have together at most.
SEAMS = {"Machine": "crates/kernel/src/machine.rs", "Personality": "crates/kernel/src/personality.rs", "Host": "crates/linux/src/machine.rs"}
SEAM_METHODS_MAX = 29
ARCHITECTURE_WORDS_MAX = 2500


def product_text(file):
    """A file without its unit tests and comments."""
    text = re.split(r"^#\[cfg\(.*\btest\b.*\)\]$", file.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    return re.sub(r"//.*", "", text)


def imports(source):
    """For each module of a crate the modules of it that its file names, by `crate::` and `super::`."""
    files = {}
    for file in sorted(source.rglob("*.rs")):
        parts = list(file.relative_to(source).with_suffix("").parts)
        if parts[-1] in ("mod", "lib", "main"):
            parts.pop()
        files[tuple(parts)] = product_text(file)
    arrows = {module: set() for module in files}

    def add(module, path):
        while path and path not in files:
            path = path[:-1]
        if path and path != module:
            arrows[module].add(path)

    for module, text in files.items():
        for start, supers, names in re.findall(r"\b(crate|super)((?:::super)*)::((?:[a-z_]\w*::)*(?:\{[^}]*\}|\w+))", text):
            base = () if start == "crate" else module[: len(module) - 1 - supers.count("super")]
            head, _, group = names.partition("{")
            path = base + tuple(name for name in head.split("::") if name)
            for name in group.rstrip("}").split(",") if group else [""]:
                add(module, path + tuple(part for part in name.strip().split("::") if re.fullmatch(r"[a-z_]\w*", part)))
    return arrows


def largest_circle(arrows):
    """The largest set of modules each of which reaches all others (Kosaraju)."""
    order, seen = [], set()

    def visit(node, edges, out):
        stack = [(node, iter(sorted(edges[node])))]
        seen.add(node)
        while stack:
            top, rest = stack[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    stack.append((other, iter(sorted(edges[other]))))
                    break
            else:
                stack.pop()
                out.append(top)

    for node in sorted(arrows):
        if node not in seen:
            visit(node, arrows, order)
    back = {node: {other for other in arrows if node in arrows[other]} for node in arrows}
    seen = set()
    circles = []
    for node in reversed(order):
        if node not in seen:
            circles.append([])
            visit(node, back, circles[-1])
    return max(circles, key=len, default=[])


def check_inside(name, folder):
    """What a crate's own files may not do to each other, and to the host."""
    arrows = imports(folder / "src")
    circle = largest_circle(arrows)
    if len(circle) > CIRCLE_MAX:
        files = ", ".join("::".join(module) for module in sorted(circle))
        yield f"{name}: {len(circle)} files import each other in a circle, {CIRCLE_MAX} may: {files}"
    folders = FOLDERS.get(name, ())
    for module, others in arrows.items() if folders else ():
        for other in others:
            if module and folders.index(other[0]) > folders.index(module[0]):
                yield f"{name}: {'::'.join(module)} imports {'::'.join(other)}, which is above it"
    if name not in MAKES_CALLS:
        calls = sum(len(HOST_CALL.findall(product_text(file))) for file in (folder / "src").rglob("*.rs"))
        if calls > HOST_CALLS.get(name, 0):
            yield f"{name}: {calls} raw host calls, {HOST_CALLS.get(name, 0)} may be"


def seam_methods(root):
    """The methods of the traits of SEAMS."""
    for name, file in SEAMS.items():
        body = re.search(rf"^pub trait {name}\b.*?^}}$", product_text(root / file), re.MULTILINE | re.DOTALL)
        yield from re.findall(r"\bfn (\w+)", body[0])


def main():
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version", "1"], check=True, capture_output=True, text=True
        ).stdout
    )
    # The folder names the crate.
    crates = {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in metadata["packages"]}
    faults = []
    pure = 0
    for package in metadata["packages"]:
        name = crates[package["name"]].name
        if name not in CRATES:
            faults.append(f"{name}: not in the table of {sys.argv[0]}")
            continue
        layer, is_pure = CRATES[name]
        faults.extend(check_inside(name, crates[package["name"]]))
        for dependency in package["dependencies"]:
            # Tests may look at anything.
            if dependency["name"] not in crates or dependency["kind"] == "dev":
                continue
            other = crates[dependency["name"]].name
            if other in CRATES and CRATES[other][0] >= layer:
                faults.append(f"{name} uses {other}: that arrow points up or sideways")
            if (name, other) in APART:
                faults.append(f"{name} uses {other}: these two stand apart")
        if is_pure:
            pure += 1
            text = (crates[package["name"]] / "src/lib.rs").read_text()
            for attribute in ("#![no_std]", "#![forbid(unsafe_code)]"):
                if not re.search("^" + re.escape(attribute), text, re.MULTILINE):
                    faults.append(f"{name}: src/lib.rs lacks {attribute}")
            # What must ask the processor or the host is tested where unsafe code is at home.
            beside = [file for folder in ("tests", "benches") for file in sorted((crates[package["name"]] / folder).rglob("*.rs"))]
            for file in beside:
                if re.search(r"^[^/\n]*\bunsafe\b", file.read_text(), re.MULTILINE):
                    faults.append(f"{name}: {file.relative_to(crates[package['name']])} has unsafe code")
    root = pathlib.Path(metadata["workspace_root"])
    methods = list(seam_methods(root))
    if len(methods) > SEAM_METHODS_MAX:
        faults.append(f"{', '.join(SEAMS)} have {len(methods)} methods, {SEAM_METHODS_MAX} may be")
    words = len((root / "ARCHITECTURE.md").read_text().split())
    if words > ARCHITECTURE_WORDS_MAX:
        faults.append(f"ARCHITECTURE.md has {words} words, {ARCHITECTURE_WORDS_MAX} may be")
    for fault in faults:
        print("FAILED ", fault)
    print(f"{len(crates)} crates, {pure} of them pure, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

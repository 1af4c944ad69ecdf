#!/usr/bin/env python3
"""Checks the house: arrows between crates point down only, and the rooms that the design marks P have no unsafe
code, in their tests neither, and no standard library. The table is the design's (ARCHITECTURE.md); a crate that is not in it is an error."""

import json
import pathlib
import re
import subprocess
import sys

# Room: (floor, pure). A room may use rooms of lower floors only.
ROOMS = {
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
    "perfetto": (3, False),
    "lab": (4, True),
    "kernel": (5, True),
    "sim": (6, False),
    "arch": (6, False),
    "host": (7, False),
    "image": (8, False),
    "api": (8, False),
    "mount": (8, False),
    "tool": (8, False),
    "watch": (9, False),
    "bench": (10, False),
    "laboratory": (11, False),
    "simulate": (11, False),
    "cli": (12, False),
    "tests": (13, False),
    "fuzz": (13, False),
}
# Either the simulated machine or the host: nothing of one may lean on the other.
APART = {("host", "sim"), ("image", "sim"), ("kernel", "lab"), ("image", "lab"), ("bench", "image"), ("bench", "sim"), ("watch", "image")}


def main():
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version", "1"], check=True, capture_output=True, text=True
        ).stdout
    )
    # The folder names the room.
    rooms = {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in metadata["packages"]}
    faults = []
    pure = 0
    for package in metadata["packages"]:
        name = rooms[package["name"]].name
        if name not in ROOMS:
            faults.append(f"{name}: not in the table of {sys.argv[0]}")
            continue
        floor, is_pure = ROOMS[name]
        for dependency in package["dependencies"]:
            # Tests may look at anything.
            if dependency["name"] not in rooms or dependency["kind"] == "dev":
                continue
            other = rooms[dependency["name"]].name
            if other in ROOMS and ROOMS[other][0] >= floor:
                faults.append(f"{name} uses {other}: that arrow points up or sideways")
            if (name, other) in APART:
                faults.append(f"{name} uses {other}: these two stand apart")
        if is_pure:
            pure += 1
            text = (rooms[package["name"]] / "src/lib.rs").read_text()
            for attribute in ("#![no_std]", "#![forbid(unsafe_code)]"):
                if not re.search("^" + re.escape(attribute), text, re.MULTILINE):
                    faults.append(f"{name}: src/lib.rs lacks {attribute}")
            # What must ask the processor or the host is tested where unsafe code is at home.
            beside = [file for folder in ("tests", "benches") for file in sorted((rooms[package["name"]] / folder).rglob("*.rs"))]
            for file in beside:
                if re.search(r"^[^/\n]*\bunsafe\b", file.read_text(), re.MULTILINE):
                    faults.append(f"{name}: {file.relative_to(rooms[package['name']])} has unsafe code")
    for fault in faults:
        print("FAILED ", fault)
    print(f"{len(rooms)} crates, {pure} of them pure, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""What sctbench/run and period/run have in common: build programs with known bugs, run `entresol chaos` on each, and print a table.

    entresol chaos --runs N --time S --seed 1 -- PROGRAM ARGS

is run on each program. Then it runs natively for as long as that took (at least a second), on all CPUs, and the runs that fail in the
same sense are counted; one that takes more than two seconds counts as failed. With --repeat, what was found is then repeated ten times
(`--replay`) and reduced (`--bisect`). The table is Markdown, on standard output. Ends with 0 if all programs could be judged.

A run that does not end in time ends the search, but has found nothing.
"""

import argparse
import json
import os
import pathlib
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Callable, NamedTuple

FLAGS = ["-g", "-O1", "-pthread", "-w", "-fcommon"]
CXX_FLAGS = [*FLAGS, "-fpermissive", "-std=gnu++11"]
NATIVE_SECONDS = 2.0
REPLAYS = 10


class CannotJudge(Exception):
    pass


class Program(NamedTuple):
    suite: str
    name: str
    # Builds it in this folder; the command that runs it there.
    build: Callable
    # For --fail-if: what finds the bug if the exit status does not tell. Called with the command and the folder.
    judge: Callable = lambda command, folder: None

    def label(self):
        return f"{self.suite}/{self.name}"


def do(*command, cwd, env=None):
    """A step of a build."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError:
        raise CannotJudge(f"{words[0]} is missing") from None
    if done.returncode != 0:
        raise CannotJudge(f"`{shlex.join(words)[:80]}` ended with {done.returncode}: {done.stdout.decode(errors='replace').strip()[-300:]}")
    return done.stdout


def edit(path, *changes):
    """Changes a copy; each change must apply."""
    text = path.read_text(errors="surrogateescape")
    for old, new in changes:
        if old not in text:
            raise CannotJudge(f"{path.name} is not as expected: it has no {old!r}")
        text = text.replace(old, new)
    path.write_text(text, errors="surrogateescape")


def unpack(archive, folder):
    if not archive.exists():
        raise CannotJudge(f"the checkout has no {archive.name}")
    with tarfile.open(archive) as sources:
        sources.extractall(folder)


# What both collections have taken from SPLASH-2 and RADBench.


def splash2(sources, macros, undefined, name, folder):
    """Builds a program that is written with these macros of m4."""
    for kind, ending in (".H", ".h"), (".C", ".c"):
        for source in sorted(sources.glob("*" + kind)):
            text = do("m4", *undefined, macros, source, cwd=folder)
            (folder / (source.stem + ending)).write_bytes(text)
    if name == "fft":
        # It rounds addresses, which no longer are 32 bits wide.
        edit(folder / "fft.c", ("(unsigned)", "(unsigned long)"))
    do("gcc", "-std=gnu89", *FLAGS, "-o", name, *sorted(folder.glob("*.c")), "-lm", cwd=folder)


SPLASH2_ARGUMENTS = {"barnes": [], "fft": ["-p2", "-m2", "-n4", "-l4"], "lu": ["-p2", "-n2", "-b1"]}


def nspr(archive, folder):
    """Builds Mozilla's portable runtime there; the folder with its headers and libraries."""
    unpack(archive, folder)
    target = folder / archive.name.removesuffix(".tar.gz") / "target"
    target.mkdir(exist_ok=True)
    env = {**os.environ, "CFLAGS": shlex.join(["-std=gnu89", *FLAGS])}
    do("../mozilla/nsprpub/configure", "--enable-64bit", "--enable-debug", cwd=target, env=env)
    do("make", cwd=target, env=env)
    return target / "dist"


def nspr_flags(dist):
    return ["-DXP_UNIX", f"-I{dist}/include/nspr", f"-L{dist}/lib", f"-Wl,-rpath,{dist}/lib"]


def spidermonkey(archive, dist, folder):
    """Builds Mozilla's JavaScript engine for threads there; what a program that uses it is compiled with."""
    unpack(archive, folder)
    flags = shlex.join(["-std=gnu89", *FLAGS, f"-I{dist}/include/nspr"])
    env = {**os.environ, "JS_THREADSAFE": "1", "XCFLAGS": flags, "XLDFLAGS": f"-L{dist}/lib -lnspr4"}
    do("make", "-f", "Makefile.ref", cwd=folder / "js/src", env=env)
    js = folder / "js/src/Linux_All_DBG.OBJ"
    flags = [f"-I{folder}/js/src", f"-I{js}", f"-I{dist}/include/nspr", f"-L{js}", f"-L{dist}/lib"]
    return [*flags, f"-Wl,-rpath,{js}:{dist}/lib", "-ljs", "-lnspr4"]


def radbench_bug2(sources, folder, *changes):
    dist = nspr(sources / "nspr-4.6.7.tar.gz", folder)
    flags = spidermonkey(sources / "js-1.7.0.tar.gz", dist, folder)
    shutil.copy(sources / "test-ctxt.cpp", folder)
    edit(folder / "test-ctxt.cpp", *changes)
    do("g++", "-o", "test-ctxt", "test-ctxt.cpp", *CXX_FLAGS, *flags, cwd=folder)
    return ["./test-ctxt"]


def radbench_bug6(sources, folder):
    dist = nspr(sources / "nspr-4.8.tar.gz", folder)
    do("gcc", "-o", "test-rw", sources / "rwlock-test.c", *FLAGS, *nspr_flags(dist), "-lnspr4", cwd=folder)
    return ["./test-rw"]


# Running and judging.


def natively(command, folder):
    """Whether it failed: the status, or `None` if it took too long."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(NATIVE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def fails_natively(command, folder, fail_if):
    status = natively(command, folder)
    if fail_if and status is not None and status >= 0:
        return subprocess.run(fail_if, shell=True, cwd=folder, stdin=subprocess.DEVNULL).returncode == 0
    return status != 0


def entresol_chaos(options, folder, words, seconds):
    """Its status and output."""
    line = [str(word) for word in [options.entresol, "chaos", *words]]
    try:
        done = subprocess.run(
            line, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise CannotJudge(f"entresol chaos {words[0]} did not end") from None
    return done.returncode, done.stdout.decode(errors="replace").strip()


def chaos(command, folder, fail_if, options):
    """What `entresol chaos` found, and why it found nothing if it could not run."""
    words = ["--runs", options.runs, "--time", options.seconds, "--seed", options.seed, "--json", "chaos.report"]
    if options.strategy:
        words += ["--strategy", options.strategy]
    if options.places is not None:
        words += ["--places", options.places]
    if fail_if:
        words += ["--fail-if", fail_if]
    status, said = entresol_chaos(options, folder, [*words, "--", *command], options.seconds + 120)
    if status not in (0, 1):
        raise CannotJudge(f"entresol chaos ended with {status}: {said[-300:]}")
    return json.loads((folder / "chaos.report").read_text())


def repeat(options, folder):
    """How many of the replays failed again, and how many switches are left when the schedule is reduced."""
    statuses = [entresol_chaos(options, folder, ["--replay", "chaos.json"], 120)[0] for _ in range(REPLAYS)]
    entresol_chaos(options, folder, ["--bisect", "chaos.json", "--output", "reduced.json"], 900)
    reduced = folder / "reduced.json"
    switches = len(json.loads(reduced.read_text())["switches"]) if reduced.exists() else None
    return {"again": statuses.count(1), "switches": switches}


def measure(program, options, scratch):
    folder = scratch / f"{program.suite}-{program.name}"
    folder.mkdir()
    command = program.build(folder)
    fail_if = program.judge(command, folder)
    found = chaos(command, folder, fail_if, options)
    until = time.monotonic() + max(1.0, found["seconds"])
    runs = failed = 0
    while time.monotonic() < until:
        runs += 1
        failed += fails_natively(command, folder, fail_if)
    repeated = repeat(options, folder) if options.repeat and is_found(found) else {}
    return {**found, "native_runs": runs, "native_failed": failed, **repeated}


COLUMNS = ["program", "found?", "schedules", "how it ended", "schedules a second", "native runs that failed in that time"]
REPEATED = [f"of {REPLAYS} replays failed again", "switches when reduced"]


def row(program, found):
    end = found["failure"]["says"] if found["failure"] else f"{found['schedules']:,} different schedules passed"
    cells = [program.label()]
    cells += ["yes", f"{found['runs']:,}"] if is_found(found) else ["**no**", f"none in {found['runs']:,}"]
    # A report takes longer than a few runs.
    rate = f"{found['runs'] / found['seconds']:,.0f}" if found["runs"] >= 50 else ""
    cells += [end.split(":")[0], rate, f"{found['native_failed']:,} of {found['native_runs']:,}"]
    cells += [str(found[key]) for key in ("again", "switches") if key in found]
    return line(cells)


def line(cells):
    return "| " + " | ".join(cells) + " |"


def is_found(found):
    return found["failure"] is not None and found["failure"]["end"] != "hang"


def main(about, collection, landmark, list_programs):
    """`landmark`: a path that each checkout of the collection has. `list_programs` is called with the checkout."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("entresol", type=pathlib.Path, help="the command")
    parser.add_argument("checkout", type=pathlib.Path, help=f"the folder with {collection}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs, as `name`, `suite/name` or `suite` (default: all)")
    parser.add_argument("--runs", type=int, default=10_000, help="schedules of each program at most (default 10000)")
    parser.add_argument("--seconds", type=int, default=60, help="seconds for each program at most (default 60)")
    parser.add_argument("--strategy", help="as for `entresol chaos`")
    parser.add_argument("--places", type=int, help="as for `entresol chaos`")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--repeat", action="store_true", help=f"repeat what was found {REPLAYS} times, and reduce it")
    parser.add_argument("--keep", type=pathlib.Path, help="build in this folder, and leave all there, schedules too")
    options = parser.parse_intermixed_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for path in options.entresol, options.checkout / landmark:
        if not path.exists():
            sys.exit(f"there is no {path}")
    options.entresol, options.checkout = options.entresol.resolve(), options.checkout.resolve()
    programs = list_programs(options.checkout)
    names = {name for p in programs for name in (p.suite, p.name, p.label())}
    unknown = set(options.names) - names
    if unknown:
        sys.exit(f"{collection} has no {', '.join(sorted(unknown))}; it has {', '.join(p.label() for p in programs)}")
    chosen = [p for p in programs if not options.names or {p.suite, p.name, p.label()} & set(options.names)]
    rows, missing = [], []
    with tempfile.TemporaryDirectory(prefix="entresol-benchmarks-") as temporary:
        scratch = pathlib.Path(options.keep or temporary).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        for program in chosen:
            try:
                found = measure(program, options, scratch)
            except (CannotJudge, OSError) as why:
                missing.append((program, why))
                print(f"{program.label()}: {why}", file=sys.stderr, flush=True)
                continue
            rows.append((program, found))
            print(row(program, found), file=sys.stderr, flush=True)
    columns = COLUMNS + (REPEATED if options.repeat else [])
    print(line(columns))
    print("|---" * len(columns) + "|")
    for program, found in rows:
        print(row(program, found))
    print(f"\n{sum(is_found(found) for _, found in rows)} of {len(rows)} found.")
    for program, why in missing:
        print(f"Not judged: {program.label()}: {why}")
    return int(bool(missing))

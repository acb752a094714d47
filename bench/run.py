"""Runs every workload with every program side by side, and writes bench/results.md.

    run.py [--writes] [--reps N] [--only TEXT] [--programs a,b,...] [--no-build] [--out FILE]

With --writes the workloads are those that write, and the file is bench/results-write.md.

The programs take turns (so that a busy minute hurts all of them), each run in a fresh process, everything in
the page cache after a first run that is not counted. Per cell: best CPU seconds of the work, best wall
seconds, largest peak memory. All programs must agree on the check sum of what they read; what one wrote in its
first run is read back by another. A program that is
not here, or cannot read a data set, is left out of that row with a note. See README.md for the rest.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gen
import peers

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
BUILT = REPO / "target" / "bench" / "release"
RUST = {"limit": ("limit", "limit"), "zaro": ("zaro-bench", "zaro-bench"), "zarrs": ("zarrs-peer", "zarrs-peer")}
PYTHON = ["tensorstore", "tensorstore-cache", "zarr-python", "zarrs-py", "gdal"]
PROGRAMS = [*RUST, *PYTHON]
# gdal only when asked for: peers.py drives its band-wise raster interface, which decodes each chunk many times
# over. That is not GDAL's best (its multidimensional interface), and must not count as a peer that was beaten.
DEFAULT = [p for p in PROGRAMS if p != "gdal"]
WORKLOADS = [f"read:{n}" for n in (*gen.CUBES, "tiny_raw", "tiny_zstd", "tinyshard_raw", "tinyshard_zstd")]
WORKLOADS += ["win:v3_shard256_32", "win:v3_zstd_64"]
WORKLOADS += [f"plane{axis}:{n}" for n in ("v3_raw_64", "v3_zstd_64", "v3_shard256_32", "v3_shardraw256_32") for axis in (0, 1, 2)]
WORKLOADS += ["open:hier_v3", "open:hier_v2"]
# Workloads that write: what from, and the layout of the output, which is its name.
WRITES = {f"write:{layout}": ("field_u16.npy", layout) for layout in ("zstd_64", "shard256_32", "raw_64")}
WRITES |= {f"copy:v2_blosc_to_v3_{layout}": ("v2_blosclz4_64.zarr", layout) for layout in ("shard256_32", "shard256_64")}
WRITERS = ["limit", "zaro", "zarrs", "tensorstore", "zarr-python", "zarrs-py"]
# What zarrs itself offers for copies: `cargo install zarrs_tools --version 0.8.1 --root target/bench-tools`.
REENCODE = REPO / "target" / "bench-tools" / "bin" / "zarrs_reencode"
MEMORY = Path("/dev/shm")
SCRATCH = Path(tempfile.mkdtemp(prefix="zaro-bench-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))


def build(programs):
    """Compiles the Rust programs that are asked for; the ones that are there afterwards."""
    for name in programs:
        if name in RUST and (HERE / RUST[name][0] / "Cargo.toml").exists():
            print(f"building {name}", flush=True)
            flags = {**os.environ, "CARGO_TARGET_DIR": str(REPO / "target" / "bench"), "RUSTFLAGS": "-C target-cpu=native"}
            subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=HERE / RUST[name][0], env=flags, check=False)


def command(program, words):
    if program in RUST:
        return [str(BUILT / RUST[program][1]), *words]
    return [sys.executable, str(HERE / "peers.py"), program, *words]


def reencode(source, output):
    """The command line of zarrs_reencode for a copy into the layout that the output's name says."""
    edge, inner, _ = peers.layout(output)
    zstd = json.dumps([{"name": "zstd", "configuration": {"level": peers.LEVEL, "checksum": False}}])
    cube = lambda n: ",".join([str(n)] * 3)  # noqa: E731
    return [str(REENCODE), "--shard-shape", cube(edge), "--chunk-shape", cube(inner), "--bytes-to-bytes-codecs", zstd, source, output]


def words(name):
    """A workload as the programs' command line has it, and the output, if it has one."""
    workload, data = name.split(":")
    if name not in WRITES:
        return [workload, str(gen.DATA / f"{data}.zarr")], None
    source, layout = WRITES[name]
    output = str(SCRATCH / f"{layout}.zarr")
    return [workload, str(gen.DATA / source), output], output


def present(program):
    if program in RUST:
        return (BUILT / RUST[program][1]).exists()
    module = {"tensorstore-cache": "tensorstore", "zarr-python": "zarr", "zarrs-py": "zarrs", "gdal": "rasterio"}.get(program, program)
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def measured_outside(line):
    """The figures of a program that does not know our command line. Its start is in them, and its memory is at least ours."""
    if not Path(line[0]).exists():
        return None, f"{Path(line[0]).name} is not here; see README.md"
    started = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return None, (errors.strip().splitlines() or [f"exit {process.returncode}"])[-1][:160]
    wall = time.perf_counter() - started
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss * 1024, "check": 0}, None


def measured_inside(line):
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None, "more than 300 s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return None, lines[-1][:160]
    return json.loads(done.stdout.splitlines()[-1]), None


def read_back(program, output):
    """The check sum of what a program wrote, as another one reads it."""
    reader = next(p for p in ("zarrs", "tensorstore") if p != program and present(p))
    got, why = measured_inside(command(reader, ["read", output]))
    return (got["check"], None) if got else (None, f"{reader} cannot read what it wrote: {why}")


def run_once(program, name, first):
    """One run's numbers, or the reason there are none."""
    line, output = words(name)
    if output is None:
        return measured_inside(command(program, line))
    shutil.rmtree(output, ignore_errors=True)
    if program == "zarrs" and line[0] == "copy":
        got, why = measured_outside(reencode(*line[1:]))
    else:
        got, why = measured_inside(command(program, line))
    if got and first:
        got["check"], why = read_back(program, output)
    return (None, why) if why else (got, None)


def measure(name, programs, reps, notes):
    """program -> best figures, for one workload; and whether they agree on what they read."""
    workload, best, checks = name.split(":")[0], {}, {}
    if workload in ("read", "open"):
        # A cache helps only those who come back.
        programs = [p for p in programs if p != "tensorstore-cache"]
    if name in WRITES:
        checks[peers.check_sum(gen.u16())] = {"the input"}
    for rep in range(reps + 1):
        for program in list(programs if rep == 0 else best):
            got, why = run_once(program, name, rep == 0)
            if why:
                notes.append(f"{name}: {program}: {why}")
                best.pop(program, None)
                continue
            if rep == 0 or name not in WRITES:
                checks.setdefault(got["check"], set()).add(program)
            old = best.get(program)
            if rep == 0:
                best[program] = None  # the first run only fills the page cache
            elif old is None:
                best[program] = got
            else:
                best[program] = {"cpu": min(old["cpu"], got["cpu"]), "wall": min(old["wall"], got["wall"]), "rss": max(old["rss"], got["rss"])}
    agree = len(checks) <= 1
    if not agree:
        notes.append(f"{name}: PROGRAMS DISAGREE: " + "; ".join(f"{c}: {', '.join(sorted(p))}" for c, p in checks.items()))
    return {p: b for p, b in best.items() if b}, agree


def ratio(a, b):
    return f"{a / b:.2f}" if b else "-"


def row(name, best, programs, figure):
    """One line of a table: each program's figure with its ratio to the limit, then zaro against limit and best peer."""
    cells, floor = [name], best.get("limit", {}).get(figure)
    for p in programs:
        b = best.get(p)
        if not b:
            cells.append("-")
        else:
            times = f" ({b[figure] / floor:.1f}x)" if floor and p != "limit" else ""
            cells.append(f"{b[figure]:.3f}{times} {b['rss'] / 2**20:.0f}M")
    peers = [b[figure] for p, b in best.items() if p not in ("limit", "zaro")]
    zaro = best.get("zaro", {}).get(figure)
    cells.append(ratio(zaro, floor) if zaro else "-")
    cells.append(ratio(zaro, min(peers)) if zaro and peers else "-")
    return "| " + " | ".join(cells) + " |"


def table(results, programs, figure):
    head = ["workload", *programs, "zaro / limit", "zaro / best peer"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + [row(name, best, programs, figure) for name, best in results.items()])


def report(results, programs, reps, notes):
    cores = os.cpu_count()
    text = [f"# Results, {datetime.date.today()}", "",
            *([f"Written to {'a memory file system' if SCRATCH.is_relative_to(MEMORY) else 'a disk'}, zstd at level {peers.LEVEL}; zarrs copies with its `zarrs_reencode`, "
               "whose start is in its times. Memory includes the 512 MiB input of a write; of a copy, zaro may take 256 MiB.", ""] if set(results) <= set(WRITES) else []),
            f"{cores} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}; best of {reps}, programs taking turns, everything in the page cache.",
            "Cells: seconds, ratio to the limit program, peak memory. Written by `bench/run.py`; see README.md.", "",
            "## CPU seconds (user + system)", "", table(results, programs, "cpu"), "", "## Wall seconds", "", table(results, programs, "wall")]
    if notes:
        text += ["", "## Left out, and why", "", *[f"- {n}" for n in dict.fromkeys(notes)]]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--only", default="", help="workloads whose name contains this")
    p.add_argument("--writes", action="store_true", help="workloads that write")
    p.add_argument("--programs")
    p.add_argument("--no-build", action="store_true")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    a.out = a.out or HERE / ("results-write.md" if a.writes else "results.md")
    asked = a.programs.split(",") if a.programs else (WRITERS if a.writes else DEFAULT)
    if set(asked) - set(PROGRAMS):
        sys.exit(f"the programs are {', '.join(PROGRAMS)}")
    if not a.no_build:
        build(asked)
    programs = [x for x in asked if present(x)]
    notes = [f"{x}: not here" for x in asked if x not in programs]
    names = [n for n in (WRITES if a.writes else WORKLOADS) if a.only in n]
    gen.main(["v2_blosclz4_64"] if a.writes else sorted({n.split(":")[1] for n in names}))
    results, fine = {}, True
    for name in names:
        results[name], agree = measure(name, programs, a.reps, notes)
        fine &= agree
        print(row(name, results[name], programs, "cpu"), flush=True)
        a.out.write_text(report(results, programs, a.reps, notes))
    for note in dict.fromkeys(notes):
        print("note", note)
    print(f"bench: {len(results)} workloads, programs {'agree' if fine else 'DISAGREE'}; written to {a.out}")
    return 0 if fine else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)

"""Reading from a server that takes 30 ms to answer, with every program side by side; writes bench/results-remote.md.

    remote.py [--reps N] [--only TEXT] [--programs a,b,...] [--delay MS] [--no-build] [--out FILE]

`server.py` serves the data from processes of its own, waits before each answer, and counts requests and bytes. The programs take turns, each run in a
fresh process. Per line: best CPU seconds of the client (user + system, the server's are not in it), best wall seconds, the requests and
megabytes that the server saw in the best run, the largest peak memory, and how often zaro's figure goes into it. All programs must agree on the
check sum. Who took more than 20 seconds is not asked again. See README.md for the workloads.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import gen
import numpy as np
import run
from server import Server

# The reference files name their targets by address, so it must not change.
PORT = 18_930
SERIES = "references"
STEPS, ROWS, COLUMNS, EDGE = 1000, 200, 320, 8
# title: workload, what is read, passes
WORKLOADS = {
    "1,024 zstd chunks": ("read", "v3_zstd_64.zarr", 1),
    "16 shards of 512 chunks": ("read", "v3_shard256_32.zarr", 1),
    "1,000 windows in a shard": ("twice", "v3_shard256_32.zarr", 2),
    "time series, JSON references": ("series", f"{SERIES}/refs.json", 1),
    "time series, Parquet references": ("series", f"{SERIES}/refs.parq", 1),
}
# Who takes part in what; a cache helps only those who come back.
PROGRAMS = {
    "zaro": ("read", "twice", "series"),
    "tensorstore": ("read", "twice"),
    "tensorstore-cache": ("twice",),
    "zarrs": ("read", "twice"),
    "zarrs-cache": ("twice",),
    "zarr-python": ("read", "twice", "series"),
}
NO_REFERENCES = "time series: tensorstore and zarrs read no references"


def command(program, workload, url):
    if program == "zarrs-cache":
        return [*run.command("zarrs", [workload, url]), "cache"]
    return run.command(program, [workload, url])


def references(folder, base):
    """A million references: an array of float32 in 1,000 files, one time step each, of 1,000 chunks in zlib; as JSON and Parquet."""
    if (folder / "refs.parq").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    meta = {"zarr_format": 2, "shape": [STEPS, ROWS, COLUMNS], "chunks": [1, EDGE, EDGE], "dtype": "<f4", "compressor": {"id": "zlib", "level": 1},
            "filters": None, "fill_value": None, "order": "C"}  # fmt: skip
    y, x = np.mgrid[0:ROWS, 0:COLUMNS].astype(np.float32)
    with open(folder / "refs.json", "w") as out:
        head = {".zgroup": json.dumps({"zarr_format": 2}), "v/.zarray": json.dumps(meta), "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["t", "y", "x"]})}
        out.write('{"version":1,"refs":' + json.dumps(head)[:-1])
        for t in range(STEPS):
            field = np.rint(2000 + 900 * np.sin(x / 31 + t / 50) * np.cos(y / 17 - t / 90)).astype("<f4") / np.float32(8)
            cells = np.ascontiguousarray(field.reshape(ROWS // EDGE, EDGE, COLUMNS // EDGE, EDGE).swapaxes(1, 2))
            at = 0
            with open(folder / f"step-{t:04}.nc", "wb") as file:
                for i in range(ROWS // EDGE):
                    for j in range(COLUMNS // EDGE):
                        packed = zlib.compress(cells[i, j].tobytes(), 1)
                        file.write(packed)
                        out.write(f',"v/{t}.{i}.{j}":["{base}/{SERIES}/step-{t:04}.nc",{at},{len(packed)}]')
                        at += len(packed)
        out.write("}}")
    from kerchunk.df import refs_to_dataframe

    refs_to_dataframe(str(folder / "refs.json"), str(folder / "part.parq"))
    (folder / "part.parq").rename(folder / "refs.parq")


def figures(line, passes, server):
    """One run: the figures of each pass, with what the server saw; or the reason there are none."""
    server.take()
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    got = []
    for _ in range(passes):
        said = process.stdout.readline()
        if said:
            got.append({**json.loads(said), **dict(zip(("requests", "bytes"), server.take()))})
        if len(got) < passes:
            try:
                process.stdin.write("\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass
    _, errors = process.communicate()
    if process.returncode or len(got) < passes:
        return None, (errors.strip().splitlines() or [f"exit {process.returncode}"])[-1][:160]
    return got, None


def better(old, new):
    if old is None:
        return new
    first = min(old, new, key=lambda f: f["wall"])
    return {**first, "cpu": min(old["cpu"], new["cpu"]), "rss": max(old["rss"], new["rss"])}


def measure(title, programs, server, reps, notes):
    """program -> the best figures of each pass; whether they agree on what they read; and how busy the server was."""
    workload, path, passes = WORKLOADS[title]
    best, checks, slow, busy = {}, {}, set(), 0.0
    programs = [p for p in programs if workload in PROGRAMS[p]]
    for rep in range(reps):
        for program in programs if rep == 0 else [p for p in programs if p in best and p not in slow]:
            before = server.cpu()
            got, why = figures(command(program, workload, f"{server.base}/{path}"), passes, server)
            if why:
                notes.append(f"{title}: {program}: {why}")
                best.pop(program, None)
                continue
            for figure in got:
                checks.setdefault(figure["check"], set()).add(program)
            wall = sum(f["wall"] for f in got)
            busy = max(busy, *((b - a) / wall for a, b in zip(before, server.cpu())))
            if wall > 20:
                slow.add(program)
            best[program] = [better(o, n) for o, n in zip(best.get(program, [None] * passes), got)]
            print(f"{title}: {program}: " + "; ".join(f"{f['cpu']:.3f} s CPU, {f['wall']:.3f} s, {f['requests']} requests, {f['bytes'] / 1e6:.1f} MB" for f in got), flush=True)
    agree = len(checks) <= 1
    if not agree:
        notes.append(f"{title}: PROGRAMS DISAGREE: " + "; ".join(f"{c}: {', '.join(sorted(p))}" for c, p in checks.items()))
    return best, agree, busy


def rows(title, best, programs):
    workload, _, passes = WORKLOADS[title]
    for k in range(passes):
        name = f"{title}, pass {k + 1}" if passes > 1 else title
        zaro = best.get("zaro", [{}] * passes)[k]
        for program in programs:
            if program not in best:
                if not program.endswith("-cache"):
                    yield f"| {name} | {program} |" + " - |" * 7
                continue
            f = best[program][k]
            times = lambda key: run.ratio(f[key], zaro.get(key)) if program != "zaro" else "1"  # noqa: E731
            yield (f"| {name} | {program} | {f['cpu']:.3f} | {times('cpu')} | {f['wall']:.3f} | {times('wall')} | {f['requests']} | "
                   f"{f['bytes'] / 1e6:.1f} | {f['rss'] / 2**20:.0f} |")  # fmt: skip


def report(results, programs, a, notes, busy):
    head = ["workload", "program", "CPU s", "/ zaro", "wall s", "/ zaro", "requests", "MB sent", "peak MiB"]
    text = [f"# Results over HTTP, {datetime.date.today()}", "",
            f"A server that takes {a.delay:g} ms to answer, on the same {os.cpu_count()} cores; {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}; "
            f"best of {a.reps}, programs taking turns. The busiest process of the server was at work for at most {busy:.0%} of a program's wall time.",
            "CPU is that of the client alone; `/ zaro` is how many times zaro's figure a program needs. Written by `bench/remote.py`; see README.md.", "",
            "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]  # fmt: skip
    for title, best in results.items():
        text += rows(title, best, programs)
    if notes:
        text += ["", "## Left out, and why", "", *[f"- {n}" for n in dict.fromkeys(notes)]]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--only", default="", help="workloads whose title contains this")
    p.add_argument("--programs", default=",".join(PROGRAMS))
    p.add_argument("--delay", type=float, default=30, help="milliseconds before each answer")
    p.add_argument("--no-build", action="store_true")
    p.add_argument("--serve", action="store_true", help="only serve the data, for a look by hand")
    p.add_argument("--out", type=Path, default=run.HERE / "results-remote.md")
    a = p.parse_args()
    asked = a.programs.split(",")
    if set(asked) - set(PROGRAMS):
        sys.exit(f"the programs are {', '.join(PROGRAMS)}")
    if not a.no_build:
        run.build(dict.fromkeys(x.removesuffix("-cache") for x in asked))
    programs = [x for x in asked if run.present("zarrs" if x == "zarrs-cache" else x)]
    notes = [f"{x}: not here" for x in asked if x not in programs]
    titles = [t for t in WORKLOADS if a.only in t]
    wanted = {WORKLOADS[t][1] for t in titles}
    gen.main(sorted(w.removesuffix(".zarr") for w in wanted if w.endswith(".zarr")) or ["v3_shard256_32"])
    server = Server(gen.DATA, PORT, a.delay / 1000)
    try:
        if any(w.startswith(SERIES) for w in wanted):
            references(gen.DATA / SERIES, server.base)
            notes.append(NO_REFERENCES)
        if a.serve:
            print(f"serving {server.base}")
            server.children[0].join()
        results, fine, busy = {}, True, 0.0
        for title in titles:
            results[title], agree, load = measure(title, programs, server, a.reps, notes)
            fine, busy = fine and agree, max(busy, load)
            a.out.write_text(report(results, programs, a, notes, busy))
    finally:
        server.close()
    for note in dict.fromkeys(notes):
        print("note", note)
    print(f"bench: {len(results)} workloads, programs {'agree' if fine else 'DISAGREE'}; written to {a.out}")
    return 0 if fine else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        shutil.rmtree(run.SCRATCH, ignore_errors=True)

"""Shared by every conformance script: find and run `zaro`, compare what it printed.

Standard library only, so that the one-rule runner needs nothing but Python.
"""

import argparse
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PANIC = 101


def find_zaro(given=None):
    """The binary under test: --zaro, $ZARO, or the release build of this repository."""
    path = given or os.environ.get("ZARO") or REPO / "target" / "release" / "zaro"
    if not os.access(path, os.X_OK):
        sys.exit(f"no zaro at {path}: run `cargo build --release -p zaro-cli`, or pass --zaro / set $ZARO")
    return str(path)


def parser(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zaro", help="the binary to test (default: $ZARO, else target/release/zaro)")
    p.add_argument("-v", "--verbose", action="store_true", help="one line per case")
    return p


def try_cases(doc, check, what):
    """Runs `check(zaro, seed, folder)` for many seeds, each in a folder of its own, tells what it says is wrong, and ends."""
    p = parser(doc)
    p.add_argument("--cases", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    zaro = find_zaro(args.zaro)
    failed = 0
    for case in range(args.cases):
        seed = args.seed * 1_000_000 + case
        with tempfile.TemporaryDirectory() as folder:
            fault = check(zaro, seed, Path(folder))
        if fault:
            failed += 1
            print(f"FAILED case {case} (seed {seed}): {fault}")
        elif args.verbose:
            print(f"ok case {case}")
    print(f"{args.cases - failed} of {args.cases} {what}")
    sys.exit(bool(failed))


class Result:
    """How one run of zaro ended."""

    def __init__(self, code, out, err, seconds, rss, timed_out):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.rss, self.timed_out = seconds, rss, timed_out

    @property
    def message(self):
        return self.err.decode("utf-8", "replace").strip()

    @property
    def crash(self):
        """Why this end is never acceptable, or None."""
        if self.timed_out:
            return "timed out"
        if self.code < 0:
            return f"killed by signal {-self.code}"
        if self.code == PANIC:
            return "panicked (exit 101)"
        return None


def run(argv, timeout=60, stdin=subprocess.DEVNULL):
    """Runs a command; unlike subprocess.run it also reports the peak memory of that very child."""
    started = time.monotonic()
    child = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pieces, expired = {}, threading.Event()

    def drain(name, pipe):
        pieces[name] = pipe.read()

    def expire():
        expired.set()
        child.kill()

    readers = [threading.Thread(target=drain, args=x) for x in (("out", child.stdout), ("err", child.stderr))]
    timer = threading.Timer(timeout, expire)
    for t in [*readers, timer]:
        t.start()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    timer.cancel()
    for t in readers:
        t.join()
    child.stdout.close()
    child.stderr.close()
    return Result(child.returncode, pieces["out"], pieces["err"], time.monotonic() - started,
                  usage.ru_maxrss * 1024, expired.is_set())


def same(got, want, rel=0.0):
    """Equality of JSON values that keeps apart what Python's == mixes (True and 1)."""
    if isinstance(want, (list, tuple)):
        return isinstance(got, list) and len(got) == len(want) and all(same(g, w, rel) for g, w in zip(got, want))
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[k], want[k], rel) for k in want)
    if isinstance(want, bool) or isinstance(got, bool) or want is None or got is None:
        return got is want
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        if isinstance(want, float) and want == 0 == got and isinstance(got, float):
            return math.copysign(1, want) == math.copysign(1, got)
        return got == want or (rel and math.isclose(got, want, rel_tol=rel, abs_tol=rel))
    return type(got) is type(want) and got == want


def flatten(value):
    if isinstance(value, list):
        return [x for item in value for x in flatten(item)]
    return [value]


BIT_FORMATS = {"bits16": "H", "bits32": "I", "bits64": "Q"}


def output_format(how):
    """Bit patterns do not survive JSON (a NaN's payload), so those cases are read as raw bytes."""
    return "raw" if how in BIT_FORMATS or how == "raw" else "json"


def check_value(how, want, out):
    """None when the output `out` is the value `want`, else what is wrong."""
    if how == "raw":
        return None if out == bytes.fromhex(want) else f"got bytes {out.hex()}, want {want}"
    if how in BIT_FORMATS:
        letter = BIT_FORMATS[how]
        if len(out) % struct.calcsize(letter):
            return f"{len(out)} raw bytes are no whole number of elements"
        got = list(struct.unpack(f"<{len(out) // struct.calcsize(letter)}{letter}", out))
        want = flatten(want)
        return None if got == want else f"got bits {[hex(x) for x in got]}, want {[hex(x) for x in want]}"
    try:
        got = json.loads(out)
    except ValueError as e:
        return f"output is not JSON: {e}: {out[:200]!r}"
    if how == "len":
        ok = isinstance(got, list) and len(got) == want
    elif how == "approx":
        ok = same(got, want, rel=1e-5)
    elif how in ("exact", "i8"):
        ok = same(got, want)
    else:
        return f"unknown comparison {how!r}"
    return None if ok else f"got {json.dumps(got)[:300]}, want {json.dumps(want)[:300]}"


class Tally:
    """Counts, prints failures as they come, and ends with the line other tools look for."""

    def __init__(self, title, verbose=False):
        self.title, self.verbose, self.passed, self.failed, self.skipped = title, verbose, 0, 0, 0

    def ok(self, label):
        self.passed += 1
        if self.verbose:
            print(f"ok    {label}", flush=True)

    def fail(self, label, why):
        self.failed += 1
        print(f"FAIL  {label}: {why}", flush=True)

    def skip(self, label, why):
        self.skipped += 1
        if self.verbose:
            print(f"skip  {label}: {why}", flush=True)

    def close(self):
        """Prints the closing line; the exit code of the script."""
        note = f" ({self.skipped} skipped)" if self.skipped else ""
        print(f"{self.title}: {self.passed} passed, {self.failed} failed{note}")
        return 1 if self.failed or not self.passed else 0


def md5(data):
    return hashlib.md5(data).hexdigest()


def checksum_of(files):
    """The checksum of {path: (size, etag)} by the rules of the format (docs/design/007-versions.md)."""

    def of(node):
        folders, plain, count, size = [], [], 0, 0
        for name in sorted(node):
            value = node[name]
            if isinstance(value, dict):
                inner, n, s = of(value)
                folders.append({"digest": inner, "name": name, "size": s})
            else:
                n, s = 1, value[0]
                plain.append({"digest": value[1], "name": name, "size": s})
            count, size = count + n, size + s
        text = json.dumps({"directories": folders, "files": plain}, separators=(",", ":"))
        return f"{md5(text.encode())}-{count}--{size}", count, size

    tree = {}
    for path, leaf in files.items():
        *folders, name = path.split("/")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = leaf
    return of(tree)[0]


def flat(entries, path=""):
    """The leaves of the entries of a manifest, with their whole keys."""
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from flat(value, f"{path}{name}/")
        else:
            yield path + name, value

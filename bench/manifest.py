"""Checksums and manifests: zaro beside zarr_checksum and md5sum.

    target/venv/bin/python bench/manifest.py [--zaro BIN] [--entries N] [--files N] [--reps N] [--folder DIR]

Makes a manifest of a million entries and measures what `zaro manifest show` takes to read it, `verify` to check it, in
CPU seconds and peak memory; then makes 20,000 files (1.2 GB) and measures `zaro checksum` beside zarr_checksum and
beside md5sum on all cores, which is what reading and hashing the bytes takes. Best of several runs each.
"""
import argparse, hashlib, os, random, resource, shutil, subprocess, sys, tempfile, time
from pathlib import Path

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"


def run(argv, reps, shell=False):
    """The best wall and CPU seconds, and the most memory in MB, of several runs; the output of the last."""
    best = [float("inf"), float("inf"), 0]
    for _ in range(reps):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, shell=shell)
        out = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.time() - started
        if status:
            sys.exit(f"{argv} ended with {status}")
        cpu = used.ru_utime + used.ru_stime
        best = [min(best[0], wall), min(best[1], cpu), max(best[2], used.ru_maxrss / 1024)]
    return (*best, out.decode())


def make_manifest(path, entries):
    rng = random.Random(1)
    names = sorted(str(i) for i in range(100))
    count = total = 0
    lines = []
    for a in sorted(str(i) for i in range(-(-entries // 10_000))):
        second = []
        for b in names:
            third = []
            for c in names:
                i = int(a) * 10_000 + int(b) * 100 + int(c)
                version = "".join(rng.choices(ALPHABET, k=32))
                digest = hashlib.md5(str(i).encode()).hexdigest()
                third.append(f'     "{c}": ["{version}","2022-03-16T02:39:{i % 60:02}+00:00",{i % 1000},"{digest}"]')
                count, total = count + 1, total + i % 1000
            second.append(f'    "{b}": {{\n' + ",\n".join(third) + "\n    }")
        lines.append(f'   "{a}": {{\n' + ",\n".join(second) + "\n   }")
    with open(path, "w") as out:
        out.write('{\n "schemaVersion": 2,\n "fields": ["versionId","lastModified","size","ETag"],\n "statistics": {\n')
        out.write(f'  "entries": {count},\n  "depth": 3,\n  "totalSize": {total},\n  "lastModified": "2022-03-16T02:39:59+00:00",\n')
        out.write('  "zarrChecksum": "b0a73d24038127434ace0a926c9893ee-1000000--499500000"\n },\n "entries": {\n  "0": {\n')
        out.write(",\n".join(lines) + "\n  }\n }\n}")
    return count


def make_files(folder, files):
    blob = random.Random(2).randbytes(1 << 20)
    for i in range(files):
        place = folder / str(i % 20) / str(i // 20 % 50)
        place.mkdir(parents=True, exist_ok=True)
        start = i * 37 % 900_000
        (place / str(i)).write_bytes(blob[start : start + 62_000])


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--zaro", default="target/release/zaro")
    args.add_argument("--entries", type=int, default=1_000_000)
    args.add_argument("--files", type=int, default=20_000)
    args.add_argument("--reps", type=int, default=3)
    args.add_argument("--folder", help="where to make the data (default: a temporary folder)")
    args = args.parse_args()
    folder = Path(args.folder or tempfile.mkdtemp())
    rows = []
    try:
        manifest = folder / "manifest.json"
        entries = make_manifest(manifest, args.entries)
        wall, cpu, memory, _ = run([args.zaro, "manifest", "show", manifest], args.reps)
        rows.append((f"zaro manifest show, {entries} entries, {manifest.stat().st_size >> 20} MiB", wall, cpu, memory))
        _, _, idle, _ = run([args.zaro, "--version"], 1)
        print(f"{(memory - idle) * (1 << 20) / entries:.0f} bytes of memory an entry")
        wall, cpu, memory, _ = run([args.zaro, "manifest", "tree", manifest, "--depth", "0"], args.reps)
        rows.append(("zaro manifest tree (checksum of all)", wall, cpu, memory))
        wall, cpu, memory, _ = run([args.zaro, "manifest", "show", manifest, "0/99/99/99"], args.reps)
        rows.append(("zaro manifest show, one entry", wall, cpu, memory))

        tree = folder / "files"
        make_files(tree, args.files)
        cores = os.cpu_count()
        md5sum = f"find {tree} -type f -print0 | xargs -0 -n 200 -P {cores} md5sum | wc -l"
        wall, cpu, memory, _ = run(md5sum, args.reps, shell=True)
        rows.append((f"md5sum, {cores} at a time, {args.files} files", wall, cpu, memory))
        wall, cpu, memory, told = run([args.zaro, "checksum", tree], args.reps)
        rows.append(("zaro checksum", wall, cpu, memory))
        peer = "import sys; from zarr_checksum import compute_zarr_checksum as c; from zarr_checksum.generators import yield_files_local as y; print(c(y(sys.argv[1])))"
        try:
            wall, cpu, memory, wanted = run([sys.executable, "-c", peer, tree], 1)
            rows.append(("zarr_checksum", wall, cpu, memory))
            print("checksums agree" if told.strip() == wanted.strip() else f"NOT EQUAL: {told} {wanted}")
        except SystemExit as e:
            print(f"without zarr_checksum: {e}")
        print(f"\n| | wall s | CPU s | peak MB |\n|---|---|---|---|")
        for name, wall, cpu, memory in rows:
            print(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |")
    finally:
        if not args.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""A million references: how much time and memory zaro needs to open them, beside fsspec.

    target/venv/bin/python bench/references.py [--references N] [--zaro BIN] [--reps N] [--folder DIR]

Makes a Kerchunk JSON document of N references over 100 files, plain and compressed, and its Parquet form (by
`zaro ref convert`), and an array of 16.7 million chunks in Parquet form with all but two partitions missing. Each
program opens them in a fresh process and looks one chunk up. Reported are the best CPU seconds (user and system) of
the whole process and its largest peak memory; for fsspec those of the interpreter and its imports are measured apart
and taken off.
"""
import argparse, gzip, json, os, resource, shutil, subprocess, sys, tempfile

FSSPEC = """
import sys, fsspec
from fsspec.implementations.reference import ReferenceFileSystem
if len(sys.argv) > 1:
    fs = ReferenceFileSystem(sys.argv[1], skip_instance_cache=True)
    assert fs.references["v/7.7"]
"""


def measured(command, reps):
    """The best CPU seconds and the largest peak memory (MB) of a command, each run in a fresh process."""
    best, peak = None, 0
    for _ in range(reps):
        pid = os.fork()
        if pid == 0:
            with open(os.devnull, "w") as sink:
                os.dup2(sink.fileno(), 1)
            os.execvp(command[0], command)
        _, status, used = os.wait4(pid, 0)
        if status:
            sys.exit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
        cpu = used.ru_utime + used.ru_stime
        best = cpu if best is None else min(best, cpu)
        peak = max(peak, used.ru_maxrss / 1024)
    return best, peak


def document(path, count):
    """A V2 array of `count` chunks, each a range of one of 100 files."""
    side = round(count ** 0.5)
    meta = {"zarr_format": 2, "shape": [side, side], "chunks": [1, 1], "dtype": "<f4", "compressor": None,
            "filters": None, "fill_value": None, "order": "C"}
    with open(path, "w") as out:
        out.write('{"version":1,"refs":{".zgroup":"{\\"zarr_format\\":2}","v/.zarray":%s' % json.dumps(json.dumps(meta)))
        for i in range(side):
            for j in range(side):
                n = i * side + j
                out.write(f',"v/{i}.{j}":["file:///archive-bucket/model/run-{n % 100:03}.nc",{n * 40_000 + 8192},4]')
        out.write("}}")


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--references", type=int, default=1_000_000)
    ask.add_argument("--zaro", default="target/release/zaro")
    ask.add_argument("--reps", type=int, default=3)
    ask.add_argument("--folder")
    args = ask.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="zaro-references-")
    os.makedirs(folder, exist_ok=True)
    at = lambda name: os.path.join(folder, name)
    if not os.path.exists(at("refs.json")):
        document(at("refs.json"), args.references)
        with open(at("refs.json"), "rb") as plain, gzip.open(at("refs.json.gz"), "wb", 6) as packed:
            shutil.copyfileobj(plain, packed)
        document(at("small.json"), 1)
    if not os.path.exists(at("refs.parq")):
        subprocess.run([args.zaro, "ref", "convert", at("refs.json"), at("refs.parq")], check=True)
    if not os.path.exists(at("large.parq")):
        # As the largest public store: 16,765,740 chunks, 168 partitions, of which the first and one more are there.
        shutil.copytree(at("refs.parq"), at("large.parq"))
        meta = json.load(open(at("large.parq/.zmetadata")))
        array = meta["metadata"]["v/.zarray"]
        array["shape"], array["chunks"] = [5844, 2869], [1, 1]
        json.dump(meta, open(at("large.parq/.zmetadata"), "w"))
        for name in os.listdir(at("large.parq/v")):
            if name not in ("refs.0.parq", "refs.7.parq"):
                os.remove(at(f"large.parq/v/{name}"))
    print(f"{args.references:,} references, JSON of {os.path.getsize(at('refs.json')) / 1e6:.0f} MB, best of {args.reps}")
    print(f"{'':44}{'CPU s':>9}{'peak MB':>10}")
    row = lambda name, cpu, peak: print(f"{name:44}{cpu:9.3f}{peak:10.1f}", flush=True)
    for name, command in [
        ("zaro, an empty document", ["meta", at("small.json"), "v"]),
        ("zaro, JSON", ["meta", at("refs.json"), "v"]),
        ("zaro, JSON in gzip", ["meta", at("refs.json.gz"), "v"]),
        ("zaro, Parquet", ["meta", at("refs.parq"), "v"]),
        ("zaro, 16.7 million chunks, listed", ["list", at("large.parq"), "-r"]),
    ]:
        row(name, *measured([args.zaro, *command], args.reps))
    try:
        cpu, peak = measured([sys.executable, "-c", FSSPEC, at("refs.json")], args.reps)
        start = measured([sys.executable, "-c", FSSPEC], args.reps)
        row("fsspec, JSON, beyond its start", cpu - start[0], peak - start[1])
    except SystemExit:
        print("fsspec: not here")


if __name__ == "__main__":
    main()

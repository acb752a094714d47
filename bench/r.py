"""CPU seconds of reads in R: zaro, stars (GDAL) and Rarr where they are installed.

    r.py [--library FOLDER] [--times N]

Arrays of 16 x 512 x 512 in 64 chunks are written by zarr-python; each package reads each of them in a fresh R process,
N times, and the least CPU time (user and system, of all threads) of one read counts. `floor` is R's own part of it:
a new vector of the same size, touched once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numcodecs
    import numpy as np
    import zarr
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

READERS = {
    "floor": "function(p) { x <- numeric(16 * 512 * 512); x[1] <- 1; x }",
    "zaro zarr order": "function(p) zaro::zaro_read(p, 'v')",
    "zaro reversed": "function(p) zaro::zaro_read(p, 'v', order = 'reversed')",
    "stars (reversed)": "function(p) stars::read_mdim(p, variable = 'v')",
    "Rarr": "function(p) Rarr::read_zarr_array(file.path(p, 'v'))",
}
PACKAGES = {"stars (reversed)": "stars", "Rarr": "Rarr"}

SCRIPT = """
options(zaro.verbose = FALSE)
read <- {reader}
path <- "{path}"
best <- Inf
for (i in seq_len({times})) {{
  gc()
  t <- system.time(x <- read(path))
  best <- min(best, sum(t[c(1, 2, 4, 5)]))
}}
cat(best)
"""


def cases(folder):
    rng = np.random.default_rng(1)
    smooth = np.cumsum(rng.normal(size=(16, 512, 512)), axis=2).astype("f4")
    small = (smooth * 100).astype("i2")
    blosc = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)
    shape = {"shape": (16, 512, 512), "chunks": (4, 128, 128), "zarr_format": 2}
    plans = {
        "float32 blosc-lz4": (smooth, {"compressors": blosc, **shape}),
        "float32 zlib": (smooth, {"compressors": numcodecs.Zlib(1), **shape}),
        "float32 raw": (smooth, {"compressors": None, **shape}),
        "int16 blosc-lz4": (small, {"compressors": blosc, **shape}),
        "float32 shards (V3)": (smooth, {"shape": (16, 512, 512), "chunks": (4, 128, 128), "shards": (16, 512, 512), "zarr_format": 3}),
    }
    for name, (data, options) in plans.items():
        path = folder / f"{name.split('(')[0].strip().replace(' ', '-')}.zarr"
        group = zarr.open_group(str(path), mode="w", zarr_format=options["zarr_format"])
        options = {k: v for k, v in options.items() if k != "zarr_format"}
        array = group.create_array("v", dtype=data.dtype, dimension_names=None if group.metadata.zarr_format == 2 else ["t", "y", "x"], **options)
        array.attrs["_ARRAY_DIMENSIONS"] = ["t", "y", "x"]
        array[...] = data
        yield name, path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library")
    p.add_argument("--times", type=int, default=5)
    p.add_argument("--json", help="also write the figures here")
    args = p.parse_args()
    env = dict(os.environ)
    if args.library:
        env["R_LIBS"] = str(Path(args.library).resolve())
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, path in cases(Path(scratch)):
            row = figures[name] = {}
            for reader, code in READERS.items():
                package = PACKAGES.get(reader)
                if package and subprocess.run(["Rscript", "-e", f"quit(status = !requireNamespace('{package}', quietly = TRUE))"], env=env, capture_output=True).returncode:
                    continue
                script = SCRIPT.format(reader=code, path=path, times=args.times)
                done = subprocess.run(["Rscript", "--vanilla", "-e", script], env=env, capture_output=True, text=True)
                row[reader] = float(done.stdout) if done.returncode == 0 and done.stdout else None
            print(name, *(f"{k}: {'failed' if v is None else f'{v:.3f}'}" for k, v in row.items()), sep="  ", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Random images by tifffile, converted by zaro, read back by zarr-python: pixels, axes and pixel sizes must be the same.

    python conformance/convert_differential.py ZARO [CASES] [SEED]

Needs numpy, tifffile, imagecodecs and zarr; by hand, not in ./test.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tifffile
import zarr

TYPES = "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()
CODECS = [None, "lzw", "zlib", "zstd", "packbits", "lzma"]


def pixels(rng, shape, dtype):
    dtype = np.dtype(dtype)
    smooth = np.cumsum(rng.integers(-3, 4, shape), axis=-1)
    return (smooth / 4 if dtype.kind == "f" else smooth).astype(dtype)


def case(rng, folder):
    """A file, the array it holds in the order t, c, z, y, x, and the sizes of its pixels."""
    kind = random.choice(["plain", "shaped", "imagej", "ome"])
    known = {"imagej": ["u1", "u2", "f4"], "ome": "u1 i1 u2 i2 u4 i4 f4 f8".split()}
    dtype = random.choice(known.get(kind, TYPES))
    sizes = {a: random.choice([1, 1, 2, 3]) for a in "TCZ"} | {"Y": random.randint(5, 90), "X": random.randint(5, 90)}
    order = "TZC" if kind == "imagej" else "".join(random.sample("TCZ", 3))
    if kind == "plain":
        sizes |= {"T": 1, "C": 1}
    axes = order + "YX"
    data = pixels(rng, [sizes[a] for a in axes], dtype)
    options = {"byteorder": random.choice("<>"), "photometric": "minisblack"}
    metadata = {"axes": axes}
    scale = {}
    if kind == "imagej":
        scale = {"T": 0.5, "Z": 1.25, "Y": 0.5, "X": 0.25}
        metadata |= {"unit": "um", "spacing": 1.25, "finterval": 0.5}
        options |= {"imagej": True, "resolution": (4, 2)}
    else:
        codec = random.choice(CODECS)
        can = codec in ("lzw", "zlib", "zstd", "lzma")
        predictor = random.choice([1, 3 if dtype[0] == "f" else 2]) if can else 1
        options |= {"compression": codec, "predictor": predictor, "bigtiff": random.random() < 0.3}
        if random.random() < 0.5:
            options["tile"] = (16 * random.randint(1, 3), 16 * random.randint(1, 3))
        else:
            options["rowsperstrip"] = random.randint(1, 40)
    if kind == "ome":
        scale = {"T": 2.5, "Z": 0.3, "Y": 0.1, "X": 0.2}
        metadata |= {f"PhysicalSize{a}": scale[a] for a in "ZYX"} | {"TimeIncrement": 2.5}
        options["ome"] = True
    path = folder / ("a.ome.tif" if kind == "ome" else "a.tif")
    tifffile.imwrite(path, data, metadata=None if kind == "plain" else metadata, **options)
    turned = data.transpose([axes.index(a) for a in "TCZYX"])
    return path, turned, [scale.get(a, 1) for a in "TCZYX"], f"{kind} {dtype} {axes} {data.shape} {options}"


def check(zaro, rng, folder):
    path, data, scale, what = case(rng, folder)
    version = random.choice(["0.4", "0.5", "0.6"])
    command = [zaro, "image", "convert", str(path), str(folder / "out.zarr"), "--overwrite", "--to", version]
    if random.random() < 0.5:
        command += ["--chunks", f"{random.randint(3, 60)},{random.randint(3, 60)}"]
    elif version != "0.4" and random.random() < 0.5:
        command += ["--chunks", "8,8", "--shards", "32,24"]
    command += random.choice([[], ["--levels", "1"], ["--memory", "100K"]])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return f"{what}\n{command}\n{run.stderr}"
    group = zarr.open_group(str(folder / "out.zarr"), mode="r")
    attributes = dict(group.attrs) if version == "0.4" else group.attrs["ome"]
    multiscale = attributes["multiscales"][0]
    axes = multiscale["axes"] if version != "0.6" else multiscale["coordinateSystems"][0]["axes"]
    kept = [i for i in range(5) if i > 2 or data.shape[i] != 1]
    wanted = data.reshape([data.shape[i] for i in kept])
    found = group["0"][...]
    faults = []
    if "".join(a["name"] for a in axes) != "".join("tczyx"[i] for i in kept):
        faults.append(f"axes {axes}")
    if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
        faults.append(f"pixels {found.dtype} {found.shape}")
    sizes = multiscale["datasets"][0]["coordinateTransformations"][0]["scale"]
    if not np.allclose(sizes, [scale[i] for i in kept], rtol=1e-6):
        faults.append(f"scale {sizes}")
    return f"{what}\n{command}\n{faults}" if faults else None


def main():
    zaro = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    random.seed(seed)
    rng = np.random.default_rng(seed)
    folder = Path(tempfile.mkdtemp())
    faults = [fault for fault in (check(zaro, rng, folder) for _ in range(cases)) if fault]
    shutil.rmtree(folder)
    print("\n".join(faults))
    print(f"{cases} images, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

"""Makes the benchmark data with zarr-python: the same arrays, in every layout that is timed.

    gen.py [NAME ...]          all data sets, or only those named; what exists is kept

The folder is $ZARO_BENCH_DATA (default: target/bench-data); all of it takes about 5 GB. The field is smooth
with a little noise, so that compressors have about as much to do as with microscope or climate data:
uint16, 1024 x 512 x 512 (512 MiB). Names are VERSION_CODEC_CHUNK; shardS_C are shards of S cubed with inner
chunks of C cubed; tiny* is 400 x 400 x 320 in 100,000 chunks of 8 cubed; hier_* are 1,000 arrays without data.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

DATA = Path(os.environ.get("ZARO_BENCH_DATA") or Path(__file__).resolve().parent.parent / "target" / "bench-data")
SHAPE = (1024, 512, 512)
TINY = (400, 400, 320)


def cached(name, build):
    """An array kept as .npy beside the stores, so that each data set does not compute it again."""
    path = DATA / f"{name}.npy"
    if not path.exists():
        np.save(path, build())
    return np.load(path, mmap_mode="r")


def build_u16():
    rng = np.random.default_rng(1)
    z, y, x = (np.linspace(0, 1, n, dtype=np.float32) for n in SHAPE)
    y, x = y[:, None], x[None, :]
    field = np.empty(SHAPE, np.uint16)
    for k, depth in enumerate(z):
        waves = 1200 * np.sin(6.3 * (1.7 * x + 2.1 * depth)) * np.cos(6.3 * (2.3 * y - 1.1 * depth))
        blob = 500 * np.exp(-((x - 0.5) ** 2 + (y - 0.4) ** 2 + (depth - 0.5) ** 2) * 40)
        ripples = 300 * np.sin(40 * x * y + 9 * depth)
        plane = 3000 + waves + blob + ripples
        plane += 3.0 * rng.standard_normal(plane.shape, dtype=np.float32)
        field[k] = np.clip(np.rint(plane), 0, 65535)
    return field


def u16():
    return cached("field_u16", build_u16)


def f32():
    return cached("field_f32", lambda: u16()[:512].astype(np.float32) * np.float32(0.01) + np.float32(273.15))


def blosc(cname):
    return BloscCodec(cname=cname, clevel=5, shuffle="shuffle", typesize=2)


def zstd():
    return ZstdCodec(level=5)


# name: (source, chunk edge, shard edge or None, compressor, zarr format)
CUBES = {
    "v3_raw_64": (u16, 64, None, None, 3),
    "v3_raw_128": (u16, 128, None, None, 3),
    "v3_zstd_64": (u16, 64, None, zstd(), 3),
    "v3_zstd_128": (u16, 128, None, zstd(), 3),
    "v3_zstd_f32_64": (f32, 64, None, zstd(), 3),
    "v3_blosclz4_64": (u16, 64, None, blosc("lz4"), 3),
    "v3_blosczstd_64": (u16, 64, None, blosc("zstd"), 3),
    "v3_shard256_32": (u16, 32, 256, zstd(), 3),
    "v3_shard512_32": (u16, 32, 512, zstd(), 3),
    "v3_shardraw256_32": (u16, 32, 256, None, 3),
    "v2_blosclz4_64": (u16, 64, None, numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE), 2),
    "v2_zlib_64": (u16, 64, None, numcodecs.Zlib(5), 2),
}
TINIES = {"tiny_raw": (None, None), "tiny_zstd": (zstd(), None), "tinyshard_raw": (None, (200, 200, 160)), "tinyshard_zstd": (zstd(), (200, 200, 160))}
HIERARCHIES = {"hier_v3": 3, "hier_v2": 2}
ALL = [*CUBES, *TINIES, *HIERARCHIES]


def write_array(path, data, chunks, shards, compressor, fmt, slab):
    array = zarr.create_array(path, shape=data.shape, dtype=data.dtype, chunks=chunks, shards=shards, compressors=compressor, fill_value=0, zarr_format=fmt)
    for k in range(0, data.shape[0], slab):
        array[k : k + slab] = data[k : k + slab]


def write_hierarchy(path, fmt):
    root = zarr.open_group(path, mode="w", zarr_format=fmt, attributes={"title": "bench"})
    more = {"compressors": zstd()} if fmt == 3 else {}
    for i in range(20):
        group = root.create_group(f"g{i:02d}", attributes={"i": i})
        for j in range(50):
            about = {"units": "K", "long_name": f"variable {i} {j}", "scale_factor": 0.01, "add_offset": 273.15}
            group.create_array(f"a{j:02d}", shape=SHAPE, chunks=(64, 64, 64), dtype="float32", fill_value=0, attributes=about, **more)
    zarr.consolidate_metadata(path)


def generate(name):
    final = DATA / f"{name}.zarr"
    if final.exists():
        return
    started, part = time.monotonic(), DATA / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    if name in CUBES:
        source, chunk, shard, compressor, fmt = CUBES[name]
        write_array(part, source(), (chunk,) * 3, shard and (shard,) * 3, compressor, fmt, max(shard or chunk, 256))
    elif name in TINIES:
        compressor, shards = TINIES[name]
        write_array(part, np.ascontiguousarray(u16()[: TINY[0], : TINY[1], : TINY[2]]), (8, 8, 8), shards, compressor, 3, 200)
    else:
        write_hierarchy(part, HIERARCHIES[name])
    part.rename(final)
    print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)


def main(names):
    unknown = set(names) - set(ALL)
    if unknown:
        sys.exit(f"no such data set: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    DATA.mkdir(parents=True, exist_ok=True)
    zarr.config.set({"async.concurrency": 8})
    for name in names or ALL:
        generate(name)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/env python3
"""The Python package beside zarr-python, tensorstore and zarrs: CPU time per operation, one run.

    target/venv-package/bin/python bench/python.py [--json FILE]

Build the package with optimisation first (`pip install bindings/python`, or copy a release build), else its own part
is that of a debug build. Figures are CPU seconds of the process, children included: on a shared machine they count,
wall times do not.
"""

import argparse
import json
import os
import pathlib
import resource
import tempfile
import time
import warnings

import numpy as np


def cpu():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measured(work, times):
    work()
    before, wall = cpu(), time.perf_counter()
    for _ in range(times):
        work()
    return (cpu() - before) / times, (time.perf_counter() - wall) / times


def readers(path):
    """For each program, what opens the array at `path` and gives a function of a key."""
    import zaro

    yield "zaro", lambda: zaro.open(path).__getitem__
    import zarr

    yield "zarr-python", lambda: zarr.open_array(path, mode="r").__getitem__
    try:
        import tensorstore as ts
    except ImportError:
        pass
    else:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}

        def open_tensorstore():
            array = ts.open(spec, open=True, read=True).result()
            return lambda key: array[key].read().result()

        yield "tensorstore", open_tensorstore
    try:
        import zarrs  # noqa: F401
    except ImportError:
        return

    def open_zarrs():
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        try:
            array = zarr.open_array(path, mode="r")
        finally:
            zarr.config.reset()
        return array.__getitem__

    yield "zarr-python with zarrs", open_zarrs


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    arguments = arguments.parse_args()
    warnings.simplefilter("ignore")
    import zarr

    rows = []

    def row(what, who, figures, scale=1e6, unit="us"):
        used, waited = figures
        rows.append({"what": what, "who": who, "cpu": used, "wall": waited})
        print(f"{what:44} {who:24} {used * scale:12.1f} {unit} CPU {waited * scale:12.1f} {unit} wall", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rng = np.random.default_rng(1)
        small = folder / "small.zarr"
        zarr.create_array(small, shape=(32, 32, 1024), dtype="f4", chunks=(1, 1, 1024))[:] = rng.random((32, 32, 1024), "f4")
        large = folder / "large.zarr"
        data = np.cumsum(rng.integers(-3, 4, (64, 512, 1024)), axis=2).astype("i4")
        zarr.create_array(large, shape=data.shape, dtype="i4", chunks=(8, 128, 256))[:] = data
        for who, opened in readers(small):
            read = opened()
            row("one chunk of 4 KB", who, measured(lambda read=read: read((7, 9, slice(None))), 2000))
        for who, opened in readers(large):
            read = opened()
            assert np.array_equal(read((slice(None),) * 3), data), who
            row("whole array, 128 MiB", who, measured(lambda read=read: read((slice(None),) * 3), 5), 1e3, "ms")
            row("every 7th row", who, measured(lambda read=read: read((slice(None), slice(None, None, 7))), 5), 1e3, "ms")
        many = folder / "many.zarr"
        group = zarr.create_group(many)
        for i in range(1000):
            group.create_array(f"v{i:04}", shape=(4, 4), dtype="f4", dimension_names=["y", "x"])
        zarr.consolidate_metadata(many)
        import xarray as xr
        import zaro

        row("list 1,000 variables", "zaro", measured(lambda: zaro.open(many).children(), 5), 1e3, "ms")
        row("list 1,000 variables", "zarr-python", measured(lambda: dict(zarr.open_group(many, mode="r").arrays()), 5), 1e3, "ms")
        for engine in ("zaro", "zarr"):
            row("open_dataset, 1,000 variables", f"engine={engine}", measured(lambda e=engine: xr.open_dataset(many, engine=e), 3), 1e3, "ms")
    print(f"load average {os.getloadavg()[0]:.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""The Python peers under the benchmark's command line.

    peers.py PEER WORKLOAD PATH        PEER: tensorstore | tensorstore-cache | zarr-python | zarrs-py | gdal; PATH may be an address
    peers.py PEER write|copy FROM TO   PEER: tensorstore | zarr-python | zarrs-py

See README.md for the workloads and the one JSON line that is printed. Each peer is imported before the
clocks start: what is timed is reading and writing, not Python.
"""

import json
import os
import resource
import sys
import time

import numpy as np


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_memory():
    """Bytes: VmHWM, which begins anew with this program. ru_maxrss begins with the peak of the process that started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def check_sum(array):
    """The sum of uint16 values, or of float32 bit patterns, modulo 2^64."""
    array = np.ascontiguousarray(array)
    return int((array.view(np.uint32) if array.dtype.kind == "f" else array).sum(dtype=np.uint64))


# Requests under way at once over HTTP, as of zaro.
REQUESTS = 64


def is_far(path):
    return "://" in path


def windows(shape):
    state = 1
    for _ in range(1000):
        index = []
        for n in shape:
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            start = (state >> 33) % (n - 31)
            index.append(slice(start, start + 32))
        yield tuple(index)


def planes(shape, axis):
    for k in range(8):
        at = (2 * k + 1) * shape[axis] // 16
        yield tuple(slice(at, at + 1) if d == axis else slice(0, n) for d, n in enumerate(shape))


def boxes(workload, shape):
    return windows(shape) if workload == "win" else planes(shape, int(workload[-1]))


# The level of zstd in everything that is written; as in common.rs.
LEVEL = 1


def layout(path):
    """(edge of a file's cube, edge of an inner chunk or None, whether it is compressed), by the output's name."""
    kind, edge = os.path.basename(path).removesuffix(".zarr").rsplit("_", 1)
    if kind.startswith("shard"):
        return int(kind[5:]), int(edge), True
    return int(edge), None, kind == "zstd"


class Tensorstore:
    more, context = {}, {}

    def __init__(self):
        import tensorstore
        self.ts = tensorstore

    def open(self, path):
        # numpy needs a format: zarr.json is V3, .zarray is V2
        driver = "zarr3" if is_far(path) or os.path.exists(f"{path}/zarr.json") else "zarr"
        address = f"{path}/" if is_far(path) else f"file://{path}/"
        context = self.ts.Context({**self.context, **({"http_request_concurrency": {"limit": REQUESTS}} if is_far(path) else {})})
        array = self.ts.open({"driver": driver, "kvstore": address, **self.more}, open=True, read=True, context=context).result()
        return array.shape, lambda index: array[index].read().result()

    def create(self, path, shape):
        """An empty array. Without fsync, as the others are."""
        edge, inner, zstd = layout(path)
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        codecs = [little, {"name": "zstd", "configuration": {"level": LEVEL}}] if zstd else [little]
        if inner:
            config = {"chunk_shape": [inner] * 3, "codecs": codecs, "index_codecs": [little, {"name": "crc32c"}]}
            codecs = [{"name": "sharding_indexed", "configuration": config}]
        grid = {"name": "regular", "configuration": {"chunk_shape": [edge] * 3}}
        metadata = {"shape": list(shape), "data_type": "uint16", "chunk_grid": grid, "codecs": codecs, "fill_value": 0}
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/", "file_io_sync": False}, "metadata": metadata}
        return self.ts.open(spec, create=True).result()

    def write(self, values, path):
        self.create(path, values.shape).write(values).result()

    def copy(self, source, path):
        """Shard by shard, three under way: of the ways to say it, the fastest and the one with the least memory."""
        import itertools
        spec = {"driver": "zarr", "kvstore": f"file://{source}/"}
        array = self.ts.open(spec, open=True, read=True).result()
        made, edge, waiting = self.create(path, array.shape), layout(path)[0], []
        for start in itertools.product(*(range(0, n, edge) for n in array.shape)):
            box = tuple(slice(k, k + edge) for k in start)
            waiting.append(made[box].write(array[box]))
            if len(waiting) > 2:
                waiting.pop(0).result()
        for write in waiting:
            write.result()

    def hierarchy(self, path):
        """tensorstore knows arrays only: every array is opened, all at once."""
        v3 = os.path.exists(f"{path}/zarr.json")
        spec = {"driver": "zarr3" if v3 else "zarr"}
        names = [f"{g}/{a}" for g in os.listdir(path) if os.path.isdir(f"{path}/{g}") for a in os.listdir(f"{path}/{g}") if os.path.isdir(f"{path}/{g}/{a}")]
        waiting = [self.ts.open({**spec, "kvstore": f"file://{path}/{n}/"}, open=True, read=True) for n in names]
        return sum(sum(w.result().shape) for w in waiting)


class TensorstoreCache(Tensorstore):
    """With a cache of decoded chunks, as large as zaro's whole budget."""
    more, context = {"recheck_cached_data": "open"}, {"cache_pool": {"total_bytes_limit": 256 << 20}}


class ZarrPython:
    pipeline = None

    def __init__(self):
        import zarr
        self.zarr = zarr
        if self.pipeline:
            import zarrs  # noqa: F401  (registers the pipeline)
            zarr.config.set({"codec_pipeline.path": self.pipeline})

    def open(self, path):
        if is_far(path):
            self.zarr.config.set({"async.concurrency": REQUESTS})
        array = self.zarr.open_array(path, mode="r")
        return array.shape, lambda index: array[index]

    def series(self, path):
        """One place at all times of the array `v` of a reference store, which fsspec makes of the references."""
        from fsspec.implementations.reference import ReferenceFileSystem
        self.zarr.config.set({"async.concurrency": REQUESTS})
        files = ReferenceFileSystem(path, remote_protocol="http", remote_options={"asynchronous": True}, asynchronous=True)
        array = self.zarr.open_array(self.zarr.storage.FsspecStore(files, read_only=True, path=""), path="v", mode="r", zarr_format=2)
        return array[:, array.shape[1] // 2, array.shape[2] // 2]

    def create(self, path, shape):
        edge, inner, zstd = layout(path)
        compressor = self.zarr.codecs.ZstdCodec(level=LEVEL) if zstd else None
        shards = (edge,) * 3 if inner else None
        return self.zarr.create_array(path, shape=shape, dtype="uint16", chunks=(inner or edge,) * 3, shards=shards, compressors=compressor, fill_value=0)

    def write(self, values, path):
        self.create(path, values.shape)[...] = values

    def copy(self, source, path):
        """Row of shards by row of shards, so that it need not hold the array."""
        shape, read = self.open(source)
        array, step = self.create(path, shape), layout(path)[0]
        for k in range(0, shape[0], step):
            array[k : k + step] = read(slice(k, k + step))

    def hierarchy(self, path):
        group = self.zarr.open_consolidated(path, mode="r")
        return sum(sum(node.shape) for _, node in group.members(max_depth=None) if hasattr(node, "shape"))


class ZarrsPython(ZarrPython):
    pipeline = "zarrs.ZarrsCodecPipeline"


class Gdal:
    """GDAL's classic raster model: axis 0 becomes bands, each of which decodes its chunks anew.

    Good for checking values, unfair for timing: GDAL's multidimensional interface is not in rasterio.
    """

    def __init__(self):
        import rasterio
        from rasterio.windows import Window
        self.rasterio, self.window = rasterio, Window

    def open(self, path):
        data = self.rasterio.open(f'ZARR:"{path}"')
        shape = (data.count, data.height, data.width)

        def read(index):
            if index is Ellipsis:
                return data.read()
            z, y, x = index
            return data.read(list(range(z.start + 1, z.stop + 1)), window=self.window(x.start, y.start, x.stop - x.start, y.stop - y.start))
        return shape, read

    def hierarchy(self, path):
        raise NotImplementedError("rasterio does not walk a hierarchy")


PEERS = {"tensorstore": Tensorstore, "tensorstore-cache": TensorstoreCache, "zarr-python": ZarrPython, "zarrs-py": ZarrsPython, "gdal": Gdal}


def main(name, workload, path, output=None):
    peer = PEERS[name]()
    values = np.load(path) if workload == "write" else None
    wall, cpu = time.perf_counter(), cpu_seconds()
    whole = None
    if workload == "open":
        check = peer.hierarchy(path)
    elif workload == "series":
        whole = peer.series(path)
    elif workload == "twice":
        _, read = peer.open(path)
        pass_over = lambda: sum(check_sum(read(index)) for index in windows((256,) * 3)) % 2**64  # noqa: E731
        check = pass_over()
        print(json.dumps({"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu, "rss": peak_memory(), "check": check}), flush=True)
        sys.stdin.readline()
        wall, cpu = time.perf_counter(), cpu_seconds()
        check = pass_over()
    elif output:
        check = 0  # what was written is read back by somebody else
        peer.write(values, output) if workload == "write" else peer.copy(path, output)
    else:
        shape, read = peer.open(path)
        if workload == "read":
            whole = read(...)
        else:
            check = sum(check_sum(read(index)) for index in boxes(workload, shape)) % 2**64
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    peak = peak_memory()
    if whole is not None:
        check = check_sum(whole)
    print(json.dumps({"wall": wall, "cpu": cpu, "rss": peak, "check": check}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Random arrays written by other people's libraries, read through zaro and compared with numpy.

    differential.py [--cases N] [--seed S] [--windows W] [--writer zarr3|zarr2|ts3|ts2]

Each case draws a type, shape, chunking, sharding, codec chain, order, fill value and a set of written
regions (so that chunks are missing), lets zarr-python or tensorstore write the array, and then reads the
whole of it and random windows (`--select` with positive and negative steps, `--start/--count`) in the
`npy`, `raw` and `json` formats. A case is a function of its seed alone: a failure prints
`--seed S --cases 1` to see it again. With --keep FOLDER the stores of failures stay there.
"""

import math
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import common

try:
    import arrays
    import numcodecs
    import numpy as np
    import tensorstore as ts
    import zarr
    import zarr.codecs as zc
    import zarr.codecs.numcodecs as zn
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

warnings.simplefilter("ignore")

INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
COMPLEX = ["c8", "c16"]
STRUCTS = [[("a", "u1"), ("b", "<i2")], [("x", "<f4"), ("y", "<f8"), ("n", "<u4")], [("t", "<M8[s]"), ("v", "<f4")]]
MISSING = object()


class Case:
    """One random array: how it was written, and what it must read as."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.json_only = self.raw_only = False
        self.notes = {}

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def shape(self, limit=2000):
        rank = int(self.pick([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]))
        if rank and self.chance(0.04):
            shape = [int(self.rng.integers(1, 5)) for _ in range(rank)]
            shape[self.rng.integers(rank)] = 0
            return tuple(shape)
        top = max(2, int(limit ** (1 / max(rank, 1))))
        return tuple(int(self.rng.integers(1, top + 1)) for _ in range(rank))

    def chunks(self, shape):
        return tuple(int(self.rng.integers(1, max(n, 1) + 2)) if n < 40 else int(self.rng.integers(max(1, n // 9), n + 3)) for n in shape)

    def region(self, shape):
        """What is written; the rest stays fill value, in missing chunks where they are whole."""
        if self.chance(0.6) or not shape or 0 in shape:
            return tuple(slice(0, n) for n in shape)
        ends = [sorted(self.rng.integers(0, n + 1, 2).tolist()) for n in shape]
        return tuple(slice(int(a), int(b)) for a, b in ends)

    def data(self, dtype, shape, fill):
        """The array as it must read, and the region to write."""
        want = np.full(shape, fill, dtype) if fill is not MISSING else np.zeros(shape, dtype)
        region = self.region(shape)
        part = tuple(s.stop - s.start for s in region)
        values = arrays.random_array(self.rng, dtype, part, awkward=not self.notes.get("tame"))
        want[region if shape else ...] = values
        return want, region, values

    def fill(self, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind == "V" or (dtype.kind in "SU" and self.chance(0.5)):
            return np.zeros((), dtype)[()]
        value = arrays.random_array(self.rng, dtype, (1,), awkward=False)[0]
        if dtype.kind == "f" and self.chance(0.4):
            value = dtype.type(self.pick([np.nan, np.inf, -np.inf, -0.0, 0.0]))
        if dtype.kind in "mM" and self.chance(0.4):
            value = np.array(np.iinfo("i8").min).view(dtype)[()]
        return value


# ------------------------------------------------------------------------------------------------ writers

def any_dtype(case, structs=True, orders="<"):
    kind = case.pick(["b", "i", "i", "i", "f", "f", "c", "M", "U", "S"] + (["V"] if structs else []))
    order = case.pick(orders)
    if kind == "b":
        return np.dtype("?")
    if kind in "ifc":
        return np.dtype(order + case.pick({"i": INTS, "f": FLOATS, "c": COMPLEX}[kind]))
    if kind == "M":
        return np.dtype(f"{order}{case.pick('Mm')}8[{case.pick(arrays.UNITS)}]")
    if kind == "V":
        return np.dtype(case.pick(STRUCTS))
    return np.dtype(f"{order if kind == 'U' else '|'}{kind}{case.rng.integers(1, 9)}")


def lossless_v3(case, dtype):
    """A random bytes->bytes chain of zarr-python, its own codecs and the numcodecs.* ones."""
    size = max(1, dtype.itemsize)
    blosc = lambda: zc.BloscCodec(cname=case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), clevel=int(case.rng.integers(0, 10)),  # noqa: E731
                                  shuffle=case.pick(["noshuffle", "shuffle", "bitshuffle"]), typesize=min(size, 255))
    makers = [lambda: zc.GzipCodec(level=int(case.rng.integers(0, 10))), lambda: zc.ZstdCodec(level=int(case.rng.integers(-5, 10)), checksum=case.chance(0.5)),
              blosc, blosc, zc.Crc32cCodec,
              lambda: zn.LZ4(acceleration=int(case.rng.integers(1, 9))), lambda: zn.Zlib(level=int(case.rng.integers(0, 10))), lambda: zn.BZ2(level=int(case.rng.integers(1, 10))),
              lambda: zn.LZMA(preset=1), lambda: zn.Zstd(level=3), lambda: zn.GZip(level=1), lambda: zn.Shuffle(elementsize=size),
              lambda: zn.CRC32(), lambda: zn.Adler32(), lambda: zn.CRC32C(), lambda: zn.JenkinsLookup3(),
              lambda: zn.Blosc(cname="zstd", clevel=3, shuffle=1)]
    return [case.pick(makers)() for _ in range(int(case.pick([0, 1, 1, 1, 2, 3])))]


def filters_v3(case, dtype, rank):
    chain = []
    if rank and case.chance(0.3):
        chain.append(zc.TransposeCodec(order=tuple(int(i) for i in case.rng.permutation(rank))))
        if rank > 1:
            # zarr-python hands numcodecs' filters a strided view, which they flatten in the order of memory: what it
            # writes after a transpose it does not itself read back.
            return chain
    if dtype.kind in "iu" and case.chance(0.15):
        chain.append(zn.Delta(dtype=dtype.str))
    if dtype.kind == "f" and case.chance(0.15):
        # lossy: the oracle is then what zarr-python itself reads back
        case.notes["lossy"] = case.notes["tame"] = True
        chain.append(case.pick([lambda: zn.BitRound(keepbits=5), lambda: zn.Quantize(digits=2, dtype=dtype.str),
                                lambda: zn.FixedScaleOffset(offset=3, scale=10, dtype=dtype.str)])())
    if dtype == np.dtype("<i4") and case.chance(0.2):
        chain.append(zn.AsType(encode_dtype="<i8", decode_dtype="<i4"))
    return chain


def write_zarr3(case, path):
    if case.chance(0.15):
        return write_text(case, path, 3)
    dtype, shape = any_dtype(case), case.shape()
    chunks = case.chunks(shape)
    shards = tuple(c * int(case.rng.integers(1, 4)) for c in chunks) if case.chance(0.4) else None
    fill = case.fill(dtype)
    filters = filters_v3(case, dtype, len(shape)) if dtype.kind != "V" else []
    serializer = "auto"
    if dtype.kind in "ifcmMU" and dtype.itemsize > 1 and case.chance(0.3):
        # Behind numcodecs' filters zarr-python takes big-endian values for little-endian ones when it reads.
        orders = ["little"] if any("numcodecs" in type(f).__module__ for f in filters) else ["little", "big"]
        serializer = zc.BytesCodec(endian=case.pick(orders))
    if dtype.kind in "iuf" and dtype.itemsize >= 2 and not filters and case.chance(0.08):
        serializer = zn.PCodec(level=4)
    want, region, values = case.data(dtype, shape, fill)
    array = zarr.create_array(
        path, shape=shape, dtype=dtype, chunks=chunks, shards=shards, fill_value=fill, filters=filters, serializer=serializer,
        compressors=lossless_v3(case, dtype), zarr_format=3, dimension_names=[f"d{i}" for i in range(len(shape))] if case.chance(0.3) else None,
        chunk_key_encoding={"name": case.pick(["default", "v2"]), "separator": case.pick("./")})
    array[region if shape else ...] = values
    return array[...] if case.notes.get("lossy") else want


def write_text(case, path, fmt):
    """Variable-length text."""
    case.json_only = True
    shape = case.shape(200)
    chunks = case.chunks(shape)
    want = arrays.random_text(case.rng, shape)
    shards = tuple(c * int(case.rng.integers(1, 3)) for c in chunks) if fmt == 3 and case.chance(0.3) else None
    fill = case.pick(["", "fill", "é"])
    compressor = case.pick([None, "auto"])
    array = zarr.create_array(path, shape=shape, dtype=str, chunks=chunks, shards=shards, fill_value=fill, compressors=compressor, zarr_format=fmt)
    if 0 not in shape:
        if shape and case.chance(0.4):
            cut = int(case.rng.integers(0, shape[0]))
            want[cut:] = fill
            if cut:
                array[:cut] = want[:cut]
        else:
            array[...] = want
    return want


def write_zarr2(case, path):
    if case.chance(0.15):
        return write_text(case, path, 2)
    dtype, shape = any_dtype(case, orders="<>"), case.shape()
    chunks, fill = case.chunks(shape), case.fill(dtype)
    filters = []
    n = numcodecs
    if dtype.kind in "iu" and case.chance(0.3):
        filters.append(n.Delta(dtype=dtype.str))
    if dtype.kind == "b" and case.chance(0.3):
        filters.append(n.PackBits())
    if dtype.kind == "f" and case.chance(0.25):
        case.notes["lossy"] = case.notes["tame"] = True
        filters.append(case.pick([lambda: n.Quantize(digits=2, dtype=dtype.str), lambda: n.FixedScaleOffset(offset=3, scale=10, dtype=dtype.str, astype="<i4"),
                                  lambda: n.AsType(encode_dtype="<f8", decode_dtype=dtype.str)])())
    if dtype.kind in "iufbc" and case.chance(0.2):
        filters.append(n.Shuffle(elementsize=max(1, dtype.itemsize)))
    if case.chance(0.2) and not filters:
        filters.append(case.pick([n.CRC32(), n.Adler32(), n.CRC32C(), n.JenkinsLookup3(), n.Base64()]))
    compressor = case.pick([
        None, n.Zlib(int(case.rng.integers(0, 10))), n.GZip(1), n.BZ2(1), n.LZMA(preset=1), n.LZ4(), n.Zstd(3),
        *[n.Blosc(case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), int(case.rng.integers(0, 10)), int(case.rng.integers(-1, 3)), int(case.pick([0, 256])))] * 4])
    want, region, values = case.data(dtype, shape, fill)
    array = zarr.create_array(path, shape=shape, dtype=dtype, chunks=chunks, fill_value=fill, filters=filters, compressors=compressor, order=case.pick("CF"),
                              zarr_format=2, chunk_key_encoding={"name": "v2", "separator": case.pick("./")})
    array[region if shape else ...] = values
    return array[...] if case.notes.get("lossy") else want


TS_TYPES = {"bool": "?", **{f"{s}int{b}": f"{'u' if s else 'i'}{b // 8}" for s in ("", "u") for b in (8, 16, 32, 64)},
            "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16"}


def ts_compressors(case, size):
    return [case.pick([lambda: {"name": "gzip", "configuration": {"level": int(case.rng.integers(0, 10))}},
                       lambda: {"name": "zstd", "configuration": {"level": int(case.rng.integers(-3, 10))}}, lambda: {"name": "crc32c"},
                       lambda: {"name": "blosc", "configuration": {"cname": case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), "clevel": int(case.rng.integers(0, 10)),
                                                                     "shuffle": case.pick(["noshuffle", "shuffle", "bitshuffle"]), "typesize": size, "blocksize": 0}}])()
            for _ in range(int(case.pick([0, 1, 1, 2])))]


def ts_chain(case, shape, size, depth):
    """A random V3 codec chain over a chunk of this shape, up to `depth` shards inside each other."""
    chain, shape = [], list(shape)
    if shape and case.chance(0.35):
        order = [int(i) for i in case.rng.permutation(len(shape))]
        chain.append({"name": "transpose", "configuration": {"order": order}})
        shape = [shape[i] for i in order]
    if depth and shape and case.chance(0.5):
        inner = [int(case.pick([d for d in range(1, n + 1) if n % d == 0])) for n in shape]
        index = [{"name": "bytes", "configuration": {"endian": case.pick(["little", "big"])}}] + ([{"name": "crc32c"}] if case.chance(0.7) else [])
        chain.append({"name": "sharding_indexed", "configuration": {"chunk_shape": inner, "codecs": ts_chain(case, inner, size, depth - 1), "index_codecs": index,
                                                                      "index_location": case.pick(["start", "end"])}})
        return chain
    chain.append({"name": "bytes", "configuration": {"endian": case.pick(["little", "big"])}})
    return chain + ts_compressors(case, size)


def ts_fill(value):
    if isinstance(value, (complex, np.complexfloating)):
        return [ts_fill(value.real), ts_fill(value.imag)]
    if isinstance(value, np.floating):
        value = float(value)
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.item()


def write_ts3(case, path):
    shape = case.shape()
    chunks = case.chunks(shape)
    if case.chance(0.1):
        case.raw_only = True
        name, dtype = "bfloat16", ts.bfloat16.numpy_dtype
        fill = dtype.type(1.5)
        want = (case.rng.normal(0, 50, shape) + np.zeros(shape)).astype(dtype)
        region, values = tuple(slice(0, n) for n in shape), want
    else:
        name = case.pick(list(TS_TYPES))
        dtype = np.dtype(TS_TYPES[name])
        fill = case.fill(dtype)
        want, region, values = case.data(dtype, shape, fill)
    spec = {"driver": "zarr3", "kvstore": f"file://{path}/", "metadata": {
        "shape": shape, "data_type": name, "fill_value": ts_fill(fill) if not case.raw_only else 1.5,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": case.pick(["default", "v2"]), "configuration": {"separator": case.pick("./")}},
        "codecs": ts_chain(case, chunks, max(1, dtype.itemsize), 2)}}
    array = ts.open(spec, create=True).result()
    if values.size:
        array[region if shape else ...].write(values).result()
    return want


def write_ts2(case, path):
    shape = case.shape()
    dtype = np.dtype(case.pick("<>") + case.pick(["?", *INTS, *FLOATS, *COMPLEX]).replace("?", "b1"))
    name = dtype.str if dtype.itemsize > 1 else "|" + dtype.str[1:]
    fill = case.fill(dtype)
    want, region, values = case.data(dtype, shape, fill)
    compressor = case.pick([None, {"id": "zlib", "level": 1}, {"id": "gzip", "level": 1}, {"id": "bz2", "level": 1}, {"id": "zstd", "level": 1},
                            {"id": "blosc", "cname": case.pick(["lz4", "blosclz", "zstd", "snappy"]), "clevel": 5, "shuffle": int(case.rng.integers(-1, 3)), "blocksize": 0}])
    # tensorstore wants V2 complex fills left out of its own JSON form
    spec = {"driver": "zarr", "kvstore": f"file://{path}/", "metadata": {
        "shape": shape, "chunks": case.chunks(shape), "dtype": name, "compressor": compressor, "filters": None, "order": case.pick("CF") if len(shape) > 1 else "C",
        "dimension_separator": case.pick("./"), "fill_value": ts_fill(fill), "zarr_format": 2}}
    array = ts.open(spec, create=True).result()
    if values.size:
        array[region if shape else ...].write(values).result()
    return want


WRITERS = {"zarr3": write_zarr3, "zarr2": write_zarr2, "ts3": write_ts3, "ts2": write_ts2}


# ------------------------------------------------------------------------------------------------ reading

def random_select(case, shape):
    """A --select text and the numpy index it stands for."""
    text, index = [], []
    for n in shape:
        roll = case.rng.random()
        if n and roll < 0.2:
            i = int(case.rng.integers(0, n))
            text.append(str(i))
            index.append(i)
        elif roll < 0.35:
            text.append(":")
            index.append(slice(None))
        elif n and roll < 0.5:
            text.append("::-1")
            index.append(slice(None, None, -1))
        else:
            a, b = sorted(case.rng.integers(0, n + 1, 2).tolist())
            step = int(case.pick([1, 1, 2, 3]))
            if case.chance(0.25) and b > a:
                text.append(f"{b - 1}:{a - 1}:-{step}" if a else f"{b - 1}::-{step}")
                index.append(slice(b - 1, a - 1 if a else None, -step))
            else:
                text.append(f"{a}:{b}" + (f":{step}" if step > 1 else ""))
                index.append(slice(a, b, step))
    return ["--select", ",".join(text)], tuple(index)


def random_box(case, shape):
    start = [int(case.rng.integers(0, n + 1)) for n in shape]
    count = [int(case.rng.integers(0, n - a + 1)) for n, a in zip(shape, start)]
    box = tuple(slice(a, a + c) for a, c in zip(start, count))
    return ["--start", ",".join(map(str, start)), "--count", ",".join(map(str, count))], box


def read_one(zaro, case, path, want, args, index):
    """None, or what differs."""
    part = want[index] if index is not None else want
    part = np.asarray(part, want.dtype) if want.dtype != object else np.asarray(part, object)
    order = case.pick("CCCF")
    if case.json_only:
        form = "json"
    elif case.raw_only or want.dtype.kind == "V":
        form = case.pick(["raw", "raw" if case.raw_only else "json"])
    else:
        form = case.pick(["npy", "raw", "json"])
    argv = [zaro, "read", str(path), "--format", form, *args]
    argv += ["--order", "F"] if order == "F" and form != "json" else []
    done = common.run(argv)
    if done.crash or done.code:
        why = f"{done.crash or f'exit {done.code}'}: {done.message[-400:]}"
    elif form == "npy":
        why = arrays.npy_equal(done.out, part)
    elif form == "raw":
        why = arrays.raw_equal(done.out, part, order)
    else:
        why = arrays.json_equal(done.out, part)
    return f"{' '.join(argv[1:])}: {why}" if why else None


def run_case(zaro, seed, writer, windows, path):
    case = Case(seed)
    name = writer or case.pick(["zarr3", "zarr3", "zarr2", "ts3", "ts3", "ts2"])
    try:
        want = WRITERS[name](case, path)
    except Exception as e:  # the writer's own limits are not ours to test
        return name, f"not written: {type(e).__name__}: {e}", None
    want = np.asarray(want)
    failures = [read_one(zaro, case, path, want, [], None)]
    for _ in range(windows if want.ndim else 0):
        args, index = (random_select if case.chance(0.7) else random_box)(case, want.shape)
        failures.append(read_one(zaro, case, path, want, args, index))
    return name, None, [f for f in failures if f]


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--windows", type=int, default=6, help="windows read of each array")
    p.add_argument("--writer", choices=WRITERS)
    p.add_argument("--keep", type=Path, help="keep the stores of failures here")
    a = p.parse_args()
    zaro, tally, unwritten = common.find_zaro(a.zaro), common.Tally("differential", a.verbose), {}
    with tempfile.TemporaryDirectory(prefix="zaro-diff-") as temporary:
        for seed in range(a.seed, a.seed + a.cases):
            path = Path(temporary) / str(seed)
            name, unable, failures = run_case(zaro, seed, a.writer, a.windows, path)
            label = f"--seed {seed} --cases 1{f' --writer {a.writer}' if a.writer else ''} ({name})"
            if unable:
                tally.skip(label, unable)
                unwritten[f"{name}: {unable[:110]}"] = unwritten.get(f"{name}: {unable[:110]}", 0) + 1
            elif failures:
                tally.fail(label, f"{len(failures)} reads differ, first: {failures[0]}")
                if a.keep:
                    shutil.copytree(path, a.keep / str(seed), dirs_exist_ok=True)
            else:
                tally.ok(label)
            shutil.rmtree(path, ignore_errors=True)
    for why, count in sorted(unwritten.items(), key=lambda x: -x[1])[:8]:
        print(f"note  {count} arrays {why}")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

"""Random arrays written by zaro, read back through other people's libraries and compared with numpy.

    write_differential.py [--cases N] [--seed S] [--kind made|copied] [--keep FOLDER]

Each case draws a version, type, shape, chunking, sharding, codec chain, order, byte order, chunk keys, fill
value, dimension names and attributes. A `made` array comes from `zaro create` or `zaro write --create`, and then
a few of: writes of overlapping parts (numpy's files, raw bytes, JSON, CSV, standard input; boxes, steps of either
sign, lists), appends, resizes in both directions. A `copied` one is written by zarr-python or tensorstore and
goes through `zaro copy` with random options: other chunks, shards, codecs, version, type, a part of it, in
place. Some of both go into an archive. What the array must hold is kept in numpy beside it.

Then zarr-python, tensorstore and zarrs (as zarr-python's codec pipeline) read it, each what it can, zarr-python
always, and zaro itself. All compare to the bit, payloads of NaNs included. Type, shape, chunks, fill value,
dimension names and attributes are compared as zarr-python sees them, also through consolidated metadata, and
`zaro validate --strict` must find nothing. Codecs that lose something are compared with what numcodecs makes of
the values. A case is a function of its seed alone: a failure prints `--seed S --cases 1` to see it again.
"""

import base64
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import common

try:
    import arrays
    import differential as diff
    import numcodecs
    import numpy as np
    import tensorstore as ts
    import zarr
    import zarrs  # noqa: F401
    from zarr.core.dtype.common import DataTypeValidationError
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

V3_NAMES = {v: k for k, v in diff.TS_TYPES.items()}
# zarr-python 3.1 has no structs in structs.
STRUCTS = [*diff.STRUCTS, [("ok", "?"), ("tag", "S3"), ("c", "<c8"), ("name", "<U2")]]
WORDS = [*arrays.WORDS, "line\nbreak", "com,ma", " blanks ", "nul\0inside", "'", "NaN", "-1", "\U0010ffff"]
NUMBERS = "biufc"
# Types that zarr-python does not have; tensorstore reads them.
FOREIGN = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2", "float8_e4m3b11fnuz": "float8_e4m3b11fnuz"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Struct(zarr.core.dtype.Structured):
    """V3's `struct`, which zarr-python has from 3.2 on; 3.1 has it under another name, and its fields as pairs."""

    _zarr_v3_name = "struct"

    @classmethod
    def from_native_dtype(cls, dtype):
        raise DataTypeValidationError("only for reading")

    @classmethod
    def _check_json_v2(cls, data):
        return False

    @classmethod
    def _from_json_v3(cls, data):
        if not cls._check_json_v3(data):
            raise DataTypeValidationError("no struct")
        one = lambda t: zarr.core.dtype.get_data_type_from_json(t, zarr_format=3)  # noqa: E731
        return cls(fields=tuple((f["name"], one(f["data_type"])) for f in data["configuration"]["fields"]))

    def from_json_scalar(self, data, *, zarr_format):
        return np.array([tuple(t.from_json_scalar(data[n], zarr_format=zarr_format) for n, t in self.fields)], self.to_native_dtype())[0]


if "struct" not in zarr.core.dtype.data_type_registry.contents:
    zarr.core.dtype.data_type_registry.register("struct", Struct)


class Refused(Exception):
    """zaro says no to what was drawn; listed at the end."""


class Wrong(Exception):
    """What fails a case."""


class Case(diff.Case):
    """One random array: the commands that make it, and what it must hold."""

    def __init__(self, seed, zaro, folder):
        super().__init__(seed)
        self.seed, self.zaro, self.folder = seed, zaro, folder
        self.commands, self.files = [], 0
        self.want = self.fill_value = self.dims = self.chunk_shape = self.shard_shape = None
        self.attrs, self.foreign, self.lossy, self.fmt = {}, None, None, 3
        self.store, self.node = folder / "w.zarr", ""

    def zaro_run(self, *argv, stdin=None):
        argv = [str(a) for a in argv]
        self.commands.append("zaro " + " ".join(f"'{a}'" if set(a) & set(" \"*[]{}|<>()$'\n") or not a else a for a in argv))
        done = common.run([self.zaro, *argv], **({"stdin": stdin} if stdin is not None else {}))
        if done.crash:
            raise Wrong(f"{done.crash}: {done.message[-300:]}")
        return done

    def must(self, *argv, stdin=None):
        done = self.zaro_run(*argv, stdin=stdin)
        if done.code:
            raise Wrong(f"exit {done.code}: {done.message[-400:]}")
        return done

    def file(self, suffix, data):
        self.files += 1
        path = self.folder / f"in{self.files}.{suffix}"
        path.write_bytes(data)
        return path

    @property
    def target(self):
        return [self.store, self.node] if self.node else [self.store]

    @property
    def path(self):
        return self.store / self.node


# ------------------------------------------------------------------------------------------------ values

def random_values(case, dtype, shape, text=False):
    """Data of one type; `text` leaves out what JSON and CSV cannot say."""
    if dtype == "string":
        out = np.empty(shape, object)
        out.reshape(-1)[:] = [str(case.pick(WORDS)) for _ in range(out.size)] if out.size else []
        return out
    if dtype == "bytes":
        out = np.empty(shape, object)
        out.reshape(-1)[:] = [case.rng.bytes(int(case.rng.integers(0, 12))).rstrip(b"\0") for _ in range(out.size)] if out.size else []
        return out
    if case.foreign:
        bits = case.rng.bytes(int(np.prod(shape, dtype=int)) * dtype.itemsize)
        return np.frombuffer(bits, dtype).reshape(shape).copy()
    values = arrays.random_array(case.rng, dtype, shape, awkward=not case.lossy).astype(dtype)
    if not text and not case.lossy:
        values = payloads(case, values)
    if dtype.kind == "S" and not text and values.size and case.chance(0.5):
        values = np.frombuffer(case.rng.bytes(values.nbytes), dtype).reshape(shape).copy()
    return values


def payloads(case, values):
    """Some NaNs that no decimal stands for: signs, payloads, signalling ones."""
    size = {"f": values.dtype.itemsize, "c": values.dtype.itemsize // 2}.get(values.dtype.kind)
    if not size or not values.size or case.chance(0.5):
        return values
    mantissa = {2: 10, 4: 23, 8: 52}[size]
    native = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("="))
    bits = native.reshape(-1).view(f"u{size}")
    for _ in range(max(1, bits.size // 20)):
        exponent = ((1 << (size * 8 - 1 - mantissa)) - 1) << mantissa
        sign = int(case.rng.integers(2)) << (size * 8 - 1)
        bits[case.rng.integers(bits.size)] = sign | exponent | int(case.rng.integers(1, 1 << mantissa))
    return native.reshape(values.shape).astype(values.dtype)


def number_text(value):
    value = float(value)
    return "NaN" if np.isnan(value) else ("-" if value < 0 else "") + "Infinity" if np.isinf(value) else repr(value)


def json_leaf(value):
    """A value as `zaro read --format json` has it."""
    if isinstance(value, np.void):
        return {n: json_leaf(value[n]) for n in value.dtype.names}
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return int(value.astype("i8"))
    if isinstance(value, np.complexfloating):
        return [json_leaf(value.real), json_leaf(value.imag)]
    if isinstance(value, np.floating):
        return float(value) if np.isfinite(value) else number_text(value)
    if isinstance(value, np.bytes_):
        return bytes(value).decode()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, str) else value.item()


def json_tree(array):
    return json_leaf(array[()]) if array.ndim == 0 else [json_tree(a) if isinstance(a, np.ndarray) else json_leaf(a) for a in array]


def word(case, value):
    """A value as a cell of CSV, or a word of the command line."""
    leaf = json_leaf(value)
    if isinstance(value, np.floating):
        bits = f"0x{int(np.asarray(value).view(f'u{value.itemsize}')):0{value.itemsize * 2}x}"
        return bits if np.isnan(value) or case.chance(0.2) else number_text(value)
    if isinstance(value, np.complexfloating):
        imaginary = number_text(value.imag)
        plain = f"{number_text(value.real)}{'' if imaginary[0] == '-' else '+'}{imaginary}j"
        return case.pick([plain, json.dumps(leaf)])
    if isinstance(value, np.bool_):
        return case.pick(["true", "True", "1"] if value else ["false", "False", "0"])
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return case.pick([str(leaf), "NaT"]) if np.isnat(value) else str(leaf)
    return leaf if isinstance(leaf, str) else json.dumps(leaf)


def csv_text(case, array):
    quote = lambda t: '"' + t.replace('"', '""') + '"' if set(t) & set(',"\n\r') or t != t.strip() or (not t and case.chance(0.5)) else t  # noqa: E731
    if array.dtype.names:
        cell = lambda v: json.dumps(v) if isinstance(v, (dict, list)) else ("true" if v else "false") if isinstance(v, bool) else str(v)  # noqa: E731
        lines = [",".join(quote(cell(json_leaf(v[n]))) for n in array.dtype.names) for v in array.reshape(-1)]
        return "\n".join([",".join(array.dtype.names), *lines]) + "\n"
    rows = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
    return "".join(",".join(quote(word(case, v)) for v in row) + "\n" for row in rows)


# ------------------------------------------------------------------------------------------------ what to make

def draw_type(case):
    """The type: a numpy dtype, "string" or "bytes"; and the words that ask zaro for it."""
    if case.fmt == 3 and case.chance(0.03):
        case.foreign = case.pick(list(FOREIGN))
        return np.dtype(getattr(ts, FOREIGN[case.foreign]).numpy_dtype), ["--dtype", case.foreign]
    if case.chance(0.14):
        name = case.pick(["string", "string", "bytes"])
        return name, ["--dtype", name]
    dtype = diff.any_dtype(case, structs=False) if case.chance(0.93) else np.dtype(case.pick(STRUCTS))
    if dtype.kind in "mM" and case.chance(0.2):
        dtype = np.dtype(f"<{dtype.kind}8[{case.pick([2, 10, 25])}{case.pick(['s', 'ns', 'D'])}]")
    if dtype.names:
        return dtype, ["--dtype", json.dumps(fields(dtype))]
    words = [dtype.str, dtype.str.lstrip("<|")]
    if dtype.kind in NUMBERS:
        words.append(V3_NAMES.get(dtype.str[1:], dtype.name))
    if dtype.kind in "mM":
        words.append(dtype.name)
    args = ["--dtype", case.pick(words)]
    if dtype.itemsize > 1 and dtype.kind in "iufcmMU" and case.chance(0.25):
        case.notes["big"] = True
        args = ["--dtype", dtype.newbyteorder(">").str] if case.chance(0.5) else [*args, "--endian", "big"]
    return dtype, args


def fields(dtype):
    one = lambda t: fields(t) if t.names else t.str  # noqa: E731
    return [[n, one(dtype.fields[n][0])] for n in dtype.names]


def draw_fill(case, dtype):
    """A fill value, and the words that ask for it; none is zero."""
    if case.chance(0.25) or case.lossy or case.foreign:
        return zero(dtype), []
    if dtype == "string":
        value = case.pick(["", "fill", "é", "a b", '"'])
    elif dtype == "bytes":
        value = case.rng.bytes(int(case.rng.integers(0, 5)))
    elif dtype.kind == "V":
        value = random_values(case, dtype, (1,), text=True)[0]
    elif dtype.kind in "iu" and case.chance(0.4):
        value = dtype.type(case.pick([np.iinfo(dtype).min, np.iinfo(dtype).max]))
    elif dtype.kind == "f" and case.chance(0.3):
        value = nan(case, dtype) if case.chance(0.5) else dtype.type(case.pick([np.finfo(dtype).max, np.finfo(dtype).tiny]))
    else:
        value = case.fill(dtype)
    return value, [f"--fill={word(case, value)}"]


def nan(case, dtype):
    """A NaN that zarr-python keeps as a fill value: it makes signalling ones quiet, and a float16 loses its payload. V2 has but one."""
    if case.fmt == 2 or case.chance(0.3):
        return dtype.type(np.nan)
    size, mantissa = dtype.itemsize, {2: 10, 4: 23, 8: 52}[dtype.itemsize]
    bits = int(np.array(np.nan, dtype).view(f"u{size}")) | int(case.rng.integers(2)) << (size * 8 - 1)
    return np.array(bits | (int(case.rng.integers(1 << (mantissa - 1))) if size > 2 else 0), f"u{size}").view(dtype)[()]


def zero(dtype):
    return {"string": "", "bytes": b""}[dtype] if isinstance(dtype, str) else np.zeros((), dtype)[()]


def filled(case, shape):
    out = np.empty(shape, object if isinstance(case.dtype, str) else case.dtype)
    out[...] = case.fill_value
    return out


def integer(case, low, high):
    return int(case.rng.integers(low, high))


def blosc_v3(case, size):
    return {"name": "blosc", "configuration": {
        "cname": case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), "clevel": integer(case, 0, 10), "typesize": size,
        "shuffle": case.pick(["noshuffle", "shuffle", "bitshuffle"]), "blocksize": int(case.pick([0, 0, 256]))}}


def bytes_codecs(case, size):
    """A random bytes->bytes chain: words for --codec, or objects of V3."""
    n = lambda name, **conf: {"name": f"numcodecs.{name}", "configuration": conf}  # noqa: E731
    if case.chance(0.4):
        cname, shuffle = case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), case.pick(["noshuffle", "shuffle", "bitshuffle"])
        words = [f"zstd:{integer(case, -5, 20)}", "zstd", "gzip", f"gzip:{integer(case, 0, 10)}", "zlib", f"zlib:{integer(case, 0, 10)}", f"bz2:{integer(case, 1, 10)}",
                 f"lz4:{integer(case, 1, 9)}", "lzma:1", f"blosc:{cname}", f"blosc:{cname}:{integer(case, 0, 10)}:{shuffle}", f"blosc:cname={cname},clevel=3"]
        if case.fmt == 3:
            words += ["zstd:3+crc32c", "crc32c", "gzip+crc32c", "zstd:level=1:checksum=true"]
        return case.pick(words)
    makers = [lambda: {"name": "gzip", "configuration": {"level": integer(case, 0, 10)}},
              lambda: {"name": "zstd", "configuration": {"level": integer(case, -5, 12), "checksum": bool(case.chance(0.5))}},
              lambda: blosc_v3(case, size), lambda: {"name": "crc32c"},
              lambda: n("lz4", acceleration=integer(case, 1, 9)), lambda: n("zlib", level=integer(case, 0, 10)), lambda: n("bz2", level=integer(case, 1, 10)),
              lambda: n("lzma", preset=1), lambda: n("lzma", format=1, check=case.pick([0, 1, 4]), preset=integer(case, 0, 4)), lambda: n("zstd", level=3), lambda: n("gzip", level=1),
              lambda: n("crc32", location=case.pick(["start", "end"])), lambda: n("adler32"), lambda: n("crc32c"), lambda: n("jenkins_lookup3"),
              lambda: n("fletcher32"), lambda: n("blosc", cname=case.pick(["lz4", "zstd"]), clevel=3, shuffle=integer(case, -1, 3), blocksize=0)]
    # numcodecs does not shuffle what is no whole number of elements, as what is compressed may be.
    shuffled = [n("shuffle", elementsize=size)] if case.chance(0.1) else []
    return shuffled + [case.pick(makers)() for _ in range(int(case.pick([0, 1, 1, 2, 3])))]


def filters(case, dtype):
    """Value->value filters of numcodecs as (id, configuration); a lossy one becomes `case.lossy`."""
    if isinstance(dtype, str) or case.foreign or (case.fmt == 3 and case.notes.get("big")):
        # Behind filters of numcodecs in V3 zarr-python takes big-endian values for little-endian ones.
        return []
    kind, text = dtype.kind, dtype.newbyteorder(">").str if case.notes.get("big") and case.fmt == 2 else dtype.str
    if kind in "iu" and case.chance(0.15):
        return [("delta", {"dtype": text})]
    if dtype == np.dtype("<i4") and case.chance(0.2):
        return [("astype", {"encode_dtype": text[0] + "i8", "decode_dtype": text})]
    if kind == "b" and case.chance(0.3):
        return [("packbits", {})]
    if dtype in (np.dtype("<f4"), np.dtype("<f8")) and case.chance(0.12):
        name, conf = case.pick([("quantize", {"digits": integer(case, 0, 5), "dtype": text}), ("bitround", {"keepbits": integer(case, 1, 20)}),
                                ("fixedscaleoffset", {"offset": 3, "scale": 10, "dtype": text, "astype": case.pick([text, "<i4"])})])
        case.lossy = numcodecs.get_codec({"id": name, **conf})
        return [(name, conf)]
    return []


def draw_codecs_v3(case, dtype, chunks):
    size = min(255, 1 if isinstance(dtype, str) else dtype.itemsize)
    if not isinstance(dtype, str) and dtype.kind in NUMBERS and chunks and case.chance(0.2):
        # Everything that tensorstore can say: shards in shards, orders before and inside, an index at the start.
        case.notes["whole chain"] = True
        return ["--codec", json.dumps(diff.ts_chain(case, chunks, size, 2))]
    chain = [{"name": f"numcodecs.{name}", "configuration": conf} for name, conf in filters(case, dtype)]
    if not isinstance(dtype, str) and not case.foreign and not chain and dtype.kind in "iuf" and dtype.itemsize > 1 and case.chance(0.06):
        chain = [{"name": "numcodecs.pcodec", "configuration": {"level": integer(case, 0, 9), "mode_spec": "auto"}}]
        case.notes["serializer"] = True
    elif dtype in (np.dtype("<i4"), np.dtype("<i8"), np.dtype("<f4"), np.dtype("<f8")) and not chain and 0 < len(chunks) <= 4 and case.chance(0.06):
        chain = [{"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": -1, "rate": -1, "precision": -1}}]
        case.notes["serializer"] = True
    after = bytes_codecs(case, size)
    if case.notes.get("serializer") and not isinstance(after, str):
        after = [c for c in after if c["name"] != "numcodecs.shuffle"]
    if chain and isinstance(after, str):
        after = [blosc_v3(case, size)]
    if isinstance(after, str):
        return ["--codec", after]
    return ["--codec", json.dumps(chain + after) if chain + after else "none"]


def draw_codecs_v2(case, dtype):
    size = min(255, 1 if isinstance(dtype, str) else dtype.itemsize)
    front = [{"id": name, **conf} for name, conf in filters(case, dtype)]
    if not front and case.chance(0.4):
        after = bytes_codecs(case, size)
        if isinstance(after, str):
            return ["--codec", after]
        if len(after) == 1 and after[0]["name"].startswith("numcodecs."):
            return ["--codec", json.dumps(after)]
    if isinstance(dtype, str):
        front.append({"id": {"string": "vlen-utf8", "bytes": "vlen-bytes"}[dtype]})
    elif dtype.kind in "iufbc" and not front and case.chance(0.2):
        front.append({"id": "shuffle", "elementsize": size})
    if not isinstance(dtype, str) and not front and case.chance(0.2):
        front.append({"id": case.pick(["crc32", "adler32", "crc32c", "jenkins_lookup3", "fletcher32", "base64"])})
    last = case.pick([None, {"id": "zlib", "level": integer(case, 0, 10)}, {"id": "gzip", "level": integer(case, 0, 10)}, {"id": "bz2", "level": integer(case, 1, 10)},
                      {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None}, {"id": "lz4", "acceleration": 1}, {"id": "zstd", "level": integer(case, -3, 10)},
                      *[{"id": "blosc", "cname": case.pick(["lz4", "lz4hc", "blosclz", "zlib", "zstd"]), "clevel": integer(case, 0, 10), "shuffle": integer(case, -1, 3),
                         "blocksize": int(case.pick([0, 0, 256]))}] * 3])
    chain = front + ([last] if last else [])
    return ["--codec", json.dumps(chain) if chain else "none"]


def draw_attrs(case):
    values = [1, -2.5, "K", "é", None, True, [1, 2.5, "x"], {"a": {"b": []}}, 2**53 + 1, 1e300, "", 0.1]
    return {str(k): case.pick(values) for k in case.rng.permutation(["units", "long name", "n", "ключ"])[:integer(case, 0, 4)]}


def numbers(values):
    return ",".join(map(str, values))


def make(case):
    """`zaro create`, or `write --create`, and changes."""
    case.fmt = int(case.pick([3, 3, 3, 2, 2]))
    case.dtype, args = draw_type(case)
    text = isinstance(case.dtype, str)
    shape = case.shape(200 if text else 1500)
    case.chunk_shape = case.chunks(shape)
    if case.fmt == 3:
        args += draw_codecs_v3(case, case.dtype, case.chunk_shape)
    else:
        args += draw_codecs_v2(case, case.dtype)
    case.fill_value, fill = draw_fill(case, case.dtype)
    args += ["--zarr-format", case.fmt, *fill]
    if shape:
        args += ["--chunks", numbers(case.chunk_shape)]
    if case.fmt == 3 and shape and not case.notes.get("whole chain") and case.chance(0.4):
        case.shard_shape = tuple(c * integer(case, 1, 4) for c in case.chunk_shape)
        args += ["--shards", numbers(case.shard_shape)]
    if case.chance(0.3):
        args += ["--separator", case.pick("./")]
    if case.fmt == 3 and case.chance(0.2):
        args += ["--key-encoding", case.pick(["default", "v2"])]
    if shape and case.chance(0.4):
        case.dims = [case.pick(["", f"d{i}", f"ü{i}"]) if case.chance(0.2) else f"d{i}" for i in range(len(shape))]
        args += ["--dims", ",".join(case.dims)]
    if case.chance(0.3):
        case.attrs = draw_attrs(case)
        text_of = json.dumps(case.attrs, ensure_ascii=bool(case.chance(0.5)))
        args += ["--attrs", text_of if case.chance(0.8) else f"@{case.file('json', text_of.encode())}"]
    order = []
    if len(shape) > 1 and not case.notes.get("whole chain") and case.chance(0.3):
        order = ["--order", "F" if case.fmt == 2 or case.chance(0.5) else numbers(case.rng.permutation(len(shape)))]
    if case.chance(0.5):
        case.node = case.pick(["x", "a/b", "g/x y", "é"])
    case.want = filled(case, shape)

    first = None
    if zipped(case, 0.04 if not text and not case.foreign else 0) or not text and case.chance(0.3):
        # The order of elements is only `create`'s to choose.
        first = random_values(case, case.dtype, shape)
    if first is None or case.foreign:
        where = [*case.target, "--shape", numbers(shape), *order, *args]
        done = case.zaro_run("create", *where, *(["--consolidate"] if case.node and case.chance(0.2) else []))
    else:
        where = [*case.target, "--create", *args]
        done = case.zaro_run("write", *where, "--from", case.file("npy", npy(case, first)))
        case.want[...] = first
    if done.code:
        raise Wrong(f"exit {done.code}: {done.message[-400:]}")
    if case.store.suffix == ".zip":
        return
    changes = integer(case, 0, 3) if first is not None else integer(case, 1, 4)
    for _ in range(changes):
        change(case)


def zipped(case, p):
    """Whether it goes into an archive, which is made by one command."""
    if case.chance(p):
        case.store = case.folder / "w.zip"
    return case.store.suffix == ".zip"


def unzip(case):
    """zarr-python and zaro look into the archive, and all others at what is in it."""
    case.must("validate", case.store, "--strict")
    source, case.store = case.store, case.folder / "w.zarr"
    with zipfile.ZipFile(source) as archive:
        archive.extractall(case.store)
    if case.lossy is None and not unreadable(case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = zarr.open_array(zarr.storage.ZipStore(source, mode="r"), path=case.node, mode="r")
            check(differs(array[...], case.want), "zarr-python, archive")


def npy(case, values):
    import io
    out = io.BytesIO()
    if values.dtype == object:
        values = values.astype("S" if case.dtype == "bytes" else "U")
    if case.chance(0.2) and values.dtype.kind in "iufcmMU":
        values = values.astype(values.dtype.newbyteorder(">"))
    np.save(out, np.asarray(values, order=case.pick("CCF")), allow_pickle=False)
    return out.getvalue()


def change(case):
    """One more command."""
    shape = case.want.shape
    roll = case.rng.random()
    if shape and roll < 0.12:
        resize(case)
    elif shape and roll < 0.27:
        append(case)
    elif roll < 0.32:
        more = draw_attrs(case)
        if more:
            case.must("attrs", *case.target, *[x for k, v in more.items() for x in ("--set", f"{k}={json.dumps(v)}")])
            case.attrs = {**case.attrs, **more}
    else:
        put(case)


def axis_name(case, axis):
    return case.dims[axis] if case.dims and case.dims[axis] and case.chance(0.5) else str(axis)


def resize(case):
    old = case.want
    top = max(2, int(2500 ** (1 / old.ndim)))
    new = [integer(case, 0, top + 1) if case.chance(0.5) else n for n in old.shape]
    if case.chance(0.5):
        args = ["--shape", numbers(new)]
    else:
        axis = integer(case, 0, old.ndim)
        new = [n if i == axis else o for i, (n, o) in enumerate(zip(new, old.shape))]
        delta = new[axis] - old.shape[axis]
        args = ["--axis", f"{axis_name(case, axis)}={case.pick([str(new[axis]), f'{delta:+d}'] if delta else [str(new[axis])])}"]
    case.must("resize", *case.target, *args)
    case.want = filled(case, new)
    kept = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, new))
    case.want[kept] = old[kept]


def append(case):
    old, axis = case.want, integer(case, 0, case.want.ndim)
    part = [integer(case, 0, 6) if i == axis else n for i, n in enumerate(old.shape)]
    flat = old.ndim > 1 and case.chance(0.25)
    if flat:
        part[axis] = 1
    form, values = content(case, part)
    if flat and form == "csv" and values.dtype.names:
        form = "json"
    case.want = np.concatenate([old, values], axis)
    write(case, values.squeeze(axis) if flat else values, form, ["--append", axis_name(case, axis)], count=True)


def put(case):
    shape = case.want.shape
    roll = case.rng.random()
    whole = not shape or roll < 0.2
    if whole:
        args, index = [], ...
    elif roll < 0.7:
        args, index = diff.random_box(case, shape)
    else:
        args, index = diff.random_select(case, shape)
        if case.chance(0.15) and shape[0]:
            picks = case.rng.permutation(shape[0])[:integer(case, 1, 5)].tolist()
            args, index = ["--select", f"{json.dumps(picks)},..."], (picks,)
    form, values = content(case, case.want[index].shape if not isinstance(case.want[index], (np.generic, str, bytes)) else ())
    case.want[index] = values if values.ndim or case.dtype not in ("string", "bytes") else values[()]
    if args and args[0] == "--start" and form == "npy" and case.chance(0.6):
        args = args[:2]
    write(case, values, form, args)


def content(case, shape):
    """Values, and the format in which zaro gets them."""
    if isinstance(case.dtype, str):
        form = case.pick(["npy", "json", "json", "csv"])
    elif case.foreign:
        form = "raw"
    else:
        form = case.pick(["npy", "npy", "npy", "raw", "raw", "json", "csv"])
    if form == "csv" and (0 in shape or not len(shape)):
        form = "npy"
    if form == "json" and 0 in shape:
        form = "npy"
    case.notes["cast"] = form == "npy" and not isinstance(case.dtype, str) and case.dtype.kind in "iufc" and case.chance(0.1)
    if case.notes["cast"]:
        return form, case.rng.integers(0, 100, tuple(shape)).astype(case.dtype)
    return form, random_values(case, case.dtype, tuple(shape), text=form in ("json", "csv"))


def write(case, values, form, args, count=False):
    extra = []
    if form == "npy" and case.notes.pop("cast", None):
        data, extra = npy(case, values.astype(case.pick(["i1", "u1", "i2", "f4"]))), ["--cast"]
    elif form == "npy":
        data = npy(case, values)
    elif form == "raw":
        order = case.pick("CCF")
        data = (values if case.foreign else arrays.little(values)).tobytes(order)
        extra = ["--order", "F"] if order == "F" else []
        if count or not args or case.chance(0.3):
            extra += ["--shape", numbers(values.shape)]
    elif form == "json":
        data = json.dumps(json_tree(values), ensure_ascii=bool(case.chance(0.5))).encode()
    else:
        data = csv_text(case, values).encode()
        # Of structs a line is an element, and where rows end does not show when they are added.
        known = values.ndim <= 2 and not (count and values.dtype.names)
        extra = [] if known and case.chance(0.8) else ["--shape", numbers(values.shape)]
    if case.chance(0.15):
        extra.append("--keep-fill")
    if case.chance(0.15):
        extra += ["--memory", case.pick(["1K", "64K"])]
    path = case.file(form, data)
    if not case.chance(0.2):
        case.must("write", *case.target, "--from", path, *args, *extra)
        return
    extra += ["--input-format", form]
    if len(data) > 60000 or case.chance(0.4):
        with open(path, "rb") as stdin:
            case.must("write", *case.target, "--from", "-", *args, *extra, stdin=stdin)
        return
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    try:
        case.must("write", *case.target, "--from", "-", *args, *extra, stdin=reader)
    finally:
        os.close(reader)


# ------------------------------------------------------------------------------------------------ copies

def copy(case):
    """`zaro copy` of somebody else's array."""
    writer = case.pick(["zarr3", "zarr3", "zarr2", "zarr2", "ts3", "ts2"])
    source, inner = case.folder / "source.zarr", ""
    if case.chance(0.4):
        inner = case.pick(["x", "a b"])
        zarr.create_group(source, zarr_format=int(writer[-1]))
    try:
        want = diff.WRITERS[writer](case, source / inner)
        array = None if case.raw_only else zarr.open_array(source / inner, mode="r+")
    except Exception as e:  # the writer's own limits are not ours to test
        raise Refused(f"source not written ({writer}): {type(e).__name__}: {e}") from None
    if array is not None and case.chance(0.4):
        case.attrs = draw_attrs(case)
        array.attrs.update(case.attrs)
    want = np.asarray(want)
    if case.notes.get("lossy") and (want.dtype.itemsize == 2 or (want == array.fill_value).any()):
        # What is rounded twice in float16 is not the same, nor are fill values that come to lie in a chunk.
        raise Refused("drawn: rounded float16 or fill values")
    case.foreign = "bfloat16" if case.raw_only else None
    case.fmt = int(writer[-1])
    case.dtype = ("bytes" if want.size and isinstance(want.reshape(-1)[0], bytes) else "string") if want.dtype.kind in "OT" else want.dtype
    if array is not None:
        case.fill_value = array.fill_value
        case.dims = getattr(array.metadata, "dimension_names", None)
        case.chunk_shape, case.shard_shape = array.chunks, array.shards
    if case.chance(0.1) and not case.raw_only:
        case.fmt = 5 - case.fmt
        case.store, case.node = source, inner
        done = case.zaro_run("copy", source, "--in-place", "--zarr-format", case.fmt, *(["--path", inner] if inner and case.chance(0.05) else []))
        refusable(done)
        case.want = want
        case.notes["in place"] = True
        without_fill(case, int(writer[-1]))
        return
    args, rank = [], want.ndim
    if case.chance(0.5):
        case.fmt = int(case.pick([2, 3]))
        args += ["--zarr-format", case.fmt]
    if rank and case.chance(0.3) and not inner and 0 not in want.shape:
        ends = [sorted(case.rng.integers(0, n + 1, 2).tolist()) for n in want.shape]
        ends = [(a, b) if a < b else (0, n) for (a, b), n in zip(ends, want.shape)]
        args += ["--select", ",".join(f"{a}:{b}" for a, b in ends)]
        want = want[tuple(slice(a, b) for a, b in ends)]
    if rank and case.chance(0.4):
        case.chunk_shape = case.chunks(want.shape)
        case.shard_shape = None
        args += ["--chunks", numbers(case.chunk_shape)]
        if case.fmt == 3 and case.chance(0.5):
            case.shard_shape = tuple(c * integer(case, 1, 4) for c in case.chunk_shape)
            args += ["--shards", numbers(case.shard_shape)]
        else:
            args += ["--shards", "none"]
    else:
        case.chunk_shape = case.shard_shape = None  # whatever it was, or fits
    if case.chance(0.35) and not isinstance(case.dtype, str):
        args += ["--codec", one_codec(case)]
    if rank > 1 and case.chance(0.2):
        args += ["--order", "F" if case.fmt == 2 or case.chance(0.5) else numbers(case.rng.permutation(rank))]
    if case.chance(0.2):
        args += ["--separator", case.pick("./")]
    if not isinstance(case.dtype, str) and want.dtype.kind in "iuf" and not case.foreign and case.chance(0.2):
        to = np.dtype(case.pick(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]))
        args += ["--dtype", V3_NAMES[to.str[1:]]]
        want, clamp = cast(case, want, to)
        case.dtype = want.dtype
        args += ["--clamp"] * clamp
    if case.chance(0.15):
        args += ["--memory", "1M"]
    if case.chance(0.2):
        args.append("--verify")
    if inner and case.chance(0.3):
        case.node = "in/side"
        args += ["--path", inner, "--to", case.node]
    else:
        case.node = inner
    if inner and case.chance(0.4):
        args.append("--consolidate")
    zipped(case, 0.04)
    refusable(case.zaro_run("copy", source, case.store, *args))
    case.want = want
    without_fill(case, int(writer[-1]))


def without_fill(case, source):
    """A variable of V3 that has no missing elements has no fill value in V2, but for NaN; see meaning.py."""
    if (source, case.fmt) != (3, 2) or case.fill_value is None or not (case.dims or not case.want.ndim):
        return
    fill = np.asarray(case.fill_value)
    usual = fill.dtype.kind == "f" and fill.tobytes() == np.array(np.nan, fill.dtype).tobytes()
    if not usual:
        case.fill_value, case.notes["null"] = None, True
    case.dims = case.dims or ()


# What a copy may refuse: what the other version has no words for, or what has to be coded anew.
RULES = ["V2 has no ", "V2 knows the orders", "its chunks cannot stay as they are", "and would lose it"]


def refusable(done):
    if done.code and not any(r in done.message for r in RULES):
        raise Wrong(f"exit {done.code}: {done.message[-400:]}")
    if done.code:
        raise Refused(done.message)


def one_codec(case):
    n = lambda name, **conf: json.dumps({"name": f"numcodecs.{name}", "configuration": conf})  # noqa: E731
    return case.pick(["zstd", "zstd:7", "gzip:1", "blosc:lz4", "blosc:zstd:3:bitshuffle", "none", "zlib", "bz2", "lz4", n("lzma", preset=1), n("zlib", level=9)])


def cast(case, want, to):
    """The array in another type if all of it fits, clamped if not; and whether it has to be asked for."""
    if to.kind == "f":
        with np.errstate(over="ignore"):
            out = want.astype(to)
        fits = bool((np.isfinite(out) == np.isfinite(want)).all())
        fill = np.asarray(case.fill_value)
        case.fill_value = fill.astype(to)[()]
        if not fits:
            raise Refused("drawn: floats beyond the range")
        return out, False
    if want.dtype.kind == "f":
        raise Refused("drawn: floats to integers")
    info = np.iinfo(to)
    clamp = lambda a: np.array([min(max(int(v), info.min), info.max) for v in a.reshape(-1)], to).reshape(a.shape)  # noqa: E731
    out = clamp(want)
    fill = np.asarray(case.fill_value)
    same = all(int(a) == int(b) for a, b in zip(out.reshape(-1), want.reshape(-1))) and int(clamp(fill)[()]) == int(fill)
    case.fill_value = clamp(fill)[()]
    return out, not same


# ------------------------------------------------------------------------------------------------ reading back

def stored(path):
    """What the document says: version, type, names of all codecs, in shards too."""
    if (path / "zarr.json").exists():
        doc = json.loads((path / "zarr.json").read_text())
        names, todo = [], list(doc["codecs"])
        while todo:
            codec = todo.pop()
            names.append(codec["name"])
            todo += codec.get("configuration", {}).get("codecs", []) + codec.get("configuration", {}).get("index_codecs", [])
        return 3, doc["data_type"], names, doc
    doc = json.loads((path / ".zarray").read_text())
    return 2, doc["dtype"], [c["id"] for c in [*(doc["filters"] or []), doc["compressor"]] if c], doc


TS_CODECS = {3: {"bytes", "gzip", "zstd", "blosc", "crc32c", "transpose", "sharding_indexed"}, 2: {"zlib", "gzip", "bz2", "zstd", "blosc"}}


def ts_reads(fmt, dtype, codecs, doc):
    if fmt == 3:
        return isinstance(dtype, str) and (dtype in diff.TS_TYPES or dtype in FOREIGN) and set(codecs) <= TS_CODECS[3]
    return isinstance(dtype, str) and dtype[1] in "biufc" and set(codecs) <= TS_CODECS[2] and not doc["filters"] and "checksum" not in (doc["compressor"] or {})


ZARRS_CODECS = {3: TS_CODECS[3] | {"numcodecs.shuffle", "numcodecs.pcodec"},
                2: {"zlib", "gzip", "bz2", "zstd", "blosc", "shuffle", "pcodec"}}


def zarrs_reads(fmt, dtype, codecs, doc):
    if not isinstance(dtype, str) or not set(codecs) <= ZARRS_CODECS[fmt]:
        return False
    if fmt == 2:
        # Big-endian arrays of V2 and those of order F it refuses in Python; a compressor is no filter; there is no snappy.
        if any(f["id"] in ("zstd", "zlib", "gzip", "bz2", "blosc") for f in doc["filters"] or []):
            return False
        # Nor a complex type without a fill value, which xarray writes, too.
        if dtype[1] == "c" and doc["fill_value"] is None:
            return False
        return dtype[0] != ">" and dtype[1] in "biufc" and doc["order"] == "C" and (doc["compressor"] or {}).get("cname") != "snappy"
    text = json.dumps(doc["codecs"])
    # It swaps real and imaginary part of big-endian complex numbers when it decodes a chunk in part, and does not decode blosc
    # in part if another compressor comes before it; both also with what zarr-python writes.
    unable = dtype.startswith("complex") and '"big"' in text
    # zarr-python hands it the fill value, and every NaN as "NaN".
    unable |= "0x" in json.dumps(doc["fill_value"]) or '"snappy"' in text
    # What pcodec wrote of a chunk whose dimensions changed places, it takes for one of the shape before.
    unable |= {"transpose", "numcodecs.pcodec"} <= set(codecs)
    return dtype in diff.TS_TYPES and not unable and not turned_shards(doc["codecs"]) and not blosc_behind(doc["codecs"])


def turned_shards(chain):
    """Whether dimensions change places before shards: zarr-python holds inner chunks against the shape before that."""
    names = [c["name"] for c in chain]
    return "sharding_indexed" in names and ("transpose" in names or any(turned_shards(c["configuration"]["codecs"]) for c in chain if c["name"] == "sharding_indexed"))


def blosc_behind(chain):
    """Whether blosc compresses what has already been compressed."""
    seen = False
    for codec in chain:
        if codec["name"] == "blosc" and seen or blosc_behind(codec.get("configuration", {}).get("codecs", [])):
            return True
        seen |= codec["name"] in ("gzip", "zstd", "blosc", "numcodecs.pcodec")
    return False


def differs(got, want):
    """None, or how two arrays differ; to the bit."""
    # numpy makes scalars of text as long as it is.
    got = np.asarray(got, want.dtype if not np.ndim(got) and want.dtype.kind in "SU" and isinstance(got, (str, bytes)) else None)
    if got.shape != want.shape:
        return f"shape {got.shape}, want {want.shape}"
    if want.dtype == object or want.dtype.kind == "T":
        for where, (a, b) in enumerate(zip(got.astype(object).reshape(-1), want.astype(object).reshape(-1))):
            if a != b or isinstance(a, bytes) != isinstance(b, bytes):
                return f"element {where} is {a!r}, want {b!r}"
        return None
    if got.dtype.newbyteorder("<") != want.dtype.newbyteorder("<"):
        return f"dtype {got.dtype}, want {want.dtype}"
    a, b = (x.tobytes() if x.dtype.kind == "V" and not x.dtype.names else arrays.little(x).tobytes() for x in (got, want))
    if a == b:
        return None
    size = want.dtype.itemsize
    where = next(i for i in range(0, len(b), size) if a[i:i + size] != b[i:i + size])
    wrong = sum(a[i:i + size] != b[i:i + size] for i in range(0, len(b), size))
    return f"{wrong} of {want.size} elements differ, the first at {where // size}: {a[where:where + size].hex()}, want {b[where:where + size].hex()}"


def check(why, who):
    if why:
        raise Wrong(f"{who}: {why}")


def same_value(got, want):
    if isinstance(want, (str, bytes)) and isinstance(got, type(want)):
        return got.rstrip(b"\0") == want.rstrip(b"\0") if isinstance(want, bytes) else str(got) == str(want)
    return differs(got, np.asarray(want)) is None


def by_zarr_python(case, array):
    """What zarr-python reads, and what it thinks of the metadata."""
    check(differs(array[...], case.want), "zarr-python")
    meta = array.metadata
    if array.metadata.zarr_format != case.fmt:
        raise Wrong(f"version {meta.zarr_format}, want {case.fmt}")
    if case.notes.get("null") and array.fill_value is not None:
        raise Wrong(f"zarr-python: fill value {array.fill_value!r}, want null")
    if case.fill_value is not None and not same_value(array.fill_value, case.fill_value):
        raise Wrong(f"zarr-python: fill value {array.fill_value!r}, want {case.fill_value!r}")
    if case.chunk_shape is not None and not case.notes.get("whole chain") and (array.chunks, array.shards) != (tuple(case.chunk_shape), case.shard_shape):
        raise Wrong(f"zarr-python: chunks {array.chunks} in shards {array.shards}, want {case.chunk_shape} in {case.shard_shape}")
    attrs, dims = dict(array.attrs), [n or None for n in case.dims] if case.dims is not None and (case.dims or case.fmt == 2) else None
    if case.fmt == 2:
        got = attrs.pop("_ARRAY_DIMENSIONS", None)
    else:
        got = meta.dimension_names and list(meta.dimension_names)
    if dims != got:
        raise Wrong(f"zarr-python: dimension names {got}, want {dims}")
    if attrs != case.attrs or not common.same(json.loads(json.dumps(attrs)), json.loads(json.dumps(case.attrs))):
        raise Wrong(f"zarr-python: attributes {attrs}, want {case.attrs}")
    if case.want.ndim and case.want.size and case.chance(0.3):
        args, index = diff.random_box(case, case.want.shape)
        check(differs(array[index], case.want[index]), f"zarr-python, {args}")


# What zarr-python warns of whatever is written: types and codecs that the core of V3 has not, shards inside of something.
TOLD = ["does not have a Zarr V3 specification", "not in the Zarr version 3 specification", "Combining a `sharding_indexed` codec disables"]


def unreadable(case):
    """Whether it is beyond zarr-python: types it does not have, dimensions that change places before shards, structs in shards
    (whose fill value has no hash), and blosc's snappy, which numcodecs is built without."""
    fmt, dtype, codecs, doc = stored(case.path)
    if case.foreign or '"snappy"' in json.dumps(doc):
        return True
    struct = not isinstance(dtype, str) and dtype["name"] == "struct" if fmt == 3 else False
    return fmt == 3 and (turned_shards(doc["codecs"]) or struct and "sharding_indexed" in codecs)


def read_back(case, peers):
    """Raises Wrong if anything is."""
    if case.lossy is not None:
        case.want = lossy(case)
    fmt, dtype, codecs, doc = stored(case.path)
    if not unreadable(case):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            by_zarr_python(case, zarr.open_array(case.path, mode="r"))
        for w in caught:
            if not any(t in str(w.message) for t in TOLD):
                raise Wrong(f"zarr-python warns: {w.category.__name__}: {w.message}")
        peers["zarr-python"] += 1
    if ts_reads(fmt, dtype, codecs, doc):
        spec = {"driver": "zarr3" if fmt == 3 else "zarr", "kvstore": {"driver": "file", "path": f"{case.path}/"}}
        check(differs(ts.open(spec, open=True).result().read().result(), case.want), "tensorstore")
        peers["tensorstore"] += 1
    if zarrs_reads(fmt, dtype, codecs, doc):
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
            check(differs(zarr.open_array(case.path, mode="r")[...], case.want), "zarrs")
        peers["zarrs"] += 1
    by_zaro(case)
    if case.node:
        consolidated(case)


def lossy(case):
    """What numcodecs makes of the values, element by element."""
    flat = np.ascontiguousarray(case.want).reshape(-1)
    if not flat.size:
        return case.want
    if flat.dtype.str != getattr(case.lossy, "dtype", flat.dtype) and hasattr(case.lossy, "dtype"):
        flat = flat.astype(case.lossy.dtype)
    out = np.asarray(case.lossy.decode(case.lossy.encode(flat.copy())))
    return out.view(flat.dtype).astype(case.want.dtype).reshape(case.want.shape)


def by_zaro(case):
    want = case.want
    form = "json" if want.dtype.kind in "OT" else "raw" if case.foreign or case.chance(0.5) else "npy"
    done = case.must("read", *case.target, "--format", form)
    if form == "json":
        why = arrays.json_equal(done.out, want.astype(object))
    elif form == "npy":
        why = arrays.npy_equal(done.out, want)
    else:
        why = (None if done.out == want.tobytes() else "other bytes") if case.foreign else arrays.raw_equal(done.out, want)
    check(why, "zaro")
    done = case.zaro_run("validate", case.store, "--strict")
    if done.code or b"0 warnings" not in done.out:
        raise Wrong(f"zaro validate: {done.out.decode()[-300:]}{done.message[-300:]}")


def consolidated(case):
    """The hierarchy through its root, with consolidated metadata."""
    document = case.store / (".zmetadata" if case.fmt == 2 else "zarr.json")
    there = document.exists() and (case.fmt == 2 or "consolidated_metadata" in json.loads(document.read_text()))
    if not there and case.chance(0.5):
        case.must("consolidate", case.store)
        there = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if unreadable(case):
            return
        group = zarr.open_group(case.store, mode="r", use_consolidated=there or None)
        if there and group.metadata.consolidated_metadata is None:
            raise Wrong("zarr-python: no consolidated metadata")
        by_zarr_python(case, group[case.node])
    if there:
        done = case.zaro_run("validate", case.store, "--strict")
        if done.code:
            raise Wrong(f"zaro validate, consolidated: {done.out.decode()[-300:]}{done.message[-300:]}")


def run_case(zaro, seed, kind, folder, peers):
    """A label, what was refused, what is wrong, and the commands."""
    case = Case(seed, zaro, folder)
    name = kind or case.pick(["made", "made", "copied"])
    refused = wrong = None
    try:
        {"made": make, "copied": copy}[name](case)
        if case.store.suffix == ".zip":
            unzip(case)
        read_back(case, peers)
    except Refused as e:
        refused = str(e)
    except Wrong as e:
        wrong = str(e)
    except Exception as e:  # a peer that cannot read is a failure like any other
        wrong = f"{type(e).__name__}: {e}" + (f" in {e.__traceback__.tb_frame.f_code.co_name}" if e.__traceback__ else "")
    return name, refused, wrong, case.commands


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kind", choices=["made", "copied"])
    p.add_argument("--keep", type=Path, help="keep the stores of failures here")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    zaro, tally, unmade, started = common.find_zaro(a.zaro), common.Tally("write", a.verbose), {}, time.monotonic()
    peers = {"zarr-python": 0, "tensorstore": 0, "zarrs": 0}
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="zaro-write-", dir=base) as temporary:
        for seed in range(a.seed, a.seed + a.cases):
            folder = Path(temporary) / str(seed)
            folder.mkdir()
            name, refused, wrong, commands = run_case(zaro, seed, a.kind, folder, peers)
            label = f"--seed {seed} --cases 1{f' --kind {a.kind}' if a.kind else ''} ({name})"
            if refused:
                tally.skip(label, refused)
                why = " ".join(refused.replace(str(folder), "").split())[:160]
                unmade[why] = unmade.get(why, 0) + 1
            elif wrong:
                tally.fail(label, wrong + "".join(f"\n      {c}".replace(str(folder) + "/", "") for c in commands))
                if a.keep:
                    shutil.copytree(folder, a.keep / str(seed), dirs_exist_ok=True)
            else:
                tally.ok(label)
            shutil.rmtree(folder, ignore_errors=True)
    for why, count in sorted(unmade.items(), key=lambda x: -x[1])[:None if a.verbose else 12]:
        print(f"note  {count} not made: {why}")
    seconds = time.monotonic() - started
    print(f"note  read by {', '.join(f'{k} {v}' for k, v in peers.items())}; {a.cases / seconds:.1f} cases/s")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

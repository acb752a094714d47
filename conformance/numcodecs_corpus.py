"""Everything numcodecs can write (but pickle), as one-chunk arrays that zaro must read.

    numcodecs_corpus.py [--only CODEC] [--every N]

For each codec class, many configurations times the kinds of arrays numcodecs' own tests use (integers,
floats, booleans, dates, durations, fixed and object strings, JSON objects, ragged arrays; several shapes,
C and F order), the chunk is encoded with numcodecs itself and wrapped as a Zarr V2 array: the codec as the
compressor, as a filter, or both. The expected values are what numcodecs decodes. Then the `numcodecs.*`
names of V3 are written through zarr-python. `--every N` takes each Nth case, for a quick look.
"""

import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import common

try:
    import arrays
    import numcodecs as nc
    import numpy as np
    import zarr
    import zarr.codecs.numcodecs as zn
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

warnings.simplefilter("ignore")
rng = np.random.default_rng(20)


def shaped(flat):
    """The same data in the shapes and memory orders the codecs must not confuse."""
    yield flat, "C"
    n = len(flat)
    yield flat.reshape(10, n // 10), "C"
    yield flat.reshape(10, n // 10), "F"
    yield flat.reshape(2, 5, n // 10), "F"


def flat_arrays():
    """name -> 1-D data, every length a multiple of ten."""
    out = {t: np.arange(1000).astype(t) for t in ("<i1", "<u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", ">i4", ">u2", ">i8")}
    out |= {"random <i4": rng.integers(-(2**31), 2**31, 500).astype("<i4"), "random <u8": rng.integers(0, 2**63, 500).astype("<u8") * 2 + 1}
    out |= {t: np.linspace(-5, 100, 1000).astype(t) for t in ("<f2", "<f4", "<f8", ">f4", ">f8")}
    out |= {"normal <f8": rng.normal(1000, 1, 1000), "normal <f4": rng.normal(0, 1, 500).astype("<f4"), "zeros <f4": np.zeros(200, "<f4")}
    special = rng.normal(0, 1, 100)
    special[::7], special[::11], special[::13] = np.nan, np.inf, -0.0
    out |= {"special <f8": special, "special <f4": special.astype("<f4"), "special <f2": special.astype("<f2")}
    out |= {"<c8": (rng.normal(0, 1, 200) + 1j * rng.normal(0, 1, 200)).astype("<c8"), "<c16": rng.normal(0, 1, 200) + 1j}
    out |= {"bool": rng.integers(0, 2, 1000).astype("?"), "bool all": np.ones(70, "?")}
    for unit in ("D", "s", "ms", "us", "ns"):
        out[f"<M8[{unit}]"] = rng.integers(0, 2**40, 100).astype("<i8").view(f"<M8[{unit}]")
        out[f"<m8[{unit}]"] = rng.integers(-(2**30), 2**30, 100).astype("<i8").view(f"<m8[{unit}]")
    out["NaT"] = np.array(["NaT", "2020-01-01"] * 10, "<M8[ns]")
    out |= {"S3": rng.choice([b"foo", b"bar", b"b", b""], 100).astype("S3"), "<U3": rng.choice(["foo", "é", "長さ長", ""], 100).astype("<U3"), ">U3": rng.choice(["foo", "é", ""], 100).astype(">U3")}
    return out


FLAT = flat_arrays()
NUMBERS = [k for k, v in FLAT.items() if v.dtype.kind in "iufc"]
PLAIN = list(FLAT)

BLOSC = [nc.Blosc(c, level, shuffle) for c in ("lz4", "lz4hc", "blosclz", "zlib", "zstd") for level in (0, 1, 5, 9) for shuffle in (-1, 0, 1, 2)]
BLOSC += [nc.Blosc("lz4", 5, 1, blocksize) for blocksize in (64, 256, 1024)] + [nc.Blosc("zstd", 1, 2, 4096)]
LZMA_FILTERS = [[{"id": 3, "dist": 4}, {"id": 33, "preset": 1}], [{"id": 33, "preset": 6}], [{"id": 33, "dict_size": 4096, "lc": 2, "lp": 1, "pb": 1}]]
LZMA = [nc.LZMA(preset=p) for p in (None, 0, 1, 6, 9)] + [nc.LZMA(preset=1, format=1, check=c) for c in (0, 1, 4, 10)] + [nc.LZMA(preset=1, format=2)]
LZMA += [nc.LZMA(format=3, filters=f) for f in LZMA_FILTERS]
ANY_BYTES = {  # codecs over plain bytes: any type
    "zlib": [nc.Zlib(level) for level in (-1, 0, 1, 5, 9)], "gzip": [nc.GZip(level) for level in (-1, 0, 1, 5, 9)], "bz2": [nc.BZ2(level) for level in (1, 5, 9)],
    "lzma": LZMA, "lz4": [nc.LZ4(a) for a in (-1, 0, 1, 10, 100)], "blosc": BLOSC,
    "zstd": [nc.Zstd(level, checksum) for level in (-999999, -7, -1, 0, 1, 5, 9, 22, 100) for checksum in (False, True)],
    "base64": [nc.Base64()], "crc32": [nc.CRC32(), nc.CRC32(location="end")], "adler32": [nc.Adler32(), nc.Adler32(location="end")],
    "crc32c": [nc.CRC32C(), nc.CRC32C(location="start")], "jenkins_lookup3": [nc.JenkinsLookup3(), nc.JenkinsLookup3(initval=7)],
    "fletcher32": [nc.Fletcher32()],
}
CHECKS = {"base64", "crc32", "adler32", "crc32c", "jenkins_lookup3", "fletcher32"}


class Writer:
    """Numbers the cases, writes each store, and judges it."""

    def __init__(self, zaro, tally, folder, only, every):
        self.zaro, self.tally, self.folder, self.only, self.every, self.count = zaro, tally, folder, only, every, 0

    def wanted(self, codec):
        if self.only and codec != self.only:
            return False
        self.count += 1
        return self.count % self.every == 0

    def check(self, label, path, want, form):
        done = common.run([self.zaro, "read", str(path), "--format", form])
        if done.crash or done.code:
            why = f"{done.crash or f'exit {done.code}'}: {done.message[-300:]}"
        elif form == "raw":
            why = arrays.raw_equal(done.out, want)
        else:
            why = arrays.json_equal(done.out, want)
        self.tally.fail(label, why) if why else self.tally.ok(label)
        shutil.rmtree(path, ignore_errors=True)

    def v2(self, codec, label, want, filters, compressor, order="C", dtype=None, form="raw", chunk=None):
        """One V2 array of one chunk; `chunk` is what the filter chain is given (default: the data itself)."""
        path = self.folder / str(self.count)
        data = np.asarray(want, order=order) if chunk is None else chunk
        try:
            for step in [*filters, *([compressor] if compressor else [])]:
                data = step.encode(data)
        except Exception as e:  # numcodecs refuses some pairs of codec and type
            self.tally.skip(f"{codec} {label}", f"numcodecs: {e}")
            return
        if isinstance(data, np.ndarray):
            data = data.tobytes("A")
        document = {
            "zarr_format": 2, "shape": want.shape, "chunks": want.shape, "dtype": dtype or v2_dtype(want.dtype), "order": order, "fill_value": None,
            "filters": [plain_config(f) for f in filters] or None, "compressor": plain_config(compressor) if compressor else None,
        }
        path.mkdir()
        (path / ".zarray").write_text(json.dumps(document))
        (path / ".".join(["0"] * want.ndim)).write_bytes(bytes(data))
        about = f"{codec} {document['compressor'] or ''} {document['filters'] or ''} {label} {want.dtype} {want.shape} {order}"
        self.check(about, path, want, form)


def v2_dtype(dtype):
    return "|O" if dtype == object else "|b1" if dtype == np.dtype("?") else dtype.str


def plain_config(codec):
    return json.loads(json.dumps(codec.get_config(), default=lambda x: x.item() if hasattr(x, "item") else str(x)))


def over_bytes(w):
    names = ["<i4", "random <u8", ">u2", "special <f8", "<f4", "bool", "<M8[ns]", "S3", "<U3", "<c8"]
    for codec, configs in ANY_BYTES.items():
        for i, config in enumerate(configs):
            # the first configuration of a codec meets every type, the others a turning selection
            for name in PLAIN if i == 0 else [names[(i + k) % len(names)] for k in range(4)]:
                for array, order in shaped(FLAT[name]):
                    if not w.wanted(codec):
                        continue
                    if codec in CHECKS:
                        w.v2(codec, name, array, [] if w.count % 2 else [config], config if w.count % 2 else None, order)
                    else:
                        w.v2(codec, name, array, [], config, order)



def kinds(*letters):
    return [n for n in PLAIN if FLAT[n].dtype.kind in letters]


def array_filters(w):
    for name in kinds("i", "u", "f"):
        dtype = FLAT[name].dtype
        for array, order in shaped(FLAT[name]):
            memory = np.asarray(array, order=order).ravel(order="K")
            for codec, make in {
                "delta": lambda d=dtype: [nc.Delta(d), *([nc.Delta(d, astype="<i8")] if d.kind in "iu" else [])],
                "astype": lambda d=dtype: [nc.AsType("<f8" if d.kind == "f" else "<i8", d)],
                "shuffle": lambda d=dtype: [nc.Shuffle(max(1, d.itemsize)), nc.Shuffle(2), nc.Shuffle(4), nc.Shuffle(5)],
                "quantize": lambda d=dtype: [nc.Quantize(2, d), nc.Quantize(0, d), nc.Quantize(3, d, astype="<f4")] if d.kind == "f" else [],
                "bitround": lambda d=dtype: [nc.BitRound(k) for k in (1, 3, 7)] if d.kind == "f" else [],
                "fixedscaleoffset": lambda d=dtype: [nc.FixedScaleOffset(offset=o, scale=s, dtype=d, astype=t) for o, s, t in (
                    (0, 10, "<i4"), (1000, 10, "<i2"), (1000, 1, d.str), (-3, 100, "<i8"), (0, 1, "<u1"))
                    # Below its offset an unsigned number wraps, and is out of range when it comes back: that has no
                    # defined result, in numpy either.
                    if not (d.kind == "u" and o > 0 and t == d.str)] if "special" not in name else [],
            }.items():
                for filt in make():
                    if not w.wanted(codec):
                        continue
                    try:
                        with np.errstate(all="ignore"):
                            back = np.asarray(filt.decode(filt.encode(memory))).ravel().view(dtype) if codec != "shuffle" else memory
                    except Exception as e:
                        w.tally.skip(f"{codec} {name}", f"numcodecs: {e}")
                        continue
                    want = back.reshape(array.shape, order=order)
                    chain = [nc.Zlib(1), None, nc.Blosc("lz4", 5, 1)][w.count % 3]
                    w.v2(codec, name, want, [filt], chain, order, chunk=memory)
    for name in kinds("b"):
        for array, order in shaped(FLAT[name]):
            if w.wanted("packbits"):
                w.v2("packbits", name, array, [nc.PackBits()], nc.Zstd(1) if w.count % 2 else None, order)
    for codec, make in {"pcodec": lambda level: nc.PCodec(level=level), "zfpy": lambda mode: nc.ZFPY(*mode)}.items():
        if codec not in nc.registry.codec_registry:
            w.tally.skip(codec, "not installed")
            continue
        options = (0, 4, 8) if codec == "pcodec" else tuple(dict(mode=m, **k) for m, k in ((4, {"tolerance": 1e-3}), (3, {"precision": 20}), (2, {"rate": 16})))
        for name in kinds("i", "u", "f"):
            if codec == "zfpy" and "special" in name:
                continue  # zfp's lossy modes do not define what becomes of NaN
            for array, order in shaped(FLAT[name]):
                for option in options:
                    if w.wanted(codec):
                        numeric_compressor(w, codec, name, array, order, nc.PCodec(level=option) if codec == "pcodec" else nc.ZFPY(**option))


def numeric_compressor(w, codec, name, array, order, compressor):
    """pcodec and zfpy see the array itself; what they decode (zfpy loses some) is the expected value."""
    chunk = np.asarray(array, order=order)
    try:
        back = compressor.decode(compressor.encode(chunk))
    except Exception as e:
        w.tally.skip(f"{codec} {name}", f"numcodecs: {e}")
        return
    flat = np.frombuffer(np.ascontiguousarray(back).tobytes() if codec == "pcodec" else np.asarray(back).tobytes("A"), array.dtype)
    w.v2(codec, name, flat.reshape(array.shape, order=order), [], compressor, order, chunk=chunk)


def objects(w):
    """|O arrays and the object codecs."""
    def box(items, shape=None):
        out = np.empty(len(items), object)
        out[:] = items
        return out.reshape(shape or len(items))
    words = [str(x) for x in rng.choice(arrays.WORDS, 40)]
    json_things = [1, -5, 2.5, "x", None, True, [1, [2, 3]], {"a": 1, "b": ["c"]}, "", 10**15]
    ragged = [np.arange(n, dtype="<i4") for n in (3, 0, 5, 1, 2)]
    blobs = [bytes(rng.integers(0, 256, n).tolist()) for n in rng.integers(0, 20, 40)]
    after = [None, nc.Zlib(1), nc.Blosc("lz4", 5, 1), nc.Zstd(1), nc.LZ4()]
    for shape in ((40,), (5, 8), (2, 4, 5)):
        for order in "CF":
            for compressor in after:
                for codec, filt, items in (
                        ("vlen-utf8", nc.VLenUTF8(), words), ("vlen-bytes", nc.VLenBytes(), blobs), ("json2", nc.JSON(), words), ("msgpack2", nc.MsgPack(), words),
                        ("categorize", nc.Categorize(sorted(set(words) - {""}), dtype=object), words),
                        ("categorize", nc.Categorize(sorted(set(words) - {""})[:3], dtype=object, astype="<u2"), words)):
                    if not w.wanted(codec):
                        continue
                    array = box(items, shape)
                    want = array
                    if codec == "categorize":
                        want = box([x if x in filt.labels else "" for x in items], shape)
                    chunk = np.asarray(array, order=order)
                    if codec in ("vlen-utf8", "vlen-bytes"):
                        chunk = chunk.ravel(order=order)
                    elif codec in ("json2", "msgpack2") and order == "F":
                        continue  # these carry their own shape; numcodecs writes them in C order only
                    w.v2(codec, "objects", want, [filt], compressor, order, form="json", chunk=chunk)
    for codec, filt in (("json2", nc.JSON()), ("json2", nc.JSON(indent=2, sort_keys=False)), ("json2", nc.JSON(encoding="utf-16")), ("msgpack2", nc.MsgPack())):
        for items in (json_things, json_things[:1], words[:10]):
            if w.wanted(codec):
                w.v2(codec, "mixed", box(items), [filt], None, form="json")
    for dtype in ("<i4", "<f8", "<u2", "|i1", ">i4"):
        if w.wanted("vlen-array"):
            w.v2("vlen-array", dtype, box([x.astype(dtype) for x in ragged]), [nc.VLenArray(dtype)], None, form="json")
    for dtype in ("<U3", ">U3", "S3"):
        for array, order in shaped(FLAT[dtype]):
            labels = [x for x in sorted(set(FLAT[dtype].tolist())) if x]
            if dtype != "S3" and w.wanted("categorize"):
                w.v2("categorize", dtype, array, [nc.Categorize(labels, dtype=array.dtype)], None, order, form="json", chunk=np.asarray(array, order=order))


def v3_names(w):
    """The `numcodecs.*` names zarr-python writes into V3 metadata."""
    for name in ("<i4", "random <u8", "<f4", "normal <f8", "<u1", "<i2"):
        array = FLAT[name].reshape(10, -1)
        dtype = array.dtype
        size = dtype.itemsize
        bytes_codecs = [zn.LZ4(acceleration=1), zn.Zlib(level=1), zn.BZ2(level=1), zn.LZMA(preset=1), zn.Zstd(level=1), zn.GZip(level=1), zn.Shuffle(elementsize=size),
                        zn.CRC32(), zn.Adler32(), zn.CRC32C(), zn.Fletcher32(), zn.JenkinsLookup3(), zn.CRC32(location="end"),
                        *[zn.Blosc(cname=c, clevel=5, shuffle=s) for c in ("lz4", "zstd", "blosclz", "zlib", "lz4hc") for s in (0, 1, 2)]]
        filters = [zn.Delta(dtype=dtype.str), zn.AsType(encode_dtype="<f8" if dtype.kind == "f" else "<i8", decode_dtype=dtype.str)]
        if dtype.kind == "f":
            filters += [zn.BitRound(keepbits=5), zn.Quantize(digits=2, dtype=dtype.str), zn.FixedScaleOffset(offset=1, scale=10, dtype=dtype.str), zn.FixedScaleOffset(offset=1, scale=10, dtype=dtype.str, astype="<i4")]
        serializers = [zn.PCodec(level=4)] + ([zn.ZFPY(mode=4, tolerance=1e-3)] if dtype.kind == "f" else [])
        plans = [dict(compressors=[c], filters=None) for c in bytes_codecs] + [dict(filters=[f], compressors=None) for f in filters]
        plans += [dict(serializer=s, compressors=None, filters=None) for s in serializers]
        for plan in plans:
            for shards in (None, (10, array.shape[1])):
                kind = next(x[0] if isinstance(x, list) else x for x in plan.values() if x)
                codec = kind.codec_name
                if not w.wanted(codec):
                    continue
                path = w.folder / str(w.count)
                try:
                    made = zarr.create_array(path, shape=array.shape, dtype=dtype, chunks=(5, array.shape[1]), shards=shards, fill_value=0, **plan)
                    made[...] = array
                    want = made[...]
                except Exception as e:
                    w.tally.skip(f"{codec} {name}", f"zarr-python: {e}")
                    shutil.rmtree(path, ignore_errors=True)
                    continue
                w.check(f"{codec} {kind.codec_config} {name} {'sharded' if shards else ''}", path, want, "raw")
    if w.wanted("numcodecs.packbits"):
        path = w.folder / str(w.count)
        flags = FLAT["bool"].reshape(10, -1)
        try:
            made = zarr.create_array(path, shape=flags.shape, dtype=bool, chunks=(5, 50), fill_value=False, filters=[zn.PackBits()], compressors=None)
            made[...] = flags
            w.check("numcodecs.packbits", path, flags, "raw")
        except Exception as e:
            w.tally.skip("numcodecs.packbits", f"zarr-python: {e}")


def main():
    p = common.parser(__doc__)
    p.add_argument("--only", help="one codec id, such as lz4 or numcodecs.lz4")
    p.add_argument("--every", type=int, default=1, help="take each Nth case")
    a = p.parse_args()
    tally = common.Tally("numcodecs", a.verbose)
    with tempfile.TemporaryDirectory(prefix="zaro-numcodecs-") as temporary:
        w = Writer(common.find_zaro(a.zaro), tally, Path(temporary), a.only, a.every)
        for part in (over_bytes, array_filters, objects, v3_names):
            part(w)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

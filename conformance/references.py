"""Reference stores that kerchunk and fsspec write from HDF5 files, and some written by hand: zaro must read them as h5py does.

    references.py [--keep FOLDER]

Files of many types and filters are made with h5py, which also says what is expected. kerchunk turns them into
references; these are stored as JSON of both versions, compressed, with templates, with relative addresses, and as Parquet
with few and many rows a file. Documents written by hand add what kerchunk does not write: generated references, V3,
slashes in keys. Every entry that is damaged must be an error, never a fill value. Last, each form is converted by
`zaro ref convert` and read again.
"""

import base64
import concurrent.futures
import gc
import gzip
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import common

try:
    import fsspec
    import h5py
    import kerchunk.hdf
    import numpy as np
    from fsspec.implementations.reference import LazyReferenceMapper
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

warnings.simplefilter("ignore")
rng = np.random.default_rng(7)

TYPES = ["i1", "<i2", ">i2", "<u4", "<i8", ">i8", "<u8", "<f2", "<f4", ">f4", "<f8", "S7"]
FILTERS = {
    "plain": {}, "gzip": {"compression": "gzip"}, "shuffle": {"shuffle": True},
    "both": {"compression": "gzip", "shuffle": True, "compression_opts": 9},
}


def values(dtype, shape):
    """Values that show what was lost: the ends of the range, NaN, -0.0, text of every length."""
    dtype, n = np.dtype(dtype), int(np.prod(shape, dtype=int))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        out = rng.integers(info.min, info.max, n, endpoint=True, dtype=dtype.newbyteorder("="))
        out[-1:] = info.max
    elif dtype.kind == "f":
        out = rng.normal(size=n)
        out[1:4] = np.array([np.nan, np.inf, -0.0])[: len(out[1:4])]
    else:
        out = np.array([b"abcdefghij"[: i % (dtype.itemsize + 1)] for i in range(n)])
    return out.astype(dtype).reshape(shape)


def files():
    """name -> a function that fills an h5py file."""
    def filtered(options):
        def make(h):
            for t in TYPES:
                h.create_dataset(t.replace("<", "l").replace(">", "b"), data=values(t, (13, 10)), chunks=(5, 4), **options)
        return make

    def whole(h):
        for t in TYPES:
            h.create_dataset(t.replace("<", "l").replace(">", "b"), data=values(t, (6, 7)))
        h.create_dataset("scalar", data=np.float64(2.5))
        h.create_dataset("text", data=np.bytes_("scalar"))
        h.create_dataset("four", data=values("<i2", (2, 3, 4, 5)))

    def groups(h):
        for path in ("a", "a/b", "a/b/c"):
            g = h.require_group(path)
            g.attrs["name"] = path
            g.create_dataset("v", data=values("<f4", (9, 4)), chunks=(4, 4), compression="gzip", shuffle=True)
            g.create_dataset("w", data=values("<i8", (5,)))

    def sparse(h):
        d = h.create_dataset("v", shape=(20, 20), chunks=(4, 4), dtype="<f4", fillvalue=-9.5, compression="gzip")
        d[0:4, 0:4], d[16:, 16:] = 1, values("<f4", (4, 4))
        h.create_dataset("i", shape=(30,), chunks=(3,), dtype="<i8", fillvalue=2**53 + 1)[10:14] = [1, 2, 3, 4]
        h.create_dataset("never", shape=(5, 5), chunks=(2, 2), dtype="<u2", fillvalue=7)
        h.create_dataset("nan", shape=(8,), chunks=(2,), dtype="<f8", fillvalue=np.nan)[3] = 1.5

    def ratios(h):
        h.create_dataset("noise", data=rng.integers(0, 256, (3, 5000), dtype="u1"), chunks=(1, 1000), compression="gzip")
        h.create_dataset("zeros", data=np.zeros((300, 300)), chunks=(100, 300), compression="gzip", shuffle=True)

    return {**{name: filtered(o) for name, o in FILTERS.items()}, "whole": whole, "groups": groups, "sparse": sparse, "ratios": ratios}


def datasets(path):
    out = {}
    with h5py.File(path, "r") as h:
        h.visititems(lambda p, o: out.__setitem__(p, np.asarray(o[()])) if isinstance(o, h5py.Dataset) else None)
    return out


def forms(folder, name, refs):
    """Writes the references in every form; yields the addresses."""
    def write(suffix, document, opener=open):
        path = folder / f"{name}{suffix}"
        with opener(path, "wt") as f:
            json.dump(document, f)
        return path

    def moved(change):
        return {k: [change(v[0]), *v[1:]] if isinstance(v, list) else v for k, v in refs.items()}

    yield write(".json", {"version": 1, "refs": refs})
    yield write(".json.gz", {"version": 1, "refs": refs}, gzip.open)
    yield write(".v0.json", {k: json.loads(v) if ".z" in k and i % 2 else v for i, (k, v) in enumerate(refs.items())})
    yield write(".near.json", {"version": 1, "refs": moved(lambda u: os.path.relpath(u, folder))})
    yield write(".uri.json", {"version": 1, "refs": moved(lambda u: f"file://{u}")})
    yield write(".template.json", {"version": 1, "templates": {"u": str(folder)}, "gen": [], "refs": moved(lambda u: u.replace(str(folder), "{{u}}"))})
    for rows in (3, 100_000):
        out = folder / f"{name}.{rows}.parq"
        out.mkdir()
        table = LazyReferenceMapper.create(str(out), fs=fsspec.filesystem("file"), record_size=rows)
        for key in sorted(refs):
            value = refs[key]
            if isinstance(value, str):
                value = base64.b64decode(value[7:]) if value.startswith("base64:") else value.encode()
            table[key] = value
        table.flush()
        yield out


def by_hand(folder):
    """(address, path, expected) of documents kerchunk does not write."""
    numbers = np.arange(6000, dtype="<i4")
    (folder / "flat.bin").write_bytes(b"head" + numbers.tobytes() + b"tail")
    for i in range(4):
        (folder / f"part{i}.bin").write_bytes(numbers[i * 200:(i + 1) * 200].tobytes())

    def array(shape, chunks, dtype="<i4", **more):
        return {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": 0, "order": "C", "filters": None, "compressor": None, **more}

    def blocks(shape, chunks):
        out, n, each = np.zeros(shape, "<i4"), 0, chunks[0] * chunks[1]
        for i in range(0, shape[0], chunks[0]):
            for j in range(0, shape[1], chunks[1]):
                out[i:i + chunks[0], j:j + chunks[1]] = numbers[n:n + each].reshape(chunks)
                n += each
        return out

    hole = np.full(30, -5, "<i4")
    hole[10:20] = numbers[:10]
    document = {
        "version": 1, "templates": {"u": "flat.bin", "f": "part{{i}}.bin"},
        "gen": [
            {"key": "line/{{i}}", "url": "{{u}}", "offset": "{{ 4 + i * 400 }}", "length": "400", "dimensions": {"i": {"stop": 10}}},
            {"key": "grid/{{i}}.{{j}}", "url": "{{ u }}", "offset": "{{4 + (i*5 + j) * 80}}", "length": "{{ 40 * 2 }}", "dimensions": {"i": {"stop": 3}, "j": [0, 1, 2, 3, 4]}},
            {"key": "call/{{i}}", "url": "{{f(i=i)}}", "dimensions": {"i": [0, 1, 2, 3]}},
        ],
        "refs": {
            ".zgroup": {"zarr_format": 2}, "line/.zarray": array([1000], [100]), "grid/.zarray": array([12, 25], [4, 5]), "call/.zarray": array([800], [200]),
            "slash/.zarray": array([4, 100], [2, 50], dimension_separator="/"), **{f"slash/{i}/{j}": ["{{u}}", 4 + 400 * (2 * i + j), 400] for i in range(2) for j in range(2)},
            "text/.zarray": array([6], [3], "|S1"), "text/0": "abc", "text/1": "base64:ZGVm", "hole/.zarray": array([30], [10], fill_value=-5), "hole/1": ["{{u}}", 4, 40],
            "float/.zarray": array([10], [10]), "float/0": ["{{u}}", 4.0, 40.0], "all/.zarray": array([200], [200]), "all/0": ["part1.bin"],
            "empty/.zarray": array([0, 3], [1, 3]),
        },
    }
    expected = {
        "line": numbers[:1000], "grid": blocks((12, 25), (4, 5)), "call": numbers[:800], "slash": blocks((4, 100), (2, 50)),
        "text": np.array(list("abcdef"), "S1"), "hole": hole, "float": numbers[:10], "all": numbers[200:400], "empty": np.zeros((0, 3), "<i4"),
    }
    (folder / "hand.json").write_text(json.dumps(document))
    for path, want in expected.items():
        yield folder / "hand.json", path, want
    meta = {
        "zarr_format": 3, "node_type": "array", "shape": [10, 10], "data_type": "int32", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 10]}}, "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    refs = {"a/zarr.json": meta, "a/c/0/0": ["flat.bin", 4, 200], "a/c/1/0": ["flat.bin", 204, 200]}
    (folder / "v3.json").write_text(json.dumps({"version": 1, "refs": {"zarr.json": {"zarr_format": 3, "node_type": "group"}, **refs}}))
    yield folder / "v3.json", "a", numbers[:100].reshape(10, 10)


BAD = {
    "a number": 5, "true": True, "null": None, "nothing": [], "two parts": ["flat.bin", 4], "four parts": ["flat.bin", 4, 40, 1], "before the start": ["flat.bin", -4, 40],
    "less than nothing": ["flat.bin", 4, -40], "past the end": ["flat.bin", 24_000, 40], "no such file": ["absent.bin", 0, 40], "no such file, whole": ["absent.bin"],
    "half a byte": ["flat.bin", 4.5, 40], "text as offset": ["flat.bin", "x", 40], "no base64": "base64:@@@@", "too short": ["flat.bin", 4, 39], "an unknown template": ["{{nobody}}", 4, 40],
    "an unknown scheme": ["gopher://x/y", 4, 40],
}


def bad(folder):
    """(name, address) of documents with one damaged entry, which reading must refuse."""
    for i, (name, value) in enumerate(BAD.items()):
        meta = {"zarr_format": 2, "shape": [10], "chunks": [10], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None, "compressor": None}
        path = folder / f"bad{i}.json"
        path.write_text(json.dumps({"version": 1, "templates": {"u": "flat.bin"}, "refs": {".zgroup": {"zarr_format": 2}, "v/.zarray": meta, "v/0": value}}))
        yield name, path


def read(zaro, address, path, want):
    """None if `path` reads as `want`, else what is wrong."""
    result = common.run([zaro, "read", str(address), path, "--format", "raw"])
    if result.crash or result.code:
        return result.crash or f"exit {result.code}: {result.message[-300:]}"
    little = want.astype(want.dtype.newbyteorder("<")) if want.dtype.byteorder == ">" else want
    got, exact = result.out, np.ascontiguousarray(little).tobytes()
    return None if got == exact else f"{len(got)} bytes, not the {len(exact)} expected, or others"


def converted(zaro, case):
    """Writes the store at an address in the other form; yields a label and what is wrong, for each array."""
    address, want = case
    out = address.with_name(f"{address.name}.converted.{'json' if address.suffix == '.parq' else 'parq'}")
    result = common.run([zaro, "ref", "convert", str(address), str(out)])
    if result.crash or result.code:
        return [(out.name, result.crash or f"exit {result.code}: {result.message[-300:]}")]
    return [(f"{out.name} {path}", read(zaro, out, path, a)) for path, a in want.items()]


def note(tally, label, wrong):
    if wrong:
        tally.fail(label, wrong)
    else:
        tally.ok(label)


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--keep", type=Path, help="make the stores in this folder and leave them there")
    args = parser.parse_args()
    zaro, tally = common.find_zaro(args.zaro), common.Tally("references", args.verbose)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="zaro-references-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    cases, sources = [], []
    # h5py and a collection of garbage in another thread can wait for each other for ever.
    gc.disable()
    for name, make in files().items():
        path = folder / f"{name}.h5"
        with h5py.File(path, "w") as h:
            make(h)
        want = datasets(path)
        for inline in (0, 200):
            refs = kerchunk.hdf.SingleHdf5ToZarr(str(path), inline_threshold=inline).translate()["refs"]
            missing = [p for p in want if f"{p}/.zarray" not in refs]
            if missing:
                tally.skip(name, f"kerchunk leaves out {missing}")
            for address in forms(folder, f"{name}.{inline}", refs):
                there = {p: a for p, a in want.items() if p not in missing}
                sources.append((address, there))
                cases += [(address, p, a) for p, a in there.items()]
    cases += by_hand(folder)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (address, path, _), wrong in zip(cases, pool.map(lambda c: read(zaro, *c), cases)):
            note(tally, f"{address.name} {path}", wrong)
        both = [(a, want) for a, want in sources if a.name.endswith((".0.json", ".200.near.json", ".3.parq"))]
        for answers in pool.map(lambda c: converted(zaro, c), both):
            for label, wrong in answers:
                note(tally, label, wrong)
        for name, address in bad(folder):
            result = common.run([zaro, "read", str(address), "v", "--format", "raw"])
            refused = None if result.code in (3, 4, 5, 6, 7) else f"read without an error (exit {result.code})"
            note(tally, f"bad entry: {name}", result.crash or refused)
    if not args.keep:
        shutil.rmtree(folder)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

"""Damaged and forged stores: zaro must answer with an error that names the place, never crash or hang.

    hostile.py [--cases N] [--seed S]

Starts from valid stores (the one-rule samples, the stores of make_rules.py, and a few larger ones written
here) and damages each copy in one to three ways: bit flips, truncation, swapped or grown files, forged shard
indexes, absurd numbers in the metadata, random edits of its JSON. Then `zaro read` must end within ten
seconds, with exit code 0, 2, 3, 4 or 5, using less than 2 GiB, and a refusal must say on stderr which node or
key it is about. Every case follows from its seed, which a failure prints; --keep FOLDER keeps its store.
"""

import json
import random
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import common
import make_rules

ALLOWED = {0, 2, 3, 4, 5}
MEMORY = 2 << 30
METADATA = ("zarr.json", ".zarray")
NUMBERS = [0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40, 1e308, 0.5, -0.0]
ODD = [None, True, False, "", "x", "NaN", "0x", "\ud7ff", [], {}, [[]], {"name": "bytes"}, {"must_understand": False}, "é" * 50]
WORDS = ["bytes", "gzip", "zstd", "blosc", "crc32c", "transpose", "sharding_indexed", "vlen-utf8", "packbits", "cast_value", "scale_offset", "reshape",
         "uint8", "int64", "float64", "complex128", "string", "r24", "bool", "|O", "<U4", "<M8[ns]", "|S3", "zlib", "lz4", "delta", "shuffle",
         "json2", "msgpack2", "vlen-array", "categorize", "fixedscaleoffset", "rectilinear", "regular", "v2", "default", "/", ".", "F", "C"]


def seeds(folder):
    """The valid stores to damage: all accepted one-rule stores, and sharded ones large enough to hurt."""
    make_rules.make(folder / "rules")
    stores = []
    for base in (Path(__file__).parent / "one-rule", folder / "rules"):
        stores += [base / c["id"] for c in json.loads((base / "manifest.json").read_text()) if c["expect"] == "accept" and not c.get("path")]
    inner = [struct.pack("<64H", *range(64))] * 64
    for at in ("end", "start"):
        path = folder / f"shard-{at}"
        (path / "c").mkdir(parents=True)
        document = make_rules.v3_doc(shape=[4096], codecs=[make_rules.sharding([64], index_location=at)])
        (path / "zarr.json").write_text(json.dumps(document))
        (path / "c/0").write_bytes(make_rules.shard(inner, at=at))
        stores += [path] * 20
    return stores


# ----------------------------------------------------------------------------------------------- damage

def flip(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def truncate(rng, data):
    return data[: rng.randrange(len(data) + 1)]


def grow(rng, data):
    return data + rng.randbytes(rng.choice([1, 4, 16, 1000]))


def scramble(rng, data):
    return rng.randbytes(rng.choice([0, 1, 3, 4, 15, 16, 17, 100, len(data)]))


def forge_numbers(rng, data):
    """Overwrites a run of bytes with numbers that overflow: lengths, offsets, sizes."""
    value = rng.choice([0, 1, 2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1, 2**32, 2**31, 2**32 - 1, len(data), len(data) + 1])
    width = rng.choice([4, 8])
    raw = (value & (1 << 8 * width) - 1).to_bytes(width, rng.choice(["little", "big"]))
    at = rng.choice([0, 4, 8, 12, max(0, len(data) - 20), max(0, len(data) - 36), rng.randrange(len(data) + 1)])
    return data[:at] + raw + data[at + width:]


def forge_index(rng, data):
    """Rewrites one (offset, nbytes) pair of an index at the end and repairs its checksum, so that it is believed."""
    entries = rng.choice([1, 2, 4, 64])
    size = entries * 16 + 4
    if len(data) < size:
        return forge_numbers(rng, data)
    table = bytearray(data[-size:-4])
    big = rng.choice([0, 1, 2**64 - 1, 2**64 - 2, 2**63, len(data), len(data) - 1, 2**40])
    small = rng.choice([0, 4, 2**64 - 1, 2**63, len(data), 2**32, 2**40])
    struct.pack_into("<QQ", table, 16 * rng.randrange(entries), big, small)
    return data[:-size] + bytes(table) + make_rules.crc32c(bytes(table))


BYTE_DAMAGE = [flip, flip, truncate, truncate, grow, scramble, forge_numbers, forge_index, forge_index]


def places(value, path=()):
    """Every position in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def edit(rng, document):
    """One random edit of a JSON document."""
    path = rng.choice([p for p in places(document) if p] or [()])
    if not path:
        return document
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    key, old = path[-1], parent[path[-1]]
    how = rng.randrange(8)
    if how == 0:
        del parent[key]
    elif how == 1 and isinstance(parent, list):
        parent.insert(key, old)
    elif how == 2 and isinstance(old, (int, float)):
        parent[key] = rng.choice([old + 1, old - 1, -old, old * 2**20, old * 10**9])
    elif how == 3:
        parent[key] = rng.choice(ODD)
    elif how == 4:
        parent[key] = rng.choice(WORDS)
    elif how == 5:
        parent[key] = [old]
    elif how == 6:
        parent[key] = {"name": old} if isinstance(old, str) else {"name": rng.choice(WORDS), "configuration": old}
    else:
        parent[key] = rng.choice(NUMBERS)
    return document


def absurd(rng, document):
    """Shapes and chunks that would need more memory than there is."""
    rank = rng.choice([1, 2, 3, 30, 300])
    sizes = [rng.choice([1, 2, 2**20, 2**31, 2**40, 2**62, 2**63 - 1]) for _ in range(rank)]
    for key in rng.choice([("shape",), ("chunks", "chunk_grid"), ("shape", "chunks", "chunk_grid")]):
        if key == "chunk_grid" and isinstance(document.get(key), dict):
            document[key] = {"name": "regular", "configuration": {"chunk_shape": sizes}}
        elif key in document:
            document[key] = sizes
    return document


def damage(rng, store):
    for _ in range(rng.choice([1, 1, 2, 3])):
        files = sorted(p for p in store.rglob("*") if p.is_file())
        documents = [p for p in files if p.name in METADATA]
        chunks = [p for p in files if p.name not in METADATA] or files
        roll = rng.random()
        if roll < 0.45 or not documents:
            target = rng.choice(chunks)
            target.write_bytes(rng.choice(BYTE_DAMAGE)(rng, target.read_bytes()))
            continue
        target = rng.choice(documents)
        if roll < 0.5:
            target.write_bytes(rng.choice([flip, truncate, grow])(rng, target.read_bytes()))
            continue
        try:
            document = json.loads(target.read_text())
        except ValueError:
            continue
        if isinstance(document, dict):
            target.write_text(json.dumps((absurd if roll < 0.6 else edit)(rng, document)))


# ------------------------------------------------------------------------------------------------ judging

def names_the_place(message, store):
    """Does the text say where? The store's own folder, a metadata document, or a chunk key."""
    keys = {p.relative_to(store).as_posix() for p in store.rglob("*") if p.is_file()} | set(METADATA)
    return store.name in message or any(k in message for k in keys)


def judge(done, store):
    if done.crash:
        return f"{done.crash}: {done.message[-400:]}"
    if done.code not in ALLOWED:
        return f"exit {done.code}: {done.message[-300:]}"
    if done.rss >= MEMORY:
        return f"used {done.rss >> 20} MiB (exit {done.code})"
    if done.code and not names_the_place(done.message, store):
        return f"exit {done.code}, but its message names neither node nor key: {done.message[-300:]!r}"
    return None


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", type=Path, help="keep the stores of failures here")
    a = p.parse_args()
    zaro, tally, codes = common.find_zaro(a.zaro), common.Tally("hostile", a.verbose), {}
    with tempfile.TemporaryDirectory(prefix="zaro-hostile-") as temporary:
        folder = Path(temporary)
        stores = seeds(folder)
        for seed in range(a.seed, a.seed + a.cases):
            rng = random.Random(seed)
            source = rng.choice(stores)
            store = folder / f"hostile-{seed}"
            shutil.copytree(source, store)
            damage(rng, store)
            argv = [zaro, "read", str(store), "--format", rng.choice(["raw", "json", "npy"])]
            argv += ["--strict"] if rng.random() < 0.3 else []
            # Ten seconds are the bar of a release build; what the tests build is several times slower, and not alone.
            done = common.run(argv, timeout=10 if "release" in zaro else 60)
            codes[done.code] = codes.get(done.code, 0) + 1
            why = judge(done, store)
            label = f"--seed {seed} --cases 1 (from {source.name}: {' '.join(argv[3:])})"
            if why:
                tally.fail(label, why)
                if a.keep:
                    shutil.copytree(store, a.keep / str(seed), dirs_exist_ok=True)
            else:
                tally.ok(label)
            shutil.rmtree(store)
    print("exit codes: " + ", ".join(f"{code}: {n}" for code, n in sorted(codes.items())))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

"""Makes several hundred further one-rule stores from the rules of the specifications, and runs them.

    make_rules.py [--out FOLDER] [--zaro BIN]     makes the stores in a temporary folder and judges zaro
    make_rules.py --out FOLDER --only-make        makes them and stops

Each store is the smallest Zarr in which exactly one rule decides. `rule` names it:
    A array document   G group and keys   D data types and fills   C chunk grid and keys   P codec chain
    S sharding         X registered extensions   V version 2       M malformed JSON and odd files
The bytes are put together by hand wherever that is possible, so that a test does not repeat the mistake
of a library; numcodecs and zfpy are asked only for formats too large to write by hand, and when they are
not installed those cases are left out with a note. Judged in strict mode: the letter of the specification.
`either` marks a case where the text is silent, so that only a panic or a hang is a failure.
"""

import base64
import bz2
import gzip
import json
import lzma
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import common
import run_one_rule

try:
    import numcodecs
    import numcodecs.zarr3  # noqa: F401  (registers more codecs in some versions)
    import numpy as np
except ImportError:
    numcodecs = np = None
try:
    import zfpy
except ImportError:
    zfpy = None

ABSENT = object()
EMPTY = 2**64 - 1
CASES = []
SKIPPED = []


# ---------------------------------------------------------------------------------------------- builders

def pack(letter, *values, big=False):
    return struct.pack(f"{'>' if big else '<'}{len(values)}{letter}", *values)


U16 = pack("H", 1, 2, 3, 4)
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BYTES_BIG = {"name": "bytes", "configuration": {"endian": "big"}}
BYTES_PLAIN = {"name": "bytes"}
CRC = {"name": "crc32c"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return pack("I", crc ^ 0xFFFFFFFF)


def codec(name, **configuration):
    return {"name": name, "configuration": configuration}


def v3_doc(**over):
    """The baseline array document with fields replaced, added, or (ABSENT) removed."""
    doc = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint16",
        "chunk_grid": codec("regular", chunk_shape=[4]),
        "chunk_key_encoding": codec("default", separator="/"),
        "fill_value": 7, "codecs": [BYTES],
    }
    if "chunk_shape" in over:
        doc["chunk_grid"] = codec("regular", chunk_shape=over.pop("chunk_shape"))
    elif "shape" in over and isinstance(over["shape"], list):
        doc["chunk_grid"] = codec("regular", chunk_shape=over["shape"])
    doc.update(over)
    return {k: v for k, v in doc.items() if v is not ABSENT}


def v2_doc(**over):
    doc = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<u2", "compressor": None,
           "fill_value": 7, "order": "C", "filters": None}
    if "shape" in over and isinstance(over["shape"], list):
        doc["chunks"] = over["shape"]
    doc.update(over)
    return {k: v for k, v in doc.items() if v is not ABSENT}


def case(rule, name, fmt, expect, value, how, files, **extra):
    entry = {"id": f"r{len(CASES):03d}", "rule": rule, "name": name, "format": fmt, "expect": expect,
             "value": value, "how": how, **extra}
    CASES.append((entry, files))


def as_bytes(document):
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def v3(rule, name, doc, chunks=None, accept=ABSENT, how="exact", **extra):
    """A V3 case: rejected unless `accept` is the value. `chunks` is the one chunk's bytes, or {key: bytes}."""
    if isinstance(chunks, bytes):
        rank = len(doc["shape"]) if isinstance(doc, dict) and isinstance(doc.get("shape"), list) else 1
        chunks = {"/".join(["c", *["0"] * rank]): chunks}
    expect, value = ("reject", None) if accept is ABSENT else ("accept", accept)
    case(rule, name, 3, expect, value, how, {"zarr.json": as_bytes(doc), **(chunks or {})}, **extra)


def v2(rule, name, doc, chunks=None, accept=ABSENT, how="exact", **extra):
    if isinstance(chunks, bytes):
        rank = len(doc["shape"]) if isinstance(doc, dict) and isinstance(doc.get("shape"), list) else 1
        chunks = {".".join(["0"] * rank) or "0": chunks}
    expect, value = ("reject", None) if accept is ABSENT else ("accept", accept)
    case(rule, name, 2, expect, value, how, {".zarray": as_bytes(doc), **(chunks or {})}, **extra)


def either(make, rule, name, doc, chunks=None):
    """The specification does not decide: only a panic or a hang fails."""
    make(rule, name, doc, chunks)
    CASES[-1][0]["expect"] = "either"


def needs(module, label):
    """True when the optional module is here; otherwise notes what is left out."""
    if module is None:
        SKIPPED.append(label)
    return module is not None


VALUES = [1, 2, 3, 4]


# ------------------------------------------------------------------------------------- A: array document

def array_document():
    for field in ("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding",
                  "fill_value", "codecs"):
        v3("A1", f"missing {field}", v3_doc(**{field: ABSENT}), U16)
    for value in ("3", 2, 4, 3.5, None, True, [3]):
        v3("A1", f"zarr_format {json.dumps(value)}", v3_doc(zarr_format=value), U16)
    for value in ("Array", "group", "", None, 1):
        v3("A1", f"node_type {json.dumps(value)}", v3_doc(node_type=value), U16)
    for value in ([-4], [4.5], ["4"], 4, None, {"0": 4}, [None], [True], [[4]]):
        v3("A2", f"shape {json.dumps(value)}", v3_doc(shape=value, chunk_shape=[4]), U16)
    v3("A2", "shape longer than chunk_shape", v3_doc(shape=[4, 1], chunk_shape=[4]), U16)
    for value in (None, 7, "uint17", "Uint16", "<u2", "", {"configuration": {}}, ["uint16"], {"name": 5}):
        v3("A1", f"data_type {json.dumps(value)}", v3_doc(data_type=value), U16)
    for value in (None, {}, "bytes", [[]], [5], [None], [{}], [{"configuration": {"endian": "little"}}]):
        v3("P1", f"codecs {json.dumps(value)}", v3_doc(codecs=value), U16)

    # A5: short-hand names
    v3("A5", "data type as an object with only a name", v3_doc(data_type={"name": "uint16"}), U16, VALUES)
    v3("A5", "data type with an empty configuration", v3_doc(data_type=codec("uint16")), U16, VALUES)
    v3("A5", 'chunk key encoding "default"', v3_doc(chunk_key_encoding="default"), U16, VALUES)
    v3("A5", 'chunk key encoding "v2"', v3_doc(chunk_key_encoding="v2"), {"0": U16}, VALUES)
    v3("A5", 'codec "crc32c"', v3_doc(codecs=[BYTES, "crc32c"]), U16 + crc32c(U16), VALUES)
    v3("A5", 'codec "bytes" of a multi-byte type', v3_doc(codecs=["bytes"]), U16)
    v3("A5", 'chunk grid "regular" lacks its configuration', v3_doc(chunk_grid="regular"), U16)
    v3("A5", 'codec "transpose" lacks its configuration', v3_doc(codecs=["transpose", BYTES]), U16)
    v3("A5", "codec with an empty configuration object", v3_doc(codecs=[BYTES, codec("crc32c")]),
       U16 + crc32c(U16), VALUES)
    v3("A5", "configuration is a list", v3_doc(codecs=[{"name": "bytes", "configuration": []}]), U16)
    v3("A5", "codec name is a number", v3_doc(codecs=[BYTES, {"name": 1}]), U16)
    v3("A5", "must_understand true on known things", v3_doc(
        data_type={"name": "uint16", "must_understand": True},
        codecs=[{**BYTES, "must_understand": True}]), U16, VALUES)

    # A4: unknown fields
    for value in (42, None, "x", [], True, {}, {"a": 1}, {"must_understand": True}, {"must_understand": "false"},
                  {"must_understand": 0}, {"must_understand": None}, [{"must_understand": False}]):
        v3("A4", f"unknown field {json.dumps(value)}", v3_doc(extra=value), U16)
    v3("A4", "unknown field, excused, with content",
       v3_doc(extra={"must_understand": False, "name": "x", "configuration": {"y": [1]}}), U16, VALUES)
    v3("A4", "two unknown fields, one not excused", v3_doc(a={"must_understand": False}, b={}), U16)
    either(v3, "A4", "consolidated_metadata in an array", v3_doc(consolidated_metadata=None), U16)

    # A6: must_understand of the extension points
    nope = {"name": "nope", "must_understand": False}
    must = {"name": "nope", "must_understand": True}
    v3("A6", "unknown codec", v3_doc(codecs=[BYTES, {"name": "nope"}]), U16)
    v3("A6", "unknown codec, short-hand", v3_doc(codecs=[BYTES, "nope"]), U16)
    v3("A6", "unknown codec must_understand true", v3_doc(codecs=[BYTES, must]), U16)
    v3("A6", "unknown codec before bytes, excused", v3_doc(codecs=[nope, BYTES]), U16, VALUES)
    v3("A6", "only an unknown codec, excused: no array->bytes left", v3_doc(codecs=[nope]), U16)
    v3("A6", "excused unknown codec inside a shard",
       v3_doc(codecs=[sharding([4], codecs=[BYTES, nope])]), shard([U16]), VALUES)
    v3("A6", "known codec must_understand false still applies",
       v3_doc(codecs=[BYTES, {"name": "crc32c", "must_understand": False}]), U16 + crc32c(U16), VALUES)
    v3("A6", "chunk grid unknown", v3_doc(chunk_grid={"name": "nope"}), U16)
    v3("A6", "chunk grid unknown must_understand false", v3_doc(chunk_grid=nope), U16)
    v3("A6", "chunk grid known must_understand false",
       v3_doc(chunk_grid={**codec("regular", chunk_shape=[4]), "must_understand": False}), U16)
    v3("A6", "chunk key encoding unknown", v3_doc(chunk_key_encoding={"name": "nope"}), U16)
    v3("A6", "chunk key encoding unknown must_understand false", v3_doc(chunk_key_encoding=nope), U16)
    v3("A6", "chunk key encoding known must_understand false",
       v3_doc(chunk_key_encoding={**codec("default", separator="/"), "must_understand": False}), U16)
    v3("A6", "data type unknown must_understand false", v3_doc(data_type=nope), U16)
    v3("A6", "storage transformer unknown", v3_doc(storage_transformers=[{"name": "nope"}]), U16)
    v3("A6", "storage transformer unknown, short-hand", v3_doc(storage_transformers=["nope"]), U16)
    v3("A6", "storage transformer must_understand true", v3_doc(storage_transformers=[must]), U16)
    v3("A6", "storage transformer must_understand false", v3_doc(storage_transformers=[nope]), U16, VALUES)
    v3("A6", "storage transformers, one excused and one not", v3_doc(storage_transformers=[nope, must]), U16)
    v3("A3", "storage_transformers an object", v3_doc(storage_transformers={}), U16)
    v3("A3", "storage_transformers a string", v3_doc(storage_transformers="none"), U16)
    either(v3, "A3", "storage_transformers null", v3_doc(storage_transformers=None), U16)

    # A3: dimension names, attributes
    v3("A3", "dimension_names", v3_doc(dimension_names=["x"]), U16, VALUES)
    v3("A3", "dimension_names with null", v3_doc(dimension_names=[None]), U16, VALUES)
    v3("A3", "dimension_names with the empty string", v3_doc(dimension_names=[""]), U16, VALUES)
    v3("A3", "dimension_names not ASCII", v3_doc(dimension_names=["µ 長さ"]), U16, VALUES)
    v3("A3", "dimension_names duplicate", v3_doc(shape=[2, 2], dimension_names=["x", "x"]), U16, [[1, 2], [3, 4]])
    v3("A3", "dimension_names mixed", v3_doc(shape=[2, 2], dimension_names=["x", None]), U16, [[1, 2], [3, 4]])
    v3("A3", "dimension_names empty for a scalar",
       v3_doc(shape=[], dimension_names=[]), {"c": pack("H", 9)}, 9)
    for value in ([], ["x", "y"], "x", [1], {"0": "x"}, [["x"]], [True]):
        v3("A3", f"dimension_names {json.dumps(value)}", v3_doc(dimension_names=value), U16)
    v3("A3", "attributes", v3_doc(attributes={"a": {"b": [1, None, "x"]}}), U16, VALUES)
    v3("A3", "attributes empty", v3_doc(attributes={}), U16, VALUES)
    for value in ("x", 1, [{}]):
        v3("A3", f"attributes {json.dumps(value)}", v3_doc(attributes=value), U16)
    either(v3, "A3", "attributes null", v3_doc(attributes=None), U16)


# --------------------------------------------------------------------------------- G: groups, keys, paths

def nodes():
    group = as_bytes({"zarr_format": 3, "node_type": "group", "attributes": {}})
    array = as_bytes(v3_doc())

    def tree(rule, name, files, path, value=ABSENT):
        expect = "reject" if value is ABSENT else "accept"
        case(rule, name, 3, expect, None if value is ABSENT else value, "exact", files, path=path)

    tree("K1", "array in groups", {"zarr.json": group, "a/zarr.json": group, "a/b/zarr.json": array, "a/b/c/0": U16},
         "a/b", VALUES)
    tree("K4", "array without group documents above it", {"a/b/zarr.json": array, "a/b/c/0": U16}, "a/b", VALUES)
    tree("K2", "leading slash of a path", {"zarr.json": group, "b/zarr.json": array, "b/c/0": U16}, "/b", VALUES)
    tree("K3", "node name not ASCII", {"zarr.json": group, "é長/zarr.json": array, "é長/c/0": U16}, "é長", VALUES)
    tree("K3", "node name with a space and dots", {"zarr.json": group, "a b.c/zarr.json": array, "a b.c/c/0": U16},
         "a b.c", VALUES)
    tree("K3", "node names are case sensitive", {"zarr.json": group, "A/zarr.json": array, "A/c/0": U16}, "a")
    tree("K3", "node name of periods", {"zarr.json": group, ".../zarr.json": array, ".../c/0": U16}, "...")
    tree("K3", "node name starting with __", {"zarr.json": group, "__x/zarr.json": array, "__x/c/0": U16}, "__x")
    tree("K3", "path with ..", {"zarr.json": group, "a/zarr.json": group, "b/zarr.json": array, "b/c/0": U16}, "a/../b")
    tree("K4", "no such node", {"zarr.json": group}, "nothing")
    tree("K5", "a group is no array", {"zarr.json": group, "a/zarr.json": group}, "a")
    tree("G1", "reading the root group as an array", {"zarr.json": group}, None)
    tree("K5", "an array has no children",
         {"zarr.json": array, "c/0": U16, "x/zarr.json": as_bytes(v3_doc(zarr_format=4))}, "x")
    inline = {"must_understand": False, "kind": "inline", "metadata": {"a": json.loads(array)}}
    base = {"zarr_format": 3, "node_type": "group"}
    tree("G2", "consolidated metadata beside the documents",
         {"zarr.json": as_bytes({**base, "consolidated_metadata": inline}), "a/zarr.json": array, "a/c/0": U16}, "a",
         VALUES)
    tree("G2", "consolidated_metadata null",
         {"zarr.json": as_bytes({**base, "consolidated_metadata": None}), "a/zarr.json": array, "a/c/0": U16}, "a",
         VALUES)
    CASES[-1][0]["expect"] = "either"
    for label, odd in (("must_understand true", {"must_understand": True}), ("must_understand absent", {"must_understand": ABSENT}),
                       ("kind absent", {"kind": ABSENT}), ("metadata a list", {"metadata": []}),
                       ("key /a", {"metadata": {"/a": json.loads(array)}}), ("key ../a", {"metadata": {"../a": json.loads(array)}}),
                       ("key a/", {"metadata": {"a/": json.loads(array)}})):
        member = {k: v for k, v in {**inline, **odd}.items() if v is not ABSENT}
        tree("G2", f"consolidated_metadata {label}",
             {"zarr.json": as_bytes({**base, "consolidated_metadata": member}), "a/zarr.json": array, "a/c/0": U16}, "a")
    tree("K3", "node name beginning with a dot", {"zarr.json": group, ".a/zarr.json": array, ".a/c/0": U16}, ".a", VALUES)
    tree("G2", "an array beside a prefix of its name",
         {"zarr.json": group, "a/zarr.json": array, "a/c/0": U16, "ab/zarr.json": group, "a.b/zarr.json": group}, "a",
         VALUES)
    case("V6", "both versions: zarr.json wins", 3, "accept", VALUES, "exact",
         {"zarr.json": array, "c/0": U16, ".zarray": as_bytes(v2_doc()), "0": pack("H", 9, 9, 9, 9)})
    case("K1", "an empty folder is no node", 3, "reject", None, "exact", {"readme.txt": b"nothing here"})


# ----------------------------------------------------------------------------- D: data types, fill values

INTEGERS = {"int8": ("b", -2**7, 2**7 - 1), "int16": ("h", -2**15, 2**15 - 1), "int32": ("i", -2**31, 2**31 - 1),
            "int64": ("q", -2**63, 2**63 - 1), "uint8": ("B", 0, 2**8 - 1), "uint16": ("H", 0, 2**16 - 1),
            "uint32": ("I", 0, 2**32 - 1), "uint64": ("Q", 0, 2**64 - 1)}
FLOATS = {"float16": ("e", "bits16", 0x7E00, 0x7C00, 0xFC00, 0x3C00, 4), "float32": ("f", "bits32", 0x7FC00000, 0x7F800000, 0xFF800000, 0x3F800000, 8),
          "float64": ("d", "bits64", 0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x3FF0000000000000, 16)}


def data_types():
    for name, (letter, low, high) in INTEGERS.items():
        data = pack(letter, low, high, 0, 1)
        codecs = [BYTES] if letter not in "bB" else [BYTES_PLAIN]
        v3("D1", f"{name} values at both ends", v3_doc(data_type=name, fill_value=0, codecs=codecs), data,
           [low, high, 0, 1])
        if letter not in "bB":
            v3("P2", f"{name} big-endian", v3_doc(data_type=name, fill_value=0, codecs=[BYTES_BIG]),
               pack(letter, low, high, 0, 1, big=True), [low, high, 0, 1])
            v3("P2", f"{name} without endian", v3_doc(data_type=name, fill_value=0, codecs=[BYTES_PLAIN]), data)
        for edge in (low, high):
            v3("D8", f"{name} fill {edge}", v3_doc(data_type=name, fill_value=edge, codecs=codecs), None, [edge] * 4)
        for beyond in (low - 1, high + 1):
            v3("D2", f"{name} fill {beyond}", v3_doc(data_type=name, fill_value=beyond, codecs=codecs), data)
    v3("D1", "uint8 with endian given", v3_doc(data_type="uint8"), bytes(VALUES), VALUES)
    for value in (7.0, 7.5, "7", "0x0007", True, None, [7], {}, "NaN"):
        v3("D2", f"uint16 fill {json.dumps(value)}", v3_doc(fill_value=value), U16)
    v3("D2", "uint16 fill 7e0", as_bytes(v3_doc()).replace(b'"fill_value": 7', b'"fill_value": 7e0'), U16)
    either(v3, "D2", "int16 fill -0", as_bytes(v3_doc(data_type="int16")).replace(b'"fill_value": 7', b'"fill_value": -0'))

    boolean = dict(data_type="bool", codecs=[BYTES_PLAIN])
    v3("D1", "bool", v3_doc(**boolean, fill_value=False), b"\x01\x00\x00\x01", [True, False, False, True])
    v3("D2", "bool fill false", v3_doc(**boolean, fill_value=False), None, [False] * 4)
    for value in (0, 1, "true", None, "True", [True], 0.0):
        v3("D2", f"bool fill {json.dumps(value)}", v3_doc(**boolean, fill_value=value))
    either(v3, "D1", "bool byte 2", v3_doc(**boolean, fill_value=False), b"\x02\x00\x00\x01")

    for name, (letter, how, nan, inf, ninf, one, digits) in FLOATS.items():
        def fill(label, value, bits=None, name=name, how=how):
            doc = v3_doc(data_type=name, fill_value=value)
            v3("D3", f"{name} fill {label}", doc, None, *([[bits] * 4, how] if bits is not None else []))
        sign = 1 << (digits * 4 - 1)
        fill("NaN", "NaN", nan)
        fill("Infinity", "Infinity", inf)
        fill("-Infinity", "-Infinity", ninf)
        fill("1", 1, one)
        fill("1.0", 1.0, one)
        fill("0", 0, 0)
        fill("-0.0", -0.0, sign)
        for label, bits in (("canonical NaN", nan), ("negative NaN", nan | sign), ("NaN with payload", nan | 1),
                            ("signalling NaN", (inf | 1)), ("one", one), ("minus zero", sign), ("smallest", 1)):
            fill(f"hex {label}", f"0x{bits:0{digits}x}", bits)
        fill("hex in capitals", f"0x{nan:0{digits}X}", nan)
        for value in ("nan", "inf", "Inf", "+Infinity", "-NaN", "1.0", "", "0x", f"0x{'0' * (digits + 2)}",
                      "0xzzzz", True, None, [1.0]):
            fill(json.dumps(value), value)
        either(v3, "D3", f"{name} fill hex short", v3_doc(data_type=name, fill_value="0x0"))
        v3("D1", f"{name} big-endian", v3_doc(data_type=name, fill_value=0, codecs=[BYTES_BIG]),
           pack(letter, 1.0, -2.0, 0.5, 0.0, big=True), [1.0, -2.0, 0.5, 0.0])
        v3("D4", f"{name} data keeps NaN payloads", v3_doc(data_type=name, fill_value=0),
           pack(how_letter(how), nan | 1, inf | 1, nan | sign, sign), [nan | 1, inf | 1, nan | sign, sign], how)
    v3("D3", "float32 fill rounds half to even down", v3_doc(data_type="float32", fill_value=16777217), None,
       [0x4B800000] * 4, "bits32")
    v3("D3", "float32 fill rounds half to even up", v3_doc(data_type="float32", fill_value=16777219), None,
       [0x4B800002] * 4, "bits32")
    v3("D3", "float32 fill 0.1", v3_doc(data_type="float32", fill_value=0.1), None, [0x3DCCCCCD] * 4, "bits32")
    v3("D3", "float16 fill 2049 rounds to even", v3_doc(data_type="float16", fill_value=2049), None,
       [0x6800] * 4, "bits16")
    v3("D3", "float64 fill 0.1", v3_doc(data_type="float64", fill_value=0.1), None,
       [0x3FB999999999999A] * 4, "bits64")
    v3("D3", "float64 fill with exponent",
       as_bytes(v3_doc(data_type="float64")).replace(b'"fill_value": 7', b'"fill_value": 1.5E+3'), None, [1500.0] * 4)
    v3("D3", "float64 fill subnormal", v3_doc(data_type="float64", fill_value=5e-324), None, [1] * 4, "bits64")
    either(v3, "D3", "float32 fill 1e39 overflows", v3_doc(data_type="float32", fill_value=1e39))
    either(v3, "D3", "float64 fill 1e999",
           as_bytes(v3_doc(data_type="float64")).replace(b'"fill_value": 7', b'"fill_value": 1e999'))

    for name, letter, how, one, two in (("complex64", "f", "bits32", 0x3F800000, 0x40000000),
                                        ("complex128", "d", "bits64", 0x3FF0000000000000, 0x4000000000000000)):
        v3("D1", f"{name} data", v3_doc(shape=[2], data_type=name, fill_value=[0, 0]), pack(letter, 1, 2, 3, 4),
           [[1.0, 2.0], [3.0, 4.0]])
        v3("P2", f"{name} big-endian", v3_doc(shape=[2], data_type=name, fill_value=[0, 0], codecs=[BYTES_BIG]),
           pack(letter, 1, 2, 3, 4, big=True), [[1.0, 2.0], [3.0, 4.0]])
        v3("D6", f"{name} fill", v3_doc(shape=[2], data_type=name, fill_value=[1.0, 2]), None, [one, two] * 2, how)
        v3("D6", f"{name} fill hex", v3_doc(shape=[1], data_type=name, fill_value=["-Infinity", f"0x{one:x}"]), None,
           [0xFF800000 if letter == "f" else 0xFFF0000000000000, one], how)
        for value in (1, "NaN", [1], [1, 2, 3], [[1, 2]], {"re": 1, "im": 2}, ["1", 2], [None, 0], [True, 0]):
            v3("D6", f"{name} fill {json.dumps(value)}", v3_doc(shape=[2], data_type=name, fill_value=value))

    v3("D7", "r24", v3_doc(shape=[2], data_type="r24", fill_value=[0, 0, 0], codecs=[BYTES_PLAIN]), b"abcdef",
       b"abcdef".hex(), "raw")
    v3("D7", "r8 fill", v3_doc(shape=[2], data_type="r8", fill_value=[255], codecs=[BYTES_PLAIN]), None, "ffff", "raw")
    v3("D7", "r16 fill", v3_doc(shape=[2], data_type="r16", fill_value=[1, 2], codecs=[BYTES_PLAIN]), None, "01020102", "raw")
    v3("D7", "r16 is not byte-swapped", v3_doc(shape=[2], data_type="r16", fill_value=[0, 0], codecs=[BYTES_BIG]),
       b"abcd", b"abcd".hex(), "raw")
    for name, value in (("r16", "AQI="), ("r16", [1]), ("r16", [1, 256]), ("r16", [1, -1]), ("r16", 1), ("r16", [1.5, 0]), ("r16", [1, 2, 3]),
                        ("r0", []), ("r", []), ("r7", [0]), ("r-8", [0]), ("r08", [0]), ("r8x", [0])):
        (either if name in ("r0", "r08") else lambda make, *a: make(*a))(
            v3, "D7", f"{name} fill {json.dumps(value)}", v3_doc(data_type=name, fill_value=value, codecs=[BYTES_PLAIN]))


def how_letter(how):
    return common.BIT_FORMATS[how]


# ------------------------------------------------------------------------------------ C: grids, chunk keys

def grids_and_keys():
    for value in ([0], [-4], [4.5], ["4"], [], [4, 4], 4, None, [None], [True]):
        v3("C1", f"chunk_shape {json.dumps(value)}", v3_doc(chunk_shape=value), U16)
    v3("C1", "chunk_shape missing", v3_doc(chunk_grid=codec("regular")), U16)
    v3("C1", "scalar", v3_doc(shape=[]), {"c": pack("H", 9)}, 9)
    v3("C1", "scalar, missing chunk", v3_doc(shape=[]), None, 7)
    v3("C1", "zero-length dimension", v3_doc(shape=[0], chunk_shape=[4]), None, [])
    v3("C1", "zero-length dimension of two", v3_doc(shape=[2, 0], chunk_shape=[1, 4]), None, [[], []])
    v3("C1", "zero-length shape with a zero chunk", v3_doc(shape=[0], chunk_shape=[0]))
    v3("C1", "chunk larger than the array", v3_doc(shape=[2], chunk_shape=[4]), U16, [1, 2])
    v3("C1", "chunk far larger than the array, missing", v3_doc(shape=[2], chunk_shape=[2**40]), None, [7, 7])
    v3("C2", "ragged edge in two dimensions", v3_doc(shape=[3, 3], chunk_shape=[2, 2]),
       {"c/0/0": pack("H", 1, 2, 4, 5), "c/0/1": pack("H", 3, 99, 6, 99), "c/1/0": pack("H", 7, 8, 99, 99),
        "c/1/1": pack("H", 9, 99, 99, 99)}, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    v3("C2", "edge chunk cut to the array", v3_doc(shape=[3], chunk_shape=[2]),
       {"c/0": pack("H", 1, 2), "c/1": pack("H", 3)})
    v3("C6", "missing chunk", v3_doc(), None, [7] * 4)
    v3("C6", "one of two chunks missing", v3_doc(chunk_shape=[2]), {"c/1": pack("H", 3, 4)}, [7, 7, 3, 4])
    v3("C6", "stray chunk outside the grid is ignored", v3_doc(), {"c/0": U16, "c/1": b"x"}, VALUES)

    two = v3_doc(shape=[2, 2], chunk_shape=[1, 2])
    rows = pack("H", 1, 2), pack("H", 3, 4)
    square = [[1, 2], [3, 4]]
    for label, encoding, keys in (
            ("default /", codec("default", separator="/"), ("c/0/0", "c/1/0")),
            ("default .", codec("default", separator="."), ("c.0.0", "c.1.0")),
            ("default, no separator", codec("default"), ("c/0/0", "c/1/0")),
            ("default, no configuration", {"name": "default"}, ("c/0/0", "c/1/0")),
            ("v2 .", codec("v2", separator="."), ("0.0", "1.0")),
            ("v2 /", codec("v2", separator="/"), ("0/0", "1/0")),
            ("v2, no separator", codec("v2"), ("0.0", "1.0")),
            ("v2, no configuration", {"name": "v2"}, ("0.0", "1.0"))):
        v3("C3" if encoding["name"] == "default" else "C4", f"keys {label}",
           {**two, "chunk_key_encoding": encoding}, dict(zip(keys, rows)), square)
    v3("C4", "keys v2, scalar", v3_doc(shape=[], chunk_key_encoding=codec("v2", separator=".")),
       {"0": pack("H", 9)}, 9)
    v3("C3", "keys default ., scalar", v3_doc(shape=[], chunk_key_encoding=codec("default", separator=".")),
       {"c": pack("H", 9)}, 9)
    for separator in ("-", "", "//", None, 1):
        for name in ("default", "v2"):
            v3("C5", f"keys {name} separator {json.dumps(separator)}",
               v3_doc(chunk_key_encoding=codec(name, separator=separator)), U16)
    for value in (None, {}, "V2", "nope", [], 5):
        v3("C5", f"chunk_key_encoding {json.dumps(value)}", v3_doc(chunk_key_encoding=value), U16)
    v3("C3", "two-digit chunk index", v3_doc(shape=[12], chunk_shape=[1]), {"c/10": pack("H", 5)},
       [7] * 10 + [5, 7])


# ------------------------------------------------------------------------------------------ P: codec chain

def codec_chain():
    gz = codec("gzip", level=1)
    packed = gzip.compress(U16)
    v3("P1", "two array->bytes", v3_doc(codecs=[BYTES, BYTES]), U16)
    v3("P1", "array->array after array->bytes", v3_doc(codecs=[BYTES, codec("transpose", order=[0])]), U16)
    v3("P1", "no array->bytes", v3_doc(codecs=[codec("transpose", order=[0])]), U16)
    v3("P1", "only bytes->bytes", v3_doc(codecs=[gz]), packed)
    v3("P1", "sharding and bytes", v3_doc(codecs=[sharding([4]), BYTES]), shard([U16]))
    for value in ("Little", "native", None, "", 1, "<"):
        v3("P2", f"bytes endian {json.dumps(value)}", v3_doc(codecs=[codec("bytes", endian=value)]), U16)
    v3("P4", "chunk too short", v3_doc(), U16[:6])
    v3("P4", "chunk too long", v3_doc(), U16 + b"\0\0")
    v3("P4", "chunk empty", v3_doc(), b"")
    v3("P4", "chunk one byte short", v3_doc(), U16[:7])

    def transpose(order, **over):
        return v3_doc(**{"shape": [2, 3], "codecs": [codec("transpose", order=order), BYTES], **over})
    six = pack("H", 1, 2, 3, 4, 5, 6)
    v3("P2", "transpose [0,1] is the identity", transpose([0, 1]), six, [[1, 2, 3], [4, 5, 6]])
    v3("P2", "transpose [1,0]", transpose([1, 0]), six, [[1, 3, 5], [2, 4, 6]])
    v3("P2", "transpose twice", v3_doc(shape=[2, 3], codecs=[codec("transpose", order=[1, 0])] * 2 + [BYTES]), six,
       [[1, 2, 3], [4, 5, 6]])
    cube = list(range(24))
    v3("P2", "transpose [1,2,0]", v3_doc(shape=[2, 3, 4], codecs=[codec("transpose", order=[1, 2, 0]), BYTES]),
       pack("H", *[a * 12 + b * 4 + c for b in range(3) for c in range(4) for a in range(2)]),
       [[cube[a * 12 + b * 4:][:4] for b in range(3)] for a in range(2)])
    v3("P2", "transpose of a scalar", v3_doc(shape=[], codecs=[codec("transpose", order=[]), BYTES]),
       {"c": pack("H", 9)}, 9)
    for order in ([0], [0, 0], [0, 2], [1, -1], [0, 1, 2], 1, None, [0.5, 1], ["1", "0"], "A", {}):
        v3("P2", f"transpose order {json.dumps(order)}", transpose(order), six)
    for order in ("C", "F"):
        either(v3, "P2", f"transpose order {order} (removed from the specification)", transpose(order), six)
    v3("P2", "transpose without order", v3_doc(shape=[2, 3], codecs=[codec("transpose"), BYTES]), six)

    # gzip
    v3("P1", "gzip several members", v3_doc(codecs=[BYTES, gz]), gzip.compress(U16[:4]) + gzip.compress(U16[4:]), VALUES)
    v3("P1", "gzip twice", v3_doc(codecs=[BYTES, gz, gz]), gzip.compress(packed), VALUES)
    v3("P1", "gzip stored (level 0)", v3_doc(codecs=[BYTES, codec("gzip", level=0)]), gzip.compress(U16, 0), VALUES)
    v3("P1", "gzip with a file name in its header", v3_doc(codecs=[BYTES, gz]),
       packed[:3] + b"\x08" + packed[4:10] + b"name\0" + packed[10:], VALUES)
    v3("P4", "gzip truncated", v3_doc(codecs=[BYTES, gz]), packed[:-4])
    v3("P4", "gzip wrong crc", v3_doc(codecs=[BYTES, gz]), packed[:-8] + b"\0\0\0\0" + packed[-4:])
    v3("P4", "gzip of too few bytes", v3_doc(codecs=[BYTES, gz]), gzip.compress(U16[:4]))
    v3("P4", "gzip of too many bytes", v3_doc(codecs=[BYTES, gz]), gzip.compress(U16 * 2))
    v3("P4", "gzip is not gzip", v3_doc(codecs=[BYTES, gz]), U16)
    v3("P4", "zlib data under gzip", v3_doc(codecs=[BYTES, gz]), zlib.compress(U16))
    v3("P4", "gzip bomb", v3_doc(codecs=[BYTES, gz]), gzip.compress(bytes(1 << 26)))
    for level in (10, -1, "1", 1.5, None):
        v3("P2", f"gzip level {json.dumps(level)}", v3_doc(codecs=[BYTES, codec("gzip", level=level)]), packed)
    either(v3, "P2", "gzip without level", v3_doc(codecs=[BYTES, codec("gzip")]), packed)
    either(v3, "P4", "gzip followed by rubbish", v3_doc(codecs=[BYTES, gz]), packed + b"rubbish")

    # crc32c
    v3("P4", "crc32c wrong", v3_doc(codecs=[BYTES, CRC]), U16 + b"\0\0\0\0")
    v3("P4", "crc32c big-endian", v3_doc(codecs=[BYTES, CRC]), U16 + crc32c(U16)[::-1])
    v3("P4", "crc32c missing", v3_doc(codecs=[BYTES, CRC]), U16)
    v3("P4", "crc32c of three bytes", v3_doc(codecs=[BYTES, CRC]), b"abc")
    v3("P1", "crc32c twice", v3_doc(codecs=[BYTES, CRC, CRC]),
       U16 + crc32c(U16) + crc32c(U16 + crc32c(U16)), VALUES)
    v3("P1", "crc32c after gzip", v3_doc(codecs=[BYTES, gz, CRC]), packed + crc32c(packed), VALUES)
    v3("P1", "crc32c before gzip", v3_doc(codecs=[BYTES, CRC, gz]), gzip.compress(U16 + crc32c(U16)), VALUES)

    # zstd, by hand: a frame of one raw block, with and without what a frame may carry
    zs = codec("zstd", level=1, checksum=False)

    def frame(data, descriptor=b"\x20", size=True, checksum=b""):
        head = descriptor + (bytes([len(data)]) if size else b"\x00")
        return b"\x28\xb5\x2f\xfd" + head + pack("I", len(data) << 3 | 1)[:3] + data + checksum
    v3("X", "zstd with content size", v3_doc(codecs=[BYTES, zs]), frame(U16), VALUES)
    v3("X", "zstd without content size", v3_doc(codecs=[BYTES, zs]), frame(U16, b"\x00", size=False), VALUES)
    v3("X", "zstd several frames", v3_doc(codecs=[BYTES, zs]), frame(U16[:2]) + frame(U16[2:]), VALUES)
    v3("X", "zstd several frames, no content size", v3_doc(codecs=[BYTES, zs]),
       frame(U16[:2], b"\x00", size=False) + frame(U16[2:], b"\x00", size=False), VALUES)
    v3("X", "zstd with a skippable frame", v3_doc(codecs=[BYTES, zs]),
       b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + frame(U16), VALUES)
    v3("X", "zstd wrong checksum", v3_doc(codecs=[BYTES, codec("zstd", level=1, checksum=True)]),
       frame(U16, b"\x24", checksum=b"\0\0\0\0"))
    v3("X", "zstd level negative", v3_doc(codecs=[BYTES, codec("zstd", level=-5, checksum=False)]), frame(U16), VALUES)
    v3("X", "zstd truncated", v3_doc(codecs=[BYTES, zs]), frame(U16)[:-1])
    v3("X", "zstd is not zstd", v3_doc(codecs=[BYTES, zs]), U16)
    v3("X", "zstd too short", v3_doc(codecs=[BYTES, zs]), frame(U16[:6]))
    v3("X", "zstd too long", v3_doc(codecs=[BYTES, zs]), frame(U16 * 2))
    for level in (23, -131073, "3", 1.5):
        v3("X", f"zstd level {json.dumps(level)}", v3_doc(codecs=[BYTES, codec("zstd", level=level)]), frame(U16))
    v3("X", "zstd checksum not boolean", v3_doc(codecs=[BYTES, codec("zstd", level=1, checksum="no")]), frame(U16))
    either(v3, "X", "zstd empty configuration", v3_doc(codecs=[BYTES, codec("zstd")]), frame(U16))
    either(v3, "X", "zstd followed by rubbish", v3_doc(codecs=[BYTES, zs]), frame(U16) + b"rubbish")

    blosc_cases()


def blosc(**over):
    return codec("blosc", **{k: v for k, v in {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 2,
                                                "blocksize": 0, **over}.items() if v is not ABSENT})


def blosc_stored(data, typesize=2, **header):
    """A c-blosc 1 frame that holds its data uncompressed (flag 2)."""
    h = {"version": 2, "lz": 1, "flags": 2, "nbytes": len(data), "block": len(data), "cbytes": len(data) + 16, **header}
    return bytes([h["version"], h["lz"], h["flags"], typesize]) + pack("I", h["nbytes"], h["block"], h["cbytes"]) + data


def blosc_cases():
    v3("P1", "blosc stored frame", v3_doc(codecs=[BYTES, blosc()]), blosc_stored(U16), VALUES)
    v3("P2", "blosc noshuffle without typesize", v3_doc(codecs=[BYTES, blosc(typesize=ABSENT)]), blosc_stored(U16), VALUES)
    for key, value in (("cname", "nope"), ("cname", None), ("clevel", 10), ("clevel", -1), ("clevel", "5"), ("shuffle", "byte"),
                       ("shuffle", 1), ("blocksize", -1), ("typesize", -1), ("typesize", "2")):
        v3("P2", f"blosc {key} {json.dumps(value)}", v3_doc(codecs=[BYTES, blosc(**{key: value})]), blosc_stored(U16))
    v3("P2", "blosc shuffle with typesize 0", v3_doc(codecs=[BYTES, blosc(shuffle="shuffle", typesize=0)]), blosc_stored(U16))
    v3("P2", "blosc bitshuffle without typesize", v3_doc(codecs=[BYTES, blosc(shuffle="bitshuffle", typesize=ABSENT)]),
       blosc_stored(U16))
    for label, data in (("truncated header", blosc_stored(U16)[:10]), ("truncated data", blosc_stored(U16)[:-2]),
                        ("of too few bytes", blosc_stored(U16[:6])), ("of too many bytes", blosc_stored(U16 * 2)),
                        ("nbytes forged", blosc_stored(U16, nbytes=2**31 - 1)), ("cbytes forged", blosc_stored(U16, cbytes=2**31)),
                        ("rubbish", b"rubbish rubbish rubbish"), ("empty", b""), ("version 9", blosc_stored(U16, version=9))):
        v3("P4", f"blosc {label}", v3_doc(codecs=[BYTES, blosc()]), data)
    if not needs(numcodecs, "blosc compressed frames"):
        return
    values = [i * i % 257 for i in range(4096)]
    data = np.array(values, "<u2").tobytes()
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for number, shuffle in enumerate(("noshuffle", "shuffle", "bitshuffle")):
            done = numcodecs.Blosc(cname, 5, number).encode(np.frombuffer(data, "<u2"))
            v3("P1", f"blosc {cname} {shuffle}",
               v3_doc(shape=[4096], codecs=[BYTES, blosc(cname=cname, shuffle=shuffle)]), bytes(done), values)
    several = numcodecs.Blosc("zstd", 3, 1, blocksize=1024).encode(np.frombuffer(data, "<u2"))
    v3("P1", "blosc of several blocks", v3_doc(shape=[4096], codecs=[BYTES, blosc(cname="zstd", shuffle="shuffle", blocksize=1024)]),
       bytes(several), values)
    v3("P1", "blosc: the frame, not the metadata, says which codec",
       v3_doc(shape=[4096], codecs=[BYTES, blosc(cname="lz4", shuffle="bitshuffle")]), bytes(several), values)


# --------------------------------------------------------------------------------------------- S: sharding

def sharding(chunk_shape, **over):
    configuration = {"chunk_shape": chunk_shape, "codecs": [BYTES], "index_codecs": [BYTES, CRC], **over}
    return codec("sharding_indexed", **{k: v for k, v in configuration.items() if v is not ABSENT})


def shard(inner, order=None, index=None, crc=True, big=False, at="end", gap=b""):
    """A shard of the inner chunks' bytes (None = empty), or with the forged `index` [(offset, nbytes), ...]."""
    size = 16 * len(inner if index is None else index) + (4 if crc else 0)
    base = size if at == "start" else 0
    body, entries = b"", [(EMPTY, EMPTY)] * len(inner)
    for i in order or range(len(inner)):
        if inner[i] is not None:
            body += gap
            entries[i] = (base + len(body), len(inner[i]))
            body += inner[i]
    table = pack("Q", *[n for entry in (entries if index is None else index) for n in entry], big=big)
    table += crc32c(table) if crc else b""
    return table + body if at == "start" else body + table


def sharded():
    first, last = pack("H", 1, 2), pack("H", 3, 4)
    both = [first, last]

    def put(name, data, value=ABSENT, rule="S3", **over):
        v3(rule, f"shard {name}", v3_doc(codecs=[sharding(over.pop("inner_shape", [2]), **over)]), data, value)

    put("baseline", shard(both), VALUES)
    put("one inner chunk", shard([U16]), VALUES, inner_shape=[4])
    put("first inner chunk empty", shard([None, last]), [7, 7, 3, 4], "S5")
    put("last inner chunk empty", shard([first, None]), [1, 2, 7, 7], "S5")
    put("all inner chunks empty", shard([None, None]), [7] * 4, "S5")
    put("inner chunks in reverse order", shard(both, order=[1, 0]), VALUES, "S6")
    put("gaps between inner chunks", shard(both, gap=b"gap"), VALUES, "S6")
    put("two inner chunks share bytes", shard(both, index=[(0, 4), (0, 4)]), [1, 2, 1, 2], "S6")
    put("inner chunks overlap", shard(both, index=[(0, 4), (2, 4)]), [1, 2, 2, 3], "S6")
    CASES[-1][0]["expect"] = "either"
    put("index at the end, said so", shard(both), VALUES, "S1", index_location="end")
    put("index at the start", shard(both, at="start"), VALUES, "S6", index_location="start")
    put("index at the start, one empty", shard([None, last], at="start"), [7, 7, 3, 4], "S6", index_location="start")
    put("index at the start, no crc", shard(both, at="start", crc=False), VALUES, "S4", index_location="start", index_codecs=[BYTES])
    put("index without crc", shard(both, crc=False), VALUES, "S4", index_codecs=[BYTES])
    put("index big-endian", shard(both, big=True), VALUES, "S4", index_codecs=[BYTES_BIG, CRC])
    put("index big-endian without crc", shard(both, big=True, crc=False), VALUES, "S4", index_codecs=[BYTES_BIG])
    put("index with two crcs", shard(both) + crc32c(shard(both)[8:]), VALUES, "S4", index_codecs=[BYTES, CRC, CRC])
    put("index codecs in short-hand", shard(both), VALUES, "A5", index_codecs=[BYTES, "crc32c"])
    # transpose of the (2, 2) index: all offsets first, then all sizes
    table = pack("Q", 0, 4, 4, 4)
    put("index transposed", first + last + table + crc32c(table), VALUES, "S4",
        index_codecs=[codec("transpose", order=[1, 0]), BYTES, CRC])
    put("inner big-endian", shard([pack("H", 1, 2, big=True), pack("H", 3, 4, big=True)]), VALUES, codecs=[BYTES_BIG])
    put("inner gzip", shard([gzip.compress(first), gzip.compress(last)]), VALUES, codecs=[BYTES, codec("gzip", level=1)])
    put("inner crc32c", shard([x + crc32c(x) for x in both]), VALUES, codecs=[BYTES, CRC])
    put("inner crc32c wrong", shard([first + b"\0\0\0\0", last + crc32c(last)]), codecs=[BYTES, CRC])
    put("inner chunk too short", shard([first[:2], last]), rule="P4")
    put("inner chunk too long", shard([first + b"\0\0", last]), rule="P4")
    put("shard object shorter than its index", shard(both)[-20:])
    put("shard object empty", b"")
    put("index crc of an index at the start", shard(both))  # read at the end: a good file
    CASES[-1][0].update(expect="accept", value=VALUES)
    put("index at the start but metadata says end", shard(both, at="start"))

    for label, index in (
            ("offset beyond the object", [(10**6, 4), (4, 4)]), ("nbytes beyond the object", [(0, 10**6), (4, 4)]),
            ("offset + nbytes overflows u64", [(2**64 - 2, 4), (4, 4)]), ("offset 2^63", [(2**63, 4), (4, 4)]),
            ("nbytes 2^63", [(0, 2**63), (4, 4)]), ("only the offset is 2^64-1", [(EMPTY, 4), (4, 4)]),
            ("only nbytes is 2^64-1", [(0, EMPTY), (4, 4)]), ("nbytes 0", [(0, 0), (4, 4)]),
            ("ends one byte past the object", [(0, 4), (8 + 36 - 3, 4)]), ("offset 2^64-2, nbytes 2^64-2", [(2**64 - 2,) * 2, (4, 4)])):
        put(f"index: {label}", shard(both, index=index), rule="S9")
    put("index: chunk lies in the index", shard(both, index=[(0, 4), (8, 4)]), rule="S9")
    CASES[-1][0]["expect"] = "either"

    for label, over in (
            ("without chunk_shape", dict(inner_shape=ABSENT)), ("without codecs", dict(codecs=ABSENT)),
            ("without index_codecs", dict(index_codecs=ABSENT)), ("codecs empty", dict(codecs=[])),
            ("index_codecs empty", dict(index_codecs=[])), ("index_location middle", dict(index_location="middle")),
            ("index_location null", dict(index_location=None)), ("index_codecs only crc32c", dict(index_codecs=[CRC])),
            ("index_codecs two array->bytes", dict(index_codecs=[BYTES, BYTES])), ("index without endian", dict(index_codecs=[BYTES_PLAIN])),
            ("index_codecs zstd", dict(index_codecs=[BYTES, codec("zstd", level=1)])), ("index_codecs blosc", dict(index_codecs=[BYTES, blosc()])),
            ("inner codecs without array->bytes", dict(codecs=[codec("gzip", level=1)])), ("inner codec unknown", dict(codecs=[BYTES, {"name": "nope"}])),
            ("chunk_shape of wrong rank", dict(inner_shape=[2, 1])), ("chunk_shape empty", dict(inner_shape=[])),
            ("chunk_shape zero", dict(inner_shape=[0])), ("chunk_shape negative", dict(inner_shape=[-2])), ("chunk_shape not dividing", dict(inner_shape=[3])),
            ("chunk_shape larger than the shard", dict(inner_shape=[8])), ("chunk_shape a number", dict(inner_shape=2)), ("chunk_shape float", dict(inner_shape=[2.5])),
            ("codecs an object", dict(codecs=BYTES)), ("inner multi-byte without endian", dict(codecs=[BYTES_PLAIN]))):
        put(label, shard(both), rule="S1", **over)
    v3("S1", "sharding short-hand without configuration", v3_doc(codecs=["sharding_indexed"]), shard(both))
    v3("S1", "sharding of a scalar", v3_doc(shape=[], codecs=[sharding([])]), {"c": shard([pack("H", 9)])}, 9)

    # more than one shard, more than one dimension, edges
    v3("S5", "one of two shards missing", v3_doc(chunk_shape=[2], codecs=[sharding([1])]),
       {"c/1": shard([pack("H", 3), pack("H", 4)])}, [7, 7, 3, 4])
    v3("S3", "index covers inner chunks outside the array",
       v3_doc(shape=[3], chunk_shape=[4], codecs=[sharding([1])]), shard([pack("H", n) for n in (1, 2, 3, 99)]), [1, 2, 3])
    v3("S3", "inner chunk outside the array is not read",
       v3_doc(shape=[2], chunk_shape=[4], codecs=[sharding([2])]), shard([first, b"?"]), [1, 2])
    quads = [pack("H", *q) for q in ((1, 2, 5, 6), (3, 4, 7, 8), (9, 10, 13, 14), (11, 12, 15, 16))]
    v3("S3", "index is in C order", v3_doc(shape=[4, 4], codecs=[sharding([2, 2])]), shard(quads),
       [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]])
    v3("S3", "inner transpose", v3_doc(shape=[2, 4], codecs=[sharding([2, 2], codecs=[codec("transpose", order=[1, 0]), BYTES])]),
       shard([pack("H", 1, 5, 2, 6), pack("H", 3, 7, 4, 8)]), [[1, 2, 3, 4], [5, 6, 7, 8]])
    v3("S7", "transpose [1,0] before sharding of unequal sides",
       v3_doc(shape=[2, 4], codecs=[codec("transpose", order=[1, 0]), sharding([2, 2])]),
       shard([pack("H", 1, 5, 2, 6), pack("H", 3, 7, 4, 8)]), [[1, 2, 3, 4], [5, 6, 7, 8]])
    v3("S1", "chunk_shape must divide the transposed shard",
       v3_doc(shape=[2, 3], codecs=[codec("transpose", order=[1, 0]), sharding([2, 3])]), shard([pack("H", *range(6))]))
    nested = sharding([2], codecs=[sharding([1])])
    v3("S7", "nested, inner shard empty", v3_doc(codecs=[nested]), shard([None, shard([pack("H", 3), None])]), [7, 7, 3, 7])
    v3("S7", "nested, inner index at the start",
       v3_doc(codecs=[sharding([2], codecs=[sharding([1], index_location="start")])]),
       shard([shard([pack("H", 1), pack("H", 2)], at="start"), shard([pack("H", 3), pack("H", 4)], at="start")]), VALUES)
    v3("S7", "nested, inner chunk does not divide", v3_doc(codecs=[sharding([2], codecs=[sharding([3])])]), shard([first, last]))
    v3("S7", "nested, compressed inner shards",
       v3_doc(codecs=[sharding([2], codecs=[sharding([1]), codec("gzip", level=1)])]),
       shard([gzip.compress(shard([pack("H", 1), pack("H", 2)])), gzip.compress(shard([pack("H", 3), pack("H", 4)]))]), VALUES)
    whole = shard(both)
    v3("S7", "crc32c after sharding", v3_doc(codecs=[sharding([2]), CRC]), whole + crc32c(whole), VALUES)
    v3("S7", "crc32c after sharding, wrong", v3_doc(codecs=[sharding([2]), CRC]), whole + b"\0\0\0\0")
    v3("S7", "gzip and crc32c after sharding", v3_doc(codecs=[sharding([2]), codec("gzip", level=1), CRC]),
       gzip.compress(whole) + crc32c(gzip.compress(whole)), VALUES)
    v3("S5", "float32 shard with NaN fill", v3_doc(data_type="float32", fill_value="0x7fa00001", codecs=[sharding([2])]),
       shard([None, pack("f", 1, 2)]), [0x7FA00001, 0x7FA00001, 0x3F800000, 0x40000000], "bits32")
    v3("X", "strings in a shard", v3_doc(data_type="string", fill_value="-", codecs=[sharding([2], codecs=[{"name": "vlen-utf8"}])]),
       shard([vlen(b"a", "é".encode()), None]), ["a", "é", "-", "-"])


# ------------------------------------------------------------------------------ X: registered extensions

def vlen(*items):
    return pack("I", len(items)) + b"".join(pack("I", len(i)) + i for i in items)


def strings():
    text = dict(data_type="string", fill_value="", codecs=[{"name": "vlen-utf8"}])
    v3("X", "string", v3_doc(**text), vlen(b"a", b"", "é長🙂".encode(), b"zz"), ["a", "", "é長🙂", "zz"])
    v3("X", "string, codec with an empty configuration", v3_doc(**{**text, "codecs": [codec("vlen-utf8")]}), vlen(b"a", b"b", b"c", b"d"), ["a", "b", "c", "d"])
    v3("X", "string, codec in short-hand", v3_doc(**{**text, "codecs": ["vlen-utf8"]}), vlen(b"a", b"b", b"c", b"d"), ["a", "b", "c", "d"])
    v3("X", "string gzip", v3_doc(**{**text, "codecs": [{"name": "vlen-utf8"}, codec("gzip", level=1)]}),
       gzip.compress(vlen(b"a", b"b", b"c", b"d")), ["a", "b", "c", "d"])
    v3("X", "string 2-D", v3_doc(**text, shape=[2, 2]), vlen(b"a", b"b", b"c", b"d"), [["a", "b"], ["c", "d"]])
    v3("X", "string transposed", v3_doc(**{**text, "codecs": [codec("transpose", order=[1, 0]), {"name": "vlen-utf8"}]}, shape=[2, 2]),
       vlen(b"a", b"c", b"b", b"d"), [["a", "b"], ["c", "d"]])
    v3("X", "string edge chunk", v3_doc(**text, shape=[3], chunk_shape=[2]), {"c/0": vlen(b"a", b"b"), "c/1": vlen(b"c", b"")}, ["a", "b", "c"])
    v3("X", "string with quotes and controls", v3_doc(**text), vlen(b'"', b"\\", b"\n\t", b"\x01"), ['"', "\\", "\n\t", "\x01"])
    for label, data in (("count too small", vlen(b"a", b"b", b"c")), ("count too large", vlen(b"a", b"b", b"c", b"d", b"e")),
                        ("length beyond the chunk", pack("I", 4) + pack("I", 10**6) + b"a"), ("length 2^32-1", pack("I", 4, 2**32 - 1)),
                        ("not UTF-8", vlen(b"\xff", b"b", b"c", b"d")), ("empty", b""), ("three bytes", b"abc"), ("count 2^32-1", pack("I", 2**32 - 1))):
        v3("X", f"string chunk: {label}", v3_doc(**text), data)
    either(v3, "X", "string chunk followed by rubbish", v3_doc(**text), vlen(b"a", b"b", b"c", b"d") + b"x")
    for value in (0, None, ["a"], True, {}):
        v3("X", f"string fill {json.dumps(value)}", v3_doc(**{**text, "fill_value": value}))
    v3("X", "string with the bytes codec", v3_doc(**{**text, "codecs": [BYTES]}), U16)
    v3("X", "vlen-utf8 on uint16", v3_doc(codecs=[{"name": "vlen-utf8"}]), vlen(b"a", b"b", b"c", b"d"))
    v3("X", "vlen-bytes on string", v3_doc(**{**text, "codecs": [{"name": "vlen-bytes"}]}), vlen(b"a", b"b", b"c", b"d"))

    for name in ("bytes", "variable_length_bytes"):
        blob = dict(data_type=name, fill_value="", codecs=[{"name": "vlen-bytes"}])
        v3("X", f"{name}", v3_doc(**blob), vlen(b"a", b"", b"\xff\x00", b"zz"),
           [base64.b64encode(x).decode() for x in (b"a", b"", b"\xff\x00", b"zz")])
        v3("X", f"{name} fill base64", v3_doc(**{**blob, "fill_value": "AP8="}), None, ["AP8="] * 4)
        v3("X", f"{name} fill list", v3_doc(**{**blob, "fill_value": [0, 255]}), None, ["AP8="] * 4)
    blob = dict(data_type="bytes", codecs=[{"name": "vlen-bytes"}])
    for value in (0, None, [256], [-1], [1.5], "not base64!"):
        v3("X", f"bytes fill {json.dumps(value)}", v3_doc(**blob, fill_value=value))

    fixed = dict(data_type=codec("fixed_length_utf32", length_bytes=8), fill_value="")
    v3("X", "fixed_length_utf32", v3_doc(**fixed), "abc\0é\0\0\0".encode("utf-32-le"),
       ["ab", "c", "é", ""])
    v3("X", "fixed_length_utf32 big-endian", v3_doc(**fixed, codecs=[BYTES_BIG]), "abc\0é\0🙂\0".encode("utf-32-be"), ["ab", "c", "é", "🙂"])
    v3("X", "fixed_length_utf32 fill", v3_doc(**{**fixed, "fill_value": "xy"}), None, ["xy"] * 4)
    v3("X", "fixed_length_utf32 fill too long", v3_doc(**{**fixed, "fill_value": "xyz"}))
    v3("X", "fixed_length_utf32 fill 0", v3_doc(**{**fixed, "fill_value": 0}))
    for value in (6, 0, -4, "8", None, 8.5):
        (lambda *a: either(v3, *a) if value == 0 else v3(*a))(
            "X", f"fixed_length_utf32 length_bytes {json.dumps(value)}",
            v3_doc(data_type=codec("fixed_length_utf32", length_bytes=value), fill_value=""), bytes(32))
    v3("X", "fixed_length_utf32 without configuration", v3_doc(data_type="fixed_length_utf32", fill_value=""), bytes(32))
    v3("X", "fixed_length_utf32 with an invalid code point", v3_doc(**fixed), b"\xff" * 32)
    v3("X", "fixed_length_utf32 with half a surrogate pair", v3_doc(**fixed), b"\x00\xd8\x00\x00" + bytes(28))

    v3("X", "null_terminated_bytes", v3_doc(data_type=codec("null_terminated_bytes", length_bytes=2), fill_value="", codecs=[BYTES_PLAIN]),
       b"abc\0\0\0zz", b"abc\0\0\0zz".hex(), "raw")
    v3("X", "null_terminated_bytes fill", v3_doc(shape=[2], data_type=codec("null_terminated_bytes", length_bytes=2), fill_value="eHk=", codecs=[BYTES_PLAIN]),
       None, b"xyxy".hex(), "raw")
    v3("X", "raw_bytes", v3_doc(data_type=codec("raw_bytes", length_bytes=2), fill_value="AAA=", codecs=[BYTES_PLAIN]), b"abcdefgh", b"abcdefgh".hex(), "raw")
    v3("X", "raw_bytes fill", v3_doc(shape=[2], data_type=codec("raw_bytes", length_bytes=2), fill_value="AQI=", codecs=[BYTES_PLAIN]), None, "01020102", "raw")


def times():
    nat = -2**63
    for kind in ("numpy.datetime64", "numpy.timedelta64"):
        def dtype(unit="s", scale=1, kind=kind):
            return codec(kind, unit=unit, scale_factor=scale)
        data = pack("q", 1, -2, 3, nat)
        for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic"):
            v3("X", f"{kind} unit {unit}", v3_doc(data_type=dtype(unit), fill_value="NaT"), data, [1, -2, 3, nat], "i8")
        v3("X", f"{kind} fill NaT", v3_doc(data_type=dtype(), fill_value="NaT"), None, [nat] * 4, "i8")
        v3("X", f"{kind} fill -2^63", v3_doc(data_type=dtype(), fill_value=nat), None, [nat] * 4, "i8")
        v3("X", f"{kind} fill 5", v3_doc(data_type=dtype(), fill_value=5), None, [5] * 4, "i8")
        v3("X", f"{kind} scale_factor 2^31-1", v3_doc(data_type=dtype(scale=2**31 - 1), fill_value=0), data, [1, -2, 3, nat], "i8")
        v3("X", f"{kind} big-endian", v3_doc(data_type=dtype(), fill_value=0, codecs=[BYTES_BIG]), pack("q", 1, -2, 3, nat, big=True),
           [1, -2, 3, nat], "i8")
        for unit, scale in (("S", 1), ("minutes", 1), (None, 1), ("s", 0), ("s", -1), ("s", 2**31), ("s", 1.5), ("s", "1")):
            v3("X", f"{kind} unit {json.dumps(unit)} scale_factor {json.dumps(scale)}", v3_doc(data_type=dtype(unit, scale), fill_value=0), data)
        for value in ("nat", 1.5, None, True, "2020-01-01", 2**63):
            v3("X", f"{kind} fill {json.dumps(value)}", v3_doc(data_type=dtype(), fill_value=value), data)
        v3("X", f"{kind} without configuration", v3_doc(data_type=kind, fill_value=0), data)
        v3("X", f"{kind} without unit", v3_doc(data_type=codec(kind, scale_factor=1), fill_value=0), data)


def structs():
    def fields(*pairs):
        return codec("struct", fields=[{"name": n, "data_type": d} for n, d in pairs])
    point = fields(("x", "uint8"), ("y", "int16"))
    data = struct.pack("<BhBh", 1, -2, 3, 4)
    doc = dict(shape=[2], data_type=point, fill_value={"x": 9, "y": -9})
    values = [{"x": 1, "y": -2}, {"x": 3, "y": 4}]
    v3("X", "struct", v3_doc(**doc), data, values)
    v3("X", "struct fill", v3_doc(**doc), None, [{"x": 9, "y": -9}] * 2)
    v3("X", "struct big-endian", v3_doc(**doc, codecs=[BYTES_BIG]), struct.pack(">BhBh", 1, -2, 3, 4), values)
    v3("X", "struct without endian", v3_doc(**doc, codecs=[BYTES_PLAIN]), data)
    v3("X", "struct of single bytes without endian", v3_doc(shape=[2], data_type=fields(("a", "uint8"), ("b", "bool")), fill_value={"a": 0, "b": False}, codecs=[BYTES_PLAIN]),
       b"\x01\x01\x02\x00", [{"a": 1, "b": True}, {"a": 2, "b": False}])
    v3("X", "struct nested", v3_doc(shape=[1], data_type=fields(("p", point), ("v", "float64")), fill_value={"p": {"x": 0, "y": 0}, "v": 0}),
       struct.pack("<Bhd", 1, -2, 2.5), [{"p": {"x": 1, "y": -2}, "v": 2.5}])
    v3("X", "struct nested fill", v3_doc(shape=[1], data_type=fields(("p", point), ("v", "float64")), fill_value={"p": {"x": 1, "y": 2}, "v": "NaN"}),
       None, [{"p": {"x": 1, "y": 2}, "v": "NaN"}])
    v3("X", "struct with a datetime field",
       v3_doc(shape=[1], data_type=fields(("t", codec("numpy.datetime64", unit="s", scale_factor=1)), ("v", "float32")), fill_value={"t": "NaT", "v": 0}),
       struct.pack("<qf", 5, 1.5), [{"t": 5, "v": 1.5}])
    v3("X", "struct gzip", v3_doc(**doc, codecs=[BYTES, codec("gzip", level=1)]), gzip.compress(data), values)
    v3("X", "struct fill base64", v3_doc(**{**doc, "fill_value": base64.b64encode(struct.pack("<Bh", 9, -9)).decode()}), data)
    v3("X", "struct with an empty field name", v3_doc(data_type=fields(("", "uint8")), fill_value={"": 0}), bytes(VALUES))
    for value in ({"x": 9}, {}, {"x": 9, "y": -9, "z": 0}, None, 0, [9, -9], {"x": 256, "y": 0}, {"x": 9, "y": "NaN"}):
        (either if value == {"x": 9, "y": -9, "z": 0} else lambda make, *a: make(*a))(
            v3, "X", f"struct fill {json.dumps(value)}", v3_doc(**{**doc, "fill_value": value}), data)
    for label, dtype, fill in (("no fields", codec("struct", fields=[]), {}), ("duplicate names", fields(("x", "uint8"), ("x", "int16")), {"x": 0}),
                               ("empty field name", fields(("", "uint8")), {"": 0}), ("string field", fields(("s", "string")), {"s": ""}),
                               ("fields missing", codec("struct"), {}), ("tuple fields", codec("struct", fields=[["x", "uint8"], ["y", "int16"]]), {"x": 0, "y": 0}),
                               ("unknown field type", fields(("x", "nope")), {"x": 0}), ("field without a type", codec("struct", fields=[{"name": "x"}]), {"x": 0})):
        make = (lambda *a: either(v3, *a)) if label == "tuple fields" else v3
        make("X", f"struct {label}", v3_doc(shape=[2], data_type=dtype, fill_value=fill), data)
    legacy = codec("structured", fields=[["x", "uint8"], ["y", "int16"]])
    fill = base64.b64encode(struct.pack("<Bh", 9, -9)).decode()
    v3("X", "structured (legacy)", v3_doc(shape=[2], data_type=legacy, fill_value=fill), data, values)
    v3("X", "structured (legacy) without endian is little", v3_doc(shape=[2], data_type=legacy, fill_value=fill, codecs=[BYTES_PLAIN]), data, values)
    v3("X", "structured (legacy) fill", v3_doc(shape=[2], data_type=legacy, fill_value=fill), None, [{"x": 9, "y": -9}] * 2)
    v3("X", "structured (legacy) fill of wrong size", v3_doc(shape=[2], data_type=legacy, fill_value="AAA="))


def small_numbers():
    plain = [BYTES_PLAIN]
    v3("X", "bfloat16 data", v3_doc(data_type="bfloat16", fill_value=0), pack("H", 0x3F80, 0xC000, 0, 0x7F80), [1.0, -2.0, 0.0, "Infinity"])
    for label, value, bits in (("NaN", "NaN", 0x7FC0), ("1", 1, 0x3F80), ("hex", "0x7fc1", 0x7FC1), ("rounds to even", 257, 0x4380),
                               ("Infinity", "Infinity", 0x7F80), ("-0.0", -0.0, 0x8000)):
        v3("X", f"bfloat16 fill {label}", v3_doc(data_type="bfloat16", fill_value=value), None, [bits] * 4, "bits16")
    v3("X", "bfloat16 without endian", v3_doc(data_type="bfloat16", fill_value=0, codecs=plain), pack("H", 1, 2, 3, 4))
    for name, low, high, data, values in (("int4", -8, 7, b"\x01\x07\x08\x0f", [1, 7, -8, -1]), ("uint4", 0, 15, b"\x00\x07\x08\x0f", [0, 7, 8, 15]),
                                          ("int2", -2, 1, b"\x00\x01\x02\x03", [0, 1, -2, -1]), ("uint2", 0, 3, b"\x00\x01\x02\x03", [0, 1, 2, 3])):
        v3("X", f"{name} bytes", v3_doc(data_type=name, fill_value=0, codecs=plain), data, values)
        v3("X", f"{name} ignores the upper bits", v3_doc(data_type=name, fill_value=0, codecs=plain), bytes(b | 0xF0 for b in data), values)
        v3("X", f"{name} fill", v3_doc(data_type=name, fill_value=low, codecs=plain), None, [low] * 4)
        for beyond in (low - 1, high + 1):
            v3("X", f"{name} fill {beyond}", v3_doc(data_type=name, fill_value=beyond, codecs=plain), data)
        bits = 4 if "4" in name else 2
        packed = sum((b & (1 << bits) - 1) << (i * bits) for i, b in enumerate(data)).to_bytes(bits * 4 // 8, "little")
        v3("X", f"{name} packbits", v3_doc(data_type=name, fill_value=0, codecs=[{"name": "packbits"}]), packed, values)
    v3("X", "float8_e4m3fn", v3_doc(data_type="float8_e4m3fn", fill_value=0, codecs=plain), bytes([0x38, 0xB8, 0x40, 0x7E]), [1.0, -1.0, 2.0, 448.0])
    v3("X", "float8_e5m2", v3_doc(data_type="float8_e5m2", fill_value=0, codecs=plain), bytes([0x3C, 0xBC, 0x40, 0x7C]), [1.0, -1.0, 2.0, "Infinity"])
    v3("X", "float4_e2m1fn", v3_doc(data_type="float4_e2m1fn", fill_value=0, codecs=plain), bytes([0x02, 0x0A, 0x01, 0x07]), [1.0, -1.0, 0.5, 6.0])
    v3("X", "complex_float32 equals complex64", v3_doc(shape=[1], data_type="complex_float32", fill_value=[0, 0]), pack("f", 1, 2), [[1.0, 2.0]])
    v3("X", "complex_float16", v3_doc(shape=[2], data_type="complex_float16", fill_value=[0, 0]), pack("e", 1, 2, 3, 4), [[1.0, 2.0], [3.0, 4.0]])
    v3("X", "complex_bfloat16", v3_doc(shape=[1], data_type="complex_bfloat16", fill_value=[0, 0]), pack("H", 0x3F80, 0x4000), [[1.0, 2.0]])

    def bits(name, codec_config, data, value=ABSENT, dtype="bool", fill=False, shape=(4,)):
        v3("X", f"packbits {name}", v3_doc(shape=list(shape), data_type=dtype, fill_value=fill, codecs=[codec("packbits", **codec_config)]), data, value)
    truth = [True, False, True, True]
    bits("bool is LSB first", {}, b"\x0d", truth)
    bits("padding none", {"padding_encoding": "none"}, b"\x0d", truth)
    bits("padding first_byte", {"padding_encoding": "first_byte"}, b"\x04\x0d", truth)
    bits("padding last_byte", {"padding_encoding": "last_byte"}, b"\x0d\x04", truth)
    bits("padding first_byte wrong count", {"padding_encoding": "first_byte"}, b"\x05\x0d")
    bits("padding unknown", {"padding_encoding": "middle"}, b"\x0d")
    bits("too short", {}, b"")
    bits("too long", {}, b"\x0d\x00")
    bits("nine bools", {}, b"\x01\x01", [True] + [False] * 7 + [True], shape=(9,))
    bits("uint16 low four bits", {"first_bit": 0, "last_bit": 3}, b"\x21\x43", VALUES, "uint16", 0)
    bits("uint8 upper four bits", {"first_bit": 4, "last_bit": 7}, b"\x21\x43", [16, 32, 48, 64], "uint8", 0)
    bits("int16 four bits are sign-extended", {"first_bit": 0, "last_bit": 3}, b"\xf1\x8e", [1, -1, -2, -8], "int16", 0)
    bits("bits null", {"first_bit": None, "last_bit": None}, b"\x0d", truth)
    bits("last_bit before first_bit", {"first_bit": 3, "last_bit": 2}, b"\x0d", dtype="uint16", fill=0)
    bits("last_bit beyond the type", {"last_bit": 16}, b"\x0d", dtype="uint16", fill=0)
    bits("whole uint16", {}, U16, VALUES, "uint16", 0)


def array_codecs():
    def chain(name, codecs, data, value=ABSENT, dtype="float64", fill=0, shape=(4,), how="exact"):
        v3("X", name, v3_doc(shape=list(shape), data_type=dtype, fill_value=fill, codecs=codecs), data, value, how)
    cast = lambda t, **k: codec("cast_value", data_type=t, **k)  # noqa: E731
    scale = lambda **k: codec("scale_offset", **k)  # noqa: E731
    floats = [1.0, 2.0, 3.0, 4.0]
    chain("cast_value float64 as uint8", [cast("uint8"), BYTES_PLAIN], bytes(VALUES), floats)
    chain("cast_value int32 as int8", [cast("int8"), BYTES_PLAIN], pack("b", -1, 2, 3, 4), [-1, 2, 3, 4], "int32")
    chain("cast_value fill", [cast("uint8"), BYTES_PLAIN], None, [3.0] * 4, fill=3)
    chain("cast_value fill inside a shard", [cast("uint8"), sharding([2], codecs=[BYTES_PLAIN])], shard([None, b"\x03\x04"]), [9.0, 9.0, 3.0, 4.0], fill=9)
    chain("cast_value fill does not fit", [cast("uint8"), BYTES_PLAIN], bytes(VALUES), fill=300)
    chain("cast_value fill NaN to an integer", [cast("uint8"), BYTES_PLAIN], bytes(VALUES), fill="NaN")
    chain("cast_value NaN mapped", [cast("uint8", scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}), BYTES_PLAIN], bytes([0, 2, 3, 4]),
          ["NaN", 2.0, 3.0, 4.0], fill="NaN")
    chain("cast_value first match of scalar_map wins", [cast("uint8", scalar_map={"decode": [[1, 10], [1, 20]]}), BYTES_PLAIN], bytes(VALUES), [10.0, 2.0, 3.0, 4.0])
    for rounding in ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"):
        chain(f"cast_value rounding {rounding}", [cast("uint8", rounding=rounding), BYTES_PLAIN], bytes(VALUES), floats)
    chain("cast_value rounding unknown", [cast("uint8", rounding="up"), BYTES_PLAIN], bytes(VALUES))
    chain("cast_value out_of_range clamp", [cast("int16", out_of_range="clamp"), BYTES], pack("h", 1, 2, 3, 4), VALUES, "uint8")
    chain("cast_value decode clamps", [cast("int16", out_of_range="clamp"), BYTES], pack("h", -5, 300, 3, 4), [0, 255, 3, 4], "uint8")
    chain("cast_value decode wraps", [cast("int16", out_of_range="wrap"), BYTES], pack("h", -1, 257, 3, 4), [255, 1, 3, 4], "uint8")
    chain("cast_value decode out of range is an error", [cast("int16"), BYTES], pack("h", -1, 2, 3, 4), dtype="uint8")
    chain("cast_value wrap to a float", [cast("float32", out_of_range="wrap"), BYTES], pack("f", 1, 2, 3, 4))
    chain("cast_value out_of_range unknown", [cast("uint8", out_of_range="ignore"), BYTES_PLAIN], bytes(VALUES))
    chain("cast_value unknown key", [cast("uint8", extra=1), BYTES_PLAIN], bytes(VALUES))
    chain("cast_value without data_type", [codec("cast_value"), BYTES_PLAIN], bytes(VALUES))
    chain("cast_value to an unknown type", [cast("nope"), BYTES_PLAIN], bytes(VALUES))
    chain("cast_value then bytes without endian", [cast("uint16"), BYTES_PLAIN], U16)
    chain("scale_offset", [scale(offset=10, scale=2), BYTES], pack("d", -18, -16, -14, -12), floats)
    chain("scale_offset only offset", [scale(offset=10), BYTES], pack("d", -9, -8, -7, -6), floats)
    chain("scale_offset only scale", [scale(scale=4), BYTES], pack("d", 4, 8, 12, 16), floats)
    chain("scale_offset nothing", [{"name": "scale_offset"}, BYTES], pack("d", 1, 2, 3, 4), floats)
    chain("scale_offset of integers", [scale(offset=1, scale=2), BYTES], pack("h", 0, 2, 4, 6), VALUES, "int16")
    chain("scale_offset then cast_value", [scale(offset=0, scale=10), cast("int16"), BYTES], pack("h", 15, 25, 5, 0), [1.5, 2.5, 0.5, 0.0])
    chain("scale_offset then cast_value, fill", [scale(offset=0, scale=10), cast("int16"), BYTES], None, [0.5] * 4, fill=0.5)
    chain("scale_offset float32 in its own type", [scale(offset=0, scale=10), BYTES], pack("f", 1, 2, 3, 4), [0x3DCCCCCD, 0x3E4CCCCD, 0x3E99999A, 0x3ECCCCCD], "float32", how="bits32")
    chain("scale_offset scale 0", [scale(scale=0), BYTES], pack("d", 1, 2, 3, 4))
    CASES[-1][0]["expect"] = "either"
    chain("scale_offset unknown key", [scale(offset=0, scale=1, extra=1), BYTES], pack("d", 1, 2, 3, 4))
    chain("scale_offset integer fill does not survive", [scale(offset=0, scale=1.5), BYTES], pack("h", 1, 2, 3, 4), dtype="int16", fill=1)
    chain("scale_offset of a bool", [scale(offset=0, scale=1), BYTES_PLAIN], bytes(4), dtype="bool", fill=False)
    chain("bitround float32", [codec("bitround", keepbits=5), BYTES], pack("f", 1, 2, 3, 4), floats, "float32")
    chain("bitround int32", [codec("bitround", keepbits=3), BYTES], pack("i", 1, 2, 3, 4), VALUES, "int32")
    for keep in (-1, 53, "5", None, 1.5):
        make = (lambda *a, **k: (chain(*a, **k), CASES[-1][0].update(expect="either")))if keep == 53 else chain
        make(f"bitround keepbits {json.dumps(keep)}", [codec("bitround", keepbits=keep), BYTES], pack("d", 1, 2, 3, 4))
    chain("bitround without keepbits", [codec("bitround"), BYTES], pack("d", 1, 2, 3, 4))
    chain("bitround of strings", [codec("bitround", keepbits=3), {"name": "vlen-utf8"}], vlen(b"a", b"b", b"c", b"d"), dtype="string", fill="")

    six = pack("H", 1, 2, 3, 4, 5, 6)
    square = [[1, 2, 3], [4, 5, 6]]
    def reshape(name, shape, value=ABSENT):
        chain(f"reshape {name}", [codec("reshape", shape=shape), BYTES], six, value, "uint16", 0, (2, 3))
    for shape in ([6], [-1], [3, 2], [1, 6], [[0], [1]], [[0, 1]], [[0], -1], [2, [1]], [1, [0], [1]], [-1, 1]):
        reshape(json.dumps(shape), shape, square)
    for shape in ([5], [-1, -1], [4, -1], [0, 6], [-2], [[1], [0]], [[0], [0]], [[2]], [], [6.0], None, 6, [[0, 1], 2]):
        reshape(json.dumps(shape), shape)
    chain("reshape then transpose", [codec("reshape", shape=[3, 2]), codec("transpose", order=[1, 0]), BYTES], pack("H", 1, 3, 5, 2, 4, 6), square, "uint16", 0, (2, 3))
    if needs(zfpy, "zfp"):
        data = np.linspace(0, 1, 64, dtype="<f4").reshape(8, 8)
        stream = zfpy.compress_numpy(data, write_header=False)
        v3("X", "zfp reversible", v3_doc(shape=[8, 8], data_type="float32", fill_value=0, codecs=[codec("zfp", mode="reversible")]), stream, data.tolist())
        for mode, key, value in (("fixed_accuracy", "tolerance", 1e-6), ("fixed_precision", "precision", 30), ("fixed_rate", "rate", 30)):
            stream = zfpy.compress_numpy(data, write_header=False, **{key: value})
            shown = np.frombuffer(zfpy.decompress_numpy(zfpy.compress_numpy(data, **{key: value})), "<f4").reshape(8, 8)
            v3("X", f"zfp {mode}", v3_doc(shape=[8, 8], data_type="float32", fill_value=0, codecs=[codec("zfp", mode=mode, **{key: value})]), stream, shown.tolist(), "approx")
        v3("X", "zfp mode unknown", v3_doc(shape=[8, 8], data_type="float32", fill_value=0, codecs=[codec("zfp", mode="nope")]), stream)


def rectilinear():
    def grid(shapes, **over):
        return codec("rectilinear", **{"kind": "inline", "chunk_shapes": shapes, **over})
    one, rest = pack("H", 1), pack("H", 2, 3, 4)
    parts = {"c/0": one, "c/1": rest}
    v3("X", "rectilinear", v3_doc(chunk_grid=grid([[1, 3]])), parts, VALUES)
    v3("X", "rectilinear integer for an axis", v3_doc(chunk_grid=grid([2])), {"c/0": U16[:4], "c/1": U16[4:]}, VALUES)
    v3("X", "rectilinear run-length", v3_doc(chunk_grid=grid([[[1, 2], 2]])), {"c/0": U16[:2], "c/1": U16[2:4], "c/2": U16[4:]}, VALUES)
    v3("X", "rectilinear only a run-length", v3_doc(chunk_grid=grid([[[2, 2]]])), {"c/0": U16[:4], "c/1": U16[4:]}, VALUES)
    v3("X", "rectilinear missing chunk", v3_doc(chunk_grid=grid([[1, 3]])), {"c/0": one}, [1, 7, 7, 7])
    v3("X", "rectilinear last chunk overhangs", v3_doc(shape=[3], chunk_grid=grid([[1, 3]])), parts, [1, 2, 3])
    v3("X", "rectilinear whole chunks beyond the array", v3_doc(shape=[1], chunk_grid=grid([[1, 3, 5]])), parts, [1])
    v3("X", "rectilinear two axes", v3_doc(shape=[2, 3], chunk_grid=grid([1, [1, 2]])),
       {"c/0/0": pack("H", 1), "c/0/1": pack("H", 2, 3), "c/1/0": pack("H", 4), "c/1/1": pack("H", 5, 6)}, [[1, 2, 3], [4, 5, 6]])
    v3("X", "rectilinear sharded", v3_doc(chunk_grid=grid([[2, 2]]), codecs=[sharding([1])]),
       {"c/0": shard([U16[:2], U16[2:4]]), "c/1": shard([U16[4:6], U16[6:]])}, VALUES)
    for label, value in (("sum too small", grid([[1, 2]])), ("zero chunk", grid([[0, 4]])), ("negative chunk", grid([[-1, 5]])),
                         ("wrong rank", grid([[1, 3], [1]])), ("zero integer", grid([0])), ("run of count 0", grid([[[4, 0]]])), ("run of three", grid([[[1, 2, 3]]])),
                         ("kind unknown", grid([[1, 3]], kind="other")), ("float", grid([[1.5, 2.5]])), ("chunk_shapes missing", codec("rectilinear", kind="inline")),
                         ("empty axis", grid([[]])), ("kind missing", codec("rectilinear", chunk_shapes=[[1, 3]])), ("run count absurd", grid([[[2**62, 2**62]]])),
                         ("run value text", grid([[["1", 4]]]))):
        (lambda *a: either(v3, *a) if label in ("run count absurd", "run of count 0") else v3(*a))(
            "X", f"rectilinear {label}", v3_doc(chunk_grid=value), parts)


# ------------------------------------------------------------------------------------------- V: version 2

def version2():
    for field in ("zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"):
        v2("V1", f"v2 missing {field}", v2_doc(**{field: ABSENT}), U16)
    for value in ("2", 1, 3, None):
        v2("V1", f"v2 zarr_format {json.dumps(value)}", v2_doc(zarr_format=value), U16)
    for value in ([-4], ["4"], 4, None, [4.5]):
        v2("V1", f"v2 shape {json.dumps(value)}", v2_doc(shape=value, chunks=[4]), U16)
    for value in ([0], [-1], [4, 4], 4, None, ["4"], []):
        v2("V1", f"v2 chunks {json.dumps(value)}", v2_doc(chunks=value), U16)
    for value in ("X", None, "c", "", 1):
        v2("V5", f"v2 order {json.dumps(value)}", v2_doc(order=value), U16)
    for value in ("-", "", None, 1):
        v2("V1", f"v2 dimension_separator {json.dumps(value)}", v2_doc(dimension_separator=value), U16)
    for value in ("u2", "<x2", "<u3", "", None, 5, "<u", "|u4", "|i2", "|f4", "<f3", "=u2", "<c4", "uint16"):
        v2("V2", f"v2 dtype {json.dumps(value)}", v2_doc(dtype=value), U16)
    for value in ({}, {"id": "nope"}, "zlib", [], {"id": None}, {"level": 1}, 5):
        v2("V8", f"v2 compressor {json.dumps(value)}", v2_doc(compressor=value), U16)
    for value in ([{"id": "nope"}], [{}], "shuffle", {"id": "shuffle"}, ["shuffle"], [None], 5):
        v2("V8", f"v2 filters {json.dumps(value)}", v2_doc(filters=value), U16)
    v2("V8", "v2 filters [] (written by old zarr-python and zarrs)", v2_doc(filters=[]), U16, VALUES)
    v2("V1", "v2 unknown key", v2_doc(whatever={"a": 1}), U16, VALUES)
    v2("V1", "v2 with .zattrs", v2_doc(), {"0": U16, ".zattrs": b'{"_ARRAY_DIMENSIONS": ["x"]}'}, VALUES)

    # keys, edges, orders
    rows = pack("H", 1, 2), pack("H", 3, 4)
    v2("V6", "v2 separator .", v2_doc(shape=[2, 2], chunks=[1, 2], dimension_separator="."), dict(zip(("0.0", "1.0"), rows)), [[1, 2], [3, 4]])
    v2("V6", "v2 separator /", v2_doc(shape=[2, 2], chunks=[1, 2], dimension_separator="/"), dict(zip(("0/0", "1/0"), rows)), [[1, 2], [3, 4]])
    v2("V6", "v2 scalar", v2_doc(shape=[]), {"0": pack("H", 9)}, 9)
    v2("V6", "v2 scalar missing", v2_doc(shape=[]), None, 7)
    v2("V6", "v2 zero-length dimension", v2_doc(shape=[0], chunks=[4]), None, [])
    v2("V6", "v2 missing chunk", v2_doc(), None, [7] * 4)
    v2("V7", "v2 edge chunk cut to the array", v2_doc(shape=[3], chunks=[2]), {"0": rows[0], "1": pack("H", 3)})
    v2("V7", "v2 chunk too short", v2_doc(), U16[:6])
    v2("V7", "v2 chunk too long", v2_doc(), U16 + b"\0\0")
    v2("V5", "v2 order F of three dimensions", v2_doc(shape=[2, 3, 2], order="F"), pack("H", *[a * 6 + b * 2 + c for c in range(2) for b in range(3) for a in range(2)]),
       [[[a * 6 + b * 2 + c for c in range(2)] for b in range(3)] for a in range(2)])
    v2("V5", "v2 order F edge", v2_doc(shape=[3, 2], chunks=[2, 2], order="F"), {"0.0": pack("H", 1, 3, 2, 4), "1.0": pack("H", 5, 99, 6, 99)}, [[1, 2], [3, 4], [5, 6]])
    v2("V5", "v2 order F one dimension", v2_doc(order="F"), U16, VALUES)

    # dtypes and fills
    for code, (letter, low, high) in (("i1", INTEGERS["int8"]), ("i2", INTEGERS["int16"]), ("i4", INTEGERS["int32"]), ("i8", INTEGERS["int64"]),
                                      ("u1", INTEGERS["uint8"]), ("u2", INTEGERS["uint16"]), ("u4", INTEGERS["uint32"]), ("u8", INTEGERS["uint64"])):
        for order in "|" if code[1] == "1" else "<>":
            v2("V2", f"v2 dtype {order}{code}", v2_doc(dtype=order + code, fill_value=0), pack(letter, low, high, 0, 1, big=order == ">"), [low, high, 0, 1])
        v2("V4", f"v2 {code} fill {high}", v2_doc(dtype=("|" if code[1] == "1" else "<") + code, fill_value=high), None, [high] * 4)
    for value in (65536, -1, "7", 1.5, [7], "NaN", True):
        v2("V4", f"v2 <u2 fill {json.dumps(value)}", v2_doc(fill_value=value))
    for value in (7.0,):
        either(v2, "V4", f"v2 <u2 fill {json.dumps(value)}", v2_doc(fill_value=value))
    v2("V2", "v2 dtype |b1", v2_doc(dtype="|b1", fill_value=False), b"\1\0\0\1", [True, False, False, True])
    v2("V4", "v2 |b1 fill true", v2_doc(dtype="|b1", fill_value=True), None, [True] * 4)
    either(v2, "V4", "v2 |b1 fill 0", v2_doc(dtype="|b1", fill_value=0))
    for code, letter, how, nan, inf, ninf, one in (("f2", *FLOATS["float16"][:6]), ("f4", *FLOATS["float32"][:6]), ("f8", *FLOATS["float64"][:6])):
        for order in "<>":
            v2("V2", f"v2 dtype {order}{code}", v2_doc(dtype=order + code, fill_value=0), pack(letter, 1, -2, 0.5, 0, big=order == ">"), [1.0, -2.0, 0.5, 0.0])
        for label, value, bits in (("NaN", "NaN", nan), ("Infinity", "Infinity", inf), ("-Infinity", "-Infinity", ninf), ("1", 1, one)):
            v2("V4", f"v2 <{code} fill {label}", v2_doc(dtype="<" + code, fill_value=value), None, [bits] * 4, how)
        v2("V4", f"v2 <{code} fill hex", v2_doc(dtype="<" + code, fill_value=hex(nan)))
        v2("V4", f"v2 >{code} fill NaN", v2_doc(dtype=">" + code, fill_value="NaN"), None, [nan] * 4, how)
        v2("V4", f"v2 <{code} fill nan", v2_doc(dtype="<" + code, fill_value="nan"))
    v2("V4", "v2 <f4 fill null with its chunk", v2_doc(dtype="<f4", fill_value=None), pack("f", 1, 2, 3, 4), [1.0, 2.0, 3.0, 4.0])
    for order in "<>":
        v2("V2", f"v2 {order}c8", v2_doc(shape=[2], dtype=order + "c8", fill_value=None), pack("f", 1, 2, 3, 4, big=order == ">"), [[1.0, 2.0], [3.0, 4.0]])
        v2("V2", f"v2 {order}c16", v2_doc(shape=[2], dtype=order + "c16", fill_value=None), pack("d", 1, 2, 3, 4, big=order == ">"), [[1.0, 2.0], [3.0, 4.0]])
        v2("V2", f"v2 {order}U2", v2_doc(dtype=order + "U2", fill_value=""), "abc\0é\0🙂\0".encode("utf-32-le" if order == "<" else "utf-32-be"), ["ab", "c", "é", "🙂"])
    v2("V4", "v2 <U2 fill", v2_doc(dtype="<U2", fill_value="xy"), None, ["xy"] * 4)
    v2("V2", "v2 |S2", v2_doc(dtype="|S2", fill_value=""), b"abc\0\0\0zz", ["ab", "c", "", "zz"])
    v2("V4", "v2 |S2 fill null", v2_doc(dtype="|S2", fill_value=None), b"abc\0\0\0zz", ["ab", "c", "", "zz"])
    v2("V2", "v2 |V2", v2_doc(dtype="|V2", fill_value=None), b"abc\0\0\0zz", b"abc\0\0\0zz".hex(), "raw")
    v2("V4", "v2 |V2 fill base64", v2_doc(shape=[2], dtype="|V2", fill_value="AQI="), None, "01020102", "raw")
    for kind in "Mm":
        for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "10us", "25s"):
            v2("V2", f"v2 <{kind}8[{unit}]", v2_doc(dtype=f"<{kind}8[{unit}]", fill_value=0), pack("q", 1, -2, 3, -2**63), [1, -2, 3, -2**63], "i8")
        v2("V2", f"v2 >{kind}8[s]", v2_doc(dtype=f">{kind}8[s]", fill_value=0), pack("q", 1, -2, 3, 4, big=True), [1, -2, 3, 4], "i8")
        v2("V4", f"v2 <{kind}8[s] fill NaT", v2_doc(dtype=f"<{kind}8[s]", fill_value="NaT"), None, [-2**63] * 4, "i8")
        v2("V4", f"v2 <{kind}8[s] fill -2^63", v2_doc(dtype=f"<{kind}8[s]", fill_value=-2**63), None, [-2**63] * 4, "i8")
        v2("V2", f"v2 <{kind}8 without unit", v2_doc(dtype=f"<{kind}8", fill_value=0), pack("q", 1, 2, 3, 4))
        v2("V2", f"v2 <{kind}8[x]", v2_doc(dtype=f"<{kind}8[x]", fill_value=0), pack("q", 1, 2, 3, 4))
        v2("V2", f"v2 <{kind}4[s]", v2_doc(dtype=f"<{kind}4[s]", fill_value=0), pack("i", 1, 2, 3, 4))

    # structured
    pair = [["a", "|u1"], ["b", "<i2"]]
    data = struct.pack("<BhBh", 1, -2, 3, 4)
    v2("V3", "v2 structured", v2_doc(shape=[2], dtype=pair, fill_value=None), data, [{"a": 1, "b": -2}, {"a": 3, "b": 4}])
    v2("V3", "v2 structured big-endian field", v2_doc(shape=[2], dtype=[["a", "|u1"], ["b", ">i2"]], fill_value=None), struct.pack(">BhBh", 1, -2, 3, 4),
       [{"a": 1, "b": -2}, {"a": 3, "b": 4}])
    v2("V4", "v2 structured fill base64", v2_doc(shape=[2], dtype=pair, fill_value=base64.b64encode(data[:3]).decode()), None, [{"a": 1, "b": -2}] * 2)
    v2("V4", "v2 structured fill of wrong size", v2_doc(shape=[2], dtype=pair, fill_value="AAA="))
    v2("V3", "v2 structured nested", v2_doc(shape=[1], dtype=[["p", pair], ["q", "<f4"]], fill_value=None), struct.pack("<Bhf", 1, -2, 2.5), [{"p": {"a": 1, "b": -2}, "q": 2.5}])
    v2("V3", "v2 structured sub-array", v2_doc(shape=[1], dtype=[["z", "<f4", [2, 2]], ["w", "|u1"]], fill_value=None), struct.pack("<4fB", 1, 2, 3, 4, 5),
       [{"z": [[1.0, 2.0], [3.0, 4.0]], "w": 5}])
    v2("V3", "v2 structured with text fields", v2_doc(shape=[1], dtype=[["s", "|S2"], ["u", "<U2"]], fill_value=None), b"ab" + "é\0".encode("utf-32-le"), [{"s": "ab", "u": "é"}])
    v2("V3", "v2 structured order F", v2_doc(shape=[2, 1], dtype=pair, fill_value=None, order="F"), data, [[{"a": 1, "b": -2}], [{"a": 3, "b": 4}]])
    for dtype in ([], [["a"]], [["a", "|O"]], [["a", "nope"]], [[1, "|u1"]], [["a", "|u1", [0.5]]], [["a", "|u1"], ["a", "|u1"]], [["a", "|u1", [-1]]]):
        v2("V3", f"v2 structured {json.dumps(dtype)}", v2_doc(shape=[2], dtype=dtype, fill_value=None), data)


def version2_codecs():
    def stored(name, data, value=None, compressor=None, filters=None, rule="V8", how="exact", **over):
        v2(rule, f"v2 {name}", v2_doc(compressor=compressor, filters=filters, **over), data, VALUES if value is None else value, how)
    def refused(name, data, compressor=None, filters=None, **over):
        v2("V8", f"v2 {name}", v2_doc(compressor=compressor, filters=filters, **over), data)

    zl = {"id": "zlib", "level": 1}
    gz = {"id": "gzip", "level": 1}
    stored("zlib", zlib.compress(U16), compressor=zl)
    refused("zlib wrong checksum", zlib.compress(U16)[:-1] + b"\0", compressor=zl)
    refused("zlib truncated", zlib.compress(U16)[:-5], compressor=zl)
    refused("zlib of too many bytes", zlib.compress(U16 * 2), compressor=zl)
    refused("gzip data under zlib", gzip.compress(U16), compressor=zl)
    stored("gzip", gzip.compress(U16), compressor=gz)
    stored("gzip several members", gzip.compress(U16[:4]) + gzip.compress(U16[4:]), compressor=gz)
    stored("bz2", bz2.compress(U16), compressor={"id": "bz2", "level": 1})
    stored("bz2 several streams", bz2.compress(U16[:4]) + bz2.compress(U16[4:]), compressor={"id": "bz2", "level": 1})
    refused("bz2 truncated", bz2.compress(U16)[:-6], compressor={"id": "bz2", "level": 1})
    xz = {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None}
    stored("lzma xz", lzma.compress(U16), compressor=xz)
    stored("lzma alone", lzma.compress(U16, lzma.FORMAT_ALONE), compressor={**xz, "format": 2})
    raw = [{"id": lzma.FILTER_LZMA2, "preset": 1}]
    stored("lzma raw", lzma.compress(U16, lzma.FORMAT_RAW, filters=raw), compressor={**xz, "format": 3, "filters": raw})
    delta = [{"id": lzma.FILTER_DELTA, "dist": 2}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    stored("lzma raw with delta", lzma.compress(U16, lzma.FORMAT_RAW, filters=delta), compressor={**xz, "format": 3, "filters": delta})
    stored("lzma xz with delta", lzma.compress(U16, filters=delta), compressor={**xz, "filters": delta})
    for label, check in (("none", lzma.CHECK_NONE), ("crc32", lzma.CHECK_CRC32), ("crc64", lzma.CHECK_CRC64), ("sha256", lzma.CHECK_SHA256)):
        stored(f"lzma check {label}", lzma.compress(U16, check=check), compressor={**xz, "check": check})
    refused("lzma truncated", lzma.compress(U16)[:-8], compressor=xz)
    lz4 = {"id": "lz4", "acceleration": 1}
    literals = pack("I", 8) + b"\x80" + U16  # one token: eight literals, no match
    stored("lz4 literals", literals, compressor=lz4)
    refused("lz4 size forged", pack("I", 2**31 - 1) + b"\x80" + U16, compressor=lz4)
    refused("lz4 size negative", pack("i", -1) + b"\x80" + U16, compressor=lz4)
    refused("lz4 without header", b"\x80", compressor=lz4)
    refused("lz4 match before the start", pack("I", 8) + b"\x14\x01\x05\x00", compressor=lz4)
    frame = b"\x28\xb5\x2f\xfd\x20\x08" + pack("I", 8 << 3 | 1)[:3] + U16
    stored("zstd", frame, compressor={"id": "zstd", "level": 1})
    stored("zstd with the checksum key", frame, compressor={"id": "zstd", "level": 1, "checksum": False})
    for shuffle in (-1, 0, 1, 2):
        stored(f"blosc shuffle {shuffle}", blosc_stored(U16), compressor={"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": shuffle, "blocksize": 0})
    refused("blosc cname unknown", blosc_stored(U16) + b"", compressor={"id": "blosc", "cname": "nope", "clevel": 5, "shuffle": 1})
    CASES[-1][0]["expect"] = "either"
    stored("base64 filter", base64.b64encode(U16), filters=[{"id": "base64"}])
    refused("base64 broken", b"!!!!", filters=[{"id": "base64"}])
    stored("shuffle", b"\1\2\3\4\0\0\0\0", filters=[{"id": "shuffle", "elementsize": 2}])
    stored("shuffle element size 4", bytes(U16[i + j * 4] for i in range(4) for j in range(2)), filters=[{"id": "shuffle", "elementsize": 4}])
    stored("delta", pack("H", 1, 1, 1, 1), filters=[{"id": "delta", "dtype": "<u2"}])
    stored("delta astype i1", pack("b", 1, 1, 1, 1), filters=[{"id": "delta", "dtype": "<u2", "astype": "|i1"}])
    stored("delta wraps", pack("H", 1, 65535, 1, 1), [1, 0, 1, 2], filters=[{"id": "delta", "dtype": "<u2"}])
    stored("delta order F runs over memory order", pack("H", 1, 2, 65535, 2), [[1, 2], [3, 4]], filters=[{"id": "delta", "dtype": "<u2"}], shape=[2, 2], order="F")
    stored("two filters are undone last first", b"\1\1\1\1\0\0\0\0", filters=[{"id": "delta", "dtype": "<u2"}, {"id": "shuffle", "elementsize": 2}])
    stored("filter and compressor", zlib.compress(pack("H", 1, 1, 1, 1)), filters=[{"id": "delta", "dtype": "<u2"}], compressor=zl)
    stored("fixedscaleoffset", pack("B", 0, 10, 20, 30), [1.0, 2.0, 3.0, 4.0], filters=[{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f8", "astype": "|u1"}], dtype="<f8")
    stored("fixedscaleoffset without astype", pack("d", 0, 10, 20, 30), [1.0, 2.0, 3.0, 4.0], filters=[{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f8"}], dtype="<f8")
    stored("quantize", pack("f", 1, 2, 3, 4), [1.0, 2.0, 3.0, 4.0], filters=[{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}], dtype="<f8")
    stored("bitround", pack("f", 1, 2, 3, 4), [1.0, 2.0, 3.0, 4.0], filters=[{"id": "bitround", "keepbits": 5}], dtype="<f4")
    stored("astype", pack("B", 1, 2, 3, 4), filters=[{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<u2"}])
    stored("packbits: pad count, then MSB first", b"\x04\xb0", [True, False, True, True], filters=[{"id": "packbits"}], dtype="|b1", fill_value=False)
    stored("packbits eight", b"\x00\xb1", [True, False, True, True, False, False, False, True], filters=[{"id": "packbits"}], dtype="|b1", fill_value=False, shape=[8])
    crc = pack("I", zlib.crc32(U16))
    adler = pack("I", zlib.adler32(U16))
    stored("crc32 at the start", crc + U16, filters=[{"id": "crc32"}])
    stored("crc32 location start", crc + U16, filters=[{"id": "crc32", "location": "start"}])
    stored("crc32 location end", U16 + crc, filters=[{"id": "crc32", "location": "end"}])
    refused("crc32 wrong", b"\0\0\0\0" + U16, filters=[{"id": "crc32"}])
    stored("adler32 at the start", adler + U16, filters=[{"id": "adler32"}])
    stored("adler32 location end", U16 + adler, filters=[{"id": "adler32", "location": "end"}])
    refused("adler32 wrong", b"\0\0\0\0" + U16, filters=[{"id": "adler32"}])
    stored("crc32c at the end", U16 + crc32c(U16), filters=[{"id": "crc32c"}])
    stored("crc32c location start", crc32c(U16) + U16, filters=[{"id": "crc32c", "location": "start"}])
    refused("crc32c wrong", U16 + b"\0\0\0\0", filters=[{"id": "crc32c"}])
    if needs(numcodecs, "fletcher32, jenkins_lookup3, pcodec, zfpy, lz4 and blosc through numcodecs"):
        array = np.frombuffer(U16, "<u2")
        for name in ("fletcher32", "jenkins_lookup3", "lz4", "zstd", "blosc"):
            made = numcodecs.get_codec({"id": name})
            stored(f"{name} by numcodecs", bytes(made.encode(array)), filters=[made.get_config()] if name in ("fletcher32", "jenkins_lookup3") else None,
                   compressor=None if name in ("fletcher32", "jenkins_lookup3") else made.get_config())
        refused("fletcher32 wrong", U16 + b"\1\2\3\4", filters=[{"id": "fletcher32"}])
        for name in ("pcodec", "zfpy"):
            try:
                made = numcodecs.get_codec({"id": name} if name == "pcodec" else {"id": name, "mode": 4, "tolerance": 1e-9})
            except ValueError:
                SKIPPED.append(name)
                continue
            stored(f"{name} by numcodecs", bytes(made.encode(np.array([1, 2, 3, 4], "<f8"))), [1.0, 2.0, 3.0, 4.0], compressor=made.get_config(), dtype="<f8", how="approx")

    # objects
    text = dict(dtype="|O", fill_value="")
    words = ["a", "", "é", "zz"]
    packed = vlen(b"a", b"", "é".encode(), b"zz")
    stored("|O vlen-utf8", packed, words, filters=[{"id": "vlen-utf8"}], rule="V9", **text)
    stored("|O vlen-utf8 and zlib", zlib.compress(packed), words, filters=[{"id": "vlen-utf8"}], compressor=zl, rule="V9", **text)
    stored("|O vlen-utf8 missing chunk", None, [""] * 4, filters=[{"id": "vlen-utf8"}], rule="V9", **text)
    stored("|O vlen-utf8 fill text", None, ["x"] * 4, filters=[{"id": "vlen-utf8"}], rule="V9", dtype="|O", fill_value="x")
    stored("|O vlen-utf8 fill null", None, [""] * 4, filters=[{"id": "vlen-utf8"}], rule="V9", dtype="|O", fill_value=None)
    CASES[-1][0]["expect"] = "either"
    stored("|O vlen-utf8 fill 0", None, [""] * 4, filters=[{"id": "vlen-utf8"}], rule="V9", dtype="|O", fill_value=0)
    CASES[-1][0]["expect"] = "either"
    stored("|O vlen-utf8 order F", vlen(b"a", b"c", b"b", b"d"), [["a", "b"], ["c", "d"]], filters=[{"id": "vlen-utf8"}], rule="V9", shape=[2, 2], order="F", **text)
    stored("|O vlen-utf8 as the compressor", packed, words, compressor={"id": "vlen-utf8"}, rule="V9", **text)
    stored("|O vlen-bytes", packed, [base64.b64encode(w.encode()).decode() for w in words], filters=[{"id": "vlen-bytes"}], rule="V9", **text)
    stored("|O vlen-array", vlen(pack("h", 1, -2), b"", pack("h", 3), pack("h", 4, 5)), [[1, -2], [], [3], [4, 5]], filters=[{"id": "vlen-array", "dtype": "<i2"}], rule="V9", dtype="|O", fill_value=None)
    stored("|O json2", b'["a","","\\u00e9","zz","|O",[4]]', words, filters=[{"id": "json2", "encoding": "utf-8"}], rule="V9", **text)
    stored("|O json2 mixed", b'[1,"a",null,[2],"|O",[4]]', [1, "a", None, [2]], filters=[{"id": "json2", "encoding": "utf-8"}], rule="V9", **text)
    CASES[-1][0]["expect"] = "either"
    stored("|O json2 2-D", b'["a","b","c","d","|O",[2,2]]', [["a", "b"], ["c", "d"]], filters=[{"id": "json2"}], rule="V9", shape=[2, 2], **text)
    stored("|O msgpack2", b"\x96\xa1a\xa0\xa2\xc3\xa9\xa2zz\xa2|O\x91\x04", words, filters=[{"id": "msgpack2"}], rule="V9", **text)
    stored("|O categorize", bytes([1, 2, 0, 1]), ["x", "y", "", "x"], filters=[{"id": "categorize", "dtype": "|O", "astype": "|u1", "labels": ["x", "y"]}], rule="V9", **text)
    stored("<U1 categorize", bytes([1, 2, 0, 1]), ["x", "y", "", "x"], filters=[{"id": "categorize", "dtype": "<U1", "astype": "|u1", "labels": ["x", "y"]}], rule="V9", dtype="<U1", fill_value="")
    refused("|O without an object codec", packed, **text)
    refused("|O with only zlib", zlib.compress(packed), compressor=zl, **text)
    refused("|O pickle", b"\x80\x04N.", filters=[{"id": "pickle"}], **text)
    refused("|O pickle as the compressor", b"\x80\x04N.", compressor={"id": "pickle", "protocol": 5}, **text)
    for label, data in (("count wrong", vlen(b"a")), ("length beyond the chunk", pack("I", 4, 2**31)), ("not UTF-8", vlen(b"\xff", b"", b"", b""))):
        refused(f"|O vlen-utf8 {label}", data, filters=[{"id": "vlen-utf8"}], **text)
    for label, data in (("is no JSON", b"[1,2"), ("is no list", b"{}"), ("has too few items", b'["a","|O",[1]]'), ("shape forged", b'["a","|O",[4000000000]]')):
        refused(f"|O json2 {label}", data, filters=[{"id": "json2"}], **text)
    refused("|O msgpack2 truncated", b"\x96\xa1a", filters=[{"id": "msgpack2"}], **text)

    groups = {".zgroup": b'{"zarr_format": 2}', "a/.zarray": as_bytes(v2_doc()), "a/0": U16}
    case("V12", "v2 array in a group", 2, "accept", VALUES, "exact", groups, path="a")
    case("V12", "v2 consolidated", 2, "accept", VALUES, "exact", {**groups, ".zmetadata": as_bytes(
        {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, "a/.zarray": v2_doc()}})}, path="a")
    for label, odd in (("format 2", {"zarr_consolidated_format": 2}), ("format absent", {}), ("is no JSON", b"{"),
                       ("metadata a list", {"zarr_consolidated_format": 1, "metadata": []})):
        inside = {".zgroup": {"zarr_format": 2}, "a/.zarray": v2_doc()}
        document = odd if isinstance(odd, bytes) else as_bytes({"metadata": inside, **odd})
        case("V12", f"v2 consolidated {label}", 2, "reject", None, "exact", {**groups, ".zmetadata": document}, path="a")
    case("V11", "v2 root group read as an array", 2, "reject", None, "exact", {".zgroup": b'{"zarr_format": 2}'})
    case("V1", "v2 .zattrs alone is no node", 2, "reject", None, "exact", {".zattrs": b"{}"})


# -------------------------------------------------------------------------------------- M: malformed JSON

def malformed():
    good = as_bytes(v3_doc())
    for label, data in (("empty", b""), ("truncated", good[:-3]), ("a list", b"[]"), ("null", b"null"), ("a number", b"3"), ("trailing comma", good[:-1] + b",}"),
                        ("two documents", good + good), ("not UTF-8", good[:-1] + b', "attributes": {"a": "\xff"}}'), ("single quotes", good.replace(b'"', b"'")),
                        ("a comment", b"// hi\n" + good), ("deeply nested", good[:-1] + b', "attributes": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
                        ("NUL bytes", b"\0" * 100), ("UTF-16", good.decode().encode("utf-16"))):
        make = (lambda *a: either(v3, *a)) if label == "deeply nested" else v3
        make("M", f"zarr.json {label}", data, {"c/0": U16})
    either(v3, "M", "bare NaN in attributes", good[:-1] + b', "attributes": {"a": NaN}}', {"c/0": U16})
    v3("M", "unordered keys and white space", json.dumps(dict(reversed(v3_doc().items())), indent=4).encode() + b"\n\n", {"c/0": U16}, VALUES)
    v3("M", "escaped key names", good.replace(b'"shape"', b'"sh\\u0061pe"'), {"c/0": U16}, VALUES)
    for shape in ([2**63], [2**64], [2**32, 2**32], [2**31, 2**31, 2**31], [10**30]):
        v3("M", f"absurd shape {shape}", v3_doc(shape=shape, chunk_shape=[1] * len(shape)))
    v3("M", "absurd chunk", v3_doc(chunk_shape=[2**62]), U16)
    v3("M", "absurd rank", v3_doc(shape=[1] * 100, chunk_shape=[1] * 100), None)
    CASES[-1][0]["expect"] = "either"
    good = as_bytes(v2_doc())
    for label, data in (("empty", b""), ("truncated", good[:-3]), ("a list", b"[]"), ("null", b"null")):
        v2("M", f".zarray {label}", data, {"0": U16})


def make(folder):
    """Writes every case below `folder`, with its manifest; how many there are."""
    CASES.clear()
    for section in (array_document, nodes, data_types, grids_and_keys, codec_chain, sharded, strings, times, structs, small_numbers,
                    array_codecs, rectilinear, version2, version2_codecs, malformed):
        section()
    for entry, files in CASES:
        for key, data in files.items():
            path = folder / entry["id"] / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    (folder / "manifest.json").write_text(json.dumps([entry for entry, _ in CASES], indent=1))
    return len(CASES)


def main():
    p = common.parser(__doc__)
    p.add_argument("--out", type=Path, help="where to write the stores (default: a temporary folder)")
    p.add_argument("--only-make", action="store_true", help="do not run zaro")
    p.add_argument("ids", nargs="*", help="only these")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="zaro-rules-") as temporary:
        folder = a.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"made {make(folder)} stores in {folder}")
        if SKIPPED:
            print("left out, no library for it here: " + "; ".join(SKIPPED))
        if a.only_make:
            return 0
        return run_one_rule.run_folder(common.find_zaro(a.zaro), folder, "rules", a.ids, a.verbose)


if __name__ == "__main__":
    sys.exit(main())

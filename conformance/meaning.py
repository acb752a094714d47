"""Random data sets by xarray, converted by zaro to the other version and back, and decoded by xarray each time.

    meaning.py [--cases N] [--seed S] [--keep FOLDER]

Each case draws a data set, or a tree of them, in V2 or V3: floats, integers, packed numbers, `_Unsigned`, bool,
complex, text of all kinds, arrays of single characters, times in several calendars, timedeltas, bounds, scalars,
empty dimensions; `_FillValue`, `missing_value` or neither; chunks that are not stored; several codecs, byte orders
and chunk keys. Some are then changed by hand into forms that other writers make: `_FillValue` as an attribute of V2
beside a null fill value, fill values that differ from it, text or zero as a fill value of texts, attributes of NCZarr, a
sign that `_Unsigned` turns.

The data set goes to the other version and back by `zaro copy --verify`, by `zaro copy --in-place`, through a ZIP
archive and through Kerchunk references. After each step xarray must find it identical, attributes included, and
with the same encoding as far as it decides about values; and `zaro read --cf` must print what it printed before.
V2 arrays are also opened by tensorstore, which is strict about their documents. A case is a function of its seed
alone: a failure prints `--seed S --cases 1` to see it again.
"""

import json
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

import common

try:
    import cftime  # noqa: F401
    import numcodecs
    import numpy as np
    import pandas as pd
    import tensorstore as ts
    import xarray as xr
    import zarr
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

CALENDARS = ["standard", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap"]
WORDS = ["", "a", "Grüße", "日本", "long enough text", "NaN", "0", " ", "AAAAAAAA+H8="]
# What decides about the values that xarray makes of what is stored.
ENCODING = ["scale_factor", "add_offset", "units", "calendar", "dtype", "_Unsigned"]
FORMATS = {2: 3, 3: 2}


class Wrong(Exception):
    """What fails a case."""


class Undrawn(Exception):
    """xarray itself cannot write or read what was drawn."""


class Refused(Exception):
    """zaro says that this cannot be done, and changes nothing."""


class Case:
    """One data set and what happens to it."""

    def __init__(self, seed, zaro, folder):
        self.rng = np.random.default_rng(seed)
        self.zaro, self.folder, self.commands = zaro, folder, []
        self.format = 2 + int(self.rng.integers(2))
        self.consolidated = self.chance(0.6)
        # Keys that V2 has too, so that chunks stay where they are when V3 becomes V2 in place.
        self.v2_keys = self.chance(0.5)
        self.sizes = {d: int(self.pick([1, 2, 3, 5, 7], [1, 2, 2, 2, 1])) for d in ("time", "y", "x")} | {"nv": 2, "chars": 3, "a/b": 3}
        if self.chance(0.1):
            self.sizes["x"] = 0

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options, weights=None):
        p = None if weights is None else np.array(weights) / sum(weights)
        return options[int(self.rng.choice(len(options), p=p))]

    def run(self, *argv):
        argv = [str(a) for a in argv]
        self.commands.append("zaro " + " ".join(argv))
        done = common.run([self.zaro, *argv], timeout=120)
        if done.crash:
            raise Wrong(f"{done.crash}: {done.message[-300:]}")
        return done

    def must(self, *argv):
        done = self.run(*argv)
        if done.code:
            raise Wrong(f"exit {done.code}: {done.message[-400:]}")
        return done


# ------------------------------------------------------------------------------------------------ data sets

def dims_of(case):
    return case.pick([(), ("x",), ("y",), ("time",), ("y", "x"), ("time", "x"), ("time", "y", "x")], [2, 3, 1, 2, 3, 2, 2])


def holes(case, values, missing, share=0.3):
    """Some elements missing."""
    values = np.array(values)
    if values.size and case.chance(0.7):
        flat = values.reshape(-1)
        flat[case.rng.random(flat.size) < share] = missing
    return values


def plain_numbers(case, kind, shape):
    """Numbers, often with zeros in long runs, so that whole chunks are what a fill value is."""
    values = case.rng.integers(-5 if kind != "u" else 0, 6, shape)
    if case.chance(0.4) and values.size:
        flat = values.reshape(-1)
        flat[: int(case.rng.integers(0, flat.size + 1))] = 0
    return values


def floats(case, shape):
    dtype = case.pick(["f2", "f4", "f8", ">f4", ">f8"], [1, 4, 4, 1, 1])
    values = holes(case, plain_numbers(case, "f", shape) / 2, np.nan).astype(dtype.lstrip(">"))
    encoding = {"dtype": dtype}
    fill = case.pick(["default", "none", "value", "nan", "zero"], [4, 2, 3, 1, 1])
    if fill == "none":
        encoding["_FillValue"] = None
    elif fill == "nan":
        encoding["_FillValue"] = np.nan
        if case.chance(0.5):
            encoding["missing_value"] = np.nan
    elif fill == "zero":
        encoding["_FillValue"] = 0.0
    elif fill == "value":
        encoding["_FillValue"] = float(case.pick([-999.0, 0.1, 9999.0] + ([1e20, 9.969209968386869e36] if dtype != "f2" else [])))
        if case.chance(0.3):
            encoding["missing_value"] = encoding["_FillValue"]
    return values, encoding


def integers(case, shape):
    kind, size = case.pick(["i", "u"]), case.pick([1, 2, 4, 8])
    order = case.pick(["", ">"], [4, 1]) if size > 1 else ""
    values = plain_numbers(case, kind, shape).astype(f"{kind}{size}")
    encoding = {"dtype": f"{order}{kind}{size}"}
    if case.chance(0.4):
        encoding["_FillValue"] = int(case.pick([0, 3, 77, np.iinfo(values.dtype).max]))
    elif case.chance(0.2):
        encoding["missing_value"] = int(case.pick([0, 3, 77]))
    return values, encoding


def packed(case, shape):
    dtype = case.pick(["i1", "i2", "i4", "u1", "u2", ">i2"])
    values = holes(case, plain_numbers(case, "u" if "u" in dtype else "i", shape) * 0.5, np.nan)
    encoding = {"dtype": dtype, "scale_factor": case.pick([0.5, 0.1, np.float32(0.25), 2.0])}
    if case.chance(0.5):
        encoding["add_offset"] = case.pick([0.0, 100.0, -2.5])
        values = values + encoding["add_offset"]
    fill = int(case.pick([100, 120, 0] + ([-99] if "i" in dtype else [255])))
    encoding["_FillValue"] = fill
    if case.chance(0.3):
        encoding["missing_value"] = fill
    if case.chance(0.2):
        values = np.nan_to_num(values, nan=encoding.get("add_offset", 0.0))
        encoding["_FillValue"] = None
        encoding.pop("missing_value", None)
    return values, encoding


def unsigned(case, shape):
    values = holes(case, case.rng.integers(0, 250, shape).astype("f4"), np.nan)
    return values, {"dtype": "i1", "_Unsigned": "true", "_FillValue": int(case.pick([-1, 0, 5]))}


def times(case, shape):
    calendar = case.pick(CALENDARS, [3, 3, 1, 1, 1, 1])
    start = case.pick(["2000-01-01", "1999-12-30", "1850-01-01"])
    days = case.rng.integers(0, 400, shape)
    units = case.pick(["days", "hours", "seconds"])
    encoding = {"units": f"{units} since {start}", "calendar": calendar, "dtype": case.pick(["i8", "f8", "i4"])}
    if calendar in ("standard", "proleptic_gregorian"):
        values = (np.datetime64(start) + days.astype("m8[D]")).astype("M8[ns]")
        values = holes(case, values, np.datetime64("NaT")) if case.chance(0.4) else values
        if np.isnat(values).any() or case.chance(0.3):
            encoding["_FillValue"] = -9999 if encoding["dtype"] != "f8" else case.pick([-9999.0, np.nan])
        elif case.chance(0.3):
            encoding["units"] = f"{units} since 1678-01-01"
    else:
        index = xr.date_range(start, periods=401, calendar=calendar, use_cftime=True)
        values = np.array([index[int(d)] for d in days.reshape(-1)], object).reshape(shape)
    return values, encoding


def timedeltas(case, shape):
    values = case.rng.integers(-50, 50, shape).astype("m8[h]").astype(f"m8[{case.pick(['ns', 's', 'ms'])}]")
    encoding = {"units": case.pick(["hours", "days", "minutes"]), "dtype": case.pick(["i8", "f8"])}
    if encoding["units"] == "days":
        encoding["dtype"] = "f8"
    if case.chance(0.4):
        values = holes(case, values, np.timedelta64("NaT"))
        encoding["_FillValue"] = -9999 if encoding["dtype"] == "i8" else np.nan
    return values, encoding


def texts(case, shape):
    values = np.empty(shape, object)
    values.reshape(-1)[:] = [case.pick(WORDS) for _ in range(values.size)]
    kind = case.pick(["object", "U", "S"])
    if kind == "U":
        values = values.astype(str)
    elif kind == "object" and case.format == 3 and case.chance(0.3):
        values = values.astype(np.dtypes.StringDType())
    elif kind == "S":
        values = np.array([w.encode() for w in values.reshape(-1)] or [b""], "S")[: values.size].reshape(shape)
    return values, {}


def make_variable(case):
    """One variable: dimensions, values, attributes, encoding."""
    dims = dims_of(case)
    kind = case.pick([floats, integers, packed, unsigned, times, timedeltas, texts, "bool", "complex", "chars"], [5, 4, 4, 1, 3, 2, 3, 1, 1, 1])
    shape = tuple(case.sizes[d] for d in dims)
    if kind == "chars":
        # A name with a slash, which is no path.
        dims, shape = (*dims, case.pick(["chars", "a/b"])), (*shape, 3)
        values, encoding = case.rng.choice([b"a", b"b", b"", b"z"], shape).astype("S1"), {}
    elif kind == "bool":
        values, encoding = plain_numbers(case, "i", shape) > 0, {}
    elif kind == "complex":
        values = plain_numbers(case, "f", shape) + 1j * plain_numbers(case, "f", shape)
        values, encoding = values.astype(case.pick(["c8", "c16"])), {}
        if case.chance(0.4):
            encoding["_FillValue"] = values.dtype.type(case.pick([0j, 2j, -9 + 1j]))
    else:
        values, encoding = kind(case, shape)
    attrs = {}
    if case.chance(0.5):
        attrs = {n: case.pick([1, 2.5, "text", [1, 2], ["a", "b"], "Grüße", "", True, 1e300, -0.5, np.nan, -np.inf, [0.5, np.inf, [np.nan]], "NaN"]) for n in case.pick([["long_name"], ["b", "a"], ["history", "valid_min", "flag_values"]])}
    encoding |= storage(case, shape)
    return xr.Variable(dims, values, attrs), encoding


def storage(case, shape):
    """How a variable is stored: nothing about its values."""
    out = {"chunks": tuple(int(case.rng.integers(1, max(n, 1) + 1)) for n in shape)}
    if case.format == 2:
        # zarr-python lists compressors in both versions.
        compressor = case.pick([None, numcodecs.Zlib(1), numcodecs.Blosc("zstd"), numcodecs.Zstd(3), numcodecs.GZip(1), numcodecs.BZ2(1), "none"], [4, 1, 1, 1, 1, 1, 1])
        if compressor is not None:
            out["compressors"] = None if compressor == "none" else [compressor]
        return out
    compressor = case.pick([None, GzipCodec(level=1), BloscCodec(cname="lz4"), ZstdCodec(level=1, checksum=True), "none"], [4, 1, 1, 1, 1])
    if compressor is not None:
        out["compressors"] = None if compressor == "none" else [compressor]
    if case.v2_keys:
        out["chunk_key_encoding"] = {"name": "v2", "separator": case.pick([".", "/"])}
    elif shape and case.chance(0.15):
        out["shards"] = tuple(c * int(case.rng.integers(1, 3)) for c in out["chunks"])
    return out


def make_data_set(case):
    variables, encodings, coords = {}, {}, {}
    if case.chance(0.7):
        values, encoding = times(case, (case.sizes["time"],))
        if case.chance(0.3) and values.dtype.kind == "M":
            encoding.pop("_FillValue", None)
            start = np.datetime64(encoding["units"].rsplit(" ", 1)[1], "ns")
            values = start + np.arange(values.size).astype("m8[D]")
            attrs = {"bounds": "time_bnds"}
            ends = np.stack([values, values + np.timedelta64(1, "D")], -1)
            variables["time_bnds"] = xr.Variable(("time", "nv"), ends)
        else:
            attrs = {}
        coords["time"] = xr.Variable(("time",), values, attrs)
        encodings["time"] = encoding | storage(case, values.shape)
    if case.chance(0.5):
        coords["x"] = xr.Variable(("x",), np.arange(case.sizes["x"]) * case.pick([1, 0.5]))
    if case.chance(0.3):
        coords["label"] = xr.Variable(("y",), [case.pick(WORDS[1:]) for _ in range(case.sizes["y"])])
    if case.chance(0.4):
        variables["crs"] = xr.Variable((), case.pick([0, 1, 0.0, "", b""]), {"grid_mapping_name": "latitude_longitude"})
    for i in range(int(case.rng.integers(1, 6))):
        name = f"v{i}"
        variables[name], encodings[name] = make_variable(case)
        if "crs" in variables and case.chance(0.3):
            encodings[name]["grid_mapping"] = "crs"
    attrs = {"title": case.pick(WORDS), "n": case.pick([3, np.nan]), "list": [1.5, case.pick([2.5, np.inf])]} if case.chance(0.6) else {}
    data_set = xr.Dataset(variables, coords, attrs)
    for name in data_set.variables:
        data_set[name].encoding = encodings.get(name) or storage(case, data_set[name].shape)
    if case.format == 3:
        for name in data_set.data_vars:
            # A fill value of its own, which decides about missing chunks only.
            kind = np.dtype(data_set[name].encoding.get("dtype", data_set[name].dtype)).kind
            if kind in "iu" and case.chance(0.3):
                data_set[name].encoding["fill_value"] = int(case.pick([0, 1, 3]))
            elif kind == "f" and case.chance(0.4):
                data_set[name].encoding["fill_value"] = case.pick([0.0, 0.5, np.inf])
    return data_set


def make(case, path):
    """The data set, or a tree of them, in a folder; what xarray reads of it is what counts."""
    top = make_data_set(case)
    options = {"zarr_format": case.format, "consolidated": case.consolidated}
    top.to_zarr(path, **options)
    groups = [""]
    if case.chance(0.2):
        make_data_set(case).to_zarr(path, group="deep/inner", **options | {"consolidated": False})
        groups.append("deep/inner")
        if case.consolidated:
            zarr.consolidate_metadata(path, zarr_format=case.format)
    if case.format == 2 and case.chance(0.4):
        for group in groups:
            by_others(case, path / group)
        if case.consolidated:
            zarr.consolidate_metadata(path, zarr_format=2)
    drop_chunks(case, path)
    return groups


def by_others(case, path):
    """V2 documents as other writers have them."""
    for document in sorted(path.glob("*/.zarray")):
        array, attributes = json.loads(document.read_text()), json.loads((document.parent / ".zattrs").read_text())
        kind, fill = array["dtype"][1] if isinstance(array["dtype"], str) else "V", array["fill_value"]
        change = case.pick(["none", "attribute", "both", "text", "zero", "null attribute", "nczarr", "signed"])
        if change == "attribute" and kind in "iuf" and isinstance(fill, int | float) and "_Unsigned" not in attributes:
            array["fill_value"], attributes["_FillValue"] = None, fill
        elif change == "both" and kind in "iu" and fill is not None and "_Unsigned" not in attributes:
            attributes["_FillValue"] = 7
        elif change == "text" and kind in "OU" and fill is None:
            array["fill_value"] = case.pick(["", "a"])
        elif change == "zero" and kind == "O" and fill is None and any(f["id"] == "vlen-utf8" for f in array["filters"] or []):
            # As zarr-python 2 wrote it where nothing was said.
            array["fill_value"] = 0
        elif change == "nczarr":
            attributes |= {"_nczarr_attr": {"types": {}}, "_NCProperties": "version=2"}
        elif change == "signed" and array["dtype"] == "|u1" and "_Unsigned" not in attributes and "_FillValue" not in attributes:
            attributes["_Unsigned"] = "false"
            array["fill_value"] = case.pick([None, 3, 255, 200])
        elif change == "null attribute" and fill is None:
            attributes["_FillValue"] = None
        document.write_text(json.dumps(array))
        (document.parent / ".zattrs").write_text(json.dumps(attributes))


def drop_chunks(case, path):
    """Takes a chunk away here and there, so that it reads as the fill value."""
    names = {".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
    if case.chance(0.5):
        for file in sorted(p for p in path.rglob("*") if p.is_file() and p.name not in names):
            if case.chance(0.15) and not file.relative_to(path).parts[0].startswith(("time", "label")):
                file.unlink()


# ------------------------------------------------------------------------------------------------ what xarray sees

def decoded(store, groups, fmt):
    """Every group as xarray decodes it, in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = {}
        for group in groups:
            opened = xr.open_zarr(store, group=group or None, chunks=None, decode_timedelta=True, zarr_format=fmt, decode_times=xr.coders.CFDatetimeCoder(time_unit="ns"))
            out[group] = opened.load()
            opened.close()
    return out


def compare(want, got, what):
    for group, data_set in want.items():
        try:
            xr.testing.assert_identical(data_set, got[group])
        except AssertionError as e:
            raise Wrong(f"{what}: {e}") from None
        for name, variable in data_set.variables.items():
            other = got[group].variables[name]
            if variable.dtype != other.dtype:
                raise Wrong(f"{what}: {name} is {other.dtype}, was {variable.dtype}")
            for key in ENCODING:
                old, new = variable.encoding.get(key), other.encoding.get(key)
                if np.any(old != new) and not (key == "dtype" and np.dtype(old).newbyteorder("=") == np.dtype(new).newbyteorder("=")):
                    raise Wrong(f"{what}: {name} has {key} {new!r} in its encoding, had {old!r}")


def opened_by_tensorstore(path):
    """tensorstore takes every V2 array whose codecs and types it has."""
    for document in path.rglob(".zarray"):
        array = json.loads(document.read_text())
        plain = array["filters"] is None and isinstance(array["dtype"], str) and array["dtype"][1] in "biufc"
        if plain and (array["compressor"] or {"id": "zstd"})["id"] in ("zstd", "zlib", "gzip", "blosc", "bz2"):
            try:
                ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(document.parent)}}).result()
            except Exception as e:
                raise Wrong(f"tensorstore: {document}: {e}") from None


def as_zaro_reads(case, store, names):
    return {n: case.must("read", store, n, "--cf", "--format", "json").out for n in names}


# ------------------------------------------------------------------------------------------------ ways

def extra(case, path):
    """Options that code chunks anew, at times; a dimension that no array has would be refused."""
    chosen = case.pick([[], ["--codec", "zstd:1"], ["--chunks", "x=2"], ["--chunks", "y=1", "--codec", "gzip"]], [5, 1, 1, 1])
    if "--chunks" in chosen:
        wanted = chosen[1].split("=")[0]
        documents = [json.loads(p.read_text()) for n in ("zarr.json", ".zattrs") for p in Path(path).rglob(n)]
        named = {d for x in documents for d in (x.get("dimension_names") or x.get("_ARRAY_DIMENSIONS") or [])}
        return chosen if wanted in named else []
    return chosen


def references(path, file):
    """Kerchunk's JSON of a folder: documents inside, chunks by reference."""
    refs = {}
    for p in sorted(path.rglob("*")):
        if p.is_file():
            key = str(p.relative_to(path))
            inside = p.name.startswith(".z") or p.name == "zarr.json"
            refs[key] = p.read_text() if inside else [str(p.absolute()), 0, p.stat().st_size]
    file.write_text(json.dumps({"version": 1, "refs": refs}))
    return file


def by_copy(case, path, want, groups, there):
    """The other version and back, and what zaro reads of both; the caller has what it read before."""
    first, back = case.folder / "copy.zarr", case.folder / "back.zarr"
    case.must("copy", path, first, "--zarr-format", there, "--verify", *extra(case, path))
    compare(want, decoded(first, groups, there), f"copied to V{there}")
    case.must("copy", first, back, "--zarr-format", case.format, "--verify", *extra(case, first))
    compare(want, decoded(back, groups, case.format), f"copied to V{there} and back")
    for copy in (first, back):
        opened_by_tensorstore(copy)
    return [first, back]


def by_place(case, path, want, groups, there):
    here = case.folder / "place.zarr"
    shutil.copytree(path, here)
    done = case.run("copy", here, "--in-place", "--zarr-format", there)
    if done.code:
        # Chunks that have to move, or to be coded anew; then nothing is changed.
        if done.code != 5:
            raise Wrong(f"in place: exit {done.code}: {done.message[-300:]}")
        compare(want, decoded(here, groups, case.format), "refused in place")
        raise Refused(done.message.split(": ", 1)[-1][-90:])
    compare(want, decoded(here, groups, there), f"in place to V{there}")
    case.must("copy", here, "--in-place", "--zarr-format", case.format)
    compare(want, decoded(here, groups, case.format), f"in place to V{there} and back")
    opened_by_tensorstore(here)


def by_archive(case, path, want, groups, there):
    archive, back = case.folder / "archive.zip", case.folder / "unzipped.zarr"
    case.must("copy", path, archive, "--zarr-format", there, "--verify")
    store = zarr.storage.ZipStore(archive, mode="r")
    compare(want, decoded(store, groups, there), f"archived as V{there}")
    store.close()
    case.must("copy", archive, back, "--zarr-format", case.format, "--verify")
    compare(want, decoded(back, groups, case.format), "from an archive")


def by_references(case, path, want, groups, there):
    file, first = references(path, case.folder / "refs.json"), case.folder / "referred.zarr"
    case.must("copy", file, first, "--zarr-format", there, "--verify")
    compare(want, decoded(first, groups, there), f"references to V{there}")
    file, back = references(first, case.folder / "refs2.json"), case.folder / "referred_back.zarr"
    case.must("copy", file, back, "--zarr-format", case.format, "--verify")
    compare(want, decoded(back, groups, case.format), "references and back")


def run_case(case):
    path = case.folder / "data.zarr"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            groups = make(case, path)
        want = decoded(path, groups, case.format)
    except Exception as e:
        raise Undrawn(f"{type(e).__name__}: {str(e)[:200]}") from e
    there = FORMATS[case.format]
    names = [str(n) for n in want[""].variables]
    read = as_zaro_reads(case, path, names)
    for copy in by_copy(case, path, want, groups, there):
        for name, text in as_zaro_reads(case, copy, names).items():
            if text != read[name]:
                raise Wrong(f"zaro read {copy.name} {name} --cf: {text[:200]} instead of {read[name][:200]}")
    by_archive(case, path, want, groups, there)
    by_references(case, path, want, groups, there)
    by_place(case, path, want, groups, there)


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=120)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", help="keep the folders of cases that fail here")
    args = p.parse_args()
    zaro, started, failed, refused, undrawn = common.find_zaro(args.zaro), time.monotonic(), 0, 0, 0
    for seed in range(args.seed, args.seed + args.cases):
        folder = Path(tempfile.mkdtemp(prefix="meaning-"))
        case = Case(seed, zaro, folder)
        try:
            run_case(case)
        except Refused as e:
            refused += 1
            if args.verbose:
                print(f"seed {seed}: {e}")
        except Undrawn as e:
            undrawn += 1
            if args.verbose or undrawn * 10 > args.cases:
                print(f"seed {seed}: xarray: {e}", flush=True)
        except Exception as e:
            # xarray that cannot open a copy is as wrong as one that reads something else.
            failed += 1
            print(f"--seed {seed} --cases 1 (V{case.format})\n  {type(e).__name__}: {e}\n  " + "\n  ".join(case.commands[-4:]), flush=True)
            if args.keep:
                shutil.copytree(folder, Path(args.keep) / str(seed), dirs_exist_ok=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if undrawn * 10 > args.cases:
        failed += 1
        print("too many cases that xarray cannot make")
    print(f"{args.cases - undrawn} data sets, {failed} wrong, {refused} not in place, {undrawn} that xarray cannot make; {time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

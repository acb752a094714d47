#!/usr/bin/env python3
"""Selecting by values: `zaro read --sel` and `zaro copy --sel` beside xarray's `sel`.

    PYTHON conformance/select_differential.py [--zaro BIN] [--cases N] [--seed S] [-v]

Data sets are made by xarray, as V2 and as V3, consolidated and not: days in every calendar, hours, months, times as floats,
decreasing latitudes, longitudes from 0 to 360, float32 and packed coordinates, texts, integers, values that are there
twice, in no order, or missing. Each is asked for single values, lists, slices and shortened dates, by every method. What
xarray gives must be what zaro gives, bit for bit and with the same shape; what xarray refuses or finds empty zaro refuses,
but for what docs/book/selecting.md says it takes besides. Copies are opened by xarray and must be identical to what it selects.
"""

import io
import random
import shutil
import sys
import tempfile
import warnings

import cftime
import numpy as np
import xarray as xr

import common

warnings.simplefilter("ignore")

CALENDARS = ["standard", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap"]


def times(rng, n):
    """A time axis, and a function that makes labels of it."""
    calendar = rng.choice(CALENDARS)
    freq = rng.choice(["D", "6h", "MS", "h"])
    start = rng.choice(["2000-01-01", "1999-12-28", "2001-02-25"])
    values = xr.date_range(start, periods=n, freq=freq, calendar=calendar, use_cftime=calendar not in ("standard", "proleptic_gregorian"))
    if rng.random() < 0.2:
        values = values + __import__("datetime").timedelta(hours=12)
    values = np.asarray(values)
    encoding = {"units": rng.choice(["days since 1999-01-01", "hours since 1990-01-01 06:00", "seconds since 2000-01-01"]),
                "calendar": calendar, "dtype": rng.choice(["float64", "int64"]) if freq != "MS" else "float64"}
    if encoding["units"].startswith("days") and freq in ("6h", "h"):
        encoding["dtype"] = "float64"

    def text(i, length):
        one = values[i]
        iso = str(one)[:19].replace(" ", "T") if isinstance(one, np.datetime64) else one.isoformat()[:19]
        return iso[:length]

    def labels():
        length = rng.choice([4, 7, 10, 13, 16, 19])
        return text(rng.randrange(n), length)

    return values, encoding, labels


def numbers(rng, n, kind):
    """An axis of numbers, its encoding, and a function that makes labels of it."""
    encoding = {}
    if kind == "lat":
        values = np.linspace(90, -90, n)
        if rng.random() < 0.5:
            values = values[::-1].copy()
    elif kind == "lon":
        values = np.arange(n) * (360 / n)
    elif kind == "packed":
        values = np.round(np.arange(n) * 0.25 - 3, 2)
        encoding = {"dtype": "int16", "scale_factor": 0.25, "add_offset": -3.0, "_FillValue": -9999}
    elif kind == "whole":
        values = np.array(sorted(rng.sample(range(-50, 50), n)), dtype=rng.choice(["i2", "i4", "i8"]))
    elif kind == "small":
        values = (np.arange(n) * np.float32(0.1)).astype("f4")
    elif kind == "twice":
        values = np.array(sorted(rng.choice(range(n)) for _ in range(n)), dtype="f8")
    elif kind == "mixed":
        values = np.array(rng.sample(range(100), n), dtype="f8")
        if rng.random() < 0.3:
            values[rng.randrange(n)] = np.nan
    if kind in ("lat", "lon") and rng.random() < 0.5:
        values = values.astype("f4")

    def labels():
        one = float(values[rng.randrange(n)])
        if rng.random() < 0.4:
            one += rng.choice([0.3, -0.3, 1.0, 17.25, -200.0, 0.125])
        return repr(float(np.float32(one)) if values.dtype == "f4" and rng.random() < 0.5 else one)

    return values, encoding, labels


def texts(rng, n):
    words = [f"station {c}" for c in "abcdefghijklmnop"][:n] + ["Ålesund", "x:y", "p,q", "Île"]
    values = rng.sample(words, n)
    if rng.random() < 0.5:
        values.sort()
    values = np.array(values, dtype=object)

    def labels():
        return values[rng.randrange(n)] if rng.random() < 0.8 else "nowhere"

    return values, {}, labels


def dataset(rng, folder):
    """A data set on the disk, as xarray opens it, and for each dimension a function that makes labels."""
    coords, encoding, labels, dims = {}, {}, {}, {}
    kinds = rng.sample(["time", "lat", "lon", "packed", "whole", "small", "twice", "mixed", "text"], 3)
    for kind in kinds:
        n = rng.choice([3, 5, 8, 12])
        make = times(rng, n * 5) if kind == "time" else texts(rng, n) if kind == "text" else numbers(rng, n, kind)
        coords[kind], encoding[kind], labels[kind] = (kind, make[0]), make[1], make[2]
        dims[kind] = len(make[0])
    a, b, c = kinds
    shape = tuple(dims[k] for k in kinds)
    data = {
        "field": (kinds, np.arange(np.prod(shape), dtype="f4").reshape(shape), {"units": "K"}),
        "plane": ((b, c), np.arange(dims[b] * dims[c], dtype="i4").reshape(dims[b], dims[c])),
        "other": ((a,), np.arange(dims[a], dtype="f8")),
        "single": ((), np.float64(7.5)),
    }
    ds = xr.Dataset(data, coords, {"title": "made to be cut"})
    if rng.random() < 0.5:
        ds = ds.assign_coords(height=2.0, beside=((b,), np.arange(dims[b]) * 10.0))
    encoding["field"] = {"chunks": tuple(max(1, n // 2) for n in shape)}
    encoding = {k: v for k, v in encoding.items() if v}
    ds.to_zarr(folder, zarr_format=rng.choice([2, 3]), consolidated=rng.random() < 0.5, encoding=encoding)
    return kinds, labels, encoding


def open_zarr(folder):
    return xr.open_zarr(folder, chunks=None, consolidated=False)


def quoted(text):
    return f'"{text}"' if set(text) & set(',:[]"') else text


def ask(rng, ds, name, label):
    """What xarray is asked for along one dimension, what zaro is, and which way it is."""
    is_text, is_time = ds[name].dtype.kind in "OUT" and name == "text", name == "time"
    value = (lambda t: t) if is_text or is_time else float
    way = rng.choice(["one", "one", "slice", "slice", "list", "open"])
    show = quoted if is_text else str
    if way == "one":
        one = label()
        return value(one), show(one), way
    if way == "list":
        several = [label() for _ in range(rng.randrange(1, 4))]
        if is_time:
            return several, "[" + ",".join(several) + "]", "dates"
        return [value(t) for t in several], "[" + ",".join(map(show, several)) + "]", way
    first, last = label(), label()
    if way == "open":
        return (slice(value(first), None), show(first) + ":", "slice") if rng.random() < 0.5 else (slice(None, value(last)), ":" + show(last), "slice")
    return slice(value(first), value(last)), show(first) + ":" + show(last), "slice"


def select(ds, wanted, method):
    """What xarray selects; slices by themselves, as it takes no method for them."""
    single = {k: v for k, v in wanted.items() if not isinstance(v, slice)}
    slices = {k: v for k, v in wanted.items() if isinstance(v, slice)}
    out = ds.sel(slices) if slices else ds
    return out.sel(single, method=method) if single else out


def is_more(ds, wanted, ways, method, want):
    """Whether zaro may give an answer where xarray gives none, or an empty one: docs/book/selecting.md says where."""
    for name, value in wanted.items():
        if isinstance(value, slice):
            return True
        if ways[name] == "dates":
            return True
        if name == "time" and method:
            return True
        if name in ("packed", "twice") or (name == "mixed" and method):
            return True
    return False


def check_read(zaro, folder, ds, words, wanted, ways, method, tally, label):
    if method and any(k == "time" and isinstance(v, str) and len(v) < 10 for k, v in wanted.items()):
        # A year or a month stays one; xarray takes its first moment.
        return tally.skip(label, "a short date with a method")
    try:
        want, refusal = select(ds["field"], wanted, method), None
    except Exception as e:
        want, refusal = None, e
    run = common.run([zaro, "read", folder, "field", "--sel", words, "--format", "npy"] + (["--method", method] if method else []))
    if run.crash:
        return tally.fail(label, run.crash)
    if run.code not in (0, 2):
        return tally.fail(label, f"exit {run.code}: {run.message}")
    if want is None or want.size == 0:
        if run.code == 0 and not is_more(ds, wanted, ways, method, want):
            return tally.fail(label, f"xarray: {refusal or 'nothing'}; zaro has an answer")
        return tally.ok(label)
    if run.code != 0:
        return tally.fail(label, f"xarray has {want.shape}; zaro: {run.message}")
    got = np.load(io.BytesIO(run.out))
    if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.values.tobytes():
        return tally.fail(label, f"got {got.shape} {got.ravel()[:6]}, wanted {want.shape} {want.values.ravel()[:6]}")
    tally.ok(label)


def check_copy(zaro, folder, copy, rng, ds, words, wanted, method, tally, label):
    if method and any(k == "time" and isinstance(v, str) and len(v) < 10 for k, v in wanted.items()):
        return tally.skip(label, "a short date with a method")
    names = rng.choice([[], ["field"], ["plane", "other"], ["single"]])
    try:
        want = ds[names] if names else ds
        want = select(want, {k: v for k, v in wanted.items() if k in want.dims}, method).load()
    except Exception as e:
        return tally.skip(label, f"xarray: {e}")
    if any(n == 0 for n in want.sizes.values()):
        return tally.skip(label, "nothing is left")
    if set(wanted) - set((ds[names] if names else ds).dims):
        return tally.skip(label, "no such dimension")
    shutil.rmtree(copy, ignore_errors=True)
    more = (["--method", method] if method else []) + (["--vars", ",".join(names)] if names else [])
    consolidated = rng.random() < 0.5
    more += ["--consolidate" if consolidated else "--no-consolidate", "--verify"]
    run = common.run([zaro, "copy", folder, copy, "--sel", words] + more)
    if run.crash or run.code != 0:
        return tally.fail(label, f"copy: exit {run.code}: {run.message}")
    got = xr.open_zarr(copy, chunks=None, consolidated=consolidated).load()
    try:
        xr.testing.assert_identical(got, want)
    except AssertionError as e:
        return tally.fail(label, f"the copy {more} differs: {e}")
    for name in want.variables:
        a, b = got[name].values, want[name].values
        if a.dtype != b.dtype or (a.dtype.kind not in "OT" and a.tobytes() != b.tobytes()):
            return tally.fail(label, f"the copy's {name} differs in its bits")
    tally.ok(label)


def check_points(zaro, folder, rng, ds, kinds, labels, tally, label):
    """One value per point, beside xarray's selection by arrays of one dimension."""
    names = [k for k in kinds if k in ("lat", "lon", "whole", "small")][:2]
    if not names:
        return
    n = rng.randrange(1, 9)
    rows = [[float(labels[k]()) for k in names] for _ in range(n)]
    want = ds["field"].sel({k: xr.DataArray([r[i] for r in rows], dims="point") for i, k in enumerate(names)}, method="nearest")
    want = want.transpose("point", ...)
    words = [w for r in rows for w in ("--points", ",".join(f"{k}={x!r}" for k, x in zip(names, r)))]
    run = common.run([zaro, "read", folder, "field", "--method", "nearest", "--format", "npy"] + words)
    if run.crash or run.code != 0:
        return tally.fail(label, f"points: exit {run.code}: {run.message}")
    got = np.load(io.BytesIO(run.out))
    if got.shape != want.shape or got.tobytes() != np.ascontiguousarray(want.values).tobytes():
        return tally.fail(label, f"points: got {got.shape} {got.ravel()[:5]}, wanted {want.shape} {want.values.ravel()[:5]}")
    tally.ok(label)


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    zaro, tally = common.find_zaro(args.zaro), common.Tally("select", args.verbose)
    with tempfile.TemporaryDirectory() as scratch:
        made = 0
        while made < args.cases:
            rng = random.Random(f"{args.seed}/{made}")
            folder = f"{scratch}/{made}.zarr"
            kinds, labels, _ = dataset(rng, folder)
            ds = open_zarr(folder).load()
            for _ in range(10):
                names = rng.sample(kinds, rng.choice([1, 1, 2, 3]))
                asked = {k: ask(rng, ds, k, labels[k]) for k in names}
                wanted, ways = {k: v[0] for k, v in asked.items()}, {k: v[2] for k, v in asked.items()}
                words = ",".join(f"{k}={v[1]}" for k, v in asked.items())
                method = rng.choice([None, None, "nearest", "pad", "backfill"])
                if "text" in names and not isinstance(wanted["text"], slice):
                    method = None
                label = f"case {made}: {words} {method or ''} on {[str(ds[k].dtype) for k in names]}"
                check_read(zaro, folder, ds, words, wanted, ways, method, tally, label)
                if made % 4 == 0:
                    check_copy(zaro, folder, f"{scratch}/copy.zarr", rng, ds, words, wanted, method, tally, label)
                made += 1
            check_points(zaro, folder, rng, ds, kinds, labels, tally, f"case {made}: points")
            shutil.rmtree(folder)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

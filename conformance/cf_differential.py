"""Random CF variables: what `zaro read --cf` gives beside what xarray and cftime decode.

    cf_differential.py [--cases N] [--seed S]

A store holds many cases; a case is one variable, or one with those it is related to (bounds and their times, letters and
what uses their dimension). Variables are written by zarr-python with attributes made here, and by xarray itself, as V2
and as V3: packed, masked, with lists of missing values, unsigned, times in every spelling of units and references and in
every calendar, times as floats, spans, NaT, truth, letters, scalars. Numbers are compared by type and by bit, times to
the nanosecond; where xarray goes through cftime, which knows microseconds only, to the microsecond; and where
a time is stored as a float, to the distance of the next float. docs/book/cf.md lists the differences that are meant; cases of those are not made.
"""

import base64
import io
import json
import random
import struct
import sys
import tempfile
import warnings

import cftime
import numpy as np
import xarray as xr
import zarr

import common

warnings.simplefilter("ignore")

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
CALENDARS = ["standard", "gregorian", "proleptic_gregorian", "julian", "noleap", "365_day", "all_leap", "366_day", "360_day"]
NANOS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9, "minutes": 60 * 10**9,
         "hours": 3600 * 10**9, "days": 86400 * 10**9}
# How units are spelled. xarray asks cftime for what pandas does not know; nanoseconds only pandas knows.
SPELLED = {"nanoseconds": ["nanoseconds", "nanosecond"], "microseconds": ["microseconds", "microsecond", "microsecs"],
           "milliseconds": ["milliseconds", "millisec", "msecs", "ms"], "seconds": ["seconds", "second", "secs", "sec", "s"],
           "minutes": ["minutes", "minute", "mins", "min"], "hours": ["hours", "hour", "hrs", "hr", "h"],
           "days": ["days", "day", "d", "Days", "DAYS"]}
REFERENCES = ["{y:04}-{m:02}-{d:02}", "{y}-{m}-{d}", "{y:04}-{m:02}-{d:02} 00:00:00", "{y:04}-{m:02}-{d:02} 6:30",
              "{y:04}-{m:02}-{d:02}T12:00:00Z", "{y:04}-{m:02}-{d:02} 12:00:00.25", "{y:04}-{m:02}-{d:02} 00:00:0.0",
              "{y:04}-{m:02}-{d:02} 03:00:00 +01:30", "{y:04}-{m:02}-{d:02} 03:00:00 -0600", "{y:04}-{m:02}-{d:02}T12:34:56.789012"]
# What only pandas reads, so only in calendars and years that it has.
PANDAS_REFERENCES = ["{y:04}{m:02}{d:02}", "{y:04}{m:02}{d:02}T1230", "{y:04}{m:02}{d:02} 12", "{y:04}/{m:02}/{d:02}", "{y:04}-{m:02}",
                     "{y:04}", "{y:04}-{m:02}-{d:02} 15:15:42.5 -6:00", "{y:04}-{m:02}-{d:02} 12:00:00.123456789"]


class Case:
    """Variables that are decoded together; `name` is the one that is looked at."""

    def __init__(self, name, kind):
        self.name, self.kind, self.variables = name, kind, {}
        # How far apart times may be: nanoseconds a unit, for floats.
        self.unit, self.is_float = None, False
        # Whether cftime decodes it, to microseconds, whatever the calendar.
        self.coarse = False

    def add(self, name, dims, data, attrs, fill=None):
        self.variables[name] = (dims, data, attrs, fill)


def base64_float(x):
    return base64.standard_b64encode(struct.pack("<d", x)).decode()


def shape_of(rng):
    return rng.choice([(), (1,), (5,), (7,), (2, 3), (3, 1, 2)])


def numbers(rng, dtype, shape, planted=()):
    """Values of a type, with those planted among them."""
    t, n = np.dtype(dtype), int(np.prod(shape, dtype=int))
    if t.kind in "iu":
        info = np.iinfo(t)
        pool = [0, 1, 2, 3, 7, 100, info.max - 1 if t.itemsize < 8 else 2**40, info.min if t.itemsize < 8 else 0]
    else:
        pool = [0.0, -0.0, 1.5, -2.25, 3.0, 100.0, float("nan"), float("inf"), 0.1]
    pool += list(planted) * 3
    return np.array([rng.choice(pool) for _ in range(n)], dtype=t).reshape(shape)


def masks(rng, case, v2, dtype, attrs):
    """Adds `_FillValue` and `missing_value` as a writer would; gives the values planted, and V2's fill value."""
    t, fill, planted = np.dtype(dtype), None, []
    def value():
        if t.kind == "f":
            return rng.choice([-999.0, 1e4, 7.0, float("nan")])
        info = np.iinfo(t)
        return rng.choice([7, 99, info.max if t.itemsize < 8 else 2**50, info.min if t.itemsize < 8 else 5])
    if rng.random() < 0.6:
        one = value()
        planted.append(one)
        if v2:
            fill = one
            if rng.random() < 0.2 and t.kind == "i":
                # xarray takes the fill value, whatever the attribute says.
                attrs["_FillValue"] = 3
        else:
            attrs["_FillValue"] = base64_float(one) if t.kind == "f" else int(one)
    if rng.random() < 0.4:
        several = [x for x in (value() for _ in range(rng.choice([1, 2, 3]))) if x == x]
        planted += several
        if several:
            several = [x if t.kind == "f" else int(x) for x in several]
            attrs["missing_value"] = several if rng.random() < 0.6 or len(several) > 1 else several[0]
    return planted, fill


def packed(rng, name, v2):
    case = Case(name, "packed")
    dtype, attrs = rng.choice(INTEGERS + FLOATS), {}
    planted, fill = masks(rng, case, v2, dtype, attrs)
    if rng.random() < 0.2 and dtype[0] in "iu" and "missing_value" not in attrs:
        attrs["_Unsigned"] = rng.choice(["true", "false"])
    # With a fill value of NaN, xarray unpacks floats in their own width.
    narrow = dtype[0] == "f" and any(x != x for x in planted)
    if rng.random() < 0.5 and not narrow:
        attrs["scale_factor"] = rng.choice([0.1, 0.5, 2.0, 1e-3, 3.25])
    if rng.random() < 0.4 and not narrow:
        attrs["add_offset"] = rng.choice([273.15, -1.0, 10, 0.0])
    if rng.random() < 0.2:
        attrs["units"] = rng.choice(["K", "m s-1", "1"] + ([] if planted else ["hours", "days"]))
    shape = shape_of(rng)
    case.add(name, None, numbers(rng, dtype, shape, planted), attrs, fill)
    return case


def time_units(rng, calendar):
    """Units, their nanoseconds, the unit's plain name, and whether it is spelled as pandas does not know it."""
    standard = calendar in ("standard", "gregorian", "proleptic_gregorian")
    unit = rng.choice(list(NANOS))
    if unit == "nanoseconds" and not standard:
        unit = "seconds"
    # Years that no calendar refuses, and that pandas has in nanoseconds.
    modern = standard and rng.random() < 0.7
    year = rng.choice([1850, 1970, 2000, 2100]) if modern or unit == "nanoseconds" else rng.choice([1, 2, 4, 100, 1500, 1581, 1600, 2000, 12000, -1, -4, -44, -4712])
    if unit == "nanoseconds":
        year = rng.choice([1970, 2000])
    spelled = rng.choice(SPELLED[unit])
    # What pandas does not know by name goes to cftime, which reads fewer references.
    known = spelled.lower().rstrip("s") + "s" == unit
    style = rng.choice(REFERENCES + (PANDAS_REFERENCES if (modern or unit == "nanoseconds") and known else []))
    month, day = rng.randrange(1, 13), rng.randrange(1, 29)
    text = style.format(y=abs(year), m=month, d=day)
    text = ("-" if year < 0 else "") + text
    since = rng.choice([" since "] * 6 + ["  since ", " Since ", " SINCE ", "\tsince ", " since\t"])
    if " " in text and style not in PANDAS_REFERENCES and rng.random() < 0.15:
        text = text.replace(" ", rng.choice(["\t", ","]), 1)
    elif style.endswith("00:00:00") and rng.random() < 0.3:
        # Names of zones say nothing to pandas and cftime.
        text += rng.choice([" EST", " CET", " Foo"])
    return spelled + since + text, NANOS[unit], unit, not known


def times(rng, name, v2, bounds=False):
    case = Case(name, "bounds" if bounds else "times")
    calendar = rng.choice(CALENDARS)
    units, case.unit, unit, case.coarse = time_units(rng, calendar)
    dtype = rng.choice(["i4", "i8", "i2", "u4", "f4", "f8", "f8", "i8"])
    attrs = {"units": units}
    if calendar != "standard" or rng.random() < 0.5:
        attrs["calendar"] = calendar
    # Some hundred years at most: xarray overflows without a word where nanoseconds do.
    most = min(2**31 - 1, 150 * 366 * 86400 * 10**9 // case.unit) if unit != "nanoseconds" else 2**31 - 1
    if np.dtype(dtype).itemsize == 8 and unit in ("nanoseconds", "microseconds", "milliseconds"):
        most = 100 * 366 * 86400 * 10**9 // case.unit
    if dtype == "i2":
        most = min(most, 32000)
    pool = [0, 1, 2, 59, 365, rng.randrange(most), rng.randrange(most), rng.randrange(most)]
    if dtype[0] in "if":
        pool += [-1, -rng.randrange(most)]
    if dtype[0] == "f":
        case.is_float = True
        pool += [0.5, 0.1, rng.random(), rng.randrange(most) / 24, rng.randrange(most) / 7, float("nan")]
    own, fill = {}, None
    if rng.random() < 0.4:
        planted = rng.choice([99, -9]) if dtype[0] != "u" else 99
        pool += [planted] * 3
        if v2:
            fill = planted
        else:
            own["_FillValue"] = base64_float(planted) if dtype[0] == "f" else planted
    if dtype == "i8" and rng.random() < 0.3:
        pool += [-2**63] * 2
    if rng.random() < 0.15:
        own["scale_factor"] = rng.choice([0.5, 2.0])
        case.is_float = True
    shape = rng.choice([(3, 2), (1, 2), (2,)]) if bounds else shape_of(rng)
    data = np.array([rng.choice(pool) for _ in range(int(np.prod(shape, dtype=int)))]).astype(dtype).reshape(shape)
    if not bounds:
        case.add(name, None, data, attrs | own, fill)
        return case
    parent = attrs | {"bounds": name}
    if rng.random() < 0.2:
        own["units"] = units
        if rng.random() < 0.5 and "calendar" in attrs:
            own["calendar"] = attrs["calendar"]
    case.add(name, None, data, own, fill)
    case.add(name + "_of", None, data[..., 0].copy(), parent, fill)
    return case


def spans(rng, name, v2):
    case = Case(name, "spans")
    unit = rng.choice(list(NANOS))
    case.unit = NANOS[unit]
    dtype = rng.choice(["i4", "i8", "i8", "f8"])
    attrs = {"units": unit, "dtype": f"timedelta64[{rng.choice(['s', 'ms', 'us', 'ns'])}]"}
    if rng.random() < 0.2:
        del attrs["dtype"]
    pool = [0, 1, -1, 7, 3600, rng.randrange(10**4)]
    if dtype == "f8":
        case.is_float = True
        pool += [0.5, 0.25, float("nan")]
    elif dtype == "i8" and "dtype" in attrs:
        pool += [-2**63]
    fill = None
    # Without the attribute, xarray masks with the least integer but leaves it at that.
    if rng.random() < 0.4 and "dtype" in attrs:
        pool += [99, 99]
        if v2:
            fill = 99
        else:
            attrs["_FillValue"] = base64_float(99) if dtype == "f8" else 99
    shape = shape_of(rng)
    data = np.array([rng.choice(pool) for _ in range(int(np.prod(shape, dtype=int)))]).astype(dtype).reshape(shape)
    case.add(name, None, data, attrs, fill)
    return case


def truth(rng, name, v2):
    case = Case(name, "truth")
    fill = rng.choice([None, None, -9, 1]) if v2 else None
    case.add(name, None, np.array([rng.choice([0, 1, -9]) for _ in range(4)], rng.choice(["i1", "i4"])), {"dtype": "bool"}, fill)
    return case


def complexes(rng, name, v2):
    """Complex numbers, some of them missing."""
    case = Case(name, "complex")
    t, attrs, fill = np.dtype(rng.choice(["c8", "c16"])), {}, None
    pool = [0, 1 + 1j, -9, -9 + 2j, complex(float("inf"), 1)]
    if rng.random() < 0.5:
        one = rng.choice([-9, -9 + 2j, 0])
        if v2:
            fill = one
        else:
            attrs["_FillValue"] = [base64_float(complex(one).real), base64_float(complex(one).imag)]
    elif rng.random() < 0.5:
        attrs["missing_value"] = -9.0
    case.add(name, None, np.array([rng.choice(pool) for _ in range(5)], t), attrs, fill)
    return case


def letters(rng, name, v2):
    case = Case(name, "letters")
    words = [w.encode() for w in rng.sample(["Oslo", "Rio", "", "be", "Bern", "a b", "x", "Île"], 3)]
    width = max(1, max(map(len, words))) + rng.randrange(2)
    data = np.array(words, f"S{width}")
    data = data.reshape(data.shape + (1,)).view("S1").reshape(3, width)
    last = f"{name}_len"
    attrs = rng.choice([{}, {"_Encoding": "utf-8"}, {"long_name": "x"}])
    if rng.random() < 0.2:
        data = data[0]
    dims = (f"{name}_n", last)[-data.ndim:]
    case.add(name, dims, data, attrs)
    if rng.random() < 0.3:
        # A dimension that a number uses as well, or that is a variable, is not one of letters.
        other = rng.choice([last, name + "_other"])
        case.add(other, (last,), np.arange(width, dtype="i4"), {})
    return case


KINDS = [packed, packed, packed, times, times, times, lambda r, n, v: times(r, n, v, True), spans, truth, complexes, letters]


def write(group, case, v2):
    for name, (dims, data, attrs, fill) in case.variables.items():
        # Related variables share their first dimensions, as they do in the world.
        dims = dims or [f"{case.name}_{i}_{n}" for i, n in enumerate(data.shape)]
        attrs = dict(attrs)
        extra = {}
        if v2:
            attrs["_ARRAY_DIMENSIONS"] = list(dims)
        else:
            extra["dimension_names"] = list(dims)
        kept = data if fill is None else fill
        a = group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=tuple(max(1, n) for n in data.shape), compressors=None,
                               fill_value=(data.dtype.type(kept) if fill is not None else None), attributes=attrs, **extra)
        a[...] = data
        if v2 and fill is None:
            # zarr-python writes a default for what is not said.
            path = group.store.root / group.path / name / ".zarray"
            document = json.loads(path.read_text())
            document["fill_value"] = None
            path.write_text(json.dumps(document))


def from_xarray(rng, folder, names, v2):
    """Cases that xarray writes itself."""
    data, encoding, cases = {}, {}, []
    for name in names:
        dims = (f"{name}_d",)
        pick = rng.randrange(7)
        case = Case(name, f"xarray {pick}")
        unit = rng.choice(["s", "ms", "us", "ns"])
        if pick == 0:
            per = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
            moments = [rng.randrange(-2 * 10**18, 6 * 10**18) // per for _ in range(4)]
            values = np.array(moments).astype(f"M8[{unit}]")
            if rng.random() < 0.5:
                values[1] = np.datetime64("NaT")
            data[name] = (dims, values)
        elif pick == 1:
            values = np.array([rng.randrange(-10**9, 10**9) for _ in range(4)]).astype(f"m8[{unit}]")
            if rng.random() < 0.5:
                values[1] = np.timedelta64("NaT")
            data[name] = (dims, values)
        elif pick == 2:
            calendar = rng.choice(["noleap", "360_day", "julian", "all_leap", "standard"])
            values = np.array([cftime.datetime(rng.randrange(1, 3000), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24),
                                               rng.randrange(60), calendar=calendar) for _ in range(3)])
            data[name] = (dims, values)
            case.unit, case.is_float = 86400 * 10**9, True
        elif pick == 3:
            values = np.array([rng.choice([1.5, 2.25, float("nan"), 100.0]) for _ in range(5)])
            data[name] = (dims, values)
            encoding[name] = {"dtype": rng.choice(["i2", "u1", "i4"]), "scale_factor": 0.5, "_FillValue": 250, "add_offset": rng.choice([0.0, 1.0])}
            if rng.random() < 0.5:
                del encoding[name]["add_offset"]
        elif pick == 4:
            data[name] = (dims, np.array([True, False, True]))
        elif pick == 5:
            data[name] = (dims, np.array([rng.choice([1.5, float("nan"), 7.0]) for _ in range(4)], rng.choice(FLOATS)))
            if rng.random() < 0.5:
                encoding[name] = {"_FillValue": rng.choice([7.0, float("nan"), -1.0])}
        else:
            data[name] = ((), rng.choice([1.5, np.datetime64("2001-02-03T04:05:06.789", "ns"), np.timedelta64(5, "s"), True, "text"]))
        cases.append(case)
    xr.Dataset(data).to_zarr(folder, zarr_format=2 if v2 else 3, encoding=encoding, consolidated=False)
    return cases


def parsed(text):
    """Year, month, day and nanosecond of the day of an ISO 8601 moment."""
    date, clock = text.split("T")
    sign = -1 if date.startswith("-") else 1
    y, m, d = date.lstrip("+-").split("-")
    h, mi, s = clock.split(":")
    s, _, f = s.partition(".")
    return sign * int(y), int(m), int(d), (int(h) * 3600 + int(mi) * 60 + int(s)) * 10**9 + int((f + "0" * 9)[:9])


def compare_time(case, got, want, stored):
    """None if the moment `got` is `want`, else why not."""
    if isinstance(want, np.datetime64) or want is None or (isinstance(want, float) and want != want):
        if want is None or isinstance(want, float) or np.isnat(want):
            return None if got == "NaT" else f"{got}, wanted NaT"
    if got == "NaT":
        return f"NaT, wanted {want}"
    year, month, day, nanos = parsed(got)
    # Floats, and what xarray gives cftime as floats, are exact to the next float.
    slack = 0
    if case.is_float or not isinstance(want, np.datetime64):
        slack = 1 + 1000 * case.coarse + (int(np.spacing(abs(float(stored))) * case.unit * 2) if case.unit and np.isfinite(stored) else 0)
    if isinstance(want, np.datetime64):
        mine = np.datetime64(f"{year:04}-{month:02}-{day:02}", "ns") + np.timedelta64(nanos, "ns")
        if case.is_float:
            # The product of xarray is rounded once more.
            slack += int(np.spacing(abs(float(want.astype("M8[ns]").astype("i8")))) + np.spacing(abs(float(stored) * (case.unit or 1)))) * 2
        off = abs(int((mine - want.astype("M8[ns]")).astype("i8")))
    else:
        slack += 1001
        mine = cftime.datetime(year, month, day, calendar=want.calendar)
        off = abs(round((mine - want).total_seconds() * 10**6) * 1000 + nanos) if abs((mine - want).days) < 3 else 10**18
    return None if off <= slack else f"{got}, wanted {want}, {off} ns apart, {slack} allowed"


def check(zaro, folder, case, raw, tally, rng):
    label = f"{folder} {case.name} ({case.kind}) {dict(raw[case.name].attrs)} {raw[case.name].dtype}"
    names = list(case.variables) or [case.name]
    part = raw[names].copy()
    # xarray wants a small "since"; cftime, and zaro, do not.
    for name in names:
        if "units" in part[name].attrs:
            part[name].attrs["units"] = part[name].attrs["units"].replace(" Since ", " since ").replace(" SINCE ", " since ")
    try:
        want = xr.decode_cf(part)[case.name].load()
        if case.kind == "truth":
            # Truth is made on opening already; in two steps what is missing would be masked twice.
            others = [n for n in raw.variables if n != case.name]
            want = xr.open_zarr(folder, drop_variables=others, consolidated=False, chunks=None)[case.name].load()
    except Exception as e:
        want, refusal = None, e
    stored = raw[case.name].values
    # cftime shows what is missing as the reference.
    missing = np.zeros(0)
    if want is not None:
        plain = xr.decode_cf(part, decode_times=False)[case.name].values
        missing = np.isnan(plain).ravel() if plain.dtype.kind == "f" else np.zeros(plain.size, bool)
    is_time = want is not None and (want.dtype.kind == "M" or (want.dtype.kind == "O" and want.size and any(isinstance(x, cftime.datetime) for x in want.values.ravel())))
    is_text = want is not None and want.dtype.kind in "OSUT" and not is_time
    form = "json" if is_time or is_text else "npy"
    run = common.run([zaro, "read", folder, case.name, "--cf", "--format", form])
    if run.crash or run.code != 0:
        return tally.fail(label, f"exit {run.code}: {run.message}")
    if want is None:
        return tally.skip(label, f"xarray: {refusal}")
    flat = want.values.ravel()
    if form == "npy":
        got = np.load(io.BytesIO(run.out))
        if want.dtype.kind == "m":
            ok = got.dtype.kind == "m" and got.shape == want.shape and np.array_equal(np.isnat(got), np.isnat(want.values))
            # Of a float, what is below a nanosecond is cut by xarray, and rounded by zaro.
            there = ~np.isnat(got)
            off = (got.astype("m8[ns]")[there] - want.values.astype("m8[ns]")[there]).astype("i8") if ok else np.ones(1)
            ok = ok and bool((np.abs(off) <= case.is_float).all())
        else:
            # -0.0 and the type count; of NaN only that it is one.
            ok = got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want.values, equal_nan=want.dtype.kind in "fc")
            ok = ok and (want.dtype.kind != "f" or np.array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want.values[~np.isnan(got)])))
        return tally.ok(label) if ok else tally.fail(label, f"got {got.dtype} {got.tolist()}, wanted {want.dtype} {want.values.tolist()}")
    got = common.flatten(json.loads(run.out))
    if np.array(json.loads(run.out)).shape != want.shape:
        return tally.fail(label, f"got shape {np.array(json.loads(run.out)).shape}, wanted {want.shape}")
    for i, (one, wanted, held) in enumerate(zip(got, flat, stored.ravel() if stored.size == flat.size else [0] * flat.size)):
        if is_time:
            why = compare_time(case, one, None if missing[i] else wanted, held)
        else:
            if isinstance(wanted, bytes):
                try:
                    wanted = wanted.decode()
                except UnicodeDecodeError:
                    wanted = base64.standard_b64encode(wanted).decode()
            # xarray shows a text that equals V2's fill value as missing.
            wanted = "" if isinstance(wanted, float) else str(wanted)
            why = None if one == wanted else f"{one!r}, wanted {wanted!r}"
        if why:
            return tally.fail(label, why)
    tally.ok(label)


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", help="leave the stores in this folder")
    args = p.parse_args()
    zaro, tally = common.find_zaro(args.zaro), common.Tally("cf", args.verbose)
    made, batch = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        while made < args.cases:
            rng = random.Random(f"{args.seed}/{batch}")
            v2, many = batch % 2 == 0, min(40, args.cases - made)
            folder = f"{args.keep or scratch}/{batch}.zarr"
            if batch % 4 < 3:
                group = zarr.open_group(folder, mode="w", zarr_format=2 if v2 else 3)
                cases = [rng.choice(KINDS)(rng, f"v{i}", v2) for i in range(many)]
                for case in cases:
                    write(group, case, v2)
            else:
                v2 = batch % 8 == 3
                cases = from_xarray(rng, folder, [f"v{i}" for i in range(many)], v2)
            raw = xr.open_zarr(folder, decode_cf=False, consolidated=False, chunks=None)
            for case in cases:
                check(zaro, folder, case, raw, tally, rng)
            made, batch = made + many, batch + 1
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

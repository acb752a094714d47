"""Random arrays of other people's libraries, read by the R package in both orders, with and without CF.

    r_differential.py [--cases N] [--seed S] [--library FOLDER] [--keep FOLDER]

The arrays are those of differential.py (zarr-python and tensorstore) and cf_differential.py (xarray decodes them); one R
process reads them all and leaves its vectors as bytes, which are compared with numpy. The package has to be installed in
FOLDER, or where R finds it.
"""

import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import common

try:
    import cf_differential as cf
    import cftime
    import differential as plain
    import numpy as np
    import xarray as xr
    import zarr
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

HERE = Path(__file__).parent
SECONDS = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "fs": 1e-15, "as": 1e-18}
NA = "\x01NA"


class Got:
    """One vector of R."""

    def __init__(self, file, fields):
        self.kind, dims, classes, names = (fields + ["", "", ""])[:4]
        self.dims = tuple(int(n) for n in dims.split(",") if n)
        self.classes = classes.split(",")
        self.names = names.split(",") if names else []
        data = file.read_bytes()
        if self.kind == "character":
            self.values = [t.decode("utf-8", "surrogateescape") for t in data.split(b"\0")[:-1]]
        elif self.kind == "list":
            self.values, at = [], 0
            while at < len(data):
                n = struct.unpack_from("<i", data, at)[0]
                self.values.append(data[at + 4 : at + 4 + n])
                at += 4 + n
        else:
            types = {"logical": "<i4", "integer": "<i4", "double": "<f8", "complex": "<c16", "raw": "u1"}
            self.values = np.frombuffer(data, types[self.kind])


def floats(got, want):
    """None if doubles of R are these; NaN is NaN, and zeros have signs."""
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    if got.shape != want.shape:
        return f"{got.size} values, wanted {want.size}"
    both = np.isnan(got) & np.isnan(want)
    same = both | ((got == want) & (np.signbit(got) == np.signbit(want)))
    return None if same.all() else f"{got[~same][:3]}, wanted {want[~same][:3]}"


def compare(got, want, reversed_order):
    """None if `got` is the array `want` as it is stored, else why not."""
    shape = want.shape[::-1] if reversed_order else want.shape
    inside = (want.dtype.itemsize,) if want.dtype.kind == "V" and want.dtype.names is None and want.dtype.itemsize > 1 else ()
    if got.dims != inside + shape:
        return f"dim {got.dims}, wanted {inside + shape}"
    flat = want.ravel("C" if reversed_order else "F")
    return elements(got, flat)


def elements(got, flat):
    kind = flat.dtype.kind
    if kind == "b":
        return None if got.kind == "logical" and np.array_equal(got.values, flat.astype("i4")) else f"{got.kind} {got.values[:5]}"
    if kind in "iu" and flat.dtype.itemsize == 8:
        return None if got.values == [str(n) for n in flat.tolist()] else f"{got.values[:4]}, wanted {flat[:4]}"
    if kind in "iu":
        wanted = "double" if flat.dtype == np.dtype("u4") or (flat.dtype.itemsize == 4 and kind == "i" and (flat == -(2**31)).any()) else "integer"
        if got.kind != wanted:
            return f"{got.kind}, wanted {wanted}"
        return None if np.array_equal(got.values, flat) else f"{got.values[:5]}, wanted {flat[:5]}"
    if kind == "f":
        return floats(got.values, flat) if got.kind == "double" else got.kind
    if kind == "c":
        flat = flat.astype("c16")
        return floats(got.values.real, flat.real) or floats(got.values.imag, flat.imag)
    if kind in "Mm":
        unit, scale = np.datetime_data(flat.dtype)
        ticks, nat = flat.view("i8").astype("f8"), np.isnat(flat)
        if unit in SECONDS and not (kind == "M" and unit in "WD"):
            want = ticks * (SECONDS[unit] * scale)
        elif kind == "M" and unit != "generic":
            # Dates: days.
            want = flat.astype("M8[D]").view("i8").astype("f8")
        else:
            return None if got.values is not None and len(got.values) == flat.size else "another length"
        want = np.where(nat, np.nan, want)
        if not np.array_equal(np.isnan(got.values), nat):
            return f"NaT at other places: {got.values[:5]}, wanted {flat[:5]}"
        off = np.abs(got.values - want)[~nat]
        return None if (off <= 1e-15 * np.abs(want[~nat])).all() else f"{got.values[:3]}, wanted {want[:3]}"
    if kind == "S":
        want = [t.decode("utf-8", "surrogateescape") for t in flat.tolist()]
        return None if got.values == want else f"{got.values[:3]}, wanted {want[:3]}"
    if kind == "V":
        return None if got.kind == "raw" and got.values.tobytes() == flat.tobytes() else f"{got.kind} {got.values[:5]}"
    if kind in "UOT":
        if got.kind == "list":
            want = [bytes(t) for t in flat.tolist()]
        else:
            want = [str(t) for t in flat.tolist()]
        return None if got.values == want else f"{got.values[:3]}, wanted {want[:3]}"
    return f"a type that this script does not know: {flat.dtype}"


def decoded(case, got, want, missing, stored, reversed_order):
    """None if `got` is the variable as xarray decodes it."""
    shape = want.shape[::-1] if reversed_order else want.shape
    if got.dims != shape:
        return f"dim {got.dims}, wanted {shape}"
    order = "C" if reversed_order else "F"
    flat = want.values.ravel(order)
    is_time = flat.dtype.kind == "M" or (flat.dtype.kind == "O" and any(isinstance(x, cftime.datetime) for x in flat))
    if is_time:
        missing, stored = missing.reshape(want.shape).ravel(order), stored.reshape(want.shape).ravel(order)
        for i, (wanted, held) in enumerate(zip(flat, stored)):
            why = moment(case, got, i, None if missing[i] else wanted, held)
            if why:
                return why
        return None
    if flat.dtype.kind == "m":
        ticks = flat.astype("m8[ns]")
        want_s = np.where(np.isnat(ticks), np.nan, ticks.view("i8") / 1e9)
        off = np.abs(got.values - want_s)
        there = ~np.isnan(want_s)
        ok = np.array_equal(np.isnan(got.values), ~there) and (off[there] <= 2e-9 + 1e-15 * np.abs(want_s[there])).all()
        return None if ok else f"{got.values[:3]}, wanted {want_s[:3]}"
    if flat.dtype.kind in "OSUT":
        for one, wanted in zip(got.values, flat):
            if isinstance(wanted, bytes):
                wanted = wanted.decode("utf-8", "surrogateescape")
            wanted = "" if isinstance(wanted, float) else str(wanted)
            if one != wanted:
                return f"{one!r}, wanted {wanted!r}"
        return None
    if flat.dtype.kind == "f":
        return floats(got.values, flat.astype("f8"))
    if flat.dtype.kind == "c":
        # NaN in a part is one, whatever the other.
        flat = flat.astype("c16")
        return floats(got.values.real, flat.real) or floats(got.values.imag, flat.imag)
    return elements(got, flat)


def moment(case, got, i, wanted, held):
    is_nat = wanted is None or isinstance(wanted, float) or (isinstance(wanted, np.datetime64) and np.isnat(wanted))
    one = got.values[i]
    if got.kind == "character":
        return cf.compare_time(case, "NaT" if one == NA else full(one), None if is_nat else wanted, held)
    if is_nat:
        return None if np.isnan(one) else f"{one}, wanted NaT"
    if isinstance(wanted, np.datetime64):
        seconds = int(wanted.astype("M8[ns]").view("i8")) / 1e9 if abs(int(wanted.astype("M8[s]").view("i8"))) < 9e9 else float(wanted.astype("M8[s]").view("i8"))
    else:
        seconds = (wanted - cftime.datetime(1970, 1, 1, calendar=wanted.calendar)).total_seconds()
    slack = 2e-6 + abs(seconds) * 5e-16
    if case.is_float and case.unit and np.isfinite(held):
        slack += np.spacing(abs(float(held))) * case.unit * 2e-9
    return None if abs(one - seconds) <= slack else f"{one}, wanted {seconds} ({wanted})"


def full(text):
    """A date with its clock."""
    return text if "T" in text else text + "T00:00:00"


def run_r(jobs, folder, library):
    listed = folder / "jobs"
    listed.write_text("".join("\t".join(job) + "\n" for job in jobs))
    out = folder / "out"
    out.mkdir()
    env = dict(os.environ)
    if library:
        env["R_LIBS"] = str(Path(library).resolve())
    subprocess.run(["Rscript", "--vanilla", str(HERE / "r_differential.R"), str(listed), str(out)], check=True, env=env)
    found = {}
    for line in (out / "results").read_text(errors="surrogateescape").split("\n")[:-1]:
        fields = line.split("\t")
        found[fields[0]] = fields[1:]
    return out, found


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=150)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--library", help="where the package is installed")
    p.add_argument("--keep", help="leave the stores in this folder")
    args = p.parse_args()
    tally = common.Tally("r", args.verbose)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.keep or scratch)
        folder.mkdir(exist_ok=True, parents=True)
        jobs, checks = [], {}

        def add(store, path, decode, check, label):
            for order in ("zarr", "reversed"):
                id = str(len(jobs))
                jobs.append((id, str(store), path, order, "1" if decode else "0"))
                checks[id] = (label + (" cf" if decode else "") + f" {order}", lambda got, check=check, r=order == "reversed": check(got, r))

        # Two of three are plain arrays.
        for n in range(args.cases * 2 // 3):
            seed = args.seed * 1_000_003 + n
            case, path = plain.Case(seed), folder / f"a{n}"
            name = case.pick(["zarr3", "zarr3", "zarr2", "ts3", "ts3", "ts2"])
            try:
                want = np.asarray(plain.WRITERS[name](case, path))
            except Exception as e:  # the writer's own limits are not ours to test
                tally.skip(f"{name} {seed}", str(e)[:100])
                continue
            if want.dtype.names:
                check = lambda got, r, want=want: structure(got, want, r)
            else:
                check = lambda got, r, want=want: compare(got, want, r)
            add(path, "", False, check, f"{name} --seed {seed} {want.dtype} {want.shape}")
        made, batch = 0, 0
        wanted = args.cases - args.cases * 2 // 3
        while made < wanted:
            rng = random.Random(f"{args.seed}/{batch}")
            v2, many = batch % 2 == 0, min(40, wanted - made)
            store = folder / f"cf{batch}.zarr"
            if batch % 4 < 3:
                group = zarr.open_group(str(store), mode="w", zarr_format=2 if v2 else 3)
                cases = [rng.choice(cf.KINDS)(rng, f"v{i}", v2) for i in range(many)]
                for case in cases:
                    cf.write(group, case, v2)
            else:
                cases = cf.from_xarray(rng, str(store), [f"v{i}" for i in range(many)], batch % 8 == 3)
            raw = xr.open_zarr(str(store), decode_cf=False, consolidated=False, chunks=None)
            for case in cases:
                add_cf(store, case, raw, add, tally)
            made, batch = made + many, batch + 1

        out, found = run_r(jobs, folder, args.library)
        for id, (label, check) in checks.items():
            fields = found.get(id, ["error", "no answer"])
            if fields[0] == "error":
                why = fields[1]
                # What R cannot hold is refused, not changed.
                if "NUL character" in why:
                    tally.skip(label, why)
                    continue
            elif fields[0] == "struct":
                names = fields[1].split(",")
                got = {n: Got(out / f"{id}.{k + 1}.bin", fields[2 + k].split(";")) for k, n in enumerate(names)}
                why = check(got)
            else:
                why = check(Got(out / f"{id}.bin", fields))
            tally.fail(label, why) if why else tally.ok(label)
    return tally.close()


def structure(got, want, reversed_order):
    if not isinstance(got, dict) or list(got) != list(want.dtype.names):
        return "fields are missing"
    for name in want.dtype.names:
        part = want[name]
        # A table has no dim.
        if want.ndim == 1:
            got[name].dims = part.shape
        why = compare(got[name], part, reversed_order)
        if why:
            return f"field {name}: {why}"
    return None


def add_cf(store, case, raw, add, tally):
    label = f"{store.name} {case.name} ({case.kind})"
    names = list(case.variables) or [case.name]
    part = raw[names].copy()
    for name in names:
        if "units" in part[name].attrs:
            part[name].attrs["units"] = part[name].attrs["units"].replace(" Since ", " since ").replace(" SINCE ", " since ")
    try:
        want = xr.decode_cf(part)[case.name].load()
        if case.kind == "truth":
            others = [n for n in raw.variables if n != case.name]
            want = xr.open_zarr(str(store), drop_variables=others, consolidated=False, chunks=None)[case.name].load()
        simple = xr.decode_cf(part, decode_times=False)[case.name].values
    except Exception as e:
        return tally.skip(label, f"xarray: {e}")
    stored = raw[case.name].values
    missing = np.isnan(simple) if simple.dtype.kind == "f" else np.zeros(simple.shape, bool)
    same = stored.shape == want.shape
    held = stored if same else np.zeros(want.shape)
    missing = missing if missing.shape == want.shape else np.zeros(want.shape, bool)
    add(store, case.name, True, lambda got, r: decoded(case, got, want, missing, held, r), label)
    add(store, case.name, False, lambda got, r: compare(got, stored, r), label)


if __name__ == "__main__":
    sys.exit(main())

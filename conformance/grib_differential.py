"""Random GRIB messages by eccodes, read by eccodes and by zaro: all values must be the same bits.

    grib_differential.py [--rounds N] [--seed S]

Each round makes messages of one random grid with random packings, widths, holes and fields, puts them into a Zarr array
as its chunks, and reads that. It is not part of ./test, since eccodes is large: `pip install eccodes eccodeslib numpy`.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import common
import make_grib


EARTHS = {g: ["sphere", "oblate"] for g in ("lambert", "mercator", "lambert_azimuthal_equal_area")}


def one(rng, shape, grid):
    """A random message and what was random about it."""
    packing = rng.choice([*make_grib.PACKINGS, "missing"])
    kind = rng.choice(["smooth", "noise", "flat", "flat", "constant"])
    values = make_grib.field(np.random.default_rng(rng.getrandbits(32)), shape, kind)
    share = rng.choice([0, 0, 0.02, 0.5, 0.97])
    hole = np.random.default_rng(rng.getrandbits(32)).random(shape) < share
    hole.flat[:4] = False
    what = {"packing": packing, "kind": kind, "missing": share, "grid": grid}
    if packing == "missing":
        what |= {"kinds": rng.choice([1, 2]), "order": rng.choice([0, 1, 2]), "group": rng.choice([1, 3, 8, 15])}
        return what, make_grib.complex_missing(values, hole, what["kinds"], what["order"], what["group"])
    # The JPEG 2000 decoder is exact up to 22 bits, and refuses more.
    bits = rng.choice([8, 16, 24]) if packing == "grid_png" else rng.randint(1, 22 if packing == "grid_jpeg" else 24)
    what |= {"bits": bits}
    more = {}
    if packing == "grid_ccsds":
        # 8 differences, 4 big-endian, 2 three bytes a number; padding (32) is not what eccodes writes, even if asked
        more = {"ccsdsBlockSize": rng.choice([8, 16, 32, 64]), "ccsdsRsi": rng.choice([1, 2, 64, 128, 300])}
        more["ccsdsFlags"] = rng.choice([14, 14, 6])
    if packing == "grid_complex_spatial_differencing":
        more = {"orderOfSpatialDifferencing": rng.choice([1, 2])}
    decimal = rng.choice([None, None, 0, 1, 3]) if packing in ("grid_simple", "grid_complex") else None
    what |= {"more": more, "decimal": decimal}
    return what, make_grib.message(values, packing, bits, decimal, hole if share else None, grid, more=more, earth=rng.choice(EARTHS.get(grid, ["sphere"])))


def read(zaro, folder, shape, dtype, messages, var):
    """What zaro reads of an array whose chunks are messages."""
    document = {"zarr_format": 2, "shape": [len(messages), *shape], "chunks": [1, *shape], "dtype": dtype, "order": "C", "fill_value": None,
                "compressor": None, "filters": [{"id": "grib", "var": var, "dtype": dtype}]}
    (folder / ".zarray").write_text(json.dumps(document))
    for i, data in enumerate(messages):
        (folder / f"{i}.0.0").write_bytes(data)
    result = common.run([zaro, "read", str(folder), "--format", "raw"])
    if result.code:
        return None, result.message
    return np.frombuffer(result.out, dtype).reshape(len(messages), *shape), None


def main():
    p = common.parser(__doc__)
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    zaro = common.find_zaro(args.zaro)
    count, refused, bad = 0, 0, 0
    for round in range(args.rounds):
        rng = random.Random(args.seed + round)
        shape = (rng.randint(2, 60), rng.randint(2, 90))
        grid = rng.choice(["regular_ll", "rotated_ll", "lambert", "polar_stereographic", "mercator", "lambert_azimuthal_equal_area"])
        cases = []
        while len(cases) < 20:
            try:
                what, data = one(rng, shape, grid)
                cases.append((what, data, make_grib.expected(data)))
            except Exception:  # eccodes refuses to write some combinations, such as a PNG that does not get smaller
                refused += 1
        with tempfile.TemporaryDirectory() as folder:
            got, error = read(zaro, Path(folder), shape, "<f8", [c[1] for c in cases], "x")
            for i, (what, data, want) in enumerate(cases):
                mine = got[i].ravel() if got is not None else None
                if mine is None:
                    one_got, error = read(zaro, Path(folder), shape, "<f8", [data], "x")
                    mine = one_got.ravel() if one_got is not None else None
                count += 1
                if mine is None:
                    bad += 1
                    print(f"seed {args.seed + round}: {what}: {error}")
                elif not np.array_equal(mine.view("u8")[~np.isnan(want)], want.view("u8")[~np.isnan(want)]) or not np.isnan(mine[np.isnan(want)]).all():
                    bad += 1
                    print(f"seed {args.seed + round}: {what}: differs by {np.nanmax(np.abs(mine - want))}")
            for var in ("latitude", "longitude"):
                want = make_grib.expected(cases[0][1], var + "s")
                got, error = read(zaro, Path(folder), shape, "<f8", [cases[0][1]], var)
                count += 1
                if got is None or not np.array_equal(got.ravel(), want):
                    bad += 1
                    print(f"seed {args.seed + round}: {grid} {var}: {error or np.abs(got.ravel() - want).max()}")
    print(f"{count} arrays, {bad} wrong ({refused} that eccodes did not write)")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

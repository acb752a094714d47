"""GRIB messages of every packing and grid that zaro reads, with the values that eccodes gives.

    make_grib.py FOLDER

Writes FOLDER/NAME.grib (a message) and FOLDER/NAME.f64 (what kerchunk's codec makes of it: little-endian doubles, NaN
where there is no value). NAME ends in `.latitude` or `.longitude` where the file holds coordinates. The files in
zaro/tests/grib were made by this, with eccodes 2.50; it needs `pip install eccodes eccodeslib numpy`.
"""

import struct
import sys
from pathlib import Path

import eccodes as ec
import numpy as np

MISSING = 9999.0
PACKINGS = ["grid_simple", "grid_complex", "grid_complex_spatial_differencing", "grid_ieee", "grid_jpeg", "grid_png", "grid_ccsds"]


def field(rng, shape, kind):
    """Values that are smooth, noisy, flat in part, or all the same."""
    y, x = np.meshgrid(np.linspace(0, 3, shape[0]), np.linspace(0, 5, shape[1]), indexing="ij")
    smooth = 280 + 20 * np.sin(y) * np.cos(x)
    if kind == "smooth":
        return smooth + rng.normal(0, 0.1, shape)
    if kind == "noise":
        return rng.normal(0, 1e4, shape)
    if kind == "flat":
        return np.where(smooth > 285, np.round(smooth), 0.0)
    return np.full(shape, 273.25)


def lay_out(handle, grid, shape, scanning=None):
    """Sets the grid of a message."""
    ny, nx = shape
    if grid in ("regular_ll", "rotated_ll"):
        ec.codes_set(handle, "gridType", grid)
        first, last = 60.0, 60.0 - 0.25 * (ny - 1)
        west, east = 350.1, (350.1 + 0.3 * (nx - 1)) % 360
        settings = {"Ni": nx, "Nj": ny, "latitudeOfFirstGridPointInDegrees": first, "longitudeOfFirstGridPointInDegrees": west,
                    "latitudeOfLastGridPointInDegrees": last, "longitudeOfLastGridPointInDegrees": east,
                    "iDirectionIncrementInDegrees": 0.3, "jDirectionIncrementInDegrees": 0.25}
        if grid == "rotated_ll":
            settings |= {"latitudeOfSouthernPoleInDegrees": -39.25, "longitudeOfSouthernPoleInDegrees": 18.0, "angleOfRotationInDegrees": 0.0}
    else:
        ec.codes_set(handle, "gridType", grid)
        settings = {"Nx": nx, "Ny": ny, "latitudeOfFirstGridPointInDegrees": 21.138, "longitudeOfFirstGridPointInDegrees": 237.28}
        if grid == "lambert":
            settings |= {"LaDInDegrees": 38.5, "LoVInDegrees": 262.5, "DxInMetres": 3000, "DyInMetres": 3000, "Latin1InDegrees": 38.5, "Latin2InDegrees": 38.5}
        elif grid == "polar_stereographic":
            settings |= {"LaDInDegrees": 60, "orientationOfTheGridInDegrees": 249, "DxInMetres": 10000, "DyInMetres": 10000}
        elif grid == "mercator":
            settings = {"Ni": nx, "Nj": ny, "latitudeOfFirstGridPointInDegrees": 18.1, "longitudeOfFirstGridPointInDegrees": 198.4,
                        "LaDInDegrees": 20, "DiInMetres": 2500, "DjInMetres": 2500,
                        "latitudeOfLastGridPointInDegrees": 23.1, "longitudeOfLastGridPointInDegrees": 206.1}
        elif grid == "lambert_azimuthal_equal_area":
            settings = {"Nx": nx, "Ny": ny, "latitudeOfFirstGridPointInDegrees": 24.5, "longitudeOfFirstGridPointInDegrees": 350.2,
                        "standardParallelInDegrees": 52, "centralLongitudeInDegrees": 10, "DxInMetres": 5000, "DyInMetres": 5000}
        settings["scanningMode"] = 0x40
    if scanning is not None:
        settings["scanningMode"] = scanning
    for key, value in settings.items():
        ec.codes_set(handle, key, value)


EARTHS = {"sphere": {"shapeOfTheEarth": 6}, "oblate": {"shapeOfTheEarth": 4}}


def message(values, packing="grid_simple", bits=16, decimal=None, missing=None, grid="regular_ll", scanning=None, more=None, earth="sphere"):
    """A message, as bytes."""
    handle = ec.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    lay_out(handle, grid, values.shape, scanning)
    for key, value in EARTHS[earth].items():
        ec.codes_set(handle, key, value)
    # A bitmap changes the number of values, so it comes before them.
    flat = values.ravel().astype(float)
    if missing is not None:
        ec.codes_set(handle, "bitmapPresent", 1)
        ec.codes_set(handle, "missingValue", MISSING)
        flat = np.where(missing.ravel(), MISSING, flat)
    ec.codes_set(handle, "numberOfDataPoints", flat.size)
    ec.codes_set(handle, "numberOfValues", flat.size)
    # Values first, so that the packing has its number of points right when it is changed.
    ec.codes_set(handle, "bitsPerValue", bits)
    if decimal is not None:
        ec.codes_set(handle, "decimalPrecision", decimal)
    ec.codes_set_values(handle, flat)
    if packing != "grid_simple":
        ec.codes_set(handle, "packingType", packing)
        for key, value in (more or {}).items():
            ec.codes_set(handle, key, value)
        if more:
            ec.codes_set_values(handle, flat)
    return ec.codes_get_message(handle)


def expected(data, key="values"):
    """What eccodes reads from a message."""
    handle = ec.codes_new_from_message(data)
    got = ec.codes_get_array(handle, key)
    if key == "values":
        got = np.where(got == MISSING, np.nan, got)
    return got.astype("<f8")


def first_edition(data):
    """The same in edition 1."""
    handle = ec.codes_new_from_message(data)
    ec.codes_set(handle, "edition", 1)
    return ec.codes_get_message(handle)


def sections(data):
    """The sections of a message, from 1 on."""
    at, out = 16, []
    while data[at:at + 4] != b"7777":
        length = struct.unpack(">I", data[at:at + 4])[0]
        out.append(data[at:at + length])
        at += length
    return out


def joined(parts):
    """A message of sections."""
    body = b"".join(parts)
    return b"GRIB\0\0\0\x02" + struct.pack(">Q", len(body) + 20) + body + b"7777"


class BitWriter:
    """Numbers of any width, most significant bit first, filled up to whole bytes."""

    def __init__(self):
        self.text = []

    def put(self, value, width):
        if width:
            self.text.append(format(int(value), f"0{width}b"))

    def bytes(self):
        text = "".join(self.text)
        text += "0" * (-len(text) % 8)
        return bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))


def complex_missing(values, missing, kinds, order, group=8, decimal=1):
    """Complex packing with missing values among the numbers, which eccodes reads but does not write.

    `kinds` is the missing value management: 1 or 2. Of two kinds, every third missing value is of the second.
    """
    numbers = np.round(values.ravel() * 10.0**decimal).astype(int)
    gone = missing.ravel()
    reference = float(np.float32(numbers[~gone].min() - 3))
    present = numbers[~gone] - int(reference)
    first, least = present[:order].copy(), 0
    if order:
        differences = np.diff(present, order)
        least = int(differences.min())
        present = np.concatenate([np.zeros(order, int), differences - least])
    coded = np.full(gone.size, -1)
    coded[~gone] = present
    coded[np.flatnonzero(gone)[::3]] = -kinds
    groups = [coded[i:i + group] for i in range(0, coded.size, group)]
    bits = max(int(present.max()) + kinds + 1, 3).bit_length() + 1
    references, widths, body = BitWriter(), BitWriter(), BitWriter()
    lengths = BitWriter()
    for g in groups:
        kept = g[g >= 0]
        if kept.size == 0 and (g == g[0]).all():
            reference_of, width = (1 << bits) + int(g[0]), 0
        else:
            reference_of = int(kept.min()) if kept.size else 0
            spread = (int(kept.max()) if kept.size else 0) - reference_of
            # A group without differences needs no bits, if nothing is missing from it.
            width = 0 if spread == 0 and (g >= 0).all() else (spread + kinds).bit_length() + (spread + kinds == 0)
            while width and (1 << width) - kinds <= spread:
                width += 1
        references.put(reference_of, bits)
        widths.put(width, 5)
        lengths.put(len(g) - 1, 4)
        for v in g:
            body.put((1 << width) + v if v < 0 else v - reference_of, width)
    data = b""
    if order:
        octets = 4
        data = b"".join(struct.pack(">I", int(v)) for v in first) + struct.pack(">I", abs(least) | (1 << 31 if least < 0 else 0))
    data += references.bytes() + widths.bytes() + lengths.bytes() + body.bytes()
    template = struct.pack(">fHHBB", reference, 0, decimal, bits, 0)
    template += struct.pack(">BBffIBBIBIB", 1, kinds, 9999.0, 9999.0, len(groups), 0, 5, 1, 1, len(groups[-1]), 4)
    if order:
        template += struct.pack(">BB", order, octets)
    parts = sections(message(values))
    section5 = struct.pack(">IBIH", 11 + len(template), 5, coded.size, 3 if order else 2) + template
    section7 = struct.pack(">IB", 5 + len(data), 7) + data
    return joined([{5: section5, 7: section7}.get(p[4], p) for p in parts])


def complex_without_bits(shape, decimal, groups, width, kinds):
    """Complex packing whose references have no bits: at most one group."""
    n = shape[0] * shape[1]
    template = struct.pack(">fHHBB", 5.5, 0, decimal, 0, 0)
    template += struct.pack(">BBffIBBIBIB", 1, kinds, 9999.0, 9999.0, groups, width, 0, n, 1, n, 0)
    data = bytes(i * 7 % 256 for i in range(n * width // 8))
    section5 = struct.pack(">IBIH", 11 + len(template), 5, n, 2) + template
    section7 = struct.pack(">IB", 5 + len(data), 7) + data
    return joined([{5: section5, 7: section7}.get(p[4], p) for p in sections(message(np.arange(n).reshape(shape)))])


def fixtures():
    rng = np.random.default_rng(7)
    shape = (13, 17)
    smooth, flat = field(rng, shape, "smooth"), field(rng, shape, "flat")
    hole = rng.random(shape) < 0.2
    for packing in PACKINGS:
        name = packing.removeprefix("grid_")
        # eccodes has no room for a PNG image that is larger than its numbers: this one must compress.
        values = np.repeat(flat, 3, axis=1) if packing == "grid_png" else smooth
        yield name, message(values, packing)
        yield f"{name}_bitmap", message(values, packing, 12, missing=np.resize(hole, values.shape))
        yield f"{name}_constant", message(np.full(shape, 271.5), packing)
    for bits in (1, 5, 8, 11, 24, 32):
        yield f"simple_{bits}", message(smooth, "grid_simple", bits)
    for bits in (3, 8, 18, 24):
        yield f"ccsds_{bits}", message(flat, "grid_ccsds", bits)
    for bits in (8, 24):
        yield f"png_{bits}", message(np.repeat(flat, 3, axis=1), "grid_png", bits)
    yield "jpeg_20", message(smooth, "grid_jpeg", 20)
    yield "simple_decimal", message(smooth, "grid_simple", decimal=2)
    yield "complex_decimal", message(smooth, "grid_complex_spatial_differencing", decimal=1)
    yield "complex_first_order", message(smooth, "grid_complex_spatial_differencing", more={"orderOfSpatialDifferencing": 1})
    block = hole | (np.arange(shape[1]) > 10)
    for kinds in (1, 2):
        for order in (0, 1, 2):
            yield f"complex_missing_{kinds}_{order}", complex_missing(smooth, block, kinds, order)
    for decimal, groups, width, kinds in [(2, 0, 0, 0), (2, 1, 0, 0), (1, 1, 8, 0), (0, 1, 0, 1), (0, 1, 0, 2), (0, 1, 8, 2)]:
        yield f"complex_0_bits_{decimal}{groups}{width}{kinds}", complex_without_bits(shape, decimal, groups, width, kinds)
    yield "ieee_64", message(smooth, "grid_ieee", more={"precision": 2})
    for scanning in (0x80, 0x40, 0x20, 0x10):
        if scanning != 0x40:
            yield f"scanning_{scanning:02x}", message(smooth, scanning=scanning)
    yield "edition_1", first_edition(message(smooth, bits=13, decimal=1))
    yield "edition_1_bitmap", first_edition(message(smooth, bits=11, missing=hole))
    yield "edition_1_constant", first_edition(message(np.full(shape, 271.5)))
    first, second = sections(message(smooth)), sections(message(flat))
    yield "two_fields", joined(first + [s for s in second if s[4] >= 4])
    for grid in ("regular_ll", "rotated_ll", "lambert", "polar_stereographic", "mercator", "lambert_azimuthal_equal_area"):
        yield f"grid_{grid}", message(field(rng, (7, 9), "smooth"), grid=grid)
    for grid in ("lambert", "mercator", "lambert_azimuthal_equal_area"):
        yield f"grid_{grid}_oblate", message(field(rng, (7, 9), "smooth"), grid=grid, earth="oblate")


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in fixtures():
        (folder / f"{name}.grib").write_bytes(data)
        keys = ["latitudes", "longitudes"] if name.startswith("grid_") else ["values"]
        for key in keys:
            suffix = "" if key == "values" else f".{key[:-1]}"
            (folder / f"{name}{suffix}.f64").write_bytes(expected(data, key).tobytes())


if __name__ == "__main__":
    main()

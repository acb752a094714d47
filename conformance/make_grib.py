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
        settings["scanningMode"] = 0x40
    if scanning is not None:
        settings["scanningMode"] = scanning
    for key, value in settings.items():
        ec.codes_set(handle, key, value)


def message(values, packing="grid_simple", bits=16, decimal=None, missing=None, grid="regular_ll", scanning=None, more=None):
    """A message, as bytes."""
    handle = ec.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    lay_out(handle, grid, values.shape, scanning)
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
    yield "ieee_64", message(smooth, "grid_ieee", more={"precision": 2})
    for scanning in (0x80, 0x40, 0x20, 0x10):
        if scanning != 0x40:
            yield f"scanning_{scanning:02x}", message(smooth, scanning=scanning)
    first, second = sections(message(smooth)), sections(message(flat))
    yield "two_fields", joined(first + [s for s in second if s[4] >= 4])
    for grid in ("regular_ll", "rotated_ll", "lambert", "polar_stereographic", "mercator"):
        yield f"grid_{grid}", message(field(rng, (7, 9), "smooth"), grid=grid)


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

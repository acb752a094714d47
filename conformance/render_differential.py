"""Random images: the pixels of `zaro image render` beside the same formulas written in numpy.

    render_differential.py [--cases N] [--seed S]

Each image has random axes, type, versions and chunks, and an `omero` block with random curves; each picture a random part,
plane, projection or size. Pixels must be the same; where pixels are averaged, one step apart is forgiven, as means that
lie just between two grey values may fall to either.
"""

import random
import zlib

import common
import numpy as np
import zarr

FAMILIES = ["linear", "polynomial", "logarithmic", "exponential"]
TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bool"]


def decode(png):
    """The pixels of a PNG of 8-bit RGBA, without a library: the decoder is not ours either."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, width, height = 8, b"", 0, 0
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == int.from_bytes(png[at + 8 + length : at + 12 + length], "big")
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            assert body[8:13] == b"\x08\x06\x00\x00\x00"
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, width * 4 + 1)
    out = np.zeros((height, width * 4), np.uint8)
    above = np.zeros(width * 4, np.uint8)
    for y, line in enumerate(lines):
        assert line[0] in (0, 2), "only what zaro writes is read here"
        above = line[1:] + (above if line[0] == 2 else 0)
        out[y] = above
    return out.reshape(height, width, 4)


def curve(v, family, k):
    with np.errstate(all="ignore"):
        if family == "linear":
            return v
        if family == "polynomial":
            return v**k
        if family == "logarithmic":
            return np.log(np.where(v <= 0, 1, v))
        return np.exp(v**k)


def grey(x, channel):
    s, e = channel["window"]["start"], channel["window"]["end"]
    family, k = channel["family"], channel["coefficient"]
    with np.errstate(all="ignore"):
        v = 255.0 * (x - s) / (e - s)
        zero, full = curve(np.float64(0), family, k), curve(np.float64(255), family, k)
        q = np.floor(255.0 * (curve(v, family, k) - zero) / (full - zero) + 0.5)
    q = np.clip(np.nan_to_num(q), 0, 255)
    q = np.where(x < s, 0, np.where(x >= e, 255, q))
    if channel["inverted"]:
        q = 255 - q
    return np.where(np.isnan(x), 0, q).astype(np.int64)


def averaged(plane, out):
    """Means of what each pixel of `out` covers; what is no number does not count."""

    def weights(n, m):
        if m >= n:
            return (np.arange(n)[None, :] == ((2 * np.arange(m) + 1) * n // (2 * m))[:, None]).astype(float)
        edges = np.arange(m + 1) * n
        left, right = edges[:-1, None], edges[1:, None]
        cells = np.arange(n)[None, :] * m
        return np.clip(np.minimum(cells + m, right) - np.maximum(cells, left), 0, None).astype(float)

    down, across = weights(plane.shape[0], out[0]), weights(plane.shape[1], out[1])
    known = ~np.isnan(plane)
    with np.errstate(all="ignore"):
        return (down @ np.where(known, plane, 0) @ across.T) / (down @ known.astype(float) @ across.T)


def values(rng, numbers, dtype, shape):
    if dtype == "bool":
        return numbers.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        data = (numbers.standard_normal(shape) * 100).astype(dtype)
        if rng.random() < 0.5:
            data[numbers.random(shape) < 0.1] = np.nan
        return data
    info = np.iinfo(dtype)
    if rng.random() < 0.3:
        return numbers.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return numbers.integers(max(info.min, -100), min(info.max, 1000), shape, dtype=dtype, endpoint=True)


def window(rng, data):
    finite = data[np.isfinite(data.astype(float))].astype(float)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if rng.random() < 0.5:
        low, high = low + (high - low) * rng.uniform(0, 0.4), high - (high - low) * rng.uniform(0, 0.4)
    if np.issubdtype(data.dtype, np.integer):
        low, high = float(int(low)), float(int(high))
    return {"start": low, "end": max(low, high), "min": low, "max": max(low, high)}


def case(rng, numbers, folder):
    axes = rng.choice(["tczyx", "czyx", "cyx", "zyx", "yx", "tyx", "yxc"])
    sizes = {"t": rng.randrange(1, 4), "c": rng.randrange(1, 6), "z": rng.randrange(1, 6)}
    sizes |= {"y": rng.randrange(1, 60), "x": rng.randrange(1, 60)}
    shape = tuple(sizes[a] for a in axes)
    n = {a: (sizes[a] if a in axes else 1) for a in "tczyx"}
    dtype = rng.choice(TYPES)
    data = values(rng, numbers, dtype, shape)
    model = rng.choice(["color", "greyscale"])
    channels = [
        {
            "active": rng.random() < 0.8,
            "color": "".join(rng.choice("0123456789ABCDEF") for _ in range(6)),
            "family": rng.choice(FAMILIES),
            "coefficient": rng.choice([1, 2.0, 0.5, 0.3, 1.0]),
            "inverted": rng.random() < 0.3,
            "window": window(rng, data),
        }
        for _ in range(n["c"])
    ]
    for channel in channels:
        # Beyond all numbers in floats, and not in zaro.
        if channel["family"] == "exponential":
            channel["coefficient"] = rng.choice([1, 0.5, 0.3])
    omero = {"channels": channels, "rdefs": {"model": model, "defaultZ": rng.randrange(n["z"])}}
    scale = [{"type": "scale", "scale": [1.0] * len(axes)}]
    multiscale = {"axes": [{"name": a} for a in axes], "datasets": [{"path": "a", "coordinateTransformations": scale}]}
    v3 = rng.random() < 0.5
    group = zarr.open_group(folder, mode="w", zarr_format=3 if v3 else 2)
    chunks = tuple(rng.randrange(1, size + 1) for size in shape)
    order = {} if v3 else {"order": rng.choice("CF")}
    if not v3 and dtype not in ("bool", "uint8", "int8") and rng.random() < 0.5:
        data = data.astype(np.dtype(dtype).newbyteorder(">"))
    array = group.create_array("a", shape=shape, chunks=chunks, dtype=data.dtype, **order)
    array[...] = data
    ome = {"multiscales": [multiscale], "omero": omero}
    group.attrs.update({"ome": {"version": "0.5"} | ome} if v3 else ome)

    args, z, t, close = [], omero["rdefs"]["defaultZ"], 0, False
    whole = data.astype(np.float64)
    for i, a in enumerate("tczyx"):
        if a not in axes:
            whole = np.expand_dims(whole, len(whole.shape))
            axes += a
    whole = whole.transpose([axes.index(a) for a in "tczyx"])
    if rng.random() < 0.5:
        t = rng.randrange(n["t"])
        args += ["--t", str(t)]
    planes = whole[t]
    what = rng.choice(["default", "plane", "max", "mean"])
    with np.errstate(all="ignore"):
        if what == "plane":
            z = rng.randrange(n["z"])
            args += ["--z", str(z)]
        if what in ("default", "plane"):
            planes = planes[:, z]
        else:
            args += ["--project", what]
            first = rng.randrange(n["z"])
            end = rng.randrange(first + 1, n["z"] + 1)
            args += ["--z", f"{first}:{end}"]
            some = planes[:, first:end]
            if what == "max":
                planes = np.fmax.reduce(some, axis=1)
            else:
                known = ~np.isnan(some)
                planes = np.where(known, some, 0).sum(axis=1) / known.sum(axis=1)
                close = True
    if rng.random() < 0.4:
        x, y = rng.randrange(n["x"]), rng.randrange(n["y"])
        w, h = rng.randrange(1, n["x"] + 5), rng.randrange(1, n["y"] + 5)
        args += ["--crop", f"{x},{y},{w},{h}"]
        planes = planes[:, y : y + h, x : x + w]
    if rng.random() < 0.5:
        w, h = rng.randrange(1, 80), rng.randrange(1, 80)
        args += ["--size", f"{w}x{h}"]
        planes = np.stack([averaged(plane, (h, w)) for plane in planes])
        close = True
    if rng.random() < 0.3:
        args += ["--memory", str(rng.choice([1, 100, 1000, 10000]))]
    active = [i for i, c in enumerate(channels) if c["active"]]
    if rng.random() < 0.3:
        active = sorted(rng.sample(range(n["c"]), rng.randrange(1, n["c"] + 1)))
        args += ["--channels", ",".join(map(str, active))]
    out = np.zeros(planes.shape[1:] + (4,), np.int64)
    out[..., 3] = 255
    steps = 0
    for i in active[:1] if model == "greyscale" else active:
        q = grey(planes[i], channels[i])
        color = [255] * 3 if model == "greyscale" else bytes.fromhex(channels[i]["color"])
        for k, c in enumerate(color):
            out[..., k] = np.minimum(255, out[..., k] + q * c // 255)
        steps += 1
    return args, out, steps if close else 0


def check(zaro, seed, folder):
    options, wanted, apart = case(random.Random(seed), np.random.default_rng(seed), folder / "image.zarr")
    run = common.run([zaro, "image", "render", str(folder / "image.zarr"), "-o", "-", *options])
    if run.crash or run.code != 0:
        return f"{run.crash or run.message} with {options}"
    drawn = decode(run.out).astype(np.int64)
    if drawn.shape != wanted.shape:
        return f"{drawn.shape} in place of {wanted.shape} with {options}"
    wrong = np.argwhere(np.abs(drawn - wanted).max(axis=2) > apart)
    if len(wrong):
        y, x = wrong[0]
        return f"{drawn[y, x]} in place of {wanted[y, x]} at row {y}, column {x} with {options}"
    return None


if __name__ == "__main__":
    common.try_cases(__doc__, check, "images are drawn alike")

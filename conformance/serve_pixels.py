"""Numbers and pictures by URL: tiles, regions, values, series, IIIF, DeepZoom and map tiles, beside numpy and zarr-python.

Starts `zaro serve` on the folder that `zaro demo` makes, and on an image made here, and asks it over HTTP. What it answers
is compared with what zarr-python reads and numpy computes, and pictures with those of `zaro image render`.

    python conformance/serve_pixels.py
    python conformance/serve_pixels.py --tiles 300 --seed 2     # more random tiles and regions

Needs `zarr` and `numpy`; `pillow` to look at pictures. If `iiif_validator` is there (PyPI, 1.0.5), its tests of version 3.0,
level 2, are run, too; without it that part is told as left out.
"""

import gzip
import importlib.util
import io
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import common
import numpy as np
import zarr

TILE = 512
passed, failures = 0, []


def check(what, holds, detail=""):
    """Counts a case; tells of one that does not hold."""
    global passed
    if holds:
        passed += 1
    else:
        failures.append(what)
        print(f"FAILED {what} {detail}")


class Server:
    """`zaro serve`, on a free port, while the block lasts."""

    def __init__(self, zaro, *args):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [zaro, "serve", "--bind", f"127.0.0.1:{self.port}", "--cors", "*", *args]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        sys.exit("zaro serve did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)

    def get(self, path, **headers):
        """Status, headers and body."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()

    def array(self, path):
        """A typed tile or region as numpy has it, and what its header says."""
        status, headers, body = self.get(path)
        if status != 200:
            return None, {"status": status, "body": body[:200]}
        said = dict(item.split("=", 1) for item in headers["X-Zaro-Tile"].split(";"))
        shape = tuple(int(n) for n in said["shape"].split(",") if n)
        return np.frombuffer(body, "<" + said["dtype"]).reshape(shape), said

    def json(self, path):
        status, _, body = self.get(path)
        return json.loads(body) if status == 200 else {"status": status, "body": body.decode(errors="replace")}


def same(a, b):
    return a is not None and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def means(plane, factor):
    """Means of factor x factor pixels, of fewer at the edges."""
    height, width = (-(-n // factor) for n in plane.shape)
    padded = np.full((height * factor, width * factor), np.nan)
    padded[: plane.shape[0], : plane.shape[1]] = plane
    return np.nanmean(padded.reshape(height, factor, width, factor), axis=(1, 3))


def tiles_of(server, url, plane, count, draw, query, exact=True):
    """Random tiles of a plane, at full resolution."""
    rows, columns = (-(-n // TILE) for n in plane.shape)
    for _ in range(count):
        row, column = draw.randrange(rows), draw.randrange(columns)
        got, said = server.array(f"{url}/0/{row}_{column}.bin?{query}")
        wanted = plane[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
        holds = same(None if got is None else got[0], wanted) if exact else got is not None and np.allclose(
            got[0], wanted, equal_nan=True, rtol=1e-6)
        check(f"tile {url} {row}_{column} {query}", holds, said)


def image_part(server, zaro, demo, draw, count):
    """Tiles and regions of the image of the demo."""
    levels = [zarr.open_array(demo / "tissue.zarr" / path, mode="r") for path in multiscale(demo / "tissue.zarr")]
    meta = server.json("/meta/tissue.zarr")
    stored = [level for level in meta["tiles"]["levels"] if not level["made"]]
    check("levels of the image", [(s["height"], s["width"]) for s in stored] == [l.shape[-2:] for l in levels], stored)
    full = levels[0][:]
    for _ in range(count):
        c, z = draw.randrange(full.shape[0]), draw.randrange(full.shape[1])
        tiles_of(server, "/tile/tissue.zarr", full[c, z], 1, draw, f"c={c}&z={z}")
    got, said = server.array("/tile/tissue.zarr/0/0_0.bin?z=max")
    check("projection", same(got, full.max(axis=1)[:, :TILE, :TILE]), said)
    if len(levels) > 1:
        got, said = server.array("/tile/tissue.zarr/1/0_0.bin?z=0")
        check("the second level", same(got, levels[1][:, 0, :TILE, :TILE]), said)
    for _ in range(count):
        y, x = draw.randrange(full.shape[2] - 1), draw.randrange(full.shape[3] - 1)
        h, w = draw.randrange(1, full.shape[2] - y + 1), draw.randrange(1, full.shape[3] - x + 1)
        got, said = server.array(f"/region/tissue.zarr?region={x},{y},{w},{h}&z=1")
        check(f"region {x},{y},{w},{h}", same(got, full[:, 1, y : y + h, x : x + w]), said)
    _, _, body = server.get("/region/tissue.zarr?z=2&format=npy")
    check("npy", np.array_equal(np.load(io.BytesIO(body)), full[:, 2]))
    value = server.json("/value/tissue.zarr?x=17&y=33&z=2")
    check("value of a pixel", value.get("value") == full[:, 2, 33, 17].tolist(), value)
    _, _, nii = server.get("/region/tissue.zarr?c=1&format=nii")
    dims = np.frombuffer(nii[40:56], "<i2")
    volume = np.frombuffer(nii[352:], full.dtype.newbyteorder("<")).reshape(dims[1:4][::-1])
    check("NIfTI", dims[0] == 3 and np.array_equal(volume, full[1]), dims)
    histogram = server.json("/histogram/tissue.zarr?bins=64&z=1")
    own = levels[-1][:, 1] if levels[-1].shape[1] == full.shape[1] else None
    if own is not None:
        counts = [np.histogram(plane, bins=64, range=(plane.min(), plane.max()))[0].tolist() for plane in own]
        check("histogram", [c["counts"] for c in histogram["channels"]] == counts)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.png"
        run = [zaro, "image", "render", str(demo / "tissue.zarr"), "-o", str(file), "--size", "256", "--z", "3"]
        subprocess.run(run, check=True, capture_output=True)
        _, _, thumb = server.get("/thumb/tissue.zarr?size=256&z=3")
        check("thumbnail as `zaro image render` draws it", pixels(thumb) == pixels(file.read_bytes()))


def pixels(png):
    if importlib.util.find_spec("PIL") is None:
        return png
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGBA")
    return picture.size, picture.tobytes()


def multiscale(path):
    attributes = dict(zarr.open_group(path, mode="r").attrs)
    attributes = attributes.get("ome", attributes)
    return [d["path"] for d in attributes["multiscales"][0]["datasets"]]


def field_part(server, demo, draw, count):
    """Tiles, regions, series and map tiles of the packed field of the demo."""
    sst = zarr.open_array(demo / "ocean.zarr" / "sst", mode="r")
    packed = sst[:]
    decoded = np.where(packed == -32768, np.nan, packed * 0.001 + 15.0)
    for _ in range(count):
        month = draw.randrange(12)
        url = "/tile/ocean.zarr/sst"
        tiles_of(server, url, decoded[month].astype("f4"), 1, draw, f"isel=month={month}", exact=False)
        got, said = server.array(f"{url}/0/0_0.bin?isel=month={month}&raw=1")
        check("a packed tile", same(got[0], packed[month]) and said["scale"] == "0.001", said)
        a, b = sorted(draw.sample(range(181), 2))
        c, d = sorted(draw.sample(range(361), 2))
        got, said = server.array(f"/region/ocean.zarr/sst?isel=month={month},lat={a}:{b},lon={c}:{d}")
        check("a part of the array", same(got, packed[month, a:b, c:d]), said)
        lat, lon = draw.uniform(-89, 89), draw.uniform(1, 359)
        series = server.json(f"/series/ocean.zarr/sst?along=month&sel=lat={lat},lon={lon}")
        i, j = round(lat + 89.5), round(lon - 0.5)
        values = np.array([np.nan if v is None or isinstance(v, str) else v for v in series["values"]], float)
        check("a series", np.allclose(values, decoded[:, i, j], equal_nan=True), f"{lat} {lon} {series}"[:300])
        value = server.json(f"/value/ocean.zarr/sst?isel=month={month},lat={i},lon={j}")
        check("a value", value.get("value") == int(packed[month, i, j]), value)
    check("times are dates", server.json("/series/ocean.zarr/sst?along=month")["labels"][0].startswith("2000-01-16"))
    _, headers, body = server.get("/series/ocean.zarr/sst?along=month&isel=lat=90,lon=10&format=csv")
    lines = body.decode().strip().splitlines()
    check("series as CSV", len(lines) == 13 and lines[0].startswith("month,"), lines[:2])
    for bad, status in [("sst/0/0_0.bin?colour=1", 400), ("sst/9/0_0.bin", 404), ("nothing/0/0_0.bin", 404)]:
        check(f"status of {bad}", server.get(f"/tile/ocean.zarr/{bad}")[0] == status)
    tilejson = server.json("/xyz/ocean.zarr/sst/tilejson.json")
    check("TileJSON", tilejson.get("tilejson") == "3.0.0" and "{z}/{x}/{y}" in tilejson["tiles"][0], tilejson)
    if importlib.util.find_spec("PIL"):
        map_tiles(server, decoded, draw, count)


def map_tiles(server, decoded, draw, count):
    """Pixels of map tiles, in grey, beside the nearest value of the grid."""
    from PIL import Image

    for _ in range(count):
        z = draw.randrange(4)
        x, y = draw.randrange(2**z), draw.randrange(2**z)
        status, _, body = server.get(f"/xyz/ocean.zarr/sst/{z}/{x}/{y}.png?isel=month=3&cmap=gray&min=-5&max=40")
        rgba = np.asarray(Image.open(io.BytesIO(body)).convert("RGBA"))
        at = (np.arange(256) + 0.5) / 256
        lon = ((x + at) / 2**z * 360 - 180) % 360
        lat = np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * (y + at) / 2**z))))
        rows, columns = np.clip(np.rint(lat + 89.5), 0, 179).astype(int), np.clip(np.rint(lon - 0.5), 0, 359).astype(int)
        wanted = decoded[3][np.ix_(rows, columns)]
        missing = np.isnan(wanted)
        grey = np.rint(np.clip((np.where(missing, 0, wanted) + 5) / 45, 0, 1) * 255)
        near = (np.abs(rgba[..., 0] - grey) <= 1) & (rgba[..., 3] == 255)
        # Halfway between two values either is right.
        good = np.where(missing, rgba[..., 3] == 0, near).mean()
        check(f"map tile {z}/{x}/{y}", status == 200 and good > 0.99, f"{good:.4f}")


def reduced_part(server, folder, draw, count):
    """Levels that are made of an array with one."""
    data = zarr.open_array(folder / "one.zarr" / "a", mode="r")[:]
    levels = server.json("/meta/one.zarr/a")["tiles"]["levels"]
    check("levels are made", [l["made"] for l in levels] == [False, True, True], levels)
    for level, factor in [(1, 2), (2, 4)]:
        whole = means(data, factor)
        for row in range(-(-whole.shape[0] // TILE)):
            for column in range(-(-whole.shape[1] // TILE)):
                got, said = server.array(f"/tile/one.zarr/a/{level}/{row}_{column}.bin")
                wanted = whole[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
                check(f"made level {level}", got is not None and np.allclose(got[0], wanted, atol=1e-3), said)
    got, _ = server.array("/tile/one.zarr/a/z0/0_0.bin")
    check("zoom 0 is one tile", got is not None and max(got.shape[1:]) <= TILE)


def standards_part(server):
    """IIIF and DeepZoom: sizes of pictures, statuses, the descriptor."""
    from PIL import Image

    def size(path):
        status, _, body = server.get(path)
        return Image.open(io.BytesIO(body)).size if status == 200 else status

    info = server.json("/iiif/squares.zarr/info.json")
    check("info.json", info.get("profile") == "level2" and info["width"] == 1000, info)
    for path, wanted in [
        ("full/max/0/default.jpg", (1000, 1000)),
        ("0,0,600,300/200,/0/default.png", (200, 100)),
        ("900,900,600,300/max/0/default.png", (100, 100)),
        ("pct:10,10,50,25/,50/90/gray.png", (50, 100)),
        ("square/!300,200/!270/color.jpg", (200, 200)),
        ("full/^1200,/0/default.png", (1200, 1200)),
        ("full/1200,/0/default.png", 400),
        ("full/max/33/default.png", 501),
        ("2000,0,1,1/max/0/default.png", 400),
    ]:
        got = size(f"/iiif/squares.zarr/{path}")
        check(f"iiif {path}", got == wanted, got)
    _, _, xml = server.get("/dzi/squares.zarr.dzi")
    check("dzi", b'Width="1000"' in xml and b'TileSize="512"' in xml, xml)
    for level in range(11):
        side = -(-1000 // 2 ** (10 - level))
        last = (side - 1) // TILE
        got = size(f"/dzi/squares.zarr_files/{level}/{last}_{last}.png")
        check(f"dzi level {level}", got == (side - last * TILE,) * 2, got)
        beyond = size(f"/dzi/squares.zarr_files/{level}/{last + 1}_0.png")
        check(f"dzi level {level}, beyond its edge", beyond == 404, beyond)
    # Tiles of the full level are the image.
    _, _, whole = server.get("/iiif/squares.zarr/full/max/0/default.png")
    whole = Image.open(io.BytesIO(whole)).convert("RGB")
    joined = Image.new("RGB", (1000, 1000))
    for column in range(2):
        for row in range(2):
            _, _, tile = server.get(f"/dzi/squares.zarr_files/10/{column}_{row}.png")
            joined.paste(Image.open(io.BytesIO(tile)).convert("RGB"), (column * TILE, row * TILE))
    check("dzi tiles are the image", joined.tobytes() == whole.tobytes())


def http_part(server):
    """Tags, conditions, encodings; the cost of what is too large; many at once."""
    url = "/tile/tissue.zarr/0/0_0.bin?z=0"
    _, headers, plain = server.get(url)
    status, _, body = server.get(url, **{"If-None-Match": headers["ETag"]})
    check("304", status == 304 and body == b"", status)
    _, zipped, body = server.get(url, **{"Accept-Encoding": "gzip"})
    holds = zipped["Content-Encoding"] == "gzip" and gzip.decompress(body) == plain and zipped["ETag"] != headers["ETag"]
    check("gzip", holds, dict(zipped))
    status, _, body = server.get(url, Range="bytes=10-19")
    check("a range", status == 206 and body == plain[10:20], status)
    status, _, body = server.get("/region/huge.zarr/a?format=npy")
    cost = json.loads(body)
    check("413 with the cost", status == 413 and cost["decoded_bytes"] == 10**12 and cost["chunks"] == 10**6, cost)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.get("/tile/tissue.zarr/0/0_0.png?z=5")[2])) for _ in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    check("16 at once", len(answers) == 16 and len(set(answers)) == 1)


def times(server):
    """Figures: milliseconds of answers that are made, and of those that were."""
    def ms(path, n):
        taken = []
        for i in range(n):
            begun = time.perf_counter()
            server.get(path.format(i=i))
            taken.append((time.perf_counter() - begun) * 1000)
        return statistics.median(taken)

    for what, path in [
        ("typed tile, made", "/tile/tissue.zarr/0/0_0.bin?c=0,1&c={i}:window=0:1000&z=1"),
        ("PNG tile, made", "/tile/tissue.zarr/0/0_0.png?z=1&c=0:window=0:{i}9"),
        ("thumbnail of 256, made", "/thumb/tissue.zarr?z=1&c=0:window=0:{i}9"),
        ("thumbnail of 256, again", "/thumb/tissue.zarr?z=1"),
    ]:
        print(f"{what}: {ms(path, 3 if 'typed' in what else 10):.1f} ms")


def make(folder):
    """The images made here: coloured squares, an array of one level, one that claims to be huge."""
    colors = np.random.default_rng(1).integers(0, 255, (10, 10, 3), dtype="u1")
    if importlib.util.find_spec("iiif_validator"):
        from iiif_validator.validator import ValidationInfo

        # The validator's own picture: by column, then by row.
        colors = np.array(ValidationInfo().colorInfo, "u1").transpose(1, 0, 2)
    pixels = np.repeat(np.repeat(colors, 100, 0), 100, 1).transpose(2, 0, 1)
    axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    scale = [{"type": "scale", "scale": [1, 1, 1]}]
    channels = [
        {"label": label, "color": color, "active": True, "window": {"min": 0, "max": 255, "start": 0, "end": 255}}
        for label, color in [("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF")]
    ]
    ome = {"version": "0.5", "omero": {"channels": channels},
           "multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}]}
    group = zarr.open_group(folder / "squares.zarr", mode="w", zarr_format=3, attributes={"ome": ome})
    group.create_array("0", data=pixels, chunks=(1, 256, 256))
    group = zarr.open_group(folder / "one.zarr", mode="w", zarr_format=3)
    data = np.random.default_rng(2).normal(100, 20, (1300, 1501)).astype("f4")
    group.create_array("a", data=data, chunks=(256, 256))
    group = zarr.open_group(folder / "huge.zarr", mode="w", zarr_format=3)
    group.create_array("a", shape=(10**6, 10**6), chunks=(1000, 1000), dtype="u1")


def validator(server):
    """The tests of the IIIF validator, level 2; how many failed."""
    if importlib.util.find_spec("iiif_validator") is None:
        print("iiif_validator: left out, it is not installed")
        return
    from iiif_validator.validator import ImageAPI, TestSuite, ValidationInfo

    tests = TestSuite(ValidationInfo()).list_tests("3.0")
    for name in sorted(tests):
        # size_noup takes `!2000,3000` of a smaller image for an error; by the standard it is the image in its own size.
        if tests[name]["level"] > 2 or name == "size_noup":
            continue
        result = ImageAPI("squares.zarr", f"127.0.0.1:{server.port}", "iiif", "http", "", "3.0", debug=False)
        try:
            TestSuite(ValidationInfo()).run_test(name, result)
            fault = result.exception
        except Exception as e:
            fault = e
        message = getattr(fault, "message", fault)
        check(f"iiif validator: {name}", not fault, f"{result.urls} {message}")


def main():
    p = common.parser(__doc__)
    p.add_argument("--tiles", type=int, default=20, help="random tiles, regions and series each")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    zaro, draw = common.find_zaro(args.zaro), random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        demo, own = Path(folder) / "demo", Path(folder) / "own"
        subprocess.run([zaro, "demo", str(demo)], check=True, capture_output=True)
        make(own)
        with Server(zaro, str(demo), str(own)) as server:
            image_part(server, zaro, demo, draw, args.tiles)
            field_part(server, demo, draw, args.tiles)
            reduced_part(server, own, draw, args.tiles)
            if importlib.util.find_spec("PIL"):
                standards_part(server)
            http_part(server)
            validator(server)
            times(server)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

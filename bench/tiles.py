"""Tiles and thumbnails a second: `zaro serve` beside titiler.xarray and large_image, on the same stores, in one run.

    tiles.py [--zaro PATH] [--titiler PYTHON] [--large-image PYTHON] [--seconds N]

PYTHON is an interpreter that has the peer (they need different versions of zarr, so each has an environment of its own:
scripts/requirements-bench.txt names what to install); without one that peer is left out. Both run under uvicorn with two
processes; large_image is a library, so `tiles.py --large-image-app` is the smallest server around its getTile and getThumbnail. zaro is one process.

- map: float32, longitude and latitude, 2,160 x 4,320, chunks of 540 x 540, zstd. Random Web Mercator tiles of 256 pixels of
  zooms 2 to 5, as PNG in grey.
- image: OME-Zarr 0.4, one channel of uint8, 8,192 x 8,192, five levels, chunks of 512 x 512, zstd. Random tiles of 512
  pixels of all levels, as PNG and as JPEG; thumbnails of 256 pixels.

Pictures of both are decoded and compared first: they must show the same. Then wrk asks one server after the other, rounds
alternate, the best of each counts. Caches are as each server has them. Writes bench/results-tiles.md.
"""

import argparse
import datetime
import io
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIDE, TILE, LEVELS = 8192, 512, 5


def make_image(path):
    import numpy as np
    import zarr

    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype("float32") / 512
    data = np.clip(110 + 60 * np.sin(x * 3) * np.cos(y * 2) + 25 * np.sin(x * 31 + y * 17) + rng.normal(0, 3, x.shape), 0, 255).astype("uint8")
    root = zarr.create_group(store=str(path), zarr_format=2)
    axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x", "type": "space", "unit": "micrometer"}]
    datasets = []
    for level in range(LEVELS):
        array = root.create_array(str(level), shape=(1, *data.shape), chunks=(1, TILE, TILE), dtype="uint8", chunk_key_encoding={"name": "v2", "separator": "/"})
        array[0] = data
        datasets.append({"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": [1, 2**level, 2**level]}]})
        h, w = data.shape
        data = data.reshape(h // 2, 2, w // 2, 2).mean(axis=(1, 3)).round().astype("uint8")
    root.attrs["multiscales"] = [{"version": "0.4", "name": "image", "axes": axes, "datasets": datasets}]
    window = {"start": 0, "end": 255, "min": 0, "max": 255}
    root.attrs["omero"] = {"channels": [{"label": "grey", "color": "FFFFFF", "active": True, "window": window}], "rdefs": {"model": "greyscale"}}


def make_map(path):
    import numpy as np
    import xarray

    lat, lon = np.linspace(89.96, -89.96, 2160), np.linspace(-179.96, 179.96, 4320)
    field = (np.cos(np.radians(lat))[:, None] * (0.5 + 0.4 * np.sin(np.radians(lon * 5))[None, :])).astype("float32")
    variable = xarray.DataArray(field, dims=("lat", "lon"), coords={
        "lat": ("lat", lat, {"standard_name": "latitude", "units": "degrees_north"}),
        "lon": ("lon", lon, {"standard_name": "longitude", "units": "degrees_east"})}, attrs={"units": "1"})
    xarray.Dataset({"field": variable}).to_zarr(path, encoding={"field": {"chunks": (540, 540)}}, zarr_format=2, consolidated=True)


class Child:
    """A server on a port; waits until it answers."""

    def __init__(self, command, port, **environment):
        self.port = port
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log, env={**os.environ, **environment})
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.log.seek(0)
        sys.exit(f"{command[0]} did not start: {self.log.read()[-1500:]}")

    def memory(self):
        """Resident of the process and its children, in MB."""
        total, pids = 0, [self.process.pid]
        while pids:
            pid = pids.pop()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += task.read_text().split()
            total += int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
        return total / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def large_image_app():
    """An ASGI application: /tile/LEVEL/COLUMN/ROW.FORMAT, levels from the smallest, and /thumb."""
    import large_image
    import large_image_source_zarr
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    # It opens a folder by a document in it.
    store = os.path.join(os.environ["TILES_STORE"], ".zattrs")
    sources = {"PNG": large_image_source_zarr.open(store, encoding="PNG"), "JPEG": large_image_source_zarr.open(store, encoding="JPEG")}

    async def tile(request):
        p = request.path_params
        picture = await run_in_threadpool(sources[p["format"]].getTile, p["x"], p["y"], p["z"])
        return Response(picture, media_type=f"image/{p['format'].lower()}")

    async def thumb(_):
        picture, kind = await run_in_threadpool(sources["PNG"].getThumbnail, 256, 256)
        return Response(bytes(picture), media_type=kind)

    async def about(_):
        return PlainTextResponse(json.dumps({**sources["PNG"].getMetadata(), "version": large_image.__version__}, default=str))

    return Starlette(routes=[Route("/", about), Route("/thumb", thumb), Route("/tile/{z:int}/{x:int}/{y:int}.{format}", tile)])


def fetch(port, path):
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return answer.read(), (time.perf_counter() - began) * 1e3


def grey(picture):
    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(picture)).convert("L")).astype(int)


def alone_of(port, paths):
    """The median time of one request at a time: when it was asked for a while ago, and at once again."""
    time.sleep(6)
    first, second = [], []
    for path in paths[:40]:
        first.append(fetch(port, path)[1])
        second.append(fetch(port, path)[1])
    return f"{statistics.median(first):.1f} / {statistics.median(second):.1f} ms"


def wrk(port, paths, work, seconds, connections):
    """Requests a second for these paths in a random order, and the median time."""
    script = work / "wrk.lua"
    script.write_text(
        "local paths = {" + ",".join(json.dumps(p) for p in paths) + "}\n"
        'request = function() return wrk.format("GET", paths[math.random(#paths)]) end\n'
    )
    out = subprocess.run(["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", script, f"http://127.0.0.1:{port}"],
                         capture_output=True, text=True, check=True).stdout
    bad = re.search(r"Non-2xx.*", out)
    if bad:
        sys.exit(f"{paths[0]}: {bad[0]}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), re.search(r"50%\s+(\S+)", out)[1]


def workloads(work):
    """Name -> (peer, pairs of paths: ours and the peer's)."""
    import random

    rng = random.Random(1)
    found = {}
    for kind in ("PNG", "JPEG"):
        pairs = []
        for _ in range(400):
            level = rng.choice([0, 0, 0, 1, 1, 2, 3, 4])
            n = SIDE // TILE >> level
            row, column = rng.randrange(n), rng.randrange(n)
            ours = f"/tile/image/{level}/{row}_{column}.{'png' if kind == 'PNG' else 'jpg'}"
            pairs.append((ours, f"/tile/{LEVELS - 1 - level}/{column}/{row}.{kind}"))
        found[f"image tiles, {kind}"] = ("large_image", pairs)
    found["thumbnail"] = ("large_image", [("/thumb/image?size=256&format=png", "/thumb")])
    pairs = []
    store = urllib.parse.quote(str(work / "map.zarr"), safe="")
    for _ in range(400):
        z = rng.choice([2, 3, 4, 5])
        x, y = rng.randrange(2**z), rng.randrange(2**z)
        pairs.append((f"/xyz/map/field/{z}/{x}/{y}.png?cmap=gray&min=0&max=1",
                      f"/tiles/WebMercatorQuad/{z}/{x}/{y}.png?url={store}&variable=field&rescale=0,1&tilesize=256"))
    found["map tiles, PNG"] = ("titiler.xarray", pairs)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zaro")
    p.add_argument("--titiler", help="a Python with titiler.xarray and uvicorn")
    p.add_argument("--large-image", help="a Python with large-image-source-zarr, starlette and uvicorn")
    p.add_argument("--seconds", type=int, default=6)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--connections", type=int, default=8)
    p.add_argument("--out", default=str(HERE / "results-tiles.md"))
    args = p.parse_args()
    sys.path.insert(0, str(HERE.parent / "conformance"))
    import common
    import numpy as np
    from serve_raw import free_port

    zaro = common.find_zaro(args.zaro)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        work = Path(folder)
        make_image(work / "image.zarr")
        make_map(work / "map.zarr")
        port = free_port()
        ours = Child([zaro, "serve", f"image={work / 'image.zarr'}", f"map={work / 'map.zarr'}", "--bind", f"127.0.0.1:{port}"], port)
        peers = {}
        if args.titiler:
            port = free_port()
            peers["titiler.xarray"] = Child([args.titiler, "-m", "uvicorn", "titiler.xarray.main:app", "--port", port, "--workers", 2, "--log-level", "warning", "--no-access-log"], port)
        if args.large_image:
            port = free_port()
            command = [args.large_image, "-m", "uvicorn", "--factory", "tiles:large_image_app", "--app-dir", HERE, "--port", port, "--workers", 2, "--log-level", "warning", "--no-access-log"]
            peers["large_image"] = Child(command, port, TILES_STORE=str(work / "image.zarr"))
        rows = []
        try:
            for name, (peer, pairs) in workloads(work).items():
                other = peers.get(peer)
                alike = []
                for a, b in pairs[:12] if other else []:
                    mine, theirs = grey(fetch(ours.port, a)[0]), grey(fetch(other.port, b)[0])
                    if mine.shape != theirs.shape:
                        sys.exit(f"{a}: {mine.shape}, {peer} {theirs.shape}")
                    alike.append(float(np.abs(mine - theirs).mean()))
                if alike and max(alike) > 4:
                    sys.exit(f"{name}: the pictures differ by {max(alike):.1f} of 255 on average")
                best = {"zaro": (0, ""), peer: (0, "")}
                for _ in range(args.rounds):
                    best["zaro"] = max(best["zaro"], wrk(ours.port, [a for a, _ in pairs], work, args.seconds, args.connections))
                    if other:
                        best[peer] = max(best[peer], wrk(other.port, [b for _, b in pairs], work, args.seconds, args.connections))
                single = alone_of(ours.port, [a for a, _ in pairs])
                alone = alone_of(other.port, [b for _, b in pairs]) if other else None
                rows.append((name, peer if other else None, best, single, alone, max(alike, default=0)))
                print(rows[-1], flush=True)
            resident = {"zaro": ours.memory(), **{n: c.memory() for n, c in peers.items()}}
        finally:
            for child in (ours, *peers.values()):
                child.stop()
    lines = [
        f"# Tiles and thumbnails, {datetime.date.today()}", "",
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}; wrk with 2 threads and {args.connections} connections on the same machine, best of {args.rounds} rounds of {args.seconds} s. Written by `bench/tiles.py`.", "",
        "| | zaro, requests/s | p50 | alone | peer | requests/s | p50 | alone | zaro / peer | mean difference of the pictures |", "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, peer, best, single, alone, alike in rows:
        a, b = best["zaro"], best[peer] if peer else None
        rest = f"{peer} | {b[0]:,.0f} | {b[1]} | {alone} | {a[0] / b[0]:.1f} | {alike:.2f} of 255" if peer else "not here | | | | |"
        lines.append(f"| {name} | {a[0]:,.0f} | {a[1]} | {single} | {rest} |")
    lines += ["", "Alone: the median of one request at a time, six seconds after the load, and the same at once again. Resident at the end: " + ", ".join(f"{n} {m:.0f} MB" for n, m in resident.items()) + "."]
    Path(args.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

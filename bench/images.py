"""Images: pyramids, pictures and a look at an image, zaro beside ome-zarr-py and ngff-zarr, in one run.

    PYTHON bench/images.py [--zaro BIN] [--side 8192] [--reps N] [--folder DIR] [--only pyramid,render,info] [--output FILE]

PYTHON has numpy, zarr and pillow, and the peers: ome-zarr, ngff-zarr[dask-image,itk]; one that is missing is left out.

- pyramid: 2 x SIDE x SIDE of uint16, smooth with noise, chunks of 1024, zstd at level 1 (ngff-zarr has no say in it, and takes
  zarr-python's default); four levels. The peers read the array
  from a Zarr and write all four levels of an image, as their calls do; so does `zaro image pyramid --to`. In a second
  row zaro adds the three smaller levels to the image that is there, which the peers cannot.
- render: one plane of 4 channels of 2048 x 2048 uint16 to a PNG. The peer reads with ome-zarr-py, draws with numpy
  (the formula, or a table of 65,536 entries a channel) and writes with pillow. The pictures must be the same.
- info: what is in that image.

Each run is a fresh process, the programs taking turns. Wall and CPU seconds (user and system) are the best of all
runs, memory is the largest; those of a peer are given whole and, in the columns "work", without its start (the
interpreter and the imports, measured apart), so that what is compared is the work.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEERS = {
    "ome-zarr nearest": ["ome-zarr", "nearest"],
    "ome-zarr local_mean": ["ome-zarr", "local_mean"],
    "ngff-zarr dask_bin_shrink": ["ngff-zarr", "dask_bin_shrink"],
    "ngff-zarr itkwasm_bin_shrink": ["ngff-zarr", "itkwasm_bin_shrink"],
}


# ------------------------------------------------------------------------------------------------ in a child


def make(folder, side):
    """The data. In a process of its own: the memory of the one that measures would count for its children."""
    import numpy as np
    import zarr

    rng = np.random.default_rng(1)

    def field(height, width, phase):
        y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None]
        wave = np.sin(y * 0.01 + phase) + np.cos(x * 0.013 + phase) + np.sin((x + y) * 0.0031)
        out = 6000 + 1800 * wave
        out += rng.normal(0, 40, out.shape).astype(np.float32)
        return out.astype(np.uint16)

    def image(path, planes, names, omero=None):
        root = zarr.open_group(str(path), mode="w", zarr_format=3)
        made = root.create_array("s0", shape=(len(planes), *planes[0].shape), chunks=(1, 1024, 1024), dtype="uint16",
                                 compressors=zarr.codecs.ZstdCodec(level=1), dimension_names=names)
        for i, plane in enumerate(planes):
            made[i] = plane
        kinds = {"c": "channel", "z": "space", "y": "space", "x": "space"}
        axes = [{"name": n, "type": kinds[n], **({"unit": "micrometer"} if n != "c" else {})} for n in names]
        scales = {"name": "bench", "axes": axes, "datasets": [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 0.5, 0.5]}]}]}
        root.attrs["ome"] = {"version": "0.5", "multiscales": [scales], **({"omero": omero} if omero else {})}

    image(folder / "large.zarr", [field(side, side, i) for i in range(2)], ["c", "y", "x"])
    channels = [{"active": True, "coefficient": 1.0, "color": c, "family": "linear", "inverted": False, "label": c,
                 "window": {"min": 0, "max": 65535, "start": 500 + 200 * i, "end": 11000 - 300 * i}} for i, c in enumerate(("0000FF", "00FF00", "FF0000", "FF00FF"))]
    image(folder / "four.zarr", [field(2048, 2048, i) for i in range(4)], ["c", "y", "x"],
          {"channels": channels, "rdefs": {"model": "color", "defaultT": 0, "defaultZ": 0}})


def peer(name, what, source, target):
    """One run of a peer; `start` only imports."""
    import numpy as np
    import zarr

    if name == "ome-zarr":
        import dask.array as da
        from ome_zarr.format import FormatV05
        from ome_zarr.scale import Scaler  # noqa: F401
        from ome_zarr.writer import write_image

        if what == "start":
            return
        data = da.from_zarr(source + "/s0")
        root = zarr.open_group(target, mode="w", zarr_format=3)
        from ome_zarr.scale import Methods

        write_image(data, root, axes="cyx", fmt=FormatV05(), scale_factors=[2, 4, 8], method=Methods(what),
                    storage_options={"chunks": (1, 1024, 1024), "compressors": zarr.codecs.ZstdCodec(level=1)})
    elif name == "ngff-zarr":
        import dask.array as da
        import ngff_zarr as nz

        if what == "start":
            return
        data = da.from_zarr(source + "/s0")
        image = nz.to_ngff_image(data, dims=["c", "y", "x"], scale={"y": 0.5, "x": 0.5})
        scales = nz.to_multiscales(image, scale_factors=[2, 4, 8], chunks={"c": 1, "y": 1024, "x": 1024}, method=nz.Methods(what), cache=False)
        nz.to_ngff_zarr(target, scales, version="0.5", overwrite=True)
    elif name == "draw":
        from PIL import Image
        from ome_zarr.io import parse_url
        from ome_zarr.reader import Reader

        if what == "start":
            return
        node = next(iter(Reader(parse_url(source))()))
        planes = node.data[0].compute()
        omero = node.zarr.root_attrs["omero"] if "omero" in node.zarr.root_attrs else node.zarr.root_attrs["ome"]["omero"]
        out = np.zeros((*planes.shape[1:], 3), np.uint16)
        for plane, channel in zip(planes, omero["channels"]):
            start, end = channel["window"]["start"], channel["window"]["end"]
            values = np.arange(65536, dtype=np.uint16) if what == "table" else plane
            v = 255 * (values.astype(np.float64) - start) / (end - start)
            q = np.floor(np.clip(v, 0, 255) + 0.5).astype(np.uint16)
            if what == "table":
                q = q[plane]
            for i in range(3):
                component = int(channel["color"][2 * i : 2 * i + 2], 16)
                if component:
                    out[..., i] = np.minimum(255, out[..., i] + (q * component // 255 if component < 255 else q))
        Image.fromarray(out.astype(np.uint8)).save(target)


# ------------------------------------------------------------------------------------------------ the one that measures


def run(command):
    """Wall and CPU seconds and peak memory (MB) of a command; what it printed if it failed."""
    with tempfile.TemporaryFile() as said:
        began = time.monotonic()
        child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=said, stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            return None, said.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    return (wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), None


def turns(programs, reps):
    """Each program in turn, `reps` times: its best wall and CPU seconds, its largest memory. One that fails is left out."""
    best = {}
    for _ in range(reps):
        for name, (before, command) in list(programs.items()):
            before()
            got, why = run(command)
            if got is None:
                print(f"{name} failed: {why}", file=sys.stderr)
                programs.pop(name)
                best.pop(name, None)
                continue
            old = best.get(name, (got[0], got[1], 0))
            best[name] = (min(old[0], got[0]), min(old[1], got[1]), max(old[2], got[2]))
            print(f"  {name}: {got[0]:.2f} s wall, {got[1]:.2f} s CPU, {got[2]:.0f} MB", file=sys.stderr)
    return best


def table(title, best, starts, mine):
    """Rows in Markdown. Ratios are to zaro's row: of wall, and of the CPU seconds of the work alone."""
    lines = [f"## {title}", "", "| program | wall s | CPU s | work: wall s | work: CPU s | peak MB | wall / zaro | work wall / zaro | work CPU / zaro |", "|---|---|---|---|---|---|---|---|---|"]
    zaro = best.get(mine)
    for name, (wall, cpu, memory) in best.items():
        start = starts.get(name.split(" ")[0], (0, 0, 0)) if not name.startswith("zaro") else (0, 0, 0)
        work = (max(wall - start[0], 0.0), max(cpu - start[1], 0.0))
        ratios = [f"{x / y:.1f}" if zaro and y else "" for x, y in zip((wall, *work), (zaro[0], zaro[0], zaro[1]))] if zaro else ["", "", ""]
        lines.append(f"| {name} | {wall:.3f} | {cpu:.3f} | {work[0]:.3f} | {work[1]:.3f} | {memory:.0f} | {' | '.join(ratios)} |")
    return [*lines, ""]


def same_pictures(one, other):
    code = "import sys, numpy as np; from PIL import Image; a, b = (np.asarray(Image.open(p).convert('RGB')).astype(int) for p in sys.argv[1:]); print(a.shape == b.shape and int(abs(a - b).max()))"
    return subprocess.run([sys.executable, "-c", code, one, other], capture_output=True, text=True).stdout.strip()


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--zaro", default="target/release/zaro")
    ask.add_argument("--side", type=int, default=8192)
    ask.add_argument("--reps", type=int, default=3)
    ask.add_argument("--folder", type=Path, help="where the data go (default: a temporary folder, removed at the end)")
    ask.add_argument("--only", default="pyramid,render,info")
    ask.add_argument("--output", type=Path, help="default: results-images.md beside this script, for --side 8192 only")
    args = ask.parse_args()
    zaro = shutil.which(args.zaro) or sys.exit(f"no zaro at {args.zaro}")
    zaro = os.path.abspath(zaro)
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
        measure(args, zaro, args.folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(args, zaro, Path(folder))


def measure(args, zaro, folder):
    me = [sys.executable, "-W", "ignore", os.path.abspath(__file__)]
    if not (folder / "four.zarr").exists() or not (folder / "large.zarr").exists():
        print("making the data", file=sys.stderr)
        subprocess.run([*me, "--make", str(folder), str(args.side)], check=True)
    only = args.only.split(",")
    versions = subprocess.run([sys.executable, "-c", "import importlib.metadata as m\nfor p in ('zarr','ome-zarr','ngff-zarr','numpy','pillow'):\n try: print(p, m.version(p), end=', ')\n except m.PackageNotFoundError: pass"], capture_output=True, text=True).stdout
    said = subprocess.run([zaro, "--version"], capture_output=True, text=True).stdout.strip()
    lines = [f"# Images: zaro beside its peers, {time.strftime('%Y-%m-%d')}", "",
             f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}; {versions}{said}.",
             f"Best of {args.reps}, programs taking turns, everything in the page cache. Load when it began: {os.getloadavg()[0]:.1f}.",
             "\"Work\" is without the start of a peer (interpreter and imports); zaro's is whole. Written by `bench/images.py`, which says what is measured.", ""]
    out = folder / "out.zarr"

    def fresh():
        shutil.rmtree(out, ignore_errors=True)

    def level_0():
        """The image as it was: its levels again one."""
        fresh()
        # Hard links: nothing that writes here changes a file in place, and a copy would warm nothing.
        shutil.copytree(folder / "large.zarr", out, copy_function=os.link)
        for path in out.rglob("zarr.json"):
            text = path.read_bytes()
            path.unlink()
            path.write_bytes(text)

    starts = {}
    for short, name in (("ome-zarr", "ome-zarr"), ("ngff-zarr", "ngff-zarr"), ("numpy", "draw")):
        tries = [run([*me, "--peer", name, "start", "-", "-"])[0] for _ in range(args.reps)]
        if all(tries):
            starts[short] = tuple(min(t[i] for t in tries) for i in range(3))

    if "pyramid" in only:
        programs = {"zaro mean": (fresh, [zaro, *ZARO_PYRAMID_TO(folder / "large.zarr", out)]),
                    "zaro mean, levels added": (level_0, [zaro, *ZARO_PYRAMID(out)])}
        for name, words in PEERS.items():
            if words[0] in starts:
                programs[name] = (fresh, [*me, "--peer", *words, folder / "large.zarr", out])
        best = turns(programs, args.reps)
        lines += table(f"Four levels of 2 x {args.side} x {args.side} uint16, chunks of 1024, zstd", best, starts, "zaro mean")
        work = {k: (v[0] - starts[k.split(" ")[0]][0], v[1] - starts[k.split(" ")[0]][1]) for k, v in best.items() if not k.startswith("zaro")}
        if work and "zaro mean" in best:
            wall, cpu, memory = best["zaro mean"]
            by_wall, by_cpu = min(work, key=lambda k: work[k][0]), min(work, key=lambda k: work[k][1])
            lines += [f"The fastest peer without its start: {by_wall}, {work[by_wall][0] / wall:.1f} times zaro's wall seconds; by CPU {by_cpu}, {work[by_cpu][1] / cpu:.1f} times. Zaro's peak is {memory:.0f} MB.", ""]
    if "render" in only:
        mine, theirs, third = (str(folder / n) for n in ("zaro.png", "formula.png", "table.png"))
        nothing = lambda: None  # noqa: E731
        programs = {"zaro render": (nothing, [zaro, "image", "render", folder / "four.zarr", "-o", mine])}
        if "numpy" in starts:
            programs["numpy formula"] = (nothing, [*me, "--peer", "draw", "formula", folder / "four.zarr", theirs])
            programs["numpy table"] = (nothing, [*me, "--peer", "draw", "table", folder / "four.zarr", third])
        best = turns(programs, args.reps)
        lines += table("A plane of 4 channels of 2048 x 2048 uint16 to a PNG", best, starts, "zaro render")
        if os.path.exists(mine) and os.path.exists(theirs):
            lines += [f"Largest difference of the pictures: {same_pictures(mine, theirs)} (formula), {same_pictures(mine, third)} (table). "
                      f"Bytes: zaro {os.path.getsize(mine):,}, pillow {os.path.getsize(theirs):,}.", ""]
    if "info" in only:
        best = turns({"zaro info": (lambda: None, [zaro, "image", "info", folder / "four.zarr"])}, max(args.reps, 10))
        lines += table("`zaro image info`", best, starts, "zaro info")
    text = "\n".join(lines)
    print(text)
    target = args.output or (Path(__file__).with_name("results-images.md") if args.side == 8192 and len(only) == 3 else None)
    if target:
        target.write_text(text)


def ZARO_PYRAMID(image):
    return ["image", "pyramid", image, "--levels", "4"]


def ZARO_PYRAMID_TO(image, target):
    return ["image", "pyramid", image, "--to", target, "--levels", "4"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["--peer"]:
        peer(*sys.argv[2:])
    else:
        main()

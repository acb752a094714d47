#!/usr/bin/env python3
"""The README and the guide: their commands are run, what they show is compared, and their links are followed.

    PYTHON conformance/book.py [--zaro BIN] [-v] [PAGE...]

Every fenced block that is called `console` or `sh` is run, page by page, each page in a folder of its own that holds what
`zaro demo` makes and the files that the page takes for granted (STAND_INS below).

- `console` is a session. Lines after a command are its output: they must be what is printed, to standard output, or to
  both in either order; `…` stands for anything, and alone in a line for any lines; `3 ms` for any time. Without such
  lines only the exit status counts. A command that is to fail shows its error (`zaro: error: …`, then any status but
  0 is right) or its verdict (`not valid: …`, status 1).
- `sh` is a list of commands to choose from, so each of them finds the stand-ins as they were at first. What the commands
  of a page make is there for later ones in both kinds of block.
- Commands that need what is not here are passed over and counted: remote addresses, `…`, cargo, programs that are missing.
"""

import difflib
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import common
import numpy as np
import tifffile
import zarr
from PIL import Image

DOCS = common.REPO / "docs"
BOOK = DOCS / "book"
SAMPLES = common.REPO / "zaro" / "testdata" / "images"
ICECHUNK = common.REPO / "zaro" / "tests" / "data" / "icechunk"
REMOTE = re.compile(r"\b(s3|gs|az|https?)://(?!127\.0\.0\.1:8000/)")
# This address is a small web server over the folder of the page; the port is another.
SERVER = "http://127.0.0.1:8000/"
# Here an address is only a text in a document; nothing is fetched from it.
NO_REQUEST = re.compile(r"zaro ref rebase \S+\.(json|parq) ")
SIDE = 300  # of images: large enough for a smaller level

# ------------------------------------------------------------------------------------------------------------------------
# Stand-ins: what a page takes for granted. Each function fills a folder; its content is put beside the data of the demo.


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)


def put_json(path, content):
    put(path, json.dumps(content, indent=2))


def pixels(*shape):
    """Waves with something new in every plane, as uint16."""
    places = np.indices(shape, dtype=np.float32, sparse=True)
    waves = sum(np.sin(place / (3 + 2 * n) + n) for n, place in enumerate(places))
    return ((waves + len(shape)) * 500).astype(np.uint16)


def blobs(*shape):
    """Labels 1 to 9, in squares with 0 between them."""
    y, x = np.indices(shape[-2:])
    plane = np.where((y % 100 < 80) & (x % 100 < 80), y // 100 * 3 + x // 100 + 1, 0).astype(np.uint16)
    return np.broadcast_to(plane, shape).copy()


def zaro(*words):
    subprocess.run([ZARO, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def image(path, levels=2, labels=True):
    """An image of 0.5: three channels, sixteen planes, and labels called nuclei."""
    with tempfile.TemporaryDirectory() as folder:
        source, mask = Path(folder) / "image.npy", Path(folder) / "nuclei.npy"
        np.save(source, pixels(3, 16, SIDE, SIDE))
        np.save(mask, blobs(SIDE, SIDE))
        zaro("image", "convert", source, path, "--axes", "czyx", "--levels", levels, "--pixel-size", "2,0.5,0.5", "--unit", "um")
        names = (f"--channel={n}:label={name}" for n, name in enumerate(("LaminB1", "DAPI", "GFP")))
        zaro("image", "edit", path, *names)
        if labels:
            colors = [f"--colors={n}={n * 20:02X}FF0080" for n in range(1, 10)]
            zaro("image", "add-labels", path, "nuclei", "--from", mask, *colors)


def plate(path):
    """A plate of 0.5 with the wells A/1 and B/3, each with a field of either acquisition."""

    def group(at, ome):
        put_json(at / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", **ome}}})

    wells = [("A", "1", 0, 0), ("B", "3", 1, 2)]
    with tempfile.TemporaryDirectory() as folder:
        source, field = Path(folder) / "field.npy", Path(folder) / "field.zarr"
        np.save(source, pixels(SIDE, SIDE))
        zaro("image", "convert", source, field, "--levels", 1)
        for row, column, _, _ in wells:
            for n in "01":
                shutil.copytree(field, path / row / column / n)
    group(path, {"plate": {
        "name": "two wells", "field_count": 2, "rows": [{"name": x} for x in "AB"], "columns": [{"name": x} for x in "123"],
        "acquisitions": [{"id": 0, "maximumfieldcount": 1}, {"id": 1, "maximumfieldcount": 1}],
        "wells": [{"path": f"{row}/{column}", "rowIndex": y, "columnIndex": x} for row, column, y, x in wells]}})
    for row, column, _, _ in wells:
        put_json(path / row / "zarr.json", {"zarr_format": 3, "node_type": "group"})
        group(path / row / column, {"well": {"images": [{"path": "0", "acquisition": 0}, {"path": "1", "acquisition": 1}]}})


def sample(name, path):
    shutil.copytree(SAMPLES / name, path)


def array(path, name, data, version=3, **more):
    zarr.open_group(path, mode="a", zarr_format=version).create_array(name, data=data, **more)


def readme(folder):
    array(folder / "old.zarr", "t", pixels(8, 20, 20), version=2, chunks=(4, 10, 10))
    tifffile.imwrite(folder / "stack.tif", pixels(5, 64, 64))
    shutil.make_archive(folder / "data.zarr", "zip", folder / "old.zarr")


def copying(folder):
    zarr.create_array(folder / "old.zarr", data=pixels(64, 64, 64), chunks=(16, 64, 64), zarr_format=2)
    array(folder / "maps.zarr", "sst", pixels(12, 180, 360), chunks=(1, 180, 360), dimension_names=("month", "lat", "lon"))


def gallery(folder):
    sample("01-seed001-masks-0.1.zarr", folder / "seed.zarr")
    sample("09-hcs-plate-0.4.zarr", folder / "plate.zarr")


def icechunk(folder):
    shutil.copy(ICECHUNK / "v2.zip", folder / "repository.zip")
    shutil.unpack_archive(folder / "repository.zip", folder / "repository")


def convert(folder):
    tifffile.imwrite(folder / "stack.ome.tif", pixels(2, 6, 96, 128), ome=True, metadata={
        "axes": "CZYX", "Name": "stack", "Channel": {"Name": ["DAPI", "GFP"]},
        "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 1.5,
        **{f"PhysicalSize{axis}Unit": "µm" for axis in "XYZ"}})
    np.save(folder / "cells.npy", pixels(48, 64, 3))
    tifffile.imwrite(folder / "movie.tif", pixels(5, 48, 64))
    for name in ("scan", "t1", "t2"):
        (folder / name).mkdir()
    for n in range(8):
        tifffile.imwrite(folder / f"img_t{n // 4:03}_c{n // 2 % 2}_z{n % 2:02}.tif", pixels(48, 64) + n)
        tifffile.imwrite(folder / "scan" / f"s_{n // 4}_{n % 4}.tif", pixels(48, 64) + n)
        tifffile.imwrite(folder / f"t{1 + n // 4}" / f"img_z{n % 4}.tif", pixels(48, 64) + n)
        Image.fromarray((pixels(48, 64) // 8 + n).astype(np.uint8)).save(folder / f"plane{n}.png")


def labels(folder):
    image(folder / "image.zarr", labels=False)
    plate(folder / "plate.zarr")
    sample("01-seed001-masks-0.1.zarr", folder / "old.zarr")
    shutil.rmtree(folder / "old.zarr" / "masks")
    tifffile.imwrite(folder / "cells.tif", blobs(SIDE, SIDE))
    np.save(folder / "cells.npy", blobs(16, SIDE, SIDE))
    np.save(folder / "roi.npy", np.eye(32, 48, dtype=bool))
    array(folder / "masks.zarr", "nuclei", blobs(16, SIDE, SIDE))
    put_json(folder / "colors.json", {"1": "FF0000FF", "2": "00FF0080"})
    put_json(folder / "cells.json", [{"label-value": 1, "class": "neuron"}])


def ozx(folder):
    image(folder / "image.zarr")


def pyramid(folder):
    image(folder / "image.zarr", levels=1, labels=False)
    plate(folder / "plate.zarr")
    array(folder / "data.zarr", "stack", pixels(4, SIDE, SIDE))


def render(folder):
    image(folder / "image.zarr")
    plate(folder / "plate.zarr")


def upgrade(folder):
    sample("05-omezarrpy-0.4.zarr", folder / "old.zarr")
    sample("05-omezarrpy-0.4.zarr", folder / "image.zarr")
    sample("09-hcs-plate-0.4.zarr", folder / "plate.zarr")


def validate(folder):
    render(folder)
    sample("05-omezarrpy-0.4.zarr", folder / "old.zarr")
    put_json(folder / "attributes.json", json.loads((folder / "image.zarr" / "zarr.json").read_text())["attributes"])
    shutil.copytree(folder / "image.zarr", folder / "broken.zarr")
    document = folder / "broken.zarr" / "labels" / "zarr.json"
    broken = json.loads(document.read_text())
    del broken["attributes"]["ome"]["version"]
    put_json(document, broken)


def meta_json(folder):
    put_json(folder / "data.zarr" / "zarr.json", {"zarr_format": 3, "node_type": "group"})
    put_json(folder / "data.zarr" / "temperature" / "zarr.json", {
        "zarr_format": 3, "node_type": "array", "shape": [365, 180, 360], "data_type": "float32", "fill_value": "NaN",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [30, 90, 90]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                   {"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
        "dimension_names": ["time", "lat", "lon"], "attributes": {"units": "K"}})


def reading(folder):
    put_json(folder / "odd.zarr" / "zarr.json", {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint16", "fill_value": 7.0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {}})


def references_of(shape, chunks, refs):
    """A document of Kerchunk's: `sst` by references, and `lat` inline."""

    def zarray(shape, chunks, kind):
        return json.dumps({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": kind, "compressor": None,
                           "fill_value": None, "filters": None, "order": "C"})

    rows = shape[1]
    return {"version": 1, "refs": {
        ".zgroup": '{"zarr_format": 2}',
        "lat/.zarray": zarray([rows], [rows], "<f4"), "lat/.zattrs": '{"_ARRAY_DIMENSIONS": ["lat"]}', "lat/0": "-" * rows * 4,
        "sst/.zarray": zarray(shape, chunks, "<i2"), "sst/.zattrs": '{"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]}', **refs}}


def ref_tools(folder):
    # 150 maps in each of three files; two maps are missing.
    shape, chunk, size = [450, 180, 8000], [1, 180, 8000], 2 * 180 * 8000
    put_json(folder / "ocean.json", references_of(shape, chunk, {
        f"sst/{n}.0.0": [f"s3://bucket/ocean/{2020 + n // 150}.nc", 4096 + n % 150 * size, size]
        for n in range(450) if n not in (7, 200)}))
    put_json(folder / "plain.json", references_of([4, 8, 8], [1, 8, 8], {
        f"sst/{n}.0.0": ["/data/ocean.nc", n * 128, 128] for n in range(4)}))
    # Here the files exist, and one ends too early.
    refs = {f"sst/{n}.0.0": [f"archive/{2020 + n // 8}.nc", n % 8 * 512, 512] for n in range(24)}
    refs["sst/13.0.0"][1] = 4096
    put_json(folder / "coast.json", references_of([24, 16, 16], [1, 16, 16], refs))
    for year in (2020, 2021, 2022):
        put(folder / "archive" / f"{year}.nc", bytes(4100))
    for source, form in (("coast", "coast"), ("plain", "local"), ("plain", "small")):
        zaro("ref", "convert", folder / f"{source}.json", folder / f"{form}.parq", "--keep-relative")


def references(folder):
    put_json(folder / "refs.json", references_of([4, 8, 8], [1, 8, 8], {
        f"sst/{n}.0.0": ["field.bin", n * 128, 128] for n in range(4)}))
    put(folder / "field.bin", bytes(512))
    put_json(folder / "broken.json", {
        "v/.zarray": {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": None, "fill_value": 0,
                      "filters": None, "order": "C"},
        "v/0": ["data.bin", 0, 2], "v/1": ["data.bin", 9, 2]})
    put(folder / "data.bin", bytes(10))


def versions(folder):
    for name, content in {".zgroup": '{"zarr_format": 2}', "arr_0/.zarray": "A0", "arr_0/0": bytes(range(4)),
                          "arr_1/.zarray": "A1", "arr_1/0": bytes(range(4, 9))}.items():
        put(folder / "data.zarr" / name, content)


STAND_INS = {
    "README.md": readme, "copying.md": copying, "gallery.md": gallery, "icechunk.md": icechunk, "images.md": ozx,
    "images-convert.md": convert, "images-labels.md": labels, "images-ozx.md": ozx, "images-pyramid.md": pyramid,
    "images-render.md": render, "images-upgrade.md": upgrade, "images-validate.md": validate, "meta-json.md": meta_json,
    "reading.md": reading, "ref-tools.md": ref_tools, "references.md": references, "versions.md": versions,
}

# ------------------------------------------------------------------------------------------------------------------------
# Blocks and commands


def fences(lines):
    """The fenced blocks of a page: (word after the fence, number of its first line, lines)."""
    kind, start, inside = None, 0, []
    for number, line in enumerate(lines, 1):
        if kind is None and line.startswith("```"):
            kind, start, inside = line[3:].strip(), number + 1, []
        elif kind is not None and line.rstrip() == "```":
            yield kind, start, inside
            kind = None
        elif kind is not None:
            inside.append(line)
    if kind is not None:
        raise ValueError(f"the block of line {start} has no end")


def commands(kind, start, lines):
    """The commands of a block: (line number, command, lines shown after it)."""
    found, whole = [], True
    for number, line in enumerate(lines, start):
        if not whole:
            found[-1][1] += "\n" + line
        elif kind == "console" and not line.startswith("$ "):
            if not found:
                raise ValueError(f"line {number} is the output of no command")
            found[-1][2].append(line)
            continue
        elif kind == "sh" and (not line.strip() or line.lstrip().startswith("#")):
            continue
        else:
            found.append([number, line.removeprefix("$ ") if kind == "console" else line, []])
        whole = not line.endswith("\\")
    return found


def programs(command):
    """The first word of every part of a pipeline or list."""
    words = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    first = True
    for word in words:
        if first:
            yield word
        first = word in ("|", "||", "&&", ";")


def why_not(command, path):
    """Why a command cannot be run here, or None."""
    if "…" in command:
        return "has a placeholder"
    if REMOTE.search(command) and not NO_REQUEST.match(command):
        return "has a remote address"
    for program in programs(command):
        if program in ("cargo", "./test"):
            return f"runs {program}"
        if program != "cd" and not shutil.which(program, path=path):
            return f"no {program} here"
    return None


def pattern(shown):
    """A regular expression for shown lines, in which `…` is anything, and alone any lines."""

    def one(line):
        if line.strip() == "…":
            return r"(?:.*\n)*?"
        return re.sub(r"\b\d+\\ ms\b", r"\\d+ ms", ".*?".join(map(re.escape, line.split("…")))) + r"\n"

    return re.compile("".join(map(one, shown)))


def judge(shown, code, out, err):
    """What is wrong with an end of a command, or None."""
    if code in (common.PANIC, 139) or code < 0:
        return f"crashed: exit status {code}\n{err}"
    refused = any(line.startswith("zaro: error: ") for line in shown)
    verdict = any(line.startswith("not valid: ") for line in shown)
    if (refused and code == 0) or (verdict and code != 1) or (not refused and not verdict and code != 0):
        return f"exit status {code}\n{out}{err}"
    if shown and not any(pattern(shown).fullmatch(text) for text in (out, out + err, err + out)):
        lines = difflib.unified_diff(shown, (out + err).splitlines(), "the page", "printed", lineterm="", n=1)
        return "prints something else\n" + "\n".join(lines)
    return None


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """What `python3 -m http.server` serves, without a word; clients may hang up when they have enough."""

    def handle_error(self, *_):
        pass


class Page:
    """A page, its folder, and where its commands are run."""

    def __init__(self, file, scratch, demo, environment):
        self.file, self.environment = file, environment
        self.root = scratch / file.stem
        self.folder = self.root / "zaro-demo"
        shutil.copytree(demo, self.folder)
        self.given = None
        if file.name in STAND_INS:
            self.given = scratch / f"{file.stem}.given"
            self.given.mkdir()
            STAND_INS[file.name](self.given)

    def reset(self):
        for source in self.given.iterdir() if self.given else ():
            target = self.folder / source.name
            if target.is_dir():
                shutil.rmtree(target)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)

    def run(self, tally):
        name = self.file.relative_to(common.REPO)
        blocks = [(kind, commands(kind, start, lines)) for kind, start, lines
                  in fences(self.file.read_text().splitlines()) if kind in ("console", "sh")]
        # A page that says where to go begins beside that folder, all others in it.
        goes = any(command.startswith("cd zaro-demo") for _, block in blocks for _, command, _ in block)
        here = self.root if goes else self.folder
        server = Server(("127.0.0.1", 0), functools.partial(Handler, directory=self.folder))
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        address = f"http://127.0.0.1:{server.server_port}/"
        for kind, block in blocks:
            self.reset()
            for number, command, shown in block:
                label = f"{name}:{number}: {command}"
                if kind == "sh":
                    self.reset()
                reason = why_not(command, self.environment["PATH"])
                if reason:
                    tally.skip(label, reason)
                    continue
                words = shlex.split(command, comments=True)
                if words[0] == "cd":
                    there = here / words[1]
                    if there.is_dir() and len(words) == 2:
                        here = there
                        tally.ok(label)
                    else:
                        tally.fail(label, "no such folder")
                    continue
                command = command.replace(SERVER, address)
                try:
                    end = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=here, env=self.environment, timeout=60,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                except subprocess.TimeoutExpired:
                    tally.fail(label, "took more than a minute")
                    continue
                out, err = (x.decode("utf-8", "replace").replace(address, SERVER) for x in (end.stdout, end.stderr))
                fault = judge(shown, end.returncode, out, err)
                tally.fail(label, fault) if fault else tally.ok(label)
        server.shutdown()
        server.server_close()


# ------------------------------------------------------------------------------------------------------------------------
# Links


def prose(file):
    """The text of a page without fenced blocks and code in the line."""
    text = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda m: "" if "](" in m[0] else m[0], text)


@functools.cache
def anchors(file):
    """The names of a page's headings in addresses."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", prose(file), flags=re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def links(file):
    return re.findall(r"\]\(([^()\s]+)\)", prose(file))


def check_links(tally):
    pages = [*common.REPO.glob("*.md"), *DOCS.rglob("*.md"), *(common.REPO / "bench").glob("*.md")]
    for file in sorted(pages):
        name, wrong = file.relative_to(common.REPO), []
        for link in links(file):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            if not target.exists() or not target.is_relative_to(common.REPO):
                wrong.append(f"{link} leads nowhere")
            elif anchor and anchor not in anchors(target):
                wrong.append(f"{link}: there is no such heading")
        tally.fail(f"links of {name}", "; ".join(wrong)) if wrong else tally.ok(f"links of {name}")


def check_summary(tally):
    named = links(BOOK / "SUMMARY.md")
    there = {file.name for file in BOOK.glob("*.md")} - {"SUMMARY.md"}
    wrong = [f"{name} is not named" for name in sorted(there - set(named))]
    wrong += [f"{name} is named, and not there" for name in sorted(set(named) - there)]
    wrong += [f"{name} is named twice" for name in sorted({x for x in named if named.count(x) > 1})]
    tally.fail("SUMMARY.md", "; ".join(wrong)) if wrong else tally.ok("SUMMARY.md")


def main():
    parser = common.parser(__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="only these, by their names, such as reading.md")
    args = parser.parse_args()
    global ZARO
    ZARO = os.path.abspath(common.find_zaro(args.zaro))
    pages = [common.REPO / "README.md", *sorted(BOOK.glob("*.md"))]
    unknown = {*args.pages, *STAND_INS} - {page.name for page in pages}
    if unknown:
        sys.exit(f"book: there is no page {', '.join(sorted(unknown))}")
    tally = common.Tally("book", args.verbose)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "bin").mkdir()
        (scratch / "bin" / "zaro").symlink_to(ZARO)
        # Nothing of who runs this: no settings, no credentials, no colours.
        environment = {"PATH": f"{scratch / 'bin'}:{os.environ['PATH']}", "HOME": str(scratch), "LANG": "C.UTF-8"}
        demo = scratch / "demo"
        zaro("demo", demo)
        for page in pages:
            if args.pages and page.name not in args.pages:
                continue
            try:
                Page(page, scratch, demo, environment).run(tally)
            except ValueError as e:
                tally.fail(page.name, e)
    if not args.pages:
        check_summary(tally)
        check_links(tally)
    print(f"book: {tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())

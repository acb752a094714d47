"""OME-Zarr images of every version through `zaro image`, compared with numpy and with other people's libraries.

    images.py [--corpus FOLDER] [--only PART,...] [--match TEXT] [--keep FOLDER] [--old-writer PYTHON]

The corpus is made by make_images.py (a new one, unless --corpus names one). The parts:

    reference  the formulas of ome_reference.py give the published vectors
    info       `image info --json`: version, axes, levels, pixel sizes, labels
    read       `zaro read` of every level and label: their sums, the counts of values
    validate   `image validate --json`: right stores break no MUST; each wrong one breaks the rule it was made to break
    render     `image render`: every pixel of every picture
    pyramid    `image pyramid`: mean, mode, decimate beside numpy, scale and translation, odd sizes
    convert    `image convert`: TIFFs by tifffile, PNG, numpy; pixels and pixel sizes; what it wrote passes the validators
    edit       `image edit`: only what is named changes, and the picture follows
    labels     `image add-labels` of TIFF and numpy files, in every version
    upgrade    `image upgrade --to` each version: the same pixels, labels and pictures, read back by zarr, ome-zarr and ngff-zarr,
               checked by ome-zarr-models, yaozarrs and our own validator
    pack       `.ozx`, packed and unpacked
    hostile    documents with something wrong in them: an answer or an error, never a crash
"""

import json
import logging
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import common
import ome_reference as ref

try:
    import numpy as np
    import ome_zarr_models
    import tifffile
    import yaozarrs
    import zarr
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader
    from PIL import Image
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")
try:
    import jsonschema  # noqa: F401
    import ngff_zarr
except ImportError:
    ngff_zarr = None

warnings.filterwarnings("ignore")
# It says of each older image that it is older.
logging.getLogger("ome_zarr").setLevel(logging.ERROR)
Image.MAX_IMAGE_PIXELS = None
MUST = ("must", "error", "m")


class Fault(Exception):
    """A case that failed, and why."""


def check(condition, why):
    if not condition:
        raise Fault(why)


class Run:
    """The corpus, the binary, the tally."""

    def __init__(self, given, corpus, scratch):
        self.zaro, self.corpus, self.scratch = common.find_zaro(given.zaro), corpus, scratch
        self.tally = common.Tally("images", given.verbose)
        self.match, self.made, self.seed, self.hostile_cases = given.match, 0, given.seed, given.hostile_cases
        self.expected = json.loads((corpus / "expected.json").read_text())

    def stores(self):
        return [e for e in self.expected if not self.match or self.match in e["store"]]

    def path(self, entry):
        return str(self.corpus / entry["store"])

    def fresh(self, suffix=""):
        self.made += 1
        return self.scratch / f"{self.made}{suffix}"

    def call(self, *words, codes=(0,), timeout=120):
        done = common.run([self.zaro, *map(str, words)], timeout=timeout)
        command = "zaro " + " ".join(str(w) for w in words)
        check(not done.crash, f"{done.crash}: {command}: {done.message[-300:]}")
        check(done.code in codes, f"exit {done.code}: {command}: {done.message[-300:]}")
        return done

    def json(self, *words, codes=(0,)):
        done = self.call(*words, codes=codes)
        try:
            return json.loads(done.out)
        except ValueError as e:
            raise Fault(f"no JSON from zaro {' '.join(map(str, words))}: {e}: {done.out[:200]!r}") from None

    def array(self, *words):
        """A part of an array by `zaro read`."""
        target = self.fresh(".npy")
        self.call("read", *words, "-o", target)
        data = np.load(target)
        target.unlink()
        return data

    def picture(self, *words):
        target = self.fresh(".png")
        self.call("image", "render", *words, "-o", target)
        with Image.open(target) as png:
            data = np.asarray(png.convert("RGBA"))
        target.unlink()
        return data

    def case(self, label, test, *args):
        if self.match and self.match not in label:
            return
        try:
            test(*args)
        except Fault as e:
            self.tally.fail(label, e)
        except Exception as e:  # noqa: BLE001 - a peer that refuses is a failure of the case, not of the script
            self.tally.fail(label, f"{type(e).__name__}: {str(e)[:400]}")
        else:
            self.tally.ok(label)


# ---------------------------------------------------------------------------------------------- reference


def reference(run):
    def values(wanted, start, end, family="linear", k=1.0, inverted=False):
        channel = {"window": {"start": start, "end": end}, "family": family, "coefficient": k, "inverted": inverted}
        got = ref.quantize(np.array(list(wanted), np.int32), channel).tolist()
        check(got == list(wanted.values()), f"{got}, not {list(wanted.values())}")

    run.case("reference linear", values, {-5: 0, 0: 0, 1: 3, 10: 26, 25: 64, 50: 128, 75: 191, 99: 252, 100: 255, 200: 255}, 0, 100)
    run.case("reference squares", values, {16: 1, 64: 16, 128: 64, 192: 145, 254: 253, 255: 255}, 0, 255, "polynomial", 2.0)
    run.case("reference roots", values, {1: 16, 16: 64, 64: 128, 128: 181, 192: 221, 254: 254}, 0, 255, "polynomial", 0.5)
    run.case("reference logarithms", values, {0: 0, 1: 0, 2: 32, 4: 64, 16: 128, 64: 191, 128: 223, 254: 255}, 0, 255, "logarithmic")
    run.case("reference wide logarithms", values, {100: 0, 257: 0, 300: 7, 1000: 63, 10000: 168}, 0, 65535, "logarithmic")
    run.case("reference exponential", values, {200: 0, 250: 2, 252: 13, 253: 35, 254: 94}, 0, 255, "exponential")
    run.case("reference flat exponential", values, {16: 12, 64: 41, 128: 94, 192: 165, 254: 253}, 0, 255, "exponential", 0.3)
    run.case("reference inverted", values, {-5: 255, 0: 255, 25: 191, 50: 127, 100: 0}, 0, 100, "linear", 1.0, True)


# ---------------------------------------------------------------------------------------------- info, read, validate


def info(run):
    for entry in run.stores():
        if entry["images"]:
            run.case(f"info {entry['store']}", info_case, run, entry)


def info_case(run, entry):
    document = run.json("image", "info", run.path(entry), "--json")
    got = {i["path"]: i for i in document["images"]}
    order = [i["path"] for i in entry["images"]]
    check(list(got) == order, f"images {list(got)}, not {order}")
    for wanted in entry["images"]:
        have = got[wanted["path"]]
        check("error" not in have, have.get("error"))
        if entry["version"]:
            version = have["version"] + (" (seed)" if have["seed"] else "")
            check(version == entry["version"], f"version {version}, not {entry['version']}")
        check(have["assumed"] == entry.get("assumed", False), f"assumed: {have['assumed']}")
        scales = have["multiscales"][0]
        axes = "".join(a["name"] for a in scales["axes"])
        check(axes == wanted["axes"], f"axes {axes}, not {wanted['axes']}")
        levels = [(lv["path"], lv["shape"], lv["dataType"]) for lv in scales["levels"]]
        want = [(lv["path"], lv["shape"], lv["dtype"]) for lv in wanted["levels"]]
        check(levels == want, f"levels {levels}, not {want}")
        if wanted["scale"]:
            check(scales["levels"][0]["scale"] == wanted["scale"], f"scale {scales['levels'][0]['scale']}, not {wanted['scale']}")
            units = [a["unit"] for a in scales["axes"] if a["name"] in "yx"]
            check(units == ["micrometer"] * len(units), f"units {units}")
        if wanted["channels"] is not None:
            check(len(have["omero"]["channels"]) == wanted["channels"], "another number of channels")
        names = [lb["name"] for lb in have["labels"]]
        want = [lb["name"] for lb in wanted["labels"]]
        check(sorted(names) == sorted(want), f"labels {names}, not {want}")


def joined(*parts):
    return "/".join(p for p in parts if p)


def read(run):
    for entry in run.stores():
        if entry["images"]:
            run.case(f"read {entry['store']}", read_case, run, entry)


def read_case(run, entry):
    for image in entry["images"]:
        for level in image["levels"]:
            data = run.array(run.path(entry), joined(image["path"], level["path"]))
            if data.dtype.kind == "f":
                whole = np.isfinite(data)
                check(int(whole.sum()) == level.get("finite", data.size), "other numbers are finite")
                got = float(data[whole].astype(np.float64).sum())
                ok = math.isclose(got, level["sum"], rel_tol=1e-12)
            else:
                got = int(data.sum(dtype=object))
                ok = got == level["sum"]
            check(ok and list(data.shape) == level["shape"], f"{image['path']} {level['path']}: sum {got} of {data.shape}, not {level['sum']} of {level['shape']}")
        for label in image["labels"]:
            data = run.array(run.path(entry), joined(image["path"], label["path"]))
            values, times = np.unique(data, return_counts=True)
            got = {str(int(v)): int(n) for v, n in zip(values, times)}
            check(got == label["counts"], f"label {label['name']}: {got}, not {label['counts']}")


def findings(document):
    """(rule, strength) of everything that the validator found."""
    return [(f["rule"], f["level"].lower()) for f in document["findings"]]


def validate(run):
    for entry in run.stores():
        run.case(f"validate {entry['store']}", validate_case, run, entry)


def validate_case(run, entry):
    found = findings(run.json("image", "validate", run.path(entry), "--json", codes=(0, 1, 4)))
    musts = [f for f in found if f[1] in MUST]
    rule, strength = entry["rule"], entry["strength"]
    if rule == "any":
        return
    if rule is None:
        check(not musts, f"a right store breaks {musts}")
        return
    hits = [f for f in found if f[0] == rule]
    check(hits, f"{rule} not found; found {sorted(set(found))}")
    if strength:
        check(any(f[1] == strength for f in hits), f"{rule} is {sorted({f[1] for f in hits})}, not {strength}")


# ---------------------------------------------------------------------------------------------- render


def render(run):
    for entry in run.stores():
        for i, how in enumerate(entry["pictures"]):
            run.case(f"render {entry['store']} {i}", render_case, run, run.path(entry), entry, how)
        if entry.get("sensible"):
            run.case(f"render {entry['store']}", sensible_case, run, entry)


def render_words(how):
    words = list(how.get("words", ()))
    for key in ("z", "t", "level", "multiscale", "acquisition"):
        if key in how:
            words += [f"--{key}", how[key]]
    for name in how.get("labels", ()):
        words += ["--labels", name]
    return words


def render_case(run, path, entry, how):
    wanted = np.load(run.corpus / how["pixels"])
    words = render_words(how)
    if how.get("plate"):
        # A well is drawn as large as its smallest level.
        words += ["--level", 1]
    got = run.picture(path, *([how["at"]] if how.get("at") else []), *words)
    check(got.shape[:2] == wanted.shape[:2], f"{words}: size {got.shape[:2]}, not {wanted.shape[:2]}")
    check((got[..., 3] == 255).all(), f"{words}: not opaque")
    # Means may be rounded before they are drawn or not at all.
    different = (abs(got[..., :3].astype(int) - wanted) > how.get("near", 0)).any(-1)
    if "only" in how:
        # Values without a colour may be drawn in any.
        for name, values in how["only"].items():
            label = next(lb for lb in entry["images"][0]["labels"] if lb["name"] == name)
            data = zarr.open_array(joined(path, label["path"]), mode="r")[...].reshape(-1, *wanted.shape[:2])[0]
            different &= np.isin(data, values)
    if different.any():
        y, x = np.argwhere(different)[0]
        raise Fault(f"{words}: {int(different.sum())} of {different.size} pixels differ; at y {y}, x {x}: {got[y, x, :3].tolist()}, not {wanted[y, x].tolist()}")


def sensible_case(run, entry):
    """Without a word on how to draw: something is seen, and brighter pixels are nowhere darker."""
    root = zarr.open_group(run.path(entry), mode="r")
    ome = root.attrs.get("ome", root.attrs)
    data = root[ome["multiscales"][0]["datasets"][0]["path"]][...]
    got = run.picture(run.path(entry))[..., :3].astype(int)
    check(got.shape[:2] == data.shape[1:], f"size {got.shape}")
    check(got.max() > 200 and got.min() < 50, f"from {got.min()} to {got.max()}: little is seen")
    if len(data) == 1:
        check((got == got[..., :1]).all(), "one channel is not grey")
        order = np.argsort(data[0], axis=None, kind="stable")
        check((np.diff(got[..., 0].reshape(-1)[order]) >= 0).all(), "a brighter pixel is drawn darker")


# ---------------------------------------------------------------------------------------------- what others say of what we wrote


def scales_of(path, at=""):
    root = zarr.open_group(joined(str(path), at), mode="r")
    ome = root.attrs.get("ome", root.attrs)
    return root, ome, ome["multiscales"][0]


def transforms_of(dataset):
    """Scale and translation of a level, also of a sequence."""
    steps = dataset.get("coordinateTransformations", [])
    steps = [inner for s in steps for inner in (s["transformations"] if s["type"] == "sequence" else [s])]
    scale = next((s["scale"] for s in steps if s["type"] == "scale"), None)
    return scale, next((s["translation"] for s in steps if s["type"] == "translation"), None)


def by_schema(path, version):
    """The published schemas, which ngff-zarr carries, on every group."""
    for file in [*Path(path).rglob("zarr.json"), *Path(path).rglob(".zattrs")]:
        document = json.loads(file.read_text())
        if file.name == "zarr.json":
            document = document.get("attributes", {})
        ome = document.get("ome", {}) if version >= "0.5" else document
        for model, key in (("image", "multiscales"), ("label", "image-label"), ("plate", "plate"), ("well", "well")):
            if key in ome and not (model == "label" and version < "0.4"):
                try:
                    ngff_zarr.validate(document, version=version, model=model)
                except Exception as e:  # noqa: BLE001
                    raise Fault(f"schema {model} of {version}, {file.relative_to(path)}: {str(e)[:300]}") from None


def valid(run, path, version, collection=False):
    """Our validator finds no MUST; neither do the others, of the versions they know."""
    if ngff_zarr:
        by_schema(path, version)
    musts = [f for f in findings(run.json("image", "validate", path, "--json", codes=(0, 1, 4))) if f[1] in MUST]
    check(not musts, f"our own validator: {musts}")
    if version in ("0.4", "0.5"):
        root = zarr.open_group(str(path), mode="r")
        attributes = root.attrs.get("ome", root.attrs)
        try:
            # It wants labels to have as many pyramids as their image has.
            if len(attributes.get("multiscales", ())) < 2:
                yaozarrs.validate_zarr_store(str(path))
        except Exception as e:  # noqa: BLE001
            raise Fault(f"yaozarrs: {str(e)[:400]}") from None
        # ome-zarr-models has no layouts of 0.5, and finds no labels in groups of labels there.
        listed = root["labels"].attrs.get("ome", {}).get("labels", ()) if "labels" in root else ()
        deep = any("/" in name for name in listed)
        if not (version == "0.5" and (collection or deep)):
            try:
                ome_zarr_models.open_ome_zarr(zarr.open_group(str(path), mode="r"))
            except Exception as e:  # noqa: BLE001
                text = str(e)
                raise Fault(f"ome-zarr-models: {text[text.find('v0' + version[2:]):][:400]}") from None


def opened(path, data, at="", peers=("ome-zarr", "ngff-zarr")):
    """The largest level as the peers read it."""
    place = joined(str(path), at)
    if "ome-zarr" in peers:
        node = next(iter(Reader(parse_url(place))()))
        check(np.array_equal(np.asarray(node.data[0]), data), "ome-zarr reads other pixels")
    if "ngff-zarr" in peers and ngff_zarr:
        try:
            images = ngff_zarr.from_ngff_zarr(place).images
        except Exception as e:  # noqa: BLE001
            if "codec zlib is not supported" in str(e):
                return
            raise
        check(np.array_equal(np.asarray(images[0].data).reshape(data.shape), data), "ngff-zarr reads other pixels")


# ---------------------------------------------------------------------------------------------- pyramid


def pyramid(run):
    rng = np.random.default_rng(4)
    methods = {"mean": ref.mean, "mode": ref.mode, "decimate": ref.decimate}
    cases = [("yx", (64, 96), "uint8"), ("yx", (37, 53), "uint16"), ("zyx", (5, 33, 47), "int16"), ("tczyx", (2, 2, 3, 40, 29), "uint16"),
             ("cyx", (2, 41, 40), "float32"), ("yx", (30, 31), "uint32"), ("yx", (31, 30), "uint64"), ("yx", (26, 22), "int64"), ("yx", (26, 1), "int8"),
             ("cyx", (1, 7, 5), "uint8")]
    for name in VECTORS:
        run.case(f"pyramid vectors {name}", vector_case, run, name)
    for axes, shape, dtype in cases:
        for name, how in methods.items():
            for version in ("0.4", "0.5", "0.6"):
                if np.dtype(dtype).kind == "f":
                    if name == "mode":
                        continue
                    data = rng.normal(size=shape).astype(dtype)
                elif name == "mode":
                    data = rng.integers(0, 4, shape).astype(dtype)
                else:
                    low, high = ref.whole_range(dtype)
                    data = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
                run.case(f"pyramid {name} {version} {axes} {dtype} {'x'.join(map(str, shape))}", pyramid_case, run, axes, data, name, how, version)


# What others make of the same 8 x 8 pixels: the mean of ngff-zarr's bin_shrink, its mode, bioformats2raw's first samples, itkwasm's gaussian.
ROWS = [[0, 10, 20, 30, 40, 50, 60, 70], [5, 15, 25, 35, 45, 55, 65, 75], [100, 110, 120, 130, 140, 150, 160, 170], [101, 111, 121, 131, 141, 151, 161, 171],
        [3, 1, 4, 1, 5, 9, 2, 6], [200, 0, 200, 0, 200, 0, 200, 0], [255, 254, 253, 252, 251, 250, 249, 248], [7, 7, 7, 7, 8, 8, 8, 8]]
VECTORS = {"mean": [[8, 28, 48, 68], [106, 126, 146, 166], [51, 51, 54, 52], [131, 130, 129, 128]],
           "mode": [[0, 20, 40, 60], [100, 120, 140, 160], [0, 0, 0, 0], [7, 7, 8, 8]],
           "decimate": [[0, 20, 40, 60], [100, 120, 140, 160], [3, 4, 5, 2], [255, 253, 251, 249]],
           "gaussian": [[19, 37, 57, 76], [87, 104, 122, 139], [83, 77, 80, 74], [115, 113, 113, 110]]}


def vector_case(run, name):
    path, target = run.fresh(".zarr"), run.fresh(".zarr")
    bare(path, "0.5", "yx", np.array(ROWS, np.uint8))
    run.call("image", "pyramid", path, "--to", target, "--method", name, "--levels", 2)
    root, _, scales = scales_of(target)
    got = root[scales["datasets"][1]["path"]][...].tolist()
    check(got == VECTORS[name], f"{got}, not {VECTORS[name]}")


def bare(path, version, axes, data, chunks=None):
    """An image of one level."""
    import make_images as make

    make.ROOT = path.parent
    image = make.Image(path.name, version, axes, data.shape, data=data, levels=1, chunks=chunks)
    return image


def pyramid_case(run, axes, data, name, how, version):
    path = run.fresh(".zarr")
    bare(path, version, axes, data, chunks=tuple(1 if a in "tc" else 16 for a in axes))
    run.call("image", "pyramid", path, "--method", name, "--levels", 3)
    root, _, scales = scales_of(path)
    check(len(scales["datasets"]) == 3, f"{len(scales['datasets'])} levels")
    levels = [root[d["path"]][...] for d in scales["datasets"]]
    check(np.array_equal(levels[0], data), "the largest level is another")
    first, origin = transforms_of(scales["datasets"][0])
    for i in (1, 2):
        last, level = levels[i - 1], levels[i]
        factors = [max(1, a // max(b, 1)) if a != b else 1 for a, b in zip(last.shape, level.shape)]
        # Halves in y and x, rounded down; a side of 1 stays. z may be left alone.
        for a, n, m in zip(axes, last.shape, level.shape):
            halved = max(1, n // 2)
            check(m == halved if a in "yx" else m in (n, halved) if a == "z" else m == n, f"level {i}: {level.shape} after {last.shape}")
        factors = [2 if m != n else 1 for n, m in zip(last.shape, level.shape)]
        check(level.dtype == data.dtype, f"level {i} is {level.dtype}")
        wanted = how(last, factors)
        if data.dtype.kind == "f" and name == "mean":
            ok = np.allclose(level, wanted, rtol=1e-6, atol=1e-7)
        else:
            ok = np.array_equal(level, wanted)
        check(ok, f"level {i} is not the {name} of the one above: {(level != wanted).sum()} of {level.size} differ")
        scale, move = transforms_of(scales["datasets"][i])
        move, start = move or [0.0] * len(axes), origin or [0.0] * len(axes)
        for k, a in enumerate(axes):
            times = 2**i if levels[i].shape[k] != data.shape[k] and level.shape[k] * 2 <= last.shape[k] else None
            if levels[i].shape[k] == data.shape[k]:
                times = 1
            if times:
                want = (scale[k] - first[k]) / 2 if name != "decimate" else 0.0
                check(math.isclose(move[k] - start[k], want, abs_tol=1e-9), f"level {i}, {a}: translation {move[k]}, not {start[k] + want}")
                ratio = scale[k] / first[k]
                check(times - 1e-9 <= ratio <= data.shape[k] / level.shape[k] + 1e-9, f"level {i}, {a}: scale {scale[k]} of {first[k]}")
    valid(run, path, version)
    shutil.rmtree(path)


# ---------------------------------------------------------------------------------------------- convert


def convert(run):
    rng = np.random.default_rng(8)

    def stack(shape, dtype="uint16"):
        if np.dtype(dtype).kind == "f":
            return rng.normal(size=shape).astype(dtype)
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)

    def plain(name, data, axes, versions=("0.5",), **options):
        for version in versions:
            run.case(f"convert {name} {version}", convert_case, run, data, axes, version, ".tif", lambda p: tifffile.imwrite(p, data, **options))

    every = ("0.4", "0.5", "0.6")
    plain("tiff", stack((41, 53)), "yx", every, photometric="minisblack")
    for dtype in ("uint8", "int8", "int16", "uint32", "int32", "float32", "float64", "uint64"):
        plain(f"tiff {dtype}", stack((41, 53), dtype), "yx", photometric="minisblack")
    for codec in ("zlib", "lzw", "packbits", "zstd", "deflate"):
        plain(f"tiff {codec}", stack((41, 53)), "yx", photometric="minisblack", compression=codec)
    plain("tiff predictor", stack((41, 53)), "yx", photometric="minisblack", compression="zlib", predictor=True)
    plain("tiff float predictor", stack((48, 64), "float32"), "yx", photometric="minisblack", compression="zlib", predictor=True)
    plain("tiff tiled", stack((70, 90)), "yx", photometric="minisblack", tile=(32, 16))
    plain("tiff tiled lzw", stack((70, 90)), "yx", photometric="minisblack", tile=(32, 32), compression="lzw")
    plain("tiff strips", stack((70, 90)), "yx", photometric="minisblack", rowsperstrip=7)
    plain("tiff big-endian", stack((41, 53)), "yx", photometric="minisblack", byteorder=">")
    plain("tiff big", stack((41, 53)), "yx", photometric="minisblack", bigtiff=True)
    plain("tiff big big-endian tiled", stack((64, 80), "float32"), "yx", photometric="minisblack", bigtiff=True, byteorder=">", tile=(16, 16))
    plain("tiff pages", stack((5, 41, 53)), "zyx", photometric="minisblack", metadata=None)
    # JPEG, single bits, an alpha, predictors in both byte orders.
    run.case("convert tiff rgb jpeg", lossy_case, run)
    run.case("convert tiff bits", bits_case, run, rng.integers(0, 2, (40, 64)).astype(bool))
    rgba = stack((41, 53, 4), "uint8")
    run.case("convert tiff alpha", convert_case, run, rgba.transpose(2, 0, 1), "cyx", "0.5", ".tif",
             lambda p: tifffile.imwrite(p, rgba, photometric="rgb", extrasamples=["unassalpha"]))
    for byteorder in "<>":
        plain(f"tiff predictor {byteorder}", stack((41, 53)), "yx", photometric="minisblack", compression="lzw", predictor=True, byteorder=byteorder)
        plain(f"tiff pages tiled {byteorder}", stack((3, 70, 90), "int16"), "zyx", photometric="minisblack", tile=(32, 32), metadata=None, byteorder=byteorder, compression="zlib")
    run.case("convert several series", series_case, run, [stack((20, 30)), stack((3, 24, 28), "uint8")])
    # Samples of a pixel are channels.
    rgb = stack((41, 53, 3), "uint8")
    run.case("convert tiff rgb", convert_case, run, rgb.transpose(2, 0, 1), "cyx", "0.5", ".tif", lambda p: tifffile.imwrite(p, rgb, photometric="rgb"))
    planar = stack((3, 41, 53), "uint8")
    run.case("convert tiff planar rgb", convert_case, run, planar, "cyx", "0.5", ".tif",
             lambda p: tifffile.imwrite(p, planar, photometric="rgb", planarconfig="separate"))

    # ImageJ: t, z, c, y, x in the file; the pixel size in the resolution, the depth in the description.
    for axes, shape in (("zyx", (5, 20, 30)), ("cyx", (3, 20, 30)), ("zcyx", (4, 2, 20, 30)), ("tzcyx", (2, 3, 2, 20, 30)), ("tyx", (4, 20, 30))):
        data = stack(shape)
        order = [a for a in "tczyx" if a in axes]
        wanted = data.transpose([axes.index(a) for a in order])
        sizes = {"y": 0.25, "x": 0.25, **({"z": 1.5} if "z" in axes else {})}
        run.case(f"convert imagej {axes}", convert_case, run, wanted, "".join(order), "0.5", ".tif",
                 lambda p, d=data, a=axes: tifffile.imwrite(p, d, imagej=True, resolution=(4.0, 4.0), metadata={"axes": a.upper(), "spacing": 1.5, "unit": "um"}), sizes)
    data = stack((3, 20, 30))
    run.case("convert imagej labels", convert_case, run, data, "cyx", "0.5", ".tif",
             lambda p: tifffile.imwrite(p, data, imagej=True, resolution=(2.0, 2.0), metadata={"axes": "CYX", "unit": "micron", "Labels": ["a", "b", "c"], "mode": "composite"}), {"y": 0.5, "x": 0.5})

    # OME-TIFF: any order, pixel sizes with units, names of channels, levels below.
    for axes, shape in (("YX", (20, 30)), ("ZYX", (4, 20, 30)), ("CYX", (3, 20, 30)), ("TCZYX", (2, 3, 4, 20, 30)), ("TZCYX", (2, 3, 2, 20, 30)), ("ZCYX", (3, 2, 20, 30))):
        data = stack(shape)
        order = [a for a in "TCZYX" if a in axes]
        wanted = data.transpose([axes.index(a) for a in order])
        names = [f"dye {i}" for i in range(shape[axes.index("C")])] if "C" in axes else None
        meta = {"axes": axes, "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 250.0, "PhysicalSizeYUnit": "nm",
                **({"PhysicalSizeZ": 0.002, "PhysicalSizeZUnit": "mm"} if "Z" in axes else {}), **({"Channel": {"Name": names}} if names else {})}
        sizes = {"y": 0.25, "x": 0.5, **({"z": 2.0} if "Z" in axes else {})}
        for version in every if axes == "TCZYX" else ("0.5",):
            run.case(f"convert ome {axes} {version}", convert_case, run, wanted, "".join(order).lower(), version, ".ome.tif",
                     lambda p, d=data, m=meta: tifffile.imwrite(p, d, metadata=m, photometric="minisblack"), sizes, names)

    def pyramidal(path):
        with tifffile.TiffWriter(path, bigtiff=True) as tif:
            tif.write(large, subifds=1, tile=(32, 32), photometric="minisblack", metadata={"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm"})
            tif.write(large[::2, ::2], subfiletype=1, tile=(32, 32), photometric="minisblack")

    large = stack((96, 128))
    run.case("convert ome with levels", convert_case, run, large, "yx", "0.5", ".ome.tif", pyramidal, {"y": 0.5, "x": 0.5})

    # Others: PNG, numpy.
    grey, colour, deep = stack((41, 53), "uint8"), stack((41, 53, 3), "uint8"), stack((41, 53))
    run.case("convert png grey", convert_case, run, grey, "yx", "0.5", ".png", lambda p: Image.fromarray(grey).save(p))
    run.case("convert png deep", convert_case, run, deep, "yx", "0.5", ".png", lambda p: Image.fromarray(deep).save(p))
    run.case("convert png colour", convert_case, run, colour.transpose(2, 0, 1), "cyx", "0.5", ".png", lambda p: Image.fromarray(colour).save(p))
    cube = stack((3, 20, 30), "int16")
    run.case("convert npy", convert_case, run, cube, "zyx", "0.5", ".npy", lambda p: np.save(p, cube))
    run.case("convert npy fortran", convert_case, run, cube, "zyx", "0.5", ".npy", lambda p: np.save(p, np.asfortranarray(cube)))
    run.case("convert planes", planes_case, run, stack((2, 3, 2, 20, 30)))
    run.case("convert sharded", convert_case, run, large, "yx", "0.5", ".tif", lambda p: tifffile.imwrite(p, large, photometric="minisblack"), None, None, ("--chunks", "32", "--shards", "64"))


def one(values):
    return values[0] if len(values) == 1 else values


def converted(run, target, data, axes, version, sizes, names):
    root, ome, scales = scales_of(target)
    listed = scales.get("axes") or scales["coordinateSystems"][0]["axes"]
    have = "".join(a["name"] for a in listed)
    got = root[scales["datasets"][0]["path"]][...]
    # Axes of length 1 may be there or not.
    kept = [i for i, a in enumerate(have) if a in axes]
    check(all(got.shape[i] == 1 for i in range(got.ndim) if i not in kept), f"axes {have} of {got.shape} for {axes} of {data.shape}")
    check("".join(have[i] for i in kept) == axes, f"axes {have}, not {axes}")
    got = got.reshape([got.shape[i] for i in kept])
    check(got.shape == data.shape and got.dtype.newbyteorder("=") == data.dtype, f"{got.dtype} {got.shape}, not {data.dtype} {data.shape}")
    check(np.array_equal(got, data), f"{int((got != data).sum())} of {data.size} pixels differ")
    scale, _ = transforms_of(scales["datasets"][0])
    micrometers = {"micrometer": 1.0, "nanometer": 0.001, "millimeter": 1000.0}
    for axis, size in (sizes or {}).items():
        i = have.index(axis)
        unit = listed[i].get("unit")
        check(unit in micrometers, f"{axis}: unit {unit}")
        check(scale and math.isclose(scale[i] * micrometers[unit], size, rel_tol=1e-6), f"{axis}: pixel size {scale and scale[i]} {unit}, not {size} micrometer")
    if names:
        labels = [c.get("label") for c in ome.get("omero", {}).get("channels", [])]
        check(labels == names, f"channels {labels}, not {names}")
    valid(run, target, version)
    opened(target, root[scales["datasets"][0]["path"]][...], peers=("ome-zarr", "ngff-zarr") if version != "0.6" else ("ngff-zarr",))


def convert_case(run, data, axes, version, suffix, write, sizes=None, names=None, more=()):
    source, target = run.fresh(suffix), run.fresh(".zarr")
    write(source)
    run.call("image", "convert", source, target, "--to", version, *more)
    converted(run, target, data, axes, version, sizes, names)
    source.unlink()
    shutil.rmtree(target)


def lossy_case(run):
    """JPEG in TIFF: what imagecodecs makes of it, or very near to it."""
    y, x = np.mgrid[:48, :64]
    data = np.stack([y * 4 + 20, x * 3 + 10, 200 - y - x], -1).astype(np.uint8)
    source, target = run.fresh(".tif"), run.fresh(".zarr")
    tifffile.imwrite(source, data, photometric="ycbcr", compression="jpeg", tile=(16, 16))
    run.call("image", "convert", source, target)
    root, _, scales = scales_of(target)
    got = root[scales["datasets"][0]["path"]][...].astype(int)
    check(abs(got - tifffile.imread(source).transpose(2, 0, 1).astype(int)).max() <= 3, "other colours")


def bits_case(run, data):
    source, target = run.fresh(".tif"), run.fresh(".zarr")
    tifffile.imwrite(source, data, photometric="minisblack", metadata=None)
    run.call("image", "convert", source, target)
    root, _, scales = scales_of(target)
    got = root[scales["datasets"][0]["path"]][...]
    check(np.array_equal(got != 0, data), "other bits")


def series_case(run, images):
    """A file of several images becomes a collection."""
    source, target = run.fresh(".ome.tif"), run.fresh(".zarr")
    with tifffile.TiffWriter(source, ome=True) as tif:
        for image in images:
            tif.write(image, photometric="minisblack", metadata={"axes": "CYX"[-image.ndim :]})
    run.call("image", "convert", source, target, "--to", "0.5")
    for i, image in enumerate(images):
        root, _, scales = scales_of(target, str(i))
        got = root[scales["datasets"][0]["path"]][...]
        check(np.array_equal(got.reshape(image.shape), image), f"image {i} is another")
    valid(run, target, "0.5", collection=True)


def planes_case(run, data):
    """One file a plane: t, c and z are in the names."""
    folder, target = run.fresh(), run.fresh(".zarr")
    folder.mkdir()
    for t in range(data.shape[0]):
        for c in range(data.shape[1]):
            for z in range(data.shape[2]):
                tifffile.imwrite(folder / f"exp_t{t:02}_c{c}_z{z:03}.tif", data[t, c, z], photometric="minisblack")
    run.call("image", "convert", folder / "exp_t{t}_c{c}_z{z}.tif", target, "--to", "0.5")
    converted(run, target, data, "tczyx", "0.5", None, None)


# ---------------------------------------------------------------------------------------------- edit, labels


def edit(run):
    for entry in run.stores():
        if entry["store"].startswith(("v0.3.zarr", "v0.4-tczyx", "v0.5-tczyx", "v0.6-tczyx", "v0.6-systems")):
            run.case(f"edit {entry['store']}", edit_case, run, entry)


def digest(folder, but):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in but}


def edit_case(run, entry):
    """What is named changes, in one document; everything else, unknown keys and chunks too, stays."""
    target = run.fresh(".zarr")
    shutil.copytree(run.path(entry), target)
    file = target / ("zarr.json" if (target / "zarr.json").exists() else ".zattrs")
    document = json.loads(file.read_text())
    attributes = document["attributes"] if file.name == "zarr.json" else document
    ome = attributes.get("ome", attributes)
    attributes["ours"], ome["omero"]["lut"], ome["omero"]["channels"][0]["emissionWave"], ome["multiscales"][0]["note"] = {"a": [1, 2.5]}, "ice.lut", 461, "kept"
    file.write_text(json.dumps(document))
    before = digest(target, (file.name,) if file.name == ".zattrs" else ())
    run.call("image", "edit", target, "--channel", "0:label=DNA,color=FF8000,window=120:900", "--channel", "1:family=linear,inverted=false", "--default-z", 2)
    after = digest(target, (file.name,) if file.name == ".zattrs" else ())
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    check(changed <= {"zarr.json"}, f"changed: {sorted(changed)}")
    now = json.loads(file.read_text())
    now_attributes = now["attributes"] if file.name == "zarr.json" else now
    now_ome = now_attributes.get("ome", now_attributes)
    first = now_ome["omero"]["channels"][0]
    check(now_attributes["ours"] == {"a": [1, 2.5]} and now_ome["omero"]["lut"] == "ice.lut" and first["emissionWave"] == 461 and now_ome["multiscales"][0]["note"] == "kept", "a key that is unknown is gone")
    check((first["label"], first["color"], first["window"]["start"], first["window"]["end"]) == ("DNA", "FF8000", 120, 900), f"channel {first}")
    check(now_ome["omero"]["rdefs"]["defaultZ"] == 2, "default z")
    check(now_ome["multiscales"] == ome["multiscales"], "multiscales changed")
    root, _, scales = scales_of(target)
    data = root[scales["datasets"][0]["path"]][...]
    planes = data[0, :, 2] if data.ndim == 5 else data[:, 2]
    draw = {"channels": now_ome["omero"]["channels"]}
    got = run.picture(target)[..., :3]
    check(np.array_equal(got, ref.draw(planes, draw)), "the picture is another")
    if entry["version"] >= "0.4":
        run.call("image", "edit", target, "--pixel-size", "y=0.75,x=1.5", "--unit", "y,x=nanometer")
        _, _, scales = scales_of(target)
        listed = scales.get("axes") or next(c for c in scales["coordinateSystems"] if c["name"] == "physical")["axes"]
        old = transforms_of(ome["multiscales"][0]["datasets"][1])[0]
        for i, dataset in enumerate(scales["datasets"]):
            scale, _ = transforms_of(dataset)
            check(math.isclose(scale[-2], 0.75 * 2**i) and math.isclose(scale[-1], 1.5 * 2**i), f"level {i}: scale {scale}")
            check(i == 0 or scale[:-2] == old[:-2], f"level {i}: scale {scale}")
        check([a.get("unit") for a in listed][-2:] == ["nanometer"] * 2, f"axes {listed}")
        valid(run, target, entry["version"])
    shutil.rmtree(target)


def labels(run):
    rng = np.random.default_rng(9)
    for entry in run.stores():
        if not entry["store"].startswith(("v0.1.zarr", "v0.3-cyx", "v0.4-czyx", "v0.4-yx", "v0.5-czyx", "v0.5-tczyx", "v0.5-sharded", "v0.6-czyx")):
            continue
        image = entry["images"][0]
        axes = image["axes"].replace("c", "").replace("t", "")
        shape = [image["levels"][0]["shape"][image["axes"].index(a)] for a in axes]
        for dtype, suffix in (("uint8", ".tif"), ("uint16", ".npy"), ("int32", ".npy")):
            data = rng.integers(0, 5, shape).astype(dtype)
            run.case(f"labels {entry['store']} {dtype} {suffix}", labels_case, run, entry, data, axes, suffix)


def labels_case(run, entry, data, axes, suffix):
    source, target = run.fresh(suffix), run.fresh(".zarr")
    shutil.copytree(run.path(entry), target)
    tifffile.imwrite(source, data, photometric="minisblack", metadata={"axes": axes.upper()}) if suffix == ".tif" else np.save(source, data)
    run.call("image", "add-labels", target, "added", "--from", source, "--axes", axes, "--colors", "1=FF000080", "--colors", "3=00FF00FF")
    document = run.json("image", "info", target, "--json")["images"][0]
    image = entry["images"][0]
    check([lb["name"] for lb in document["labels"]] == [lb["name"] for lb in image["labels"]] + ["added"], f"labels {[lb['name'] for lb in document['labels']]}")
    added = document["labels"][-1]
    check(len(added["levels"]) == len(image["levels"]), f"{len(added['levels'])} levels, the image has {len(image['levels'])}")
    check([(c["value"], c["rgba"]) for c in added["colors"]] == [(1, [255, 0, 0, 128]), (3, [0, 255, 0, 255])], f"colours {added['colors']}")
    below, _, scales = scales_of(target, "labels/added")
    levels = [below[d["path"]][...] for d in scales["datasets"]]
    check(np.array_equal(levels[0].reshape(data.shape), data), "other pixels")
    for above, level in zip(levels, levels[1:]):
        factors = [2 if m != n else 1 for n, m in zip(above.shape, level.shape)]
        check(np.array_equal(level, ref.mode(above, factors)) or np.array_equal(level, ref.decimate(above, factors)), "a level is neither mode nor decimation")
    z = 1 if "z" in image["axes"] else 0
    shown = data[z] if data.ndim == 3 else data
    words = ["--z", z] if "z" in image["axes"] else []
    plain, over = run.picture(target, *words)[..., :3], run.picture(target, *words, "--labels", "added")[..., :3]
    wanted = ref.overlay(plain, shown, {1: [255, 0, 0, 128], 3: [0, 255, 0, 255]})
    told = np.isin(shown, (0, 1, 3))
    check(np.array_equal(over[told], wanted[told]), "the picture is another")
    valid(run, target, entry["version"])
    shutil.rmtree(target)


# ---------------------------------------------------------------------------------------------- upgrade, pack


def upgrade(run):
    chosen = ("seed-plain", "seed-service", "seed-nested", "seed-unlisted", "seed-cli", "v0.1.", "v0.1-unsaid", "v0.2.", "v0.2-number", "v0.2-no-sep", "v0.3.", "v0.3-yx", "v0.3-cyx",
              "v0.4-tczyx", "v0.4-yx", "v0.4-zlib", "v0.4-gzip", "v0.4-zstd", "v0.4-none", "v0.4-big", "v0.4-whole", "v0.5-tczyx", "v0.5-sharded", "v0.5-yx", "v0.6-tczyx",
              "v0.6-sharded", "v0.6-yx", "labels-", "plate-", "layout-series", "layout-counted", "old-", "omezarr-", "ngffzarr-")
    order = ["0.1 (seed)", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
    for entry in run.stores():
        if not entry["store"].startswith(chosen):
            continue
        here = order.index(entry["version"])
        for i, to in enumerate(order):
            # Down to 0.4 only, and up to anything from 0.2 on that has five dimensions.
            if to == entry["version"] or i < 2 or (i < 4 and i < here) or (to == "0.2" and len(entry["images"][0]["axes"]) < 5):
                continue
            run.case(f"upgrade {entry['store']} to {to}", upgrade_case, run, entry, to, False)
            if to in ("0.3", "0.5"):
                run.case(f"upgrade {entry['store']} in place to {to}", upgrade_case, run, entry, to, True)


def upgrade_case(run, entry, to, in_place):
    target = run.fresh(".zarr")
    if in_place:
        shutil.copytree(run.path(entry), target)
        run.call("image", "upgrade", target, "--in-place", "--to", to)
        left = [p.name for p in target.rglob("*") if p.name in ((".zgroup", ".zarray", ".zattrs") if to >= "0.5" else ("zarr.json",))]
        check(not left, f"left behind: {sorted(set(left))}")
    else:
        run.call("image", "upgrade", run.path(entry), target, "--to", to)
    document = run.json("image", "info", target, "--json")
    check(document["version"] == to, f"it is {document['version']} now")
    # Before 0.4 wells could be anywhere.
    paths = [i["path"].removeprefix("2020-10-10/") for i in entry["images"]]
    check([i["path"].removeprefix("2020-10-10/") for i in document["images"]] == paths, f"images {[i['path'] for i in document['images']]}")
    for image, now in zip(entry["images"], document["images"]):
        check("error" not in now, now.get("error"))
        check(now["version"] == to, f"{now['path']} is {now['version']}")
        root, _, scales = scales_of(target, now["path"])
        levels = [root[d["path"]] for d in scales["datasets"]]
        check(len(levels) == len(image["levels"]), "another number of levels")
        for level, wanted in zip(levels, image["levels"]):
            data = level[...]
            check(list(data.shape) == wanted["shape"] and int(data.sum(dtype=object)) == wanted["sum"], f"level {wanted['path']}: sum {int(data.sum(dtype=object))}, not {wanted['sum']}")
        check(sorted(lb["name"] for lb in now["labels"]) == sorted(lb["name"] for lb in image["labels"]), f"labels {[lb['name'] for lb in now['labels']]}")
        for wanted in image["labels"]:
            lb = next(x for x in now["labels"] if x["name"] == wanted["name"])
            data = zarr.open_array(joined(str(target), lb["levels"][0]["path"] if lb["levels"][0]["path"].startswith(lb["path"]) else joined(lb["path"], lb["levels"][0]["path"])), mode="r")[...]
            values, times = np.unique(data, return_counts=True)
            got = {str(int(v)): int(n) for v, n in zip(values, times)}
            check(got == wanted["counts"], f"label {wanted['name']}: {got}, not {wanted['counts']}")
        if not entry["store"].startswith(("plate", "layout")):
            opened(target, levels[0][...], peers=("ome-zarr", "ngff-zarr") if to < "0.6" else ("ngff-zarr",))
    for how in entry["pictures"]:
        if "only" not in how and not how.get("multiscale"):
            at = {"at": how["at"].removeprefix("2020-10-10/")} if how.get("at") and not (target / how["at"]).exists() else {}
            render_case(run, str(target), entry, {**how, **at})
    valid(run, target, to, collection=entry["store"].startswith("layout"))
    shutil.rmtree(target)


def pack(run):
    for entry in run.stores():
        if entry["store"].startswith(("v0.5-sharded", "v0.6-czyx", "labels-v0.5", "plate-v0.5")):
            run.case(f"pack {entry['store']}", pack_case, run, entry)


def pack_case(run, entry):
    packed, back = run.fresh(".ozx"), run.fresh(".zarr")
    run.call("image", "pack", run.path(entry), packed)
    with zipfile.ZipFile(packed) as z:
        names = z.namelist()
        check(names[0] == "zarr.json", f"the archive begins with {names[0]}")
        check(all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist()), "something is compressed")
        check(json.loads(z.comment)["ome"]["version"] == entry["version"], f"comment {z.comment}")
        jsons = [i for i, n in enumerate(names) if n.endswith("zarr.json")]
        check(jsons == list(range(len(jsons))), "metadata after data")
        wanted = {p.relative_to(run.path(entry)).as_posix() for p in Path(run.path(entry)).rglob("*") if p.is_file()}
        check(set(n for n in names if not n.endswith("/")) == wanted, "other files")
    for how in entry["pictures"]:
        render_case(run, str(packed), entry, how)
    run.call("image", "unpack", packed, back)
    for path in wanted:
        if not path.endswith("zarr.json"):
            check((back / path).read_bytes() == (Path(run.path(entry)) / path).read_bytes(), f"{path} is another")
    for how in entry["pictures"]:
        render_case(run, str(back), entry, how)


def hostile(run):
    """Documents with something wrong in them: an answer or an error, never a crash, never long."""
    rng = random.Random(run.seed)
    starts = ("seed-plain", "v0.1.zarr", "v0.3.zarr", "v0.4-tczyx", "v0.5-tczyx", "v0.6-systems", "v0.6-czyx", "plate-v0.4", "plate-v0.6", "layout-series-v0.5", "labels-v0.5", "views-v0.4", "look-nothing-3")
    entries = [e for e in run.stores() if e["store"].startswith(starts)]
    for i in range(run.hostile_cases if entries else 0):
        run.case(f"hostile {i}", hostile_case, run, rng.choice(entries), rng)


ODD = [None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 1e308, -1e-308, 0.5, "", "0", "..", "../..", "/", "a/b", "\u0000", "\U0001f600", "NaN", [], {}, [[]], [None], {"": {}}, "x" * 10000,
       [0] * 1000, "FFFFFF", "time", "space", "0.4", "0.6", "scale", "sequence", "identity", "affine", {"type": "scale", "scale": [0, 0]}, [1e300] * 5, [-1] * 5, "labels", "masks"]


def spoil(rng, value):
    """One place in a document, changed, removed or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            del value[key]
        else:
            value[key] = spoil(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        what = rng.random()
        if what < 0.1:
            del value[at]
        elif what < 0.25:
            value.append(json.loads(json.dumps(value[at])))
        elif what < 0.3:
            rng.shuffle(value)
        else:
            value[at] = spoil(rng, value[at])
        return value
    return rng.choice(ODD)


def hostile_case(run, entry, rng):
    target = run.fresh(".zarr")
    shutil.copytree(run.path(entry), target)
    files = sorted([*target.rglob(".zattrs"), *target.rglob("zarr.json"), *target.rglob(".zarray")], key=lambda p: (len(p.parts), str(p)))
    changed = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        file = files[min(int(rng.expovariate(0.5)), len(files) - 1)]
        document = json.loads(file.read_text())
        if file.name == "zarr.json" and isinstance(document, dict) and rng.random() < 0.9 and document.get("attributes"):
            document["attributes"] = spoil(rng, document["attributes"])
        else:
            document = spoil(rng, document)
        file.write_text(json.dumps(document))
        changed.append(file.relative_to(target).as_posix())
    to = rng.choice(("0.4", "0.5", "0.6"))
    commands = [("info", target), ("info", target, "--json"), ("validate", target, "--json"), ("render", target, "-o", run.fresh(".png"), "--labels", "all"),
                ("upgrade", target, run.fresh(".zarr"), "--to", to), ("pyramid", target, "--to", run.fresh(".zarr"), "--levels", "2"),
                ("edit", target, "--pixel-size", "x=0.5"), ("upgrade", target, "--in-place", "--to", to)]
    for words in commands:
        done = common.run([run.zaro, "image", *map(str, words)], timeout=20)
        if done.crash or "panicked" in done.message:
            kept = run.corpus.parent / f"hostile-{run.seed}-{target.name}"
            shutil.copytree(target, kept, dirs_exist_ok=True)
            raise Fault(f"{done.crash}: zaro image {' '.join(map(str, words))} of {entry['store']} with {changed} changed, kept in {kept}: {done.message[-300:]}")
        check(done.code in (0, 1, 2, 3, 4, 5, 6, 7), f"exit {done.code}: {words}")
        check(done.rss < 1 << 30, f"{done.rss >> 20} MB: {words} of {entry['store']} with {changed} changed")
    shutil.rmtree(target)


PARTS = {f.__name__: f for f in (reference, info, read, validate, render, pyramid, convert, edit, labels, upgrade, pack, hostile)}


def main():
    options = common.parser(__doc__)
    options.add_argument("--corpus", type=Path, help="a corpus that make_images.py made")
    options.add_argument("--only", default=",".join(PARTS), help="the parts, with commas")
    options.add_argument("--match", help="only cases with this in their name")
    options.add_argument("--keep", type=Path, help="work in this folder and leave what is there")
    options.add_argument("--seed", type=int, default=1, help="of the part hostile")
    options.add_argument("--hostile-cases", type=int, default=60)
    options.add_argument("--old-writer", help="a Python with ome-zarr 0.11 and zarr 2.18, for make_images.py")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = given.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        corpus = given.corpus
        if corpus is None:
            corpus = scratch / "corpus"
            old = ["--old-writer", given.old_writer] if given.old_writer else []
            subprocess.run([sys.executable, str(Path(__file__).with_name("make_images.py")), str(corpus), *old], check=True)
        run = Run(given, corpus.resolve(), scratch)
        for part in given.only.split(","):
            began, before = time.monotonic(), (run.tally.passed, run.tally.failed)
            PARTS[part](run)
            passed, failed = run.tally.passed - before[0], run.tally.failed - before[1]
            print(f"  {part}: {passed} passed, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
        return run.tally.close()


if __name__ == "__main__":
    sys.exit(main())

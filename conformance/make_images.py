"""A corpus of small OME-Zarr images of every version, with what is expected of each.

    make_images.py FOLDER [--old-writer PYTHON]

Writes the stores, `pictures/*.npy` and `expected.json` into FOLDER, which must not exist or be a corpus. The stores
are written by zarr-python, and some by the libraries themselves: ome-zarr-py and, where it is installed, ngff-zarr.
`--old-writer` names a Python that has ome-zarr 0.11 and zarr 2.18, the true writers of 0.1 to 0.4. What older
programs wrote in their own way (masks of the draft before 0.1, chunk keys that the metadata does not tell) is made
here as they made it. Pictures come from ome_reference.py.

expected.json is a list. Of each store: `store`; `version`, and `assumed` if the documents do not say so; `images`, of
each its path, axes, levels with their sums, and labels with the counts of their values; `pictures`: how to draw (`at`, `z`,
`t`, `labels`, `multiscale`, `level`, ...) and the file with the pixels; `rule`: the rule of the validator that the store
breaks, with `strength`, or null if it breaks no MUST.
"""

import argparse
import copy
import json
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import ome_reference as ref

try:
    import numcodecs
    import numpy as np
    import zarr
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

KINDS = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
SPACE = {"z": 2.0, "y": 0.5, "x": 0.25}
EXPECTED = []
ROOT = Path()


# ---------------------------------------------------------------------------------------------- data


def pixels(shape, dtype, seed=1):
    """Smooth waves and some noise over the whole range of the type, the ends of it included."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    field = np.zeros(shape)
    for axis, size in enumerate(shape):
        at = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        field = field + np.sin(at * (0.19 + 0.11 * axis) + seed + axis)
    field = field + rng.normal(0, 0.15, shape)
    field = (field - field.min()) / max(np.ptp(field), 1e-9)
    if dtype.kind == "f":
        return (field * 3 - 1).astype(dtype)
    low, high = ref.whole_range(dtype)
    if dtype.itemsize == 8:
        low, high = max(low, -(2**52)), min(high, 2**53)
    data = np.round(low + field * (high - low)).astype(dtype)
    data.flat[0], data.flat[-1] = low, high
    return data


def small(shape, dtype, seed=1):
    """As pixels, but most of it in a low range, as a camera has it."""
    return (pixels(shape, np.uint16, seed) // 40 + 100).astype(dtype)


def objects(shape, dtype, values=(1, 2, 3)):
    """Rectangles of values, apart from each other, the same in every plane."""
    label = np.zeros(shape, dtype)
    h, w = shape[-2:]
    for i, value in enumerate(values):
        top, left = (i % 3) * h // 3 + 1, (i // 3 % 3) * w // 3 + 2
        label[..., top : top + h // 4, left : left + w // 5] = value
    return label


def pyramid(data, axes, levels, how=ref.mean, z=False):
    """The levels: each half as large in y and x."""
    out = [data]
    for _ in range(levels - 1):
        factors = [2 if a in ("yxz" if z else "yx") and n > 1 else 1 for a, n in zip(axes, out[-1].shape)]
        out.append(how(out[-1], factors))
    return out


# ---------------------------------------------------------------------------------------------- writing


def folder(store, path=""):
    return ROOT / store / path if path else ROOT / store


def load(path):
    return json.loads(path.read_text())


def save(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def group(store, path="", attributes=None, v3=False):
    """A group's metadata. An old one has its attributes in a file of their own."""
    at = folder(store, path)
    at.mkdir(parents=True, exist_ok=True)
    if v3:
        save(at / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": attributes or {}})
    else:
        save(at / ".zgroup", {"zarr_format": 2})
        if attributes is not None:
            save(at / ".zattrs", attributes)


def array(store, path, data, *, v3=False, chunks=None, separator="/", codec="zlib", names=None, attributes=None,
          shards=None, dtype=None, **patch):
    """An array by zarr-python; `patch` changes entries of .zarray after it, None removes one."""
    chunks = chunks or tuple(1 if i < data.ndim - 2 else min(n, 16) for i, n in enumerate(data.shape))
    v2_codecs = {"zlib": numcodecs.Zlib(6), "blosc": numcodecs.Blosc("lz4"), "zstd": numcodecs.Zstd(3), "gzip": numcodecs.GZip(5), "none": None}
    v3_codecs = {"zlib": zarr.codecs.ZstdCodec(), "zstd": zarr.codecs.ZstdCodec(), "blosc": zarr.codecs.BloscCodec(), "gzip": zarr.codecs.GzipCodec(), "none": None}
    options = {"shards": shards, "dimension_names": names} if v3 else {}
    made = zarr.create_array(
        store=str(folder(store, path)), shape=data.shape, chunks=chunks, dtype=dtype or data.dtype, overwrite=True,
        zarr_format=3 if v3 else 2, compressors=(v3_codecs if v3 else v2_codecs)[codec], fill_value=0,
        chunk_key_encoding={"name": "default" if v3 else "v2", "separator": separator}, attributes=attributes or {}, **options)
    made[...] = data
    if not v3 and not attributes:
        (folder(store, path) / ".zattrs").unlink(missing_ok=True)
    if patch:
        document = load(folder(store, path) / ".zarray")
        for key, value in patch.items():
            document.pop(key, None)
            if value is not None:
                document[key] = value
        save(folder(store, path) / ".zarray", document)


def channel(color="FFFFFF", start=0, end=255, **more):
    return {"active": True, "coefficient": 1.0, "color": color, "family": "linear", "inverted": False, "label": color,
            "window": {"min": 0, "max": 65535, "start": start, "end": end}, **more}


def omero(*channels, z=0, t=0, model="color", **more):
    return {"id": 1, "name": "made", "channels": list(channels), "rdefs": {"defaultT": t, "defaultZ": z, "model": model}, **more}


# ---------------------------------------------------------------------------------------------- documents


def axes_of(version, axes):
    if version == "0.3":
        return list(axes)
    units = {"time": "second", "space": "micrometer"}
    return [{"name": a, "type": KINDS[a], **({"unit": units[KINDS[a]]} if KINDS[a] in units else {})} for a in axes]


def transforms(axes, shapes, level, mean, origin=0.0):
    """Scale, and a translation if there is one."""
    scale = [SPACE.get(a, 1.0) * round(n0 / n) for a, n0, n in zip(axes, shapes[0], shapes[level])]
    base = [SPACE.get(a, 1.0) for a in axes]
    move = [(s - b) / 2 + (origin if a in "yx" else 0.0) if mean else 0.0 for a, s, b in zip(axes, scale, base)]
    out = [{"type": "scale", "scale": scale}]
    if any(move):
        out.append({"type": "translation", "translation": move})
    return out


def multiscale(version, axes, paths, shapes, name="image", mean=True, origin=0.0):
    """One entry of multiscales, as the version has it."""
    document = {"name": name, "datasets": [{"path": p} for p in paths]}
    if version <= "0.4":
        document["version"] = version
    if version >= "0.2":
        document.update(type="mean" if mean else "nearest", metadata={"method": "conformance/make_images.py", "version": "1"})
    if version in ("0.3", "0.4", "0.5"):
        document["axes"] = axes_of(version, axes)
    if version >= "0.4":
        for level, dataset in enumerate(document["datasets"]):
            steps = transforms(axes, shapes, level, mean, origin)
            if version >= "0.6":
                side = {"input": {"path": dataset["path"]}, "output": {"name": "physical"}}
                steps = [{**side, **steps[0]}] if len(steps) == 1 else [{"type": "sequence", "transformations": steps, **side}]
            dataset["coordinateTransformations"] = steps
    if version >= "0.6":
        document["coordinateSystems"] = [{"name": "physical", "axes": axes_of(version, axes)}]
    return document


def wrap(version, attributes):
    """The attributes of a group, as the version places them."""
    return {"ome": {"version": version, **attributes}} if version >= "0.5" else attributes


def image_label(version, colours, properties=None, source="../../"):
    document = {"colors": [{"label-value": v, "rgba": list(rgba)} for v, rgba in colours.items()], "source": {"image": source}}
    if properties and version >= "0.2":
        document["properties"] = [{"label-value": v, **p} for v, p in properties.items()]
    return {"version": version, **document} if version <= "0.5" else document


# ---------------------------------------------------------------------------------------------- whole images


class Image:
    """A whole image of a version: it writes itself and knows what must be found in it."""

    def __init__(self, store, version, axes, shape, dtype="uint16", path="", levels=2, seed=1, data=None, draw=None,
                 codec=None, separator=None, shards=None, names=None, name="image", how=ref.mean, origin=0.0, chunks=None,
                 z_too=False, more=None):
        self.store, self.version, self.axes, self.path, self.omero = store, version, axes, path, draw
        self.v3 = version >= "0.5"
        data = small(shape, dtype, seed) if data is None else data
        self.levels = pyramid(data, axes, levels, how, z_too)
        self.names = names or [("s" if self.v3 else "") + str(i) for i in range(levels)]
        self.separator = separator or ("." if version == "0.1" else "/")
        self.codec = codec or ("zstd" if self.v3 else "blosc")
        self.labels, self.parts, self.listed = {}, {}, []
        attributes = {"multiscales": [multiscale(version, axes, self.names, [d.shape for d in self.levels], name, how is ref.mean, origin)]}
        if draw:
            attributes["omero"] = {**draw, **({"version": version} if version <= "0.4" else {})}
        attributes.update(more or {})
        group(store, path, wrap(version, attributes), self.v3)
        for name, level in zip(self.names, self.levels):
            self.array(name, level, shards=shards, chunks=chunks)

    def at(self, *parts):
        return "/".join(p for p in (self.path, *parts) if p)

    def array(self, name, data, axes=None, shards=None, chunks=None, **more):
        axes = axes or self.axes
        attributes = {"_ARRAY_DIMENSIONS": list(axes)} if self.version == "0.3" else None
        if shards:
            chunks = tuple(1 if i < data.ndim - 2 else 8 for i in range(data.ndim))
            shards = tuple(c * (2 if i >= data.ndim - 2 else 1) for i, c in enumerate(chunks))
        more = {"attributes": attributes, **more}
        array(self.store, self.at(name), data, v3=self.v3, separator=self.separator, codec=self.codec, chunks=chunks,
              names=list(axes) if self.v3 else None, shards=shards, **more)

    def label(self, name, data, colours, axes=None, levels=None, properties=None):
        """Labels: a pyramid by the first samples."""
        axes = axes or self.axes
        parts = pyramid(data, axes, levels or len(self.levels), ref.decimate)
        names = self.names if levels is None else [str(i) for i in range(levels)]
        document = {"multiscales": [multiscale(self.version, axes, names, [d.shape for d in parts], name, mean=False)],
                    "image-label": image_label(self.version, colours, properties, "../" * (2 + name.count("/")))}
        group(self.store, self.at("labels", name), wrap(self.version, document), self.v3)
        for path, level in zip(names, parts):
            self.array(f"labels/{name}/{path}", level, axes)
        self.listed.append(name)
        group(self.store, self.at("labels"), wrap(self.version, {"labels": self.listed}), self.v3)
        self.labels[name] = (f"labels/{name}/{names[0]}", data, dict(colours), axes)
        self.parts[name] = parts
        return self

    def plane(self, data, axes, z, t, channels=True):
        """The planes (c, y, x) of one z and t."""
        for axis, index in (("t", t), ("z", z)):
            if axis in axes:
                at = axes.index(axis)
                data = np.take(data, min(index, data.shape[at] - 1), at)
                axes = axes.replace(axis, "")
        if "c" not in axes:
            data, axes = data[None], "c" + axes
        data = data.transpose([axes.index(a) for a in "cyx"])
        return data if channels else data[0]

    def picture(self, z=0, t=0, level=0, labels=(), draw=None, planes=None, opacity=1.0):
        planes = self.plane(self.levels[level], self.axes, z, t) if planes is None else planes
        out = ref.draw(planes, draw or self.omero)
        for name in labels:
            _, data, colours, axes = self.labels[name]
            # Labels have levels of their own; a mask has but one.
            same = [d for d in self.parts.get(name, ()) if d.shape[-2:] == out.shape[:2]]
            data = same[0] if same else data
            flat = self.plane(data, axes, z, t, channels=False)
            out = ref.overlay(out, ref.resample(flat, out.shape[:2]), colours, opacity)
        return out

    def known(self):
        """What must be found."""
        labels = [{"name": n, "path": path, "counts": counts(data)} for n, (path, data, _, _) in self.labels.items()]
        return {"path": self.path, "axes": self.axes, "dtype": self.levels[0].dtype.name,
                "levels": [level(n, d) for n, d in zip(self.names, self.levels)], "labels": labels,
                "channels": len(self.omero["channels"]) if self.omero else None,
                "scale": [SPACE.get(a, 1.0) for a in self.axes] if self.version >= "0.4" else None}


def counts(data):
    values, times = np.unique(data, return_counts=True)
    return {str(int(v)): int(n) for v, n in zip(values, times)}


def level(path, data):
    total = float(data.astype(np.float64).sum()) if data.dtype.kind == "f" else int(data.sum(dtype=object))
    return {"path": path, "shape": list(data.shape), "dtype": data.dtype.name, "sum": total}


def expect(store, version, images, pictures=(), rule=None, strength=None, **more):
    """Files the pictures and notes the store."""
    filed = []
    for i, (how, drawn) in enumerate(pictures):
        at = f"pictures/{Path(store).name}-{i}.npy"
        (ROOT / "pictures").mkdir(exist_ok=True)
        np.save(ROOT / at, drawn)
        filed.append({**how, "pixels": at})
    EXPECTED.append({"store": store, "version": version, "images": images, "pictures": filed, "rule": rule,
                     "strength": strength, **more})


TWO = omero(channel("0000FF", 150, 1500, label="LaminB1"), channel("FFFF00", 200, 1200, family="polynomial", coefficient=2.0, inverted=True, label="DAPI"), z=1)
COLOURS = {1: [0, 128, 0, 128], 2: [255, 0, 0, 128], 3: [255, 255, 255, 255]}


# ---------------------------------------------------------------------------------------------- the draft, and 0.1 to 0.3


def seed_image(store, more=None, **options):
    return Image(store, "0.1", "tczyx", (2, 2, 3, 32, 48), draw=TWO, codec="zlib", more=more, **options)


def drop_versions(store):
    path = folder(store) / ".zattrs"
    document = load(path)
    for part in (*document["multiscales"], document.get("omero", {})):
        part.pop("version", None)
    save(path, document)


def no_separator(store):
    """Metadata without `dimension_separator`, as all had it in 2020."""
    for path in folder(store).rglob(".zarray"):
        document = load(path)
        document.pop("dimension_separator", None)
        save(path, document)


def masked(image, name, data, packed, folder_name="masks", attributes=None, **options):
    """A mask: a plain array and its colours in one number each."""
    options = {"chunks": (*(1 for _ in data.shape[:-2]), *data.shape[-2:]), "separator": image.separator, "codec": "zlib", **options}
    array(image.store, f"{folder_name}/{name}", data, attributes={"color": packed, **(attributes or {})}, **options)
    colours = {1 if k == "true" else int(k): ref.rgba_of(v) for k, v in packed.items()}
    image.labels[name] = (f"{folder_name}/{name}", data, colours, "tczyx")


def seeds():
    # The layout as it is told: two pyramids, flat keys, colours signed and not.
    store = "seed-plain.zarr"
    im = seed_image(store)
    mip = im.levels[0].max(2, keepdims=True)
    array(store, "mip", mip, separator=".", codec="zlib")
    document = load(folder(store) / ".zattrs")
    document["multiscales"][0]["name"] = "default"
    document["multiscales"].append({"name": "projection", "version": "0.1", "datasets": [{"path": "mip"}]})
    save(folder(store) / ".zattrs", document)
    group(store, "masks", {"masks": ["original/0", "original/1"]})
    masked(im, "original/0", objects((1, 1, 1, 32, 48), "<i8"), {"1": 8388736, "2": 4278190335, "3": -1})
    masked(im, "original/1", objects((2, 1, 3, 32, 48), "<i4", (0, 0, 0, 7, 8)), {"7": -8388480, "8": 100100})
    no_separator(store)
    expect(store, "0.1 (seed)", [im.known()], [
        ({"z": 1, "t": 0}, im.picture(1, 0)),
        ({}, im.picture(1, 0)),
        ({"z": 2, "t": 1, "labels": ["original/0"]}, im.picture(2, 1, labels=["original/0"])),
        ({"z": 0, "t": 1, "labels": ["original/0", "original/1"]}, im.picture(0, 1, labels=["original/0", "original/1"])),
        ({"z": 0, "t": 0, "multiscale": "projection"}, im.picture(planes=mip[0, :, 0])),
        ({"z": 1, "t": 0, "multiscale": "3D"}, im.picture(1, 0)),
        ({"z": 1, "t": 0, "level": 1}, im.picture(1, 0, 1)),
        ({"z": 1, "t": 0, "level": 1, "labels": ["original/0"]}, im.picture(1, 0, 1, ["original/0"])),
    ])

    # Nobody lists the masks, and the folder between is no group.
    store = "seed-unlisted.zarr"
    im = seed_image(store, levels=1)
    group(store, "masks", {})
    masked(im, "0", objects((1, 1, 3, 32, 48), "<i8"), {"1": 16711808, "2": -16776961})
    masked(im, "original/1", objects((1, 1, 1, 32, 48), "<i2", (0, 0, 9)), {"9": -1})
    (folder(store, "masks/original") / ".zgroup").unlink(missing_ok=True)
    no_separator(store)
    drop_versions(store)
    im.labels["0"][2].update({3: [0, 0, 0, 0]})
    seen = im.picture(1, 0, labels=["0"])
    expect(store, "0.1 (seed)", [im.known()], [({"z": 1, "t": 0, "labels": ["0"], "only": {"0": [0, 1, 2]}}, seen)], assumed=True)

    # As the OMERO service made them: boolean masks of 0xFF, big-endian ids with a fill value of false, an overlap.
    store = "seed-service.zarr"
    im = seed_image(store, levels=1)
    for path in (folder(store) / "0").iterdir():
        path.unlink()
    array(store, "0", im.levels[0], separator=".", codec="zlib", dtype=">u2")
    group(store, "masks", {"masks": ["labeled", "17"]})
    ids = objects((1, 1, 1, 32, 48), ">i8", (17, 123456, 2**63 - 1))
    masked(im, "labeled", ids, {"17": 8388736, "123456": -16776961, str(2**63 - 1): -1}, fill_value=False,
           attributes={"image": {"array": "../../0/"}})
    split = objects((1, 1, 1, 32, 48), "|b1", (0, 1))
    masked(im, "17", split, {"true": 16711808}, fill_value=False, codec="none", attributes={"image": {"array": "../../0/"}},
           compressor={"id": "zlib", "level": 6})
    (folder(store, "masks/17") / "0.0.0.0.0").write_bytes(zlib.compress(np.where(split, 0xFF, 0).astype(np.uint8).tobytes(), 6))
    no_separator(store)
    expect(store, "0.1 (seed)", [im.known()], [
        ({"z": 1, "t": 0}, im.picture(1, 0)),
        ({"z": 1, "t": 0, "labels": ["labeled"]}, im.picture(1, 0, labels=["labeled"])),
        ({"z": 1, "t": 0, "labels": ["17"]}, im.picture(1, 0, labels=["17"])),
    ])

    # The same service gave nested keys, and metadata that does not say so.
    store = "seed-nested.zarr"
    im = seed_image(store, levels=2, separator="/")
    group(store, "masks", {"masks": ["labeled"]})
    masked(im, "labeled", objects((1, 1, 1, 32, 48), ">i8", (1, 2)), {"1": 8388736, "2": -1})
    no_separator(store)
    expect(store, "0.1 (seed)", [im.known()], [
        ({"z": 1, "t": 0}, im.picture(1, 0)),
        ({"z": 1, "t": 1, "labels": ["labeled"]}, im.picture(1, 1, labels=["labeled"])),
    ], rule="V39", strength="lint", nested=True)

    # omero-cli-zarr: no name, one level, `--mask-bits 8`.
    store = "seed-cli.zarr"
    im = seed_image(store, levels=1)
    document = load(folder(store) / ".zattrs")
    document["multiscales"] = [{"version": "0.1", "datasets": [{"path": "0"}]}]
    save(folder(store) / ".zattrs", document)
    group(store, "masks", {"masks": ["0"]})
    masked(im, "0", objects((2, 1, 3, 32, 48), "|i1"), {"1": 8388736, "2": -16776961, "3": -1}, codec="blosc",
           attributes={"image": {"array": "../../0", "source": {}}})
    no_separator(store)
    expect(store, "0.1 (seed)", [im.known()], [({"z": 1, "t": 0, "labels": ["0"]}, im.picture(1, 0, labels=["0"]))])

    # After the renaming: `labels`, but still plain arrays.
    store = "seed-between.zarr"
    im = seed_image(store, levels=1)
    group(store, "labels", {"labels": ["0"]})
    masked(im, "0", objects((1, 1, 3, 32, 48), "<i8"), {"1": 8388736, "2": -16776961, "3": -1}, folder_name="labels")
    no_separator(store)
    expect(store, None, [im.known()], [({"z": 1, "t": 0, "labels": ["0"]}, im.picture(1, 0, labels=["0"]))], rule="any")


def early():
    for version in ("0.1", "0.2", "0.3"):
        store = f"v{version}.zarr"
        im = Image(store, version, "tczyx", (2, 2, 3, 32, 48), draw=TWO, levels=3)
        im.label("cells", objects((2, 1, 3, 32, 48), "uint8"), COLOURS, properties={v: {"area": 12.5 * v, "class": "one"} for v in COLOURS})
        expect(store, version, [im.known()], [
            ({}, im.picture(1, 0)),
            ({"z": 2, "t": 1, "labels": ["cells"]}, im.picture(2, 1, labels=["cells"])),
            ({"z": 0, "t": 0, "level": 2}, im.picture(0, 0, 2)),
        ])
        # No version anywhere: the form tells.
        store = f"v{version}-unsaid.zarr"
        im = Image(store, version, "tczyx", (1, 2, 2, 20, 30), draw=TWO, levels=2)
        drop_versions(store)
        expect(store, version, [im.known()], [({}, im.picture(1, 0))], assumed=True)
    # A number and not a text, and nested keys that the metadata does not tell: 20 such are in DANDI.
    store = "v0.2-number.zarr"
    im = Image(store, "0.2", "tczyx", (1, 2, 2, 20, 30), draw=TWO)
    document = load(folder(store) / ".zattrs")
    document["multiscales"][0]["version"] = document["omero"]["version"] = 0.2
    save(folder(store) / ".zattrs", document)
    expect(store, "0.2", [im.known()], [({}, im.picture(1, 0))], rule="V4")
    store = "v0.2-no-separator.zarr"
    im = Image(store, "0.2", "tczyx", (1, 2, 2, 20, 30), draw=TWO)
    no_separator(store)
    expect(store, "0.2", [im.known()], [({}, im.picture(1, 0))], rule="V7", strength="must", nested=True)
    for axes, shape in (("yx", (20, 30)), ("zyx", (3, 20, 30)), ("cyx", (2, 20, 30)), ("tcyx", (2, 2, 20, 30)), ("tzyx", (2, 3, 20, 30))):
        store = f"v0.3-{axes}.zarr"
        channels = TWO["channels"] if "c" in axes else TWO["channels"][:1]
        im = Image(store, "0.3", axes, shape, draw=omero(*channels, z=0))
        how = {a: 1 for a in "zt" if a in axes}
        expect(store, "0.3", [im.known()], [(how, im.picture(how.get("z", 0), how.get("t", 0)))])


# ---------------------------------------------------------------------------------------------- 0.4 and later


def axes_orders():
    sizes = {"t": 2, "c": 2, "z": 3, "y": 21, "x": 35}
    for version in ("0.4", "0.5", "0.6"):
        for axes in ("yx", "zyx", "cyx", "tyx", "czyx", "tcyx", "tzyx", "tczyx"):
            store = f"v{version}-{axes}.zarr"
            channels = TWO["channels"] if "c" in axes else TWO["channels"][:1]
            im = Image(store, version, axes, tuple(sizes[a] for a in axes), draw=omero(*channels, z=1 if "z" in axes else 0), levels=2, origin=10.0)
            # Labels have no channels; they are of all z.
            flat = axes.replace("c", "")
            im.label("cells", objects(tuple(sizes[a] for a in flat), "uint16"), {0: [0, 0, 128, 128], **COLOURS}, axes=flat)
            z, t = ("z" in axes) * 2, ("t" in axes) * 1
            how = {k: v for k, v in (("z", z), ("t", t)) if k in axes}
            expect(store, version, [im.known()], [
                ({}, im.picture(1 if "z" in axes else 0, 0)),
                ({**how, "labels": ["cells"]}, im.picture(z, t, labels=["cells"])),
            ])


def types():
    windows = {"uint8": (10, 200), "uint16": (500, 60000), "uint32": (2**20, 2**32 - 5), "uint64": (2**40, 2**52), "int16": (-20000, 20000),
               "int8": (-100, 100), "int32": (-(2**30), 2**30), "float32": (-0.75, 1.5), "float64": (-0.5, 1.25)}
    for version in ("0.4", "0.5"):
        for dtype, (start, end) in windows.items():
            store = f"v{version}-{dtype}.zarr"
            data = pixels((2, 24, 40), dtype, 3)
            if dtype == "float32":
                data[0, 3, 3], data[1, 4, 4], data[0, 5, 5] = np.nan, np.inf, -np.inf
            draw = omero(channel("FF8000", start, end), channel("0080FF", start, end, family="polynomial", coefficient=0.5))
            im = Image(store, version, "cyx", data.shape, data=data, draw=draw, levels=1 if dtype.startswith("float") else 2)
            known = im.known()
            if dtype == "float32":
                known["levels"][0].update(sum=float(data[np.isfinite(data)].astype(np.float64).sum()), finite=int(np.isfinite(data).sum()))
            expect(store, version, [known], [({}, im.picture())])


def looks():
    """Every way to draw, on all values of a byte and on the range of a camera."""
    ramp = np.stack([np.arange(256, dtype=np.uint8).reshape(16, 16), np.arange(255, -1, -1, dtype=np.uint8).reshape(16, 16),
                     pixels((16, 16), "uint8", 5), pixels((16, 16), "uint8", 6)])
    wide = np.stack([np.linspace(0, 65535, 1024).astype(np.uint16).reshape(32, 32), pixels((32, 32), "uint16", 7)])
    families = [("linear", 1.0), ("linear", 3.0), ("polynomial", 0.5), ("polynomial", 1.0), ("polynomial", 2.0), ("polynomial", 2.2),
                ("logarithmic", 1.0), ("logarithmic", 2.0), ("exponential", 1.0), ("exponential", 0.3), ("exponential", 0.6)]
    cases = {}
    for family, k in families:
        for inverted in (False, True):
            name = f"{family}-{k}{'-inverted' if inverted else ''}"
            cases[name] = (ramp, omero(channel("FF0000", 0, 255, family=family, coefficient=k, inverted=inverted),
                                       channel("00FF00", 20, 200, family=family, coefficient=k, inverted=inverted),
                                       channel("808080", 0, 255, active=False), channel("3060FF", 100, 101, family=family, coefficient=k)))
            cases[f"{name}-wide"] = (wide, omero(channel("FFFFFF", 0, 65535, family=family, coefficient=k, inverted=inverted),
                                                 channel("FF00FF", 300, 40000.5, family=family, coefficient=k)))
    four = [channel("0000FF", 0, 100), channel("FFFF00", 0, 100), channel("00FF00", 0, 100), channel("FF0000", 0, 100, active=False)]
    grey = [channel("0000FF", 0, 100, active=False), channel("FFFF00", 10, 240, inverted=True), channel("00FF00", 0, 100), channel("FF0000")]
    cases["blend"] = (ramp, omero(*four))
    cases["greyscale"] = (ramp, omero(*grey, model="greyscale"))
    cases["none-active"] = (ramp, omero(*[{**c, "active": False} for c in four]))
    cases["all-white"] = (ramp, omero(*[channel("FFFFFF", 0, 200 + i) for i in range(4)]))
    cases["upside-down"] = (ramp, omero(channel("FFFFFF", 200, 100), *[channel("000000")] * 3))
    cases["too-wide"] = (ramp, omero(channel("FFFFFF", 0, 65535), *[channel("000000")] * 3))
    cases["below-zero"] = (ramp, omero(channel("FFFFFF", -10, 100), *[channel("000000")] * 3))
    cases["point"] = (ramp, omero(channel("FFFFFF", 100, 100), channel("FF0000", 7, 7, inverted=True), *[channel("000000")] * 2))
    cases["lower-case"] = (ramp, omero(channel("ff8000"), channel("00aaFF"), *[channel("000000")] * 2))
    cases["no-rdefs"] = (ramp, {"channels": four})
    cases["sparse"] = (ramp, {"channels": [{"color": "FF0000", "window": {"start": 0, "end": 200, "min": 0, "max": 255}},
                                           {"color": "00FF00", "window": {"start": 50, "end": 200}, "active": True},
                                           {"color": "0000FF", "window": {"start": 0, "end": 255}, "active": False, "family": "polynomial"},
                                           {"color": "FFFFFF", "window": {"start": 0, "end": 255}, "reverseIntensity": True}]})
    for i, (name, (data, draw)) in enumerate(cases.items()):
        version = ("0.4", "0.5", "0.6")[i % 3]
        store = f"look-{name}.zarr"
        im = Image(store, version, "cyx", data.shape, data=data, draw=draw, levels=1)
        kinds = {"upside-down": "V24", "too-wide": "V24", "below-zero": "V24", "point": "V24", "none-active": None, "sparse": "any"}
        expect(store, version, [im.known()], [({}, im.picture())], rule=kinds.get(name), strength="lint" if name in kinds else None)

    # No omero block at all: only what any sensible look has can be asked.
    for channels in (1, 2, 3, 4, 9):
        data = np.stack([small((32, 32), "uint16", 11 + c) for c in range(channels)])
        store = f"look-nothing-{channels}.zarr"
        im = Image(store, "0.5", "cyx", data.shape, data=data, levels=2)
        expect(store, "0.5", [im.known()], sensible=True)
    data = np.stack([small((32, 32), "uint16", 11 + c) for c in range(2)])
    Image("look-half.zarr", "0.4", "cyx", data.shape, data=data, draw={"channels": [{"label": "one"}, {"label": "two"}]})
    expect("look-half.zarr", "0.4", [], rule="V23", strength="must", sensible=True)


def views():
    """Parts, projections, other channels and colours than the image says, planes side by side."""
    for version, axes, shape in (("0.4", "tczyx", (2, 3, 4, 40, 56)), ("0.5", "czyx", (3, 4, 40, 56))):
        store = f"views-v{version}.zarr"
        draw = omero(channel("FF0000", 150, 1500, label="red"), channel("00FF00", 100, 1700, label="DAPI", family="polynomial", coefficient=0.5),
                     channel("0000FF", 300, 1000, label="blue", active=False), z=1)
        im = Image(store, version, axes, shape, draw=draw, levels=3)
        im.label("cells", objects(tuple(1 if a == "c" else n for a, n in zip(axes, shape)), "uint16"), COLOURS)
        base, deep = im.levels[0], axes.index("z")
        def project(how, start=0, stop=4, data=base, at=deep):
            cut = np.take(data, range(start, stop), at)
            out = cut.max(at) if how == "max" else np.floor(cut.astype(np.float64).mean(at) + 0.5).astype(data.dtype)
            return out[0] if axes[0] == "t" else out
        red, dapi, blue = draw["channels"]
        def only(*channels):
            return im.picture(1, draw={"channels": list(channels)})
        off = lambda c: {**c, "active": False}  # noqa: E731
        sheet = np.zeros((2 * 40, 2 * 56, 3), np.uint8)
        for z in range(4):
            sheet[z // 2 * 40 : z // 2 * 40 + 40, z % 2 * 56 : z % 2 * 56 + 56] = im.picture(z)
        expect(store, version, [im.known()], [
            ({"words": ["--crop", "10,5,20,30"]}, im.picture(1)[5:35, 10:30]),
            ({"words": ["--crop", "40,30,100,100"]}, im.picture(1)[30:, 40:]),
            ({"words": ["--crop", "10,6,20,30"], "labels": ["cells"]}, im.picture(1, labels=["cells"])[6:36, 10:30]),
            ({"words": ["--crop", "8,4,20,28"], "level": 1}, im.picture(1, level=1)[2:16, 4:14]),
            ({"words": ["--project", "max"]}, im.picture(planes=project("max"))),
            ({"words": ["--project", "max", "--z", "1:3"]}, im.picture(planes=project("max", 1, 3))),
            ({"words": ["--project", "mean"], "near": 1}, im.picture(planes=project("mean"))),
            ({"words": ["--size", "28"]}, im.picture(1, level=1)),
            ({"words": ["--size", "28x20"]}, im.picture(1, level=1)),
            ({"words": ["--channels", "2"]}, only(off(red), off(dapi), {**blue, "active": True})),
            ({"words": ["--channels", "red,blue"]}, only(red, off(dapi), {**blue, "active": True})),
            ({"words": ["--channel", "DAPI:color=FF8000,window=50:900,family=linear,inverted=true"]},
             only(off(red), channel("FF8000", 50, 900, inverted=True), blue)),
            ({"words": ["--model", "greyscale"]}, im.picture(1, draw={"channels": draw["channels"], "rdefs": {"model": "greyscale"}})),
            ({"words": ["--model", "greyscale", "--channels", "1"]}, im.picture(1, draw={"channels": [off(red), dapi, blue], "rdefs": {"model": "greyscale"}})),
            ({"words": ["--labels", "all", "--opacity", "0.5"], "z": 2}, im.picture(2, labels=["cells"], opacity=0.5)),
            ({"words": ["--contact-sheet"]}, sheet),
        ])


def transformed():
    # A scale of the whole pyramid, and labels of another pyramid: coarser, fewer levels.
    store = "v0.4-whole-scale.zarr"
    im = Image(store, "0.4", "cyx", (2, 32, 48), draw=omero(*TWO["channels"]), levels=3)
    document = load(folder(store) / ".zattrs")
    document["multiscales"][0]["coordinateTransformations"] = [{"type": "scale", "scale": [1.0, 2.0, 2.0]}]
    save(folder(store) / ".zattrs", document)
    known = im.known()
    known["scale"] = [1.0, 1.0, 0.5]
    expect(store, "0.4", [known], [({"level": 1}, im.picture(level=1)), ({}, im.picture())])

    store = "v0.4-coarse-labels.zarr"
    im = Image(store, "0.4", "cyx", (2, 32, 48), draw=omero(*TWO["channels"]), levels=3)
    im.label("coarse", objects((16, 24), "uint32"), COLOURS, axes="yx", levels=1)
    path = folder(store, "labels/coarse") / ".zattrs"
    document = load(path)
    document["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["scale"] = [2 * SPACE["y"], 2 * SPACE["x"]]
    save(path, document)
    expect(store, "0.4", [im.known()], [({"labels": ["coarse"]}, im.picture(labels=["coarse"])),
                                        ({"labels": ["coarse"], "level": 1}, im.picture(level=1, labels=["coarse"]))], rule="V26", strength="must")

    # The version is a number; or it is missing, and the transforms tell.
    for name, value in (("number", 0.4), ("unsaid", None)):
        store = f"v0.4-{name}.zarr"
        im = Image(store, "0.4", "zyx", (2, 20, 30), draw=omero(TWO["channels"][0]))
        drop_versions(store)
        if value:
            document = load(folder(store) / ".zattrs")
            document["multiscales"][0]["version"] = value
            save(folder(store) / ".zattrs", document)
        expect(store, "0.4", [im.known()], [({"z": 1}, im.picture(1))], rule="V4", assumed=value is None)

    # Shards; every separator and codec of V3; the last plane of z downsampled, too.
    for version in ("0.5", "0.6"):
        store = f"v{version}-sharded.zarr"
        im = Image(store, version, "tczyx", (2, 2, 3, 40, 56), draw=TWO, levels=2, shards=True)
        im.label("cells", objects((2, 1, 3, 40, 56), "int32"), COLOURS)
        expect(store, version, [im.known()], [({"z": 2, "t": 1, "labels": ["cells"]}, im.picture(2, 1, labels=["cells"]))])
        for codec, separator in (("none", "."), ("gzip", "/"), ("blosc", "/")):
            store = f"v{version}-{codec}.zarr"
            im = Image(store, version, "czyx", (2, 4, 24, 24), draw=TWO, levels=2, codec=codec, separator=separator, z_too=True)
            expect(store, version, [im.known()], [({"z": 3}, im.picture(3)), ({"z": 2, "level": 1}, im.picture(1, level=1))])
    for codec in ("none", "gzip", "zstd", "zlib"):
        store = f"v0.4-{codec}.zarr"
        im = Image(store, "0.4", "czyx", (2, 4, 24, 24), draw=TWO, levels=2, codec=codec)
        expect(store, "0.4", [im.known()], [({"z": 3}, im.picture(3))])
    store = "v0.4-big-endian.zarr"
    im = Image(store, "0.4", "cyx", (2, 24, 24), draw=omero(*TWO["channels"]), levels=1)
    shutil.rmtree(folder(store, "0"))
    array(store, "0", im.levels[0], dtype=">u2", codec="zlib")
    expect(store, "0.4", [im.known()], [({}, im.picture())])

    # 0.6: several systems, of which the levels lead to the second; an affine between them; a development version.
    store = "v0.6-systems.zarr"
    im = Image(store, "0.6", "czyx", (2, 3, 24, 36), draw=TWO, levels=2, origin=5.0)
    path = folder(store) / "zarr.json"
    document = load(path)
    scales = document["attributes"]["ome"]["multiscales"][0]
    world = [{"name": n, "type": "channel" if n == "w" else "space", **({} if n == "w" else {"unit": "millimeter"})} for n in "wabd"]
    scales["coordinateSystems"].insert(0, {"name": "world", "axes": world})
    affine = [[1, 0, 0, 0, 0], [0, 0.001, 0, 0, 3], [0, 0, 0, 0.001, 1], [0, 0, 0.001, 0, 2]]
    scales["coordinateTransformations"] = [{"type": "affine", "affine": affine, "input": {"name": "physical"}, "output": {"name": "world"}}]
    save(path, document)
    expect(store, "0.6", [im.known()], [({}, im.picture(1))])
    store = "v0.6-development.zarr"
    im = Image(store, "0.6", "yx", (24, 36), draw=omero(TWO["channels"][0]), levels=2)
    path = folder(store) / "zarr.json"
    document = load(path)
    document["attributes"]["ome"]["version"] = "0.6rc0"
    for dataset in document["attributes"]["ome"]["multiscales"][0]["datasets"][:1]:
        side = dataset["coordinateTransformations"][0]
        dataset["coordinateTransformations"] = [{"type": "identity", "input": side["input"], "output": side["output"]}]
    save(path, document)
    known = im.known()
    known["scale"] = None
    expect(store, "0.6", [known], [({}, im.picture())], rule="any")


# ---------------------------------------------------------------------------------------------- plates, layouts, archives


def plates():
    draw = omero(channel("00FF00", 100, 1700), channel("FF0000", 100, 1700))
    for version in ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6"):
        store, v3 = f"plate-v{version}.zarr", version >= "0.5"
        base = "2020-10-10/" if version == "0.1" else ""
        wells = [("A", "1", 0, 0), ("A", "3", 0, 2), ("B", "2", 1, 1)]
        listed = [{"path": f"{base}{r}/{c}", **({"rowIndex": i, "columnIndex": j} if version >= "0.4" else {})} for r, c, i, j in wells]
        said = {"version": version} if version <= "0.5" else {}
        plate = {**said, "name": "test", "field_count": 2, "rows": [{"name": "A"}, {"name": "B"}], "columns": [{"name": n} for n in "123"],
                 "wells": listed, "acquisitions": [{"id": 1, "name": "first", "maximumfieldcount": 1}, {"id": 2, "name": "second", "maximumfieldcount": 1}]}
        group(store, "", wrap(version, {"plate": plate}), v3)
        axes, shape = ("tczyx", (1, 2, 1, 16, 24)) if version <= "0.2" else ("cyx", (2, 16, 24))
        known, fields = [], {}
        for n, (row, column, i, j) in enumerate(wells):
            well = f"{base}{row}/{column}"
            for parent in ([base.strip("/")] if base else []) + [f"{base}{row}"]:
                if not (folder(store, parent) / (".zgroup", "zarr.json")[v3]).exists():
                    group(store, parent, None, v3)
            images = [{"path": str(f), "acquisition": f + 1} for f in (0, 1)]
            group(store, well, wrap(version, {"well": {**said, "images": images}}), v3)
            for f in (0, 1):
                im = Image(store, version, axes, shape, path=f"{well}/{f}", draw=draw, levels=2, seed=20 + 2 * n + f)
                known.append(im.known())
                fields[i, j, f] = im
        def mosaic(f, of=fields):
            out = np.zeros((2 * 8, 3 * 12, 3), np.uint8)
            for (i, j, g), im in of.items():
                if g == f:
                    out[i * 8 : i * 8 + 8, j * 12 : j * 12 + 12] = im.picture(level=1)
            return out
        both = np.concatenate([fields[0, 0, 0].picture(), fields[0, 0, 1].picture()], 1)
        expect(store, version, known, [
            ({"at": f"{base}B/2/1"}, fields[1, 1, 1].picture()),
            ({"plate": True}, mosaic(0)),
            ({"plate": True, "acquisition": 2}, mosaic(1)),
            ({"well": True, "at": f"{base}A/1"}, both),
        ])


XML = """<?xml version="1.0" encoding="UTF-8"?>
<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{}</OME>
"""
XML_IMAGE = """<Image ID="Image:{0}" Name="image {0}"><Pixels ID="Pixels:{0}" DimensionOrder="XYZCT" Type="uint16"
 SizeX="30" SizeY="20" SizeZ="1" SizeC="2" SizeT="1"><Channel ID="Channel:{0}:0" SamplesPerPixel="1"/>
 <Channel ID="Channel:{0}:1" SamplesPerPixel="1"/><MetadataOnly/></Pixels></Image>"""


def layouts():
    draw = omero(*TWO["channels"])
    for version in ("0.4", "0.5", "0.6"):
        v3 = version >= "0.5"
        for kind, names in (("series", ["1", "0", "second/a"]), ("counted", ["0", "1", "2"]), ("one", ["0"])):
            store = f"layout-{kind}-v{version}.zarr"
            group(store, "", wrap(version, {"bioformats2raw.layout": 3}), v3)
            images = [Image(store, version, "tczyx", (1, 2, 1, 20, 30), path=n, draw=draw, levels=2, seed=40 + i) for i, n in enumerate(names)]
            if kind == "series":
                group(store, "second", None, v3)
            if kind != "counted":
                group(store, "OME", wrap(version, {"series": names}), v3)
                (folder(store, "OME") / "METADATA.ome.xml").write_text(XML.format("".join(XML_IMAGE.format(i) for i in range(len(names)))))
            expect(store, version, [i.known() for i in images], [({"at": n}, i.picture()) for n, i in zip(names, images)])

    # A single file: the root's document first, nothing compressed, a comment that tells the version.
    for version in ("0.5", "0.6"):
        store = f"packed-v{version}.zarr"
        im = Image(store, version, "cyx", (2, 32, 48), draw=draw, levels=2, shards=True)
        im.label("cells", objects((1, 32, 48), "uint8"), COLOURS)
        document = load(folder(store) / "zarr.json")
        document["attributes"]["ome"]["zipFile"] = {"centralDirectory": {"jsonFirst": True}}
        name = f"packed-v{version}.ozx"
        files = sorted((p for p in folder(store).rglob("*") if p.is_file()), key=lambda p: (p.name != "zarr.json", len(p.parts), str(p)))
        with zipfile.ZipFile(ROOT / name, "w", zipfile.ZIP_STORED, allowZip64=True) as z:
            for path in files:
                z.write(path, path.relative_to(folder(store)).as_posix())
            z.comment = json.dumps({"ome": {"version": version, "zipFile": {"centralDirectory": {"jsonFirst": True}}}}).encode()
        expect(name, version, [im.known()], [({"labels": ["cells"]}, im.picture(labels=["cells"]))])
        shutil.rmtree(folder(store))


def more_labels():
    # Two labels in order, a group between, a sentinel, the last of two colours, values without a colour.
    for version in ("0.4", "0.5", "0.6"):
        store = f"labels-v{version}.zarr"
        im = Image(store, version, "czyx", (2, 2, 32, 48), draw=TWO, levels=2)
        cells = objects((1, 2, 32, 48), "uint8", (1, 2, 255))
        im.label("cells", cells, {1: [0, 128, 0, 128], 2: [10, 20, 30, 77], 255: [255, 0, 255, 200]},
                 properties={1: {"class": "a"}, 2: {"class": "b"}, 255: {"class": "overlap"}})
        im.label("deep/nuclei", objects((2, 32, 48), "int64", (0, 5, 0, 2**40)), {5: [255, 255, 0, 255], 2**40: [0, 0, 255, 1]}, axes="zyx")
        group(store, "labels/deep", {}, version >= "0.5")
        expect(store, version, [im.known()], [
            ({"z": 1, "labels": ["cells"]}, im.picture(1, labels=["cells"])),
            ({"z": 1, "labels": ["deep/nuclei"]}, im.picture(1, labels=["deep/nuclei"])),
            ({"z": 0, "labels": ["cells", "deep/nuclei"]}, im.picture(0, labels=["cells", "deep/nuclei"])),
            ({"z": 0, "level": 1, "labels": ["cells"]}, im.picture(0, level=1, labels=["cells"])),
        ])


# ---------------------------------------------------------------------------------------------- what is wrong


def mend(path, change):
    document = load(path)
    change(document)
    save(path, document)


def broken():
    """Right images of which one thing is made wrong; the rule that must find it."""

    def case(rule, name, change, versions=("0.4", "0.5"), strength="must", labels=False, axes="czyx", shape=(2, 3, 20, 30)):
        for version in versions:
            store = f"bad/{rule}-{name}-v{version}.zarr"
            draw = omero(*(TWO["channels"] if "c" in axes else TWO["channels"][:1]), z=0)
            im = Image(store, version, axes, shape, draw=draw, levels=2)
            if labels:
                im.label("cells", objects((1, *shape[1:]), "uint8"), COLOURS)
            path = folder(store) / ("zarr.json" if im.v3 else ".zattrs")
            document = load(path)
            ome = document["attributes"]["ome"] if im.v3 else document
            change(ome, ome["multiscales"][0] if ome.get("multiscales") else None, im)
            save(path, document)
            expect(store, version, [], rule=rule, strength=strength)

    def label_case(rule, name, change, versions=("0.4", "0.5"), strength="must"):
        def inner(ome, scales, im):
            path = folder(im.store, "labels/cells") / ("zarr.json" if im.v3 else ".zattrs")
            document = load(path)
            change(document["attributes"]["ome"] if im.v3 else document, im)
            save(path, document)
        case(rule, name, inner, versions, strength, labels=True)

    def steps(scales, i=1):
        return scales["datasets"][i]["coordinateTransformations"]

    everywhere = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
    wide = (1, 2, 3, 20, 30)
    def set_(of, key, value):
        of[key] = value
    case("V1", "empty-datasets", lambda o, m, i: set_(m, "datasets", []), everywhere, axes="tczyx", shape=wide)
    case("V1", "no-path", lambda o, m, i: m["datasets"][0].pop("path"), everywhere, axes="tczyx", shape=wide)
    case("V1", "number-path", lambda o, m, i: set_(m["datasets"][0], "path", 0), everywhere, axes="tczyx", shape=wide)
    case("V1", "twice", lambda o, m, i: o["multiscales"].append(copy.deepcopy(m)), everywhere, axes="tczyx", shape=wide)
    case("V2", "no-version", lambda o, m, i: o.pop("version"), ("0.5", "0.6"))
    case("V4", "number", lambda o, m, i: set_(m, "version", float(m["version"])), ("0.1", "0.2", "0.3", "0.4"), None, axes="tczyx", shape=wide)
    case("V5", "no-array", lambda o, m, i: shutil.rmtree(folder(i.store, i.names[1])), everywhere, axes="tczyx", shape=wide)
    case("V5", "other-rank", lambda o, m, i: i.array(i.names[1], i.levels[1][0], axes="zyx"), ("0.3", "0.4", "0.5", "0.6"))
    case("V6", "four", lambda o, m, i: [m.pop(k, 0) for k in ("axes",)], ("0.1", "0.2"))
    case("V7", "flat", lambda o, m, i: [array(i.store, n, d, separator=".") for n, d in zip(i.names, i.levels)], ("0.2", "0.3", "0.4"), axes="tczyx", shape=wide)
    case("V7", "nested", lambda o, m, i: [array(i.store, n, d, separator="/") for n, d in zip(i.names, i.levels)], ("0.1",), axes="tczyx", shape=wide)
    case("V8", "unknown", lambda o, m, i: set_(m, "axes", ["q", "z", "y", "x"]), ("0.3",))
    case("V8", "twice", lambda o, m, i: set_(m, "axes", ["z", "z", "y", "x"]), ("0.3",))
    case("V8", "order", lambda o, m, i: set_(m, "axes", ["z", "c", "y", "x"]), ("0.3",))
    case("V8", "few", lambda o, m, i: set_(m, "axes", ["z", "y", "x"]), ("0.3",))
    case("V9", "twice", lambda o, m, i: set_(m["axes"][1], "name", "y"))
    case("V9", "nameless", lambda o, m, i: m["axes"][1].pop("name"))
    case("V10", "no-space", lambda o, m, i: [set_(a, "type", "channel") for a in m["axes"]])
    case("V10", "four-space", lambda o, m, i: set_(m["axes"][0], "type", "space"))
    case("V10", "two-times", lambda o, m, i: [set_(a, "type", "time") for a in m["axes"][:2]], axes="tczyx", shape=(2, 2, 3, 20, 30))
    case("V11", "order", lambda o, m, i: m["axes"].insert(0, m["axes"].pop(1)))
    case("V12", "no-unit", lambda o, m, i: m["axes"][2].pop("unit"), strength="should")
    case("V12", "odd-unit", lambda o, m, i: set_(m["axes"][2], "unit", "smoot"), strength="should")
    case("V12", "wrong-kind", lambda o, m, i: set_(m["axes"][2], "unit", "second"), strength="should")
    case("V13", "units", lambda o, m, i: set_(m["axes"][2], "units", m["axes"][2].pop("unit")), strength="lint")
    case("V14", "few", lambda o, m, i: [m["axes"].pop(0), [set_(s, s["type"], s[s["type"]][1:]) for d in m["datasets"] for s in d["coordinateTransformations"]]])
    def names(i, value):
        def change(d):
            d.pop("dimension_names", None)
            if value:
                d["dimension_names"] = value
        mend(folder(i.store, i.names[1]) / "zarr.json", change)
    case("V15", "other", lambda o, m, i: names(i, ["c", "z", "y", "q"]), ("0.5", "0.6"))
    case("V15", "none", lambda o, m, i: names(i, None), ("0.5", "0.6"))
    case("V16", "no-transforms", lambda o, m, i: m["datasets"][0].pop("coordinateTransformations"))
    case("V16", "no-scale", lambda o, m, i: steps(m).pop(0))
    case("V16", "two-scales", lambda o, m, i: steps(m).append(steps(m)[0]))
    case("V16", "two-translations", lambda o, m, i: steps(m).append(dict(steps(m)[1])))
    case("V16", "translation-first", lambda o, m, i: steps(m).reverse())
    case("V16", "short", lambda o, m, i: steps(m)[0]["scale"].pop())
    case("V16", "identity", lambda o, m, i: set_(m["datasets"][0], "coordinateTransformations", [{"type": "identity"}]))
    case("V17", "rotation", lambda o, m, i: set_(m, "coordinateTransformations", [{"type": "rotation", "rotation": [1, 0]}]))
    case("V18", "zero", lambda o, m, i: set_(steps(m)[0]["scale"], 3, 0.0), strength=None)
    case("V19", "reversed", lambda o, m, i: m["datasets"].reverse(), everywhere, axes="tczyx", shape=wide)
    case("V20", "scale", lambda o, m, i: set_(steps(m)[0]["scale"], 3, 99.0), strength="lint")
    case("V21", "types", lambda o, m, i: i.array(i.names[1], i.levels[1].astype("uint32")), ("0.5", "0.6"), None)
    case("V22", "nameless", lambda o, m, i: m.pop("name"), everywhere, "should", axes="tczyx", shape=wide)
    case("V23", "no-channels", lambda o, m, i: o["omero"].pop("channels"))
    case("V23", "hash", lambda o, m, i: set_(o["omero"]["channels"][0], "color", "#FF0000"), ("0.4",))
    case("V23", "short", lambda o, m, i: set_(o["omero"]["channels"][0], "color", "F00"), ("0.4",))
    case("V23", "window", lambda o, m, i: set_(o["omero"]["channels"][0]["window"], "start", "0"), strength=None)
    case("V23", "no-window", lambda o, m, i: o["omero"]["channels"][0].pop("window"), ("0.5", "0.6"), "should")
    case("V24", "count", lambda o, m, i: o["omero"]["channels"].pop(), everywhere, "lint", axes="tczyx", shape=wide)
    case("V24", "start", lambda o, m, i: o["omero"]["channels"][0]["window"].update(start=500, end=100), strength="lint")
    case("V24", "family", lambda o, m, i: set_(o["omero"]["channels"][0], "family", "cubic"), strength="lint")
    case("V24", "coefficient", lambda o, m, i: set_(o["omero"]["channels"][0], "coefficient", 0), strength="lint")
    case("V24", "default-z", lambda o, m, i: set_(o["omero"]["rdefs"], "defaultZ", 3), strength="lint")
    case("V24", "model", lambda o, m, i: set_(o["omero"]["rdefs"], "model", "sepia"), strength="lint")
    def listing(i, value):
        path = folder(i.store, "labels") / ("zarr.json" if i.v3 else ".zattrs")
        mend(path, lambda d: set_(d["attributes"]["ome"] if i.v3 else d, "labels", value))
    case("V25", "absent", lambda o, m, i: listing(i, ["cells", "nowhere"]), labels=True)
    case("V25", "numbers", lambda o, m, i: listing(i, [1]), labels=True)
    case("V3", "labels", lambda o, m, i: mend(folder(i.store, "labels") / "zarr.json", lambda d: set_(d["attributes"]["ome"], "version", "0.6" if i.version == "0.5" else "0.5")), ("0.5", "0.6"), labels=True)
    label_case("V26", "float", lambda o, i: [i.array(f"labels/cells/{n}", i.levels[k][:1].astype("float32")) for k, n in enumerate(i.names)])
    label_case("V26", "levels", lambda o, i: o["multiscales"][0]["datasets"].pop())
    label_case("V27", "fraction", lambda o, i: set_(o["image-label"]["colors"][0], "label-value", 1.5))
    label_case("V27", "twice", lambda o, i: o["image-label"]["colors"].append({"label-value": 1, "rgba": [1, 2, 3, 4]}))
    label_case("V27", "bright", lambda o, i: set_(o["image-label"]["colors"][0], "rgba", [0, 0, 0, 256]))
    label_case("V27", "three", lambda o, i: set_(o["image-label"]["colors"][0], "rgba", [0, 0, 0]))
    label_case("V28", "valueless", lambda o, i: set_(o["image-label"], "properties", [{"area": 1}]))
    label_case("V29", "source", lambda o, i: set_(o["image-label"], "source", {"image": "../../nowhere"}))
    label_case("V31", "no-colors", lambda o, i: o["image-label"].pop("colors"), strength="should")
    case("V39", "other-keys", lambda o, m, i: mend(folder(i.store, "0") / ".zarray", lambda d: set_(d, "dimension_separator", ".")), ("0.4",), None)

    # 0.6: references and matrices.
    def transform(**more):
        return lambda o, m, i: set_(m, "coordinateTransformations", [{"input": {"name": "physical"}, "output": {"name": "world"}, **more}]) or \
            m["coordinateSystems"].append({"name": "world", "axes": [{"name": n, "type": "channel" if n == "c" else "space"} for n in "cdef"]})
    case("V37", "unknown-output", lambda o, m, i: set_(steps(m)[0]["output"], "name", "nowhere"), ("0.6",))
    case("V37", "rotation", transform(type="rotation", rotation=[[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]), ("0.6",))
    case("V37", "affine", transform(type="affine", affine=[[1, 0], [0, 1]]), ("0.6",))
    case("V37", "map-axis", transform(type="mapAxis", mapAxis=[0, 0, 1, 2]), ("0.6",))

    # Plates.
    def plate_case(rule, name, change, strength="must", well=None):
        for version in ("0.4", "0.5"):
            store, v3 = f"bad/{rule}-plate-{name}-v{version}.zarr", version >= "0.5"
            said = {"version": version}
            plate = {**said, "name": "p", "field_count": 1, "rows": [{"name": "A"}, {"name": "B"}], "columns": [{"name": "1"}, {"name": "2"}],
                     "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}, {"path": "B/2", "rowIndex": 1, "columnIndex": 1}],
                     "acquisitions": [{"id": 0, "name": "a", "maximumfieldcount": 1}]}
            wells = {p: {**said, "images": [{"path": "0", "acquisition": 0}]} for p in ("A/1", "B/2")}
            for p in wells:
                group(store, p.split("/")[0], None, v3)
                Image(store, version, "yx", (16, 16), path=f"{p}/0", levels=1)
            change(plate, wells, store)
            group(store, "", wrap(version, {"plate": plate}), v3)
            for p, w in wells.items():
                group(store, p, wrap(version, {"well": w}), v3)
            expect(store, version, [], rule=rule, strength=strength)
    plate_case("V32", "no-rows", lambda p, w, s: p.pop("rows"))
    plate_case("V32", "odd-name", lambda p, w, s: set_(p["rows"][0], "name", "A_1"))
    plate_case("V32", "same-rows", lambda p, w, s: set_(p["rows"][1], "name", "A"), None)
    plate_case("V32", "negative", lambda p, w, s: set_(p["acquisitions"][0], "id", -1))
    plate_case("V33", "index", lambda p, w, s: set_(p["wells"][1], "rowIndex", 0))
    plate_case("V33", "dangling", lambda p, w, s: set_(p["wells"][1], "columnIndex", 7))
    plate_case("V33", "no-index", lambda p, w, s: p["wells"][1].pop("rowIndex"))
    plate_case("V34", "no-field", lambda p, w, s: w["A/1"]["images"].append({"path": "1", "acquisition": 0}))
    plate_case("V34", "no-images", lambda p, w, s: set_(w["A/1"], "images", []))
    plate_case("V34", "unknown-run", lambda p, w, s: set_(w["A/1"]["images"][0], "acquisition", 9))
    plate_case("V34", "no-run", lambda p, w, s: [p["acquisitions"].append({"id": 1, "name": "b", "maximumfieldcount": 1}), w["A/1"]["images"][0].pop("acquisition")])
    plate_case("V34", "no-well", lambda p, w, s: p["wells"].append({"path": "A/2", "rowIndex": 0, "columnIndex": 1}))
    plate_case("V35", "nameless", lambda p, w, s: p.pop("name"), "should")

    for version in ("0.4", "0.5"):
        v3 = version >= "0.5"
        for name, value, series in (("text", "3", ["0"]), ("two", 2, ["0"]), ("absent", 3, ["0", "1"]), ("gap", 3, None)):
            store = f"bad/V36-layout-{name}-v{version}.zarr"
            group(store, "", wrap(version, {"bioformats2raw.layout": value}), v3)
            for path in ("0", "2") if name == "gap" else ("0",):
                Image(store, version, "yx", (16, 16), path=path, levels=1)
            if series:
                group(store, "OME", wrap(version, {"series": series}), v3)
            expect(store, version, [], rule="V36", strength=None if name == "gap" else "must")

    # Masks of the draft.
    for name, change in (("listed", lambda s: mend(folder(s, "masks") / ".zattrs", lambda d: d["masks"].append("nowhere"))),
                         ("colour", lambda s: mend(folder(s, "masks/0") / ".zattrs", lambda d: set_(d["color"], "1", 2**32))),
                         ("key", lambda s: mend(folder(s, "masks/0") / ".zattrs", lambda d: set_(d["color"], "one", 1))),
                         ("shape", lambda s: array(s, "masks/0", objects((1, 1, 1, 16, 48), "<i8"), separator=".", attributes={"color": {}}))):
        store = f"bad/V38-{name}.zarr"
        im = seed_image(store)
        group(store, "masks", {"masks": ["0"]})
        masked(im, "0", objects((1, 1, 1, 32, 48), "<i8"), {"1": -1})
        change(store)
        expect(store, "0.1 (seed)", [], rule="V38", strength="must")


# ---------------------------------------------------------------------------------------------- other people's writers


OLD = """
import sys, json, numpy as np, zarr
from ome_zarr.io import parse_url
from ome_zarr.writer import write_image, write_labels
from ome_zarr.scale import Scaler
from ome_zarr import format as f
data, label = np.load(sys.argv[1]), np.load(sys.argv[2])
omero = json.loads(sys.argv[3])
for v, form in (("0.1", f.FormatV01), ("0.2", f.FormatV02), ("0.3", f.FormatV03), ("0.4", f.FormatV04)):
    axes = "tczyx" if v >= "0.3" else None
    group = zarr.group(store=parse_url(sys.argv[4] + v + ".zarr", mode="w", fmt=form()).store, overwrite=True)
    scaler = Scaler(method="nearest", max_layer=1)
    write_image(data, group, scaler=scaler, axes=axes, fmt=form(), storage_options={"chunks": (1, 1, 1, 16, 16)})
    write_labels(label, group, "cells", scaler=scaler, axes=axes, fmt=form(), label_metadata={
        "colors": [{"label-value": 1, "rgba": [0, 128, 0, 128]}, {"label-value": 2, "rgba": [255, 0, 0, 128]}, {"label-value": 3, "rgba": [255, 255, 255, 255]}]})
    group.attrs["omero"] = dict(omero, version=v)
"""


def old_writer(python):
    import tempfile

    data, label = small((2, 2, 3, 32, 48), "uint16", 60), objects((2, 1, 3, 32, 48), "uint8")
    with tempfile.TemporaryDirectory() as tmp:
        np.save(f"{tmp}/d.npy", data), np.save(f"{tmp}/l.npy", label)
        ran = subprocess.run([python, "-W", "ignore", "-c", OLD, f"{tmp}/d.npy", f"{tmp}/l.npy", json.dumps(TWO), str(ROOT / "old-v")], capture_output=True, text=True)
    if ran.returncode:
        print("the old writer did not write:", ran.stderr.strip().splitlines()[-1:])
        return
    for version in ("0.1", "0.2", "0.3", "0.4"):
        # It did not write `_ARRAY_DIMENSIONS`, which 0.3 asks for.
        written(f"old-v{version}.zarr", version, "tczyx", data, label, rule="V8" if version == "0.3" else None)


def written(store, version, axes, data, label, rule=None, **more):
    """Notes what another library wrote: it says where the levels are, we know what is in the first."""
    root = zarr.open_group(str(folder(store)), mode="r")
    ome = root.attrs.get("ome", root.attrs)
    paths = [d["path"] for d in ome["multiscales"][0]["datasets"]]
    im = Image.__new__(Image)
    im.store, im.version, im.axes, im.path, im.omero = store, version, axes, "", TWO if "omero" in ome else None
    im.names, im.levels, im.labels, im.parts = paths, [root[p][...] for p in paths], {}, {}
    assert np.array_equal(im.levels[0], data), store
    known = im.known()
    pictures = []
    if label is not None:
        below = root["labels/cells"]
        inner = below.attrs.get("ome", below.attrs)
        path = inner["multiscales"][0]["datasets"][0]["path"]
        assert np.array_equal(below[path][...], label), store
        im.labels["cells"] = (f"labels/cells/{path}", label, COLOURS, axes)
        known = im.known()
    known.update(scale=None)
    if im.omero:
        z, t = (2 if "z" in axes else 0), (1 if "t" in axes else 0)
        how = {k: v for k, v in (("z", z), ("t", t)) if k in axes}
        pictures = [({}, im.picture(1, 0)), (how, im.picture(z, t))]
        if im.labels:
            pictures.append(({**how, "labels": ["cells"]}, im.picture(z, t, labels=["cells"])))
    expect(store, version, [known], pictures, rule=rule, **more)


def new_writers():
    axes, data, label = "czyx", small((2, 3, 32, 48), "uint16", 61), objects((1, 3, 32, 48), "uint8")
    try:
        from ome_zarr import format as formats
        from ome_zarr.writer import write_image, write_labels
    except ImportError as e:
        print("no ome-zarr:", e)
    else:
        for version, form in (("0.4", formats.FormatV04()), ("0.5", formats.FormatV05())):
            store = f"omezarr-v{version}.zarr"
            root = zarr.open_group(str(folder(store)), mode="w", zarr_format=form.zarr_format)
            base = {a: SPACE.get(a, 1.0) for a in axes}
            write_image(data, root, axes=axes, fmt=form, scale_factors=[2], scale=base, storage_options={"chunks": (1, 1, 16, 16)})
            write_labels(label, root, "cells", axes=axes, fmt=form, scaler=None, scale_factors=[2], label_metadata={"colors": [{"label-value": v, "rgba": c} for v, c in COLOURS.items()]})
            if version == "0.4":
                root.attrs["omero"] = TWO
            else:
                root.attrs["ome"] = {**root.attrs["ome"], "omero": TWO}
            # Its `labels` group has no version in 0.5.
            written(store, version, axes, data, label, rule="V2" if version == "0.5" else None, strength="must" if version == "0.5" else None)
    try:
        import ngff_zarr
    except ImportError as e:
        print("no ngff-zarr:", e)
        return
    for version in ("0.4", "0.5", "0.6"):
        store = f"ngffzarr-v{version}.zarr"
        im = ngff_zarr.to_ngff_image(data, dims=list(axes), scale={"z": 2.0, "y": 0.5, "x": 0.25}, translation={"z": 0.0, "y": 3.0, "x": 4.0})
        scales = ngff_zarr.to_multiscales(im, scale_factors=[{"y": 2, "x": 2, "z": 1}], chunks=16, method=ngff_zarr.Methods.DASK_IMAGE_NEAREST)
        ngff_zarr.to_ngff_zarr(str(folder(store)), scales, version=version)
        written(store, version, axes, data, None, **({"rule": "any"} if version == "0.6" else {}))


def main():
    global ROOT
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--old-writer", help="a Python with ome-zarr 0.11 and zarr 2.18")
    given = options.parse_args()
    ROOT = given.folder
    if ROOT.exists():
        if any(ROOT.iterdir()) and not (ROOT / "expected.json").exists():
            sys.exit(f"{ROOT} is there and no corpus of this script")
        shutil.rmtree(ROOT)
    ROOT.mkdir(parents=True)
    EXPECTED.clear()
    for part in (seeds, early, axes_orders, types, looks, views, transformed, plates, layouts, more_labels, new_writers):
        part()
    if given.old_writer:
        old_writer(given.old_writer)
    broken()
    save(ROOT / "expected.json", EXPECTED)
    pictures = sum(len(e["pictures"]) for e in EXPECTED)
    print(f"make_images: {len(EXPECTED)} stores, {sum(len(e['images']) for e in EXPECTED)} images, {pictures} pictures in {ROOT}")


if __name__ == "__main__":
    main()

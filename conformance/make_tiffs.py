#!/usr/bin/env python3
"""Makes the small images in zaro/testdata/images/tiff, and what is expected of them.

    target/venv/bin/python conformance/make_tiffs.py

Needs numpy, tifffile, imagecodecs and pillow. The tests read the files; nothing here runs with them. `expected.json` has for
every file the axes, the shape, the type, the size of a pixel with its units, the names and colours of channels
where the file has them, and the CRC-32 of all pixels, little-endian, in the order of the axes.
"""

import itertools
import json
import shutil
import uuid
import zlib
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

OUT = Path(__file__).resolve().parent.parent / "zaro" / "testdata" / "images" / "tiff"
GREY = {"photometric": "minisblack"}
expected = {}


def pixels(shape, dtype):
    """Numbers that compress a little and differ everywhere."""
    dtype = np.dtype(dtype)
    index = np.arange(int(np.prod(shape)), dtype="u8").reshape(shape)
    mixed = (index * 2654435761 >> 7) & 0x3F
    values = index * 3 + mixed
    if dtype.kind == "f":
        return (values.astype("f8") / 7 - 50).astype(dtype)
    if dtype.kind == "i":
        return (values.astype("i8") - 40).astype(dtype)
    return values.astype(dtype)


def expect(name, data, axes, **more):
    """Notes what `name` holds; `data` is in the order of `axes`."""
    data = np.ascontiguousarray(data)
    little = data.astype(data.dtype.newbyteorder("<"))
    expected[name] = {
        "axes": axes,
        "shape": list(data.shape),
        "data_type": data.dtype.newbyteorder("=").name,
        "crc32": zlib.crc32(little.tobytes()),
        **more,
    }


def write(name, data, axes, want=None, expect_more=None, **options):
    tifffile.imwrite(OUT / name, data, **options)
    expect(name, data if want is None else want, axes, **(expect_more or {}))


def samples():
    for dtype in "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
        for order in "<>":
            name = f"{np.dtype(dtype).name}-{'little' if order == '<' else 'big'}.tif"
            write(name, pixels((9, 11), dtype), "yx", byteorder=order, **GREY)
    a = pixels((30, 37), "u2")
    for codec in ("lzw", "zlib", "zstd", "packbits", "lzma"):
        write(f"{codec}.tif", a, "yx", compression=codec, rowsperstrip=8, predictor=False, **GREY)
    write("lzw-predictor-tiles.tif", a, "yx", compression="lzw", predictor=2, tile=(16, 16), **GREY)
    write("zlib-predictor-big.tif", a, "yx", compression="zlib", predictor=2, byteorder=">", rowsperstrip=8, **GREY)
    f = pixels((30, 37), "f4")
    write("zlib-float-predictor.tif", f, "yx", compression="zlib", predictor=3, tile=(16, 32), **GREY)
    write("bigtiff.tif", a, "yx", bigtiff=True, **GREY)
    rgb = pixels((12, 17, 3), "u1")
    turned = np.moveaxis(rgb, -1, 0)
    names = ["red", "green", "blue"]
    write("rgb-contig.tif", rgb, "cyx", turned, {"labels": names}, photometric="rgb", compression="zlib", predictor=2)
    write("rgb-separate.tif", turned, "cyx", turned, {"labels": names}, photometric="rgb", planarconfig="separate")
    ramp = np.stack([np.arange(256), np.zeros(256), np.arange(256)]).astype("u2") * 257
    grey = pixels((12, 17), "u1")
    write("lut.tif", grey, "yx", None, {"colors": ["FF00FF"]}, photometric="palette", colormap=ramp)
    wild = (np.arange(768).reshape(3, 256) * 7919 % 65536).astype("u2")
    write("palette.tif", grey, "cyx", (wild[:, grey] >> 8).astype("u1"), photometric="palette", colormap=wild)
    bits = (pixels((12, 17), "u1") & 1).astype(bool)
    write("bilevel.tif", bits, "yx", bits.astype("u1"))
    twelve = pixels((12, 17), "u2") & 4095
    write("twelve-bits.tif", twelve, "yx", bitspersample=12, **GREY)


def stacks():
    a = pixels((5, 9, 11), "u2")
    write("pages.tif", a, "zyx", metadata=None, **GREY)
    b = pixels((2, 3, 2, 9, 11), "u1")
    write("shaped.tif", b, "tczyx", b.transpose(0, 2, 1, 3, 4), metadata={"axes": "TZCYX"}, **GREY)
    um = "micrometer"
    resolution = {"scale": [0.25, 0.5], "units": [um, um]}
    write("centimeter.tif", a[0], "yx", None, resolution, resolution=(20000, 40000), resolutionunit="CENTIMETER", metadata=None, **GREY)
    ij = pixels((2, 3, 2, 9, 11), "u2")
    luts = [np.zeros((3, 256), "u1"), np.zeros((3, 256), "u1")]
    luts[0][0] = luts[0][2] = luts[1][1] = np.arange(256)
    more = {
        "scale": [1.5, 1, 2.5, 0.5, 0.25],
        "units": ["second", None, um, um, um],
        "labels": ["DAPI", "GFP"],
        "colors": ["FF00FF", "00FF00"],
        "windows": [[10, 20], [30, 40.5]],
    }
    said = {
        "axes": "TZCYX",
        "unit": "\\u00B5m",
        "spacing": 2.5,
        "finterval": 1.5,
        "mode": "composite",
        "Ranges": (10, 20, 30, 40.5),
        "LUTs": luts,
        "Labels": ["DAPI", "GFP"] + [f"plane {i}" for i in range(10)],
    }
    for order in "<>":
        name = f"imagej-{'little' if order == '<' else 'big'}.tif"
        write(name, ij, "tczyx", ij.transpose(0, 2, 1, 3, 4), more, imagej=True, byteorder=order, resolution=(4, 2), metadata=said)
    # Stacks beyond 4 GiB have one directory only.
    name = "imagej-one-directory.tif"
    write(name, a, "zyx", None, {"scale": [2, 0.5, 0.5], "units": [um] * 3}, imagej=True, resolution=(2, 2), metadata={"axes": "ZYX", "unit": "micron", "spacing": 2.0})
    with tifffile.TiffFile(OUT / name) as tiff:
        link = tiff.pages[0].offset + 2 + 12 * len(tiff.pages[0].tags)
    with open(OUT / name, "r+b") as file:
        file.seek(link)
        file.write(bytes(4))


def ome():
    sizes = {"T": 2, "C": 2, "Z": 3, "Y": 20, "X": 24}
    said = {
        "PhysicalSizeX": 0.1,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 200,
        "PhysicalSizeYUnit": "nm",
        "PhysicalSizeZ": 0.3,
        "TimeIncrement": 0.5,
        "TimeIncrementUnit": "ms",
        "Channel": {"Name": ["a", "b & c"], "Color": [-16776961, 16711935]},
    }
    more = {
        "scale": [0.5, 1, 0.3, 200, 0.1],
        "units": ["millisecond", None, "micrometer", "nanometer", "micrometer"],
        "labels": ["a", "b & c"],
        "colors": ["FF0000", "00FF00"],
    }
    for axes in ("TCZYX", "ZCTYX"):
        a = pixels([sizes[x] for x in axes], "u1")
        turned = a.transpose([axes.index(x) for x in "TCZYX"])
        write(f"{axes}.ome.tif", a, "tczyx", turned, more, ome=True, tile=(16, 16), compression="zlib", metadata={"axes": axes, **said}, **GREY)
    a = pixels((2, 64, 48), "u2")
    with tifffile.TiffWriter(OUT / "pyramid.ome.tif", ome=True) as tiff:
        tiff.write(a, subifds=1, tile=(32, 32), compression="zlib", metadata={"axes": "CYX"}, **GREY)
        tiff.write(a[:, ::2, ::2], subfiletype=1, tile=(32, 32), compression="zlib", **GREY)
    expect("pyramid.ome.tif", a, "cyx")
    a = pixels((3, 2, 9, 11), "u2")
    ids = [f"urn:uuid:{uuid.UUID(int=i + 1)}" for i in range(3)]
    planes = "".join(
        f'<TiffData IFD="{z}" FirstT="{t}" FirstZ="{z}" PlaneCount="1"><UUID FileName="set{t}.ome.tif">{ids[t]}</UUID></TiffData>'
        for t, z in itertools.product(range(3), range(2))
    )
    for t in range(3):
        xml = (
            f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{ids[t]}">'
            '<Image ID="Image:0" Name="set"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="11" SizeY="9" '
            'SizeZ="2" SizeC="1" SizeT="3" PhysicalSizeX="0.5"><Channel ID="Channel:0:0" SamplesPerPixel="1" '
            f'EmissionWavelength="525"/>{planes}</Pixels></Image></OME>'
        )
        tifffile.imwrite(OUT / f"set{t}.ome.tif", a[t], description=xml.encode(), metadata=None, **GREY)
    expect("set1.ome.tif", a, "tzyx", scale=[1, 1, 1, 0.5], units=[None, None, None, "micrometer"], colors=["00FF00"])
    with tifffile.TiffWriter(OUT / "two.ome.tif", ome=True) as tiff:
        tiff.write(pixels((3, 9, 11), "u2"), metadata={"axes": "ZYX", "Name": "one"}, **GREY)
        tiff.write(pixels((7, 8), "u1"), metadata={"axes": "YX", "Name": "two"}, **GREY)


def several():
    """Files of several images, slides, and OME-XML in a file of its own."""
    # Two arrays of one plane size: what tells them apart is the description of their first pages.
    with tifffile.TiffWriter(OUT / "two-series.tif") as tiff:
        tiff.write(pixels((3, 9, 11), "u2"), metadata={"axes": "ZYX"}, **GREY)
        tiff.write(pixels((2, 9, 11), "u2") + 7, metadata={"axes": "TYX"}, **GREY)
    # A slide as Aperio's scanners write it: the slide, a thumbnail and a level of one size, a label.
    slide = pixels((64, 48, 3), "u1")
    with tifffile.TiffWriter(OUT / "slide.svs") as tiff:
        head = "Aperio Image Library v12.0.15\r\n64x48|AppMag = 20|MPP = 0.4990|Filename = 7"
        options = {"photometric": "rgb", "metadata": None}
        tiff.write(slide, tile=(16, 16), description=head, **options)
        tiff.write(slide[::2, ::2], description="Aperio Image Library v12.0.15\r\nthumbnail", **options)
        tiff.write(slide[::2, ::2], tile=(16, 16), description="Aperio Image Library v12.0.15\r\nlevel", **options)
        tiff.write(slide[:20, :20], description="Aperio Image Library v12.0.15\r\nlabel 20x20", subfiletype=1, **options)
    expect("slide.svs", np.moveaxis(slide, -1, 0), "cyx", scale=[1, 0.499, 0.499], units=[None, "micrometer", "micrometer"])
    # A set whose document is in a companion file.
    a = pixels((2, 9, 11), "u2")
    ids = [f"urn:uuid:{uuid.UUID(int=40 + c)}" for c in range(2)]
    blocks = "".join(
        f'<TiffData FirstC="{c}" IFD="0" PlaneCount="1"><UUID FileName="cells_{c}.ome.tif">{ids[c]}</UUID></TiffData>' for c in range(2)
    )
    top = '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'
    (OUT / "cells.companion.ome").write_text(
        f'{top}><Image ID="Image:0" Name="cells"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="11" SizeY="9" '
        'SizeZ="1" SizeC="2" SizeT="1" PhysicalSizeX="0.25" PhysicalSizeY="0.25"><Channel ID="Channel:0:0" Name="DNA"/>'
        f'<Channel ID="Channel:0:1" Name="actin"/>{blocks}</Pixels></Image></OME>'
    )
    for c in range(2):
        xml = f'{top} UUID="{ids[c]}"><BinaryOnly MetadataFile="cells.companion.ome" UUID="urn:uuid:{uuid.UUID(int=50)}"/></OME>'
        tifffile.imwrite(OUT / f"cells_{c}.ome.tif", a[c], description=xml.encode(), metadata=None, **GREY)
    more = {"scale": [1, 0.25, 0.25], "units": [None, "micrometer", "micrometer"], "labels": ["DNA", "actin"]}
    expect("cells.companion.ome", a, "cyx", **more)
    expect("cells_1.ome.tif", a, "cyx", **more)


def pictures():
    for name, shape, dtype in [("grey.png", (9, 11), "u1"), ("grey16.png", (9, 11), "u2"), ("rgba.png", (9, 11, 4), "u1")]:
        a = pixels(shape, dtype)
        Image.fromarray(a).save(OUT / name)
        expect(name, np.moveaxis(a, -1, 0) if a.ndim == 3 else a, "cyx" if a.ndim == 3 else "yx")
    a = pixels((2, 3, 9, 11), "u2")
    np.save(OUT / "c.npy", a.astype(">u2"))
    expect("c.npy", a, "czyx")
    np.save(OUT / "fortran.npy", np.asfortranarray(a[0].astype("f4")))
    expect("fortran.npy", a[0].astype("f4"), "zyx")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    samples()
    stacks()
    ome()
    several()
    pictures()
    lines = [f"  {json.dumps(name)}: {json.dumps(what)}" for name, what in sorted(expected.items())]
    (OUT / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    total = sum(f.stat().st_size for f in OUT.iterdir())
    print(f"{len(expected)} images, {total} bytes in {OUT}")


if __name__ == "__main__":
    main()

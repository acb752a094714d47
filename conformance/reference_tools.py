"""The references that zaro writes, read by fsspec: the same keys, the same places, the same bytes.

    reference_tools.py [--zaro PATH]

Makes references with the odd cases of Kerchunk's JSON, converts them to Parquet and back with `zaro ref convert`, and
compares what fsspec's reader says of each with what it says of the first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import fsspec
from fsspec.implementations.reference import LazyReferenceMapper


def zarray(shape, chunks, dtype="|u1"):
    return json.dumps({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "compressor": None,
                       "fill_value": 0, "order": "C", "filters": None})


def source(folder):
    data = folder / "data.bin"
    data.write_bytes(bytes(range(256)) * 4)
    whole = folder / "whole.bin"
    whole.write_bytes(b"whole")
    refs = {".zgroup": json.dumps({"zarr_format": 2}), ".zattrs": '{"bare": NaN, "large": 9007199254740993}',
            "a/.zarray": zarray([25, 40], [1, 20]), "a/.zattrs": "{}"}
    for n in range(50):
        if n % 7 != 3:
            refs[f"a/{n // 2}.{n % 2}"] = [str(data), n * 20, 20]
    refs |= {"b/.zarray": zarray([6], [1]), "b/0": "t", "b/1": "base64:/w==", "b/2": "\x00", "b/3": "base64:YmFzZTY0OkE=",
             "b/5": [str(whole)], "s/.zarray": zarray([], []), "s/0": "S", "none/.zarray": zarray([9], [3])}
    path = folder / "first.json"
    path.write_text(json.dumps({"version": 1, "templates": {"u": str(data)},
                                "refs": {k: ["{{u}}", *v[1:]] if isinstance(v, list) and v[0] == str(data) else v
                                         for k, v in refs.items()}}))
    return path, [k for k in refs]


def reader(path):
    if path.is_dir():
        return fsspec.filesystem("reference", fo=LazyReferenceMapper(str(path), fs=fsspec.filesystem("file")), remote_protocol="file")
    compression = {".gz": "gzip"}.get(path.suffix)
    options = {"compression": compression} if compression else {}
    return fsspec.filesystem("reference", fo=str(path), remote_protocol="file", target_options=options)


def content(path, keys):
    """Each key's bytes; of documents what they say."""
    fs = reader(path)
    out = {}
    for key in keys:
        text = fs.cat(key)
        # Of Parquet fsspec gives documents as they were parsed.
        out[key] = repr(json.loads(text)) if "/.z" in f"/{key}" else bytes(text)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zaro", help="the binary to test (default: $ZARO, else target/release/zaro)")
    zaro = common.find_zaro(parser.parse_args().zaro)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, keys = source(folder)
        wanted = content(first, keys)
        last = first
        for to in ["1.parq", "2.json", "3.parq", "4.json.gz", "5.json"]:
            made = folder / to
            subprocess.run([zaro, "ref", "convert", str(last), str(made), "--record-size", "7"], check=True)
            found = content(made, keys)
            for key in keys:
                if found[key] != wanted[key]:
                    sys.exit(f"{to}: {key}: fsspec reads {found[key]!r}, of the first {wanted[key]!r}")
            if made.suffix == ".json":
                have = set(json.loads(made.read_text())["refs"])
                if have != set(keys):
                    sys.exit(f"{to}: keys differ: {have ^ set(keys)}")
            last = made
    print(f"reference tools: {len(keys)} keys are the same in 5 conversions")


if __name__ == "__main__":
    main()

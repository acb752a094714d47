"""Makes the Parquet reference stores of zaro/testdata/parquet: the same references as different writers lay them out.

    python conformance/make_parquet_refs.py zaro/testdata/parquet

Needs pyarrow, pandas, fastparquet, fsspec and kerchunk. The results are kept with the sources, so this is run by hand,
when a layout is added. `reference(n)` is repeated in zaro/src/reference/parquet/tests.rs.
"""

import json
import os
import shutil
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.reference import LazyReferenceMapper

SHAPE, RECORD = (7, 5), 10
CHUNKS = 35


def reference(n):
    """What chunk n stands for: (path, offset, size, raw), or None."""
    if n % 7 == 3 or 20 <= n < 30:
        return None
    if n == 34:
        return None, 0, 0, b"base64:AAEC"
    if n % 7 == 5:
        return None, 0, 0, b"raw-%d\x00\xff" % n
    if n % 7 == 0:
        return f"file:///d/whole-{n}.bin", 0, 0, None
    return f"s3://bucket/folder/f{n % 3}.nc", 1000 * n + 2**33, 10 + n, None


def zarray(shape, separator="."):
    return {
        "chunks": [1] * len(shape), "compressor": None, "dtype": "<f4", "fill_value": "NaN", "filters": None,
        "order": "C", "shape": list(shape), "zarr_format": 2, "dimension_separator": separator,
    }


METADATA = {
    ".zgroup": {"zarr_format": 2},
    ".zattrs": {"title": "Ä", "gap": float("nan")},
    "v/.zarray": zarray(SHAPE),
    "v/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]},
}


def by_fsspec(folder, engine):
    out = LazyReferenceMapper.create(folder, record_size=RECORD, engine=engine)
    for key, value in METADATA.items():
        out[key] = json.dumps(value).encode()
    for n in range(CHUNKS):
        row = reference(n)
        if row is None:
            continue
        path, offset, size, raw = row
        value = raw if raw is not None else [path] if size == 0 else [path, offset, size]
        out[f"v/{n // 5}.{n % 5}"] = value
    out.flush()


def by_arrow(folder, padded=False, rename=None, drop=(), types=None, floats=False, only=None, **options):
    os.makedirs(folder + "/v")
    with open(folder + "/.zmetadata", "w") as f:
        json.dump({"metadata": METADATA, "record_size": RECORD}, f)
    for part in range(4):
        numbers = range(part * RECORD, (part + 1) * RECORD if padded else min(CHUNKS, (part + 1) * RECORD))
        rows = [reference(n) if n < CHUNKS else None for n in numbers]
        if only is not None and part not in only or all(r is None for r in rows):
            continue
        gap = float("nan") if floats else None
        columns = {
            "path": pa.array([r and r[0] for r in rows], (types or {}).get("path", pa.string())),
            "offset": pa.array([r[1] if r else gap for r in rows], pa.float64() if floats else pa.int64()),
            "size": pa.array([r[2] if r else gap for r in rows], pa.float64() if floats else pa.int64()),
            "raw": pa.array([r and r[3] for r in rows], (types or {}).get("raw", pa.binary())),
        }
        columns = {(rename or {}).get(k, k): v for k, v in columns.items() if k not in drop}
        pq.write_table(pa.table(columns), f"{folder}/v/refs.{part}.parq", store_schema=False, **options)


def main(root):
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    by_fsspec(f"{root}/fastparquet", "fastparquet")
    by_fsspec(f"{root}/pyarrow", "pyarrow")
    by_arrow(f"{root}/row_groups", compression="snappy", row_group_size=3)
    by_arrow(f"{root}/v2_dictionary", padded=True, compression="gzip", data_page_version="2.0", data_page_size=16,
             write_batch_size=2, use_dictionary=True, write_page_index=True)
    delta = {"path": "DELTA_BYTE_ARRAY", "offset": "DELTA_BINARY_PACKED", "size": "DELTA_BINARY_PACKED",
             "raw": "DELTA_LENGTH_BYTE_ARRAY"}
    by_arrow(f"{root}/delta", compression="none", data_page_version="2.0", use_dictionary=False,
             column_encoding=delta, data_page_size=16, write_batch_size=4)
    split = {"offset": "BYTE_STREAM_SPLIT", "size": "BYTE_STREAM_SPLIT", "path": "PLAIN", "raw": "PLAIN"}
    by_arrow(f"{root}/split", compression="zstd", use_dictionary=False, column_encoding=split,
             write_page_checksum=True, types={"path": pa.large_string(), "raw": pa.large_binary()})
    by_arrow(f"{root}/floats", rename={"size": "length"}, floats=True, compression="zstd")
    by_arrow(f"{root}/no_raw", drop=("raw",), compression="snappy", only=(0,))
    by_arrow(f"{root}/only_raw", drop=("path", "offset", "size"), compression="snappy", only=(0,))
    by_arrow(f"{root}/brotli", compression="brotli", only=(0,))


if __name__ == "__main__":
    main(sys.argv[1])

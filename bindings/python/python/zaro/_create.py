"""New arrays and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _dtype, _zaro
from ._array import Array
from ._group import Group, node
from ._source import Source, address


def create_in(
    source: Source,
    path: str,
    *,
    shape: Sequence[int] | int | None = None,
    dtype: Any = None,
    data: Any = None,
    chunks: Sequence[int] | int | None = None,
    shards: Sequence[int] | None = None,
    codecs: Any = None,
    fill_value: Any = None,
    fill_undefined: bool = False,
    dims: Sequence[str | None] | None = None,
    attrs: dict[str, Any] | None = None,
    order: str | None = None,
    separator: str | None = None,
    key_encoding: str | None = None,
    zarr_format: int | None = None,
    overwrite: bool = False,
) -> Array:
    if data is not None:
        data = np.asarray(data)
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is None or dtype is None:
        from ._errors import UsageError

        raise UsageError("a new array needs a shape and a dtype, or data")
    shape = [int(shape)] if isinstance(shape, (int, np.integer)) else [int(n) for n in shape]
    chunks = [int(chunks)] if isinstance(chunks, (int, np.integer)) else chunks
    name = _dtype.zarr_name(dtype)
    described: dict[str, Any] = {
        "shape": shape,
        "dtype": name,
        "chunks": None if chunks is None else [int(n) for n in chunks],
        "shards": None if shards is None else [int(n) for n in shards],
        "codecs": codecs,
        "fill_undefined": fill_undefined,
        "dims": None if dims is None else list(dims),
        "attributes": attrs or {},
        "order": order,
        "separator": separator,
        "key_encoding": key_encoding,
    }
    if fill_value is not None:
        kind = dtype if name not in ("string", "bytes") else object
        described["fill"] = _dtype.fill_bytes(fill_value, kind, name)
    store = source.writable()
    full = source.full(path)
    core = _zaro.create_array(store, full, described, zarr_format, overwrite)
    source.zarr = _zaro.open_in(store, source.options)
    made = Array(source, path, source.zarr.array(core.path))
    if data is not None:
        made._write(tuple(slice(None) for _ in shape), data, {"assume_empty": True})
    return made


def _target(uri: Any, options: dict[str, Any]) -> Source:
    return Source(address(uri), options, "r+")


def create(uri: Any, path: str = "", *, storage_options: dict[str, Any] | None = None, **options: Any) -> Array:
    """Creates an array, and the groups above it, and opens it for writing.

    :param shape: its extents.
    :param dtype: its type: numpy's, or a name such as ``"float32"``, ``"string"``, ``"datetime64[s]"``, ``"bfloat16"``.
    :param data: its elements; then shape and dtype may be left out.
    :param chunks: the shape of a chunk; by default of up to 1 MiB.
    :param shards: the shape of a shard, a multiple of the chunks'; Zarr 3 only.
    :param codecs: ``"zstd:5"``, ``"blosc:lz4:5:shuffle"``, ``"none"``, or a list of V3's objects; by default zstd.
    :param fill_value: what elements are that were never written; by default 0.
    :param fill_undefined: Zarr 2: leave open what such elements are (``null``), so that no number means "missing".
    :param dims: the names of its dimensions.
    :param attrs: its attributes.
    :param order: how elements lie in a chunk: ``"C"``, ``"F"``, or dimensions such as ``"2,0,1"``.
    :param zarr_format: 2 or 3; by default that of the group above, else 3.
    :param overwrite: replace what is there.

    >>> import zaro, tempfile
    >>> a = zaro.create(tempfile.mkdtemp() + "/sst.zarr", "sst", data=[[1.5, 2.5]], dims=["lat", "lon"])
    >>> a.shape, a.dims
    ((1, 2), ('lat', 'lon'))
    """
    return create_in(_target(uri, storage_options or {}), path.strip("/"), **options)


def create_group(
    uri: Any,
    path: str = "",
    *,
    attrs: dict[str, Any] | None = None,
    zarr_format: int | None = None,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> Group:
    """Creates a group, and those above it, and opens it for writing."""
    source = _target(uri, storage_options or {})
    path = path.strip("/")
    _zaro.create_group(source.writable(), source.full(path), attrs, zarr_format, overwrite)
    source.zarr = _zaro.open_in(source.writable(), source.options)
    made = node(source, path)
    assert isinstance(made, Group)
    return made

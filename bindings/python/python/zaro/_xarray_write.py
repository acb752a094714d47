"""Writing data sets of xarray: ``zaro.to_zarr(ds, uri)``."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np

from ._array import Array
from ._create import create_in
from ._errors import NotFoundError, UsageError
from ._group import Group, node
from ._source import Source, address


def _encoded(name: Any, variable: Any) -> Any:
    """A variable as it is stored: times as numbers, text as strings. What CF says about it is xarray's."""
    from xarray import conventions
    from xarray.coding import strings

    variable = conventions.encode_cf_variable(variable, name=name)
    variable = strings.EncodedStringCoder(allows_unicode=True).encode(variable, name=name)
    return strings.ensure_fixed_length_bytes(variable)


def _fill_attribute(value: Any, dtype: np.dtype[Any]) -> Any:
    """``_FillValue`` in the attributes of Zarr 3, as xarray's own engine reads it."""

    def bits(number: float) -> str:
        return base64.standard_b64encode(struct.pack("<d", float(number))).decode()

    if dtype.kind == "f":
        return bits(value)
    if dtype.kind == "c":
        return [bits(value.real), bits(value.imag)]
    if dtype.kind == "S":
        return base64.standard_b64encode(value).decode()
    return value.item() if hasattr(value, "item") else value


def _codecs(encoding: dict[str, Any]) -> Any:
    """Codecs asked for: zaro's text or list as ``codecs``, or zarr's objects."""
    if "codecs" in encoding:
        return encoding["codecs"]
    if encoding.get("compressors", "auto") in ("auto", None) and not encoding.get("filters"):
        return "none" if "compressors" in encoding and encoding["compressors"] is None else None
    out: list[Any] = []
    for part in ("filters", "serializer", "compressors"):
        given = encoding.get(part)
        if given in (None, "auto"):
            if part == "serializer":
                out.append({"name": "bytes", "configuration": {"endian": "little"}})
            continue
        given = given if isinstance(given, (tuple, list)) else (given,)
        for codec in given:
            if isinstance(codec, dict):
                out.append(codec)
            elif hasattr(codec, "to_dict"):
                out.append(codec.to_dict())
            else:
                # Of numcodecs, that is of Zarr 2: the library's default is as good.
                return None
    return out


def _chunks(variable: Any, encoding: dict[str, Any]) -> Any:
    chunks = encoding.get("chunks")
    if chunks is None and variable.chunks is not None:
        chunks = tuple(max(along) for along in variable.chunks)
    if chunks is None or any(isinstance(c, tuple) for c in chunks) or any(n == 0 for n in variable.shape):
        return None
    return [max(1, min(int(c), max(int(n), 1))) for c, n in zip(chunks, variable.shape)]


def _create(source: Source, path: str, name: Any, variable: Any, zarr_format: int) -> Array:
    encoding, attrs = variable.encoding, dict(variable.attrs)
    fill = attrs.pop("_FillValue", None)
    dtype = variable.dtype
    text = dtype.kind in "TO"
    if text:
        dtype = "string"
    shards = encoding.get("shards")
    chunks = _chunks(variable, encoding)
    stored: Any = encoding.get("fill_value")
    if zarr_format == 2:
        # Zarr 2 has one place for both.
        stored = fill
    elif fill is not None:
        attrs["_FillValue"] = _fill_attribute(fill, variable.dtype)
    return create_in(
        source,
        f"{path}/{name}".strip("/"),
        shape=variable.shape,
        dtype=dtype,
        chunks=chunks,
        shards=shards if chunks is not None else None,
        codecs=_codecs(encoding) if zarr_format == 3 else encoding.get("codecs"),
        fill_value=None if text and stored is None else stored,
        fill_undefined=zarr_format == 2 and stored is None,
        dims=list(variable.dims),
        attrs=attrs,
        zarr_format=zarr_format,
        overwrite=True,
    )


def to_zarr(
    dataset: Any,
    uri: Any,
    *,
    group: str | None = None,
    mode: str | None = None,
    encoding: dict[str, dict[str, Any]] | None = None,
    region: dict[str, Any] | None = None,
    append_dim: str | None = None,
    consolidated: bool = True,
    zarr_format: int | None = None,
    compute: bool = True,
    storage_options: dict[str, Any] | None = None,
) -> Any:
    """Writes a data set. Chunks and shards may be written to from as many places as there are: nothing is lost.

    :param mode: ``"w-"`` refuses what exists (the default), ``"w"`` replaces it, ``"a"`` adds and replaces variables,
        ``"r+"`` only writes to what is there (the default with ``region``).
    :param encoding: for each variable ``chunks``, ``shards``, ``codecs`` (``"zstd:5"``), ``dtype``, ``scale_factor``, …
    :param region: which part of existing arrays to write: ``{"time": slice(0, 10)}``.
    :param append_dim: the dimension to append along.
    :param compute: with Dask's arrays, ``False`` gives a delayed write instead of doing it.
    """
    from xarray import conventions

    if region is not None and append_dim is not None:
        raise UsageError("region and append_dim exclude each other")
    mode = mode or ("r+" if region is not None else "a" if append_dim is not None else "w-")
    if mode not in ("w", "w-", "a", "r+"):
        raise UsageError("mode is 'w', 'w-', 'a' or 'r+'")
    source = Source(address(uri), storage_options or {}, "r+")
    path = (group or "").strip("/")
    existing: dict[str, Any] = {}
    try:
        there = node(source, path)
        if not isinstance(there, Group):
            raise UsageError("there is an array", source.uri, path or "/")
        existing = dict(there.arrays())
    except NotFoundError:
        there = None
    if there is not None and mode == "w-":
        raise UsageError("there is a group already; mode='w' replaces it, 'a' adds to it", source.uri, path or "/")
    if there is None and mode == "r+":
        raise NotFoundError("there is no group to write to", source.uri, path or "/")

    dataset = dataset.copy(deep=False)
    for name, given in (encoding or {}).items():
        if name not in dataset.variables:
            raise UsageError(f"encoding names {name!r}, which is no variable")
        dataset[name].encoding = {**({} if mode != "a" else dataset[name].encoding), **given}
    if mode == "r+" and append_dim is None:
        _check_region(dataset, existing, region)
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    if any(not isinstance(name, str) for name in variables):
        raise UsageError("names of variables are texts")

    if there is None or mode == "w":
        # A group is there before what it holds; readers of a half-written data set see fewer variables.
        from . import _zaro

        _zaro.create_group(source.writable(), source.full(path), attrs, zarr_format, mode == "w")
        source.zarr = _zaro.open_in(source.writable(), source.options)
        there, existing = node(source, path), {}
    elif mode == "a" and attrs:
        there.set_attrs(attrs)
    assert isinstance(there, Group)
    version = there.zarr_format
    sources: list[Any] = []
    targets: list[Any] = []
    regions: list[Any] = []
    for name, variable in variables.items():
        old = existing.get(name)
        variable = _like(variable, old) if old is not None and (region or append_dim or mode == "r+") else variable
        variable = _encoded(name, variable)
        where: tuple[Any, ...] = tuple(slice(0, n) for n in variable.shape)
        if old is not None and append_dim is not None and append_dim in variable.dims:
            axis = variable.dims.index(append_dim)
            start = old.shape[axis]
            if variable.chunks is None:
                old.append(variable.values, axis)
                continue
            old.resize([n + (variable.shape[d] if d == axis else 0) for d, n in enumerate(old.shape)])
            where = tuple(slice(start, start + n) if d == axis else slice(0, n) for d, n in enumerate(variable.shape))
        elif old is not None and region is not None:
            where = tuple(_span(region.get(d), n, e) for d, n, e in zip(variable.dims, variable.shape, old.shape))
        elif old is not None and append_dim is not None:
            continue
        elif old is None and mode == "r+":
            raise UsageError(f"{name!r} is not there; mode='a' adds it", source.uri, path or "/")
        elif old is None or mode == "a":
            old = _create(source, path, name, variable, version)
        if variable.chunks is not None:
            sources.append(variable.data)
            targets.append(_Target(old))
            regions.append(where)
        elif variable.size:
            old[where] = variable.values
    delayed = None
    if sources:
        import dask.array as da

        delayed = da.store(sources, targets, regions=regions, lock=False, compute=compute, flush=True)
    if consolidated and region is None and compute:
        there.consolidate()
    return None if compute else delayed


class _Target:
    """Where Dask writes to."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value


def _span(given: Any, length: int, extent: int) -> slice:
    if given is None:
        return slice(0, length)
    start, stop, step = given.indices(extent)
    if step != 1 or stop - start != length:
        raise UsageError(f"the region {given} does not hold {length} positions")
    return slice(start, stop)


def _like(variable: Any, old: Array) -> Any:
    """A variable with the encoding of the array it goes to: its packing, its units of time."""
    out = variable.copy(deep=False)
    known = old.attrs
    taken: dict[str, Any] = {
        key: known[key]
        for key in ("units", "calendar", "scale_factor", "add_offset", "missing_value")
        if key in known and key not in variable.attrs
    }
    times = np.issubdtype(variable.dtype, np.datetime64) or np.issubdtype(variable.dtype, np.timedelta64)
    times = times or variable.dtype.kind == "O"
    if not times:
        taken.pop("units", None)
        taken.pop("calendar", None)
    fill = old.fill_value if old.zarr_format == 2 else None
    if "_FillValue" in known:
        from .xarray import _decoded_fill

        fill = _decoded_fill(known["_FillValue"], old)
    if fill is not None and "_FillValue" not in variable.attrs and old.dtype.kind in "fiu":
        taken["_FillValue"] = fill
    if old.dtype.kind not in "TOSUb":
        taken["dtype"] = old.dtype
    out.encoding = taken
    return out


def _check_region(dataset: Any, existing: dict[str, Any], region: dict[str, Any] | None) -> None:
    for dim in region or {}:
        if dim not in dataset.dims:
            raise UsageError(f"region names {dim!r}, which is no dimension")
    missing = [name for name in dataset.data_vars if name not in existing]
    if missing:
        raise UsageError(f"{', '.join(map(str, missing))}: not there; mode='a' adds variables")

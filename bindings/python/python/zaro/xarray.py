"""The xarray engine ``zaro``: ``xr.open_dataset(uri, engine="zaro")``."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from xarray import Dataset, DataTree, Variable
from xarray.backends.common import AbstractDataStore, BackendArray, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing

from . import _zaro
from ._array import Array
from ._errors import NotFoundError, UsageError
from ._group import Group, _made
from ._source import Source, address

#: Coordinates up to this size are read while opening, all at once.
_PREFETCH = 64 << 20

#: Attributes that say what is said elsewhere.
_V2_DIMENSIONS = "_ARRAY_DIMENSIONS"


class ZaroArray(BackendArray):
    """An array as xarray indexes it."""

    __slots__ = ("_zaro", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._zaro = array
        self.shape = array.shape
        self.dtype = array.dtype

    def _method(self, key: Any) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._points
        if isinstance(key, indexing.OuterIndexer):
            return lambda key: self._zaro.oindex[key]
        return lambda key: self._zaro[key]

    def _points(self, key: tuple[Any, ...]) -> Any:
        return self._zaro.vindex[key]

    def _kept(self, value: Any) -> Any:
        # A single string stays what the array says.
        return np.asarray(value, self.dtype) if self.dtype.kind == "T" and isinstance(value, str) else value

    def __getitem__(self, key: Any) -> Any:
        support = indexing.IndexingSupport.VECTORIZED
        return self._kept(indexing.explicit_indexing_adapter(key, self.shape, support, self._method(key)))

    async def async_getitem(self, key: Any) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)

    def __dask_tokenize__(self) -> Any:
        return self._zaro.__dask_tokenize__()


def _decoded_fill(value: Any, array: Array) -> Any:
    """The ``_FillValue`` attribute of Zarr 3, in which xarray writes floats as base64 of their bits."""
    kind = array.dtype.kind
    try:
        if kind == "f" and isinstance(value, str):
            return np.array(struct.unpack("<d", base64.standard_b64decode(value))[0], array.dtype)[()]
        if kind == "c" and isinstance(value, list):
            real, imag = (struct.unpack("<d", base64.standard_b64decode(part))[0] for part in value)
            return np.array(complex(real, imag), array.dtype)[()]
        if kind == "S" and isinstance(value, str):
            return base64.standard_b64decode(value)
    except (ValueError, struct.error):
        return value
    if kind in "fiu" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return np.array(value, array.dtype)[()]
    return value


def _codecs(array: Array, meta: dict[str, Any]) -> dict[str, Any]:
    """How it is encoded, for writing it so again: zarr's objects if zarr is in use, else what they are made from."""
    if "zarr" in sys.modules:
        try:
            return _zarr_codecs(meta)
        except Exception:
            # A codec that zarr does not know: then it cannot be written with it either.
            return {}
    document = meta["document"]
    if meta["zarr_format"] == 2:
        compressor = document.get("compressor")
        return {"compressors": None if compressor is None else (compressor,), "filters": document.get("filters")}
    return {}


def _zarr_codecs(meta: dict[str, Any]) -> dict[str, Any]:
    import warnings

    import zarr
    from zarr.core.array import AsyncArray
    from zarr.storage import MemoryStore, StorePath

    document = dict(meta["document"])
    if meta["zarr_format"] == 2:
        document.pop("attributes", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        described: Any = document
        opened = zarr.Array(AsyncArray(described, StorePath(MemoryStore(), "")))
    out: dict[str, Any] = {"compressors": opened.compressors, "filters": opened.filters}
    if meta["zarr_format"] == 3:
        out["serializer"] = opened.serializer
    return out


class ZaroStore(AbstractDataStore):
    """The arrays of one group, as xarray's variables."""

    def __init__(
        self,
        source: Source,
        path: str,
        meta: dict[str, Any],
        children: list[dict[str, Any]],
        fill_as_mask: bool | None = None,
        phony_dims: bool = True,
    ) -> None:
        self.source, self.path, self.meta = source, path, meta
        self.nodes = {child["path"].rpartition("/")[2]: child for child in children if child["kind"] == "array"}
        self.phony_dims = phony_dims
        self.fill_as_mask = meta["zarr_format"] == 2 if fill_as_mask is None else fill_as_mask
        self.loaded: dict[str, Any] = {}

    def coordinates(self, dropped: Iterable[str]) -> list[str]:
        """The arrays that xarray reads while it opens: those of one dimension, named like it."""
        out = []
        for name, child in self.nodes.items():
            if name in dropped or "array" not in child or child["dimension_names"] != [name]:
                continue
            if child["shape"][0] * max(child["array"].dtype.itemsize, 16) <= _PREFETCH:
                out.append(name)
        return out

    def _dimensions(self, name: str, child: dict[str, Any], array: Array) -> tuple[str, ...]:
        names = child["dimension_names"]
        if names is None or None in names:
            if not self.phony_dims:
                raise KeyError(f"the array {name!r} has no dimension names")
            names = [given or f"phony_dim_{size}" for given, size in zip(array.dims, array.shape)]
            seen: dict[str, int] = {}
            for i, n in enumerate(names):
                seen[n] = seen.get(n, 0) + 1
                if seen[n] > 1:
                    names[i] = f"{n}_{seen[n] - 1}"
        return tuple(names)

    def open_variable(self, name: str) -> Variable:
        child = self.nodes[name]
        array = _made(self.source, child)
        assert isinstance(array, Array)
        array._described = child
        dims = self._dimensions(name, child, array)
        v3 = child["zarr_format"] == 3
        attrs = {
            key: value
            for key, value in child["attributes"].items()
            if v3 or not (key == _V2_DIMENSIONS or key.lower().startswith("_nc"))
        }
        chunks = array.chunks
        encoding: dict[str, Any] = {
            "chunks": tuple(tuple(c) if isinstance(c, list) else c for c in chunks),
            "preferred_chunks": dict(zip(dims, _preferred(array))),
            "shards": array.shards,
            **_codecs(array, child),
        }
        if array.dtype.kind == "T":
            encoding["dtype"] = array.dtype
        if self.fill_as_mask:
            if array.fill_value is not None:
                attrs["_FillValue"] = array.fill_value
        else:
            if v3:
                encoding["fill_value"] = array.fill_value
            if "_FillValue" in attrs:
                attrs["_FillValue"] = _decoded_fill(attrs["_FillValue"], array)
        data = self.loaded.get(name)
        if data is None:
            data = indexing.LazilyIndexedArray(ZaroArray(array))
        return Variable(dims, data, attrs, encoding)

    def get_variables(self) -> dict[str, Variable]:
        return {name: self.open_variable(name) for name in self.nodes}

    def get_attrs(self) -> dict[str, Any]:
        return {k: v for k, v in self.meta["attributes"].items() if not k.lower().startswith("_nc")}

    def get_dimensions(self) -> dict[str, int]:
        out: dict[str, int] = {}
        for name, child in self.nodes.items():
            array = _made(self.source, child)
            assert isinstance(array, Array)
            out.update(zip(self._dimensions(name, child, array), array.shape))
        return out

    def get_encoding(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


def _preferred(array: Array) -> tuple[Any, ...]:
    """The blocks for Dask: whole shards, or if they are large whole multiples of chunks in one."""
    chunks = array.chunks
    if any(isinstance(c, list) for c in chunks):
        return tuple(_lengths(c, e) for c, e in zip(chunks, array.shape))
    if array.shards is None:
        return chunks
    from ._array import BLOCK

    if np.prod(array.shards, dtype=object) * array.dtype.itemsize <= BLOCK:
        return array.shards
    return array.block_shape(BLOCK)


def _lengths(chunks: Any, extent: int) -> Any:
    if not isinstance(chunks, list):
        return chunks
    out: list[int] = []
    for length in chunks:
        out += [length[0]] * length[1] if isinstance(length, list) else [length]
    return tuple(out)


class ZaroBackendEntrypoint(BackendEntrypoint):
    """Opens every Zarr, reference, version and archive that zaro reads."""

    description = "Open Zarrs, references, Icechunk, manifests and archives with zaro"
    url = "https://github.com/zaro-dev/zaro"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "mode",
        "consolidated",
        "storage_options",
        "zarr_format",
        "use_zarr_fill_value_as_mask",
        "phony_dims",
        "cache_members",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """What zarr does not open: archives, references, manifests. Never a ``.zarr``, which is zarr's."""
        if isinstance(filename_or_obj, (Group, Array)):
            return True
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        text = os.fspath(filename_or_obj).rstrip("/")
        if text.startswith(("zaro:", "manifest+", "icechunk+", "ref+")):
            return True
        return text.endswith((".zarr.zip", ".ozx", ".parq"))

    def _source(self, target: Any, consolidated: Any, storage_options: Any, zarr_format: Any) -> tuple[Source, str]:
        if isinstance(target, (Group, Array)):
            return target._source, target.path
        options = dict(storage_options or {})
        if consolidated is not None:
            options["consolidated"] = bool(consolidated)
        if zarr_format is not None:
            options["zarr_format"] = zarr_format
        return Source(_repaired(target), options, "r"), ""

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: Any = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        phony_dims: bool = True,
        cache_members: bool = True,
    ) -> Dataset:
        source, base = self._source(filename_or_obj, consolidated, storage_options, zarr_format)
        path = source.full(f"{base}/{group or ''}".strip("/"))
        meta = source.zarr.node(path)
        if meta["kind"] != "group":
            raise UsageError("this is an array, not a data set", source.uri, path or "/")
        _refuse_unconsolidated(source, consolidated)
        children = source.zarr.children(path)
        store = ZaroStore(source, path, meta, children, use_zarr_fill_value_as_mask, phony_dims)
        _prefetch([store], drop_variables)
        return _decoded(
            store,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: Any = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        phony_dims: bool = True,
    ) -> dict[str, Dataset]:
        source, base = self._source(filename_or_obj, consolidated, storage_options, zarr_format)
        top = source.full(f"{base}/{group or ''}".strip("/"))
        nodes = source.zarr.walk(top)
        below: dict[str, list[dict[str, Any]]] = {}
        for found in nodes:
            if found["path"] != top:
                below.setdefault(found["path"].rpartition("/")[0], []).append(found)
        stores: dict[str, ZaroStore] = {}
        for found in nodes:
            if found["kind"] == "group":
                path = found["path"]
                name = "/" + path[len(top) :].strip("/")
                stores[name] = ZaroStore(
                    source, path, found, below.get(path, []), use_zarr_fill_value_as_mask, phony_dims
                )
        if "/" not in stores:
            raise NotFoundError("there is no group", source.uri, top or "/")
        _prefetch(stores.values(), drop_variables)
        options = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        opened = {name: _decoded(store, **options) for name, store in stores.items()}
        if group:
            return {"." if name == "/" else name.strip("/"): ds for name, ds in opened.items()}
        return opened

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        groups = self.open_groups_as_dict(filename_or_obj, **options)
        return DataTree.from_dict({("/" if name == "." else name): ds for name, ds in groups.items()})


def _decoded(store: ZaroStore, **options: Any) -> Dataset:
    dataset = StoreBackendEntrypoint().open_dataset(store, **options)
    # There is nothing to close, and what would close it cannot be pickled.
    dataset.set_close(None)
    return dataset


def _prefetch(stores: Iterable[ZaroStore], drop_variables: Any) -> None:
    """Reads the coordinates of all groups at once: xarray would ask for them one after the other."""
    dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
    wanted = [(store, name) for store in stores for name in store.coordinates(dropped)]
    arrays = _zaro.read_whole([store.nodes[name]["array"] for store, name in wanted])
    for (store, name), array in zip(wanted, arrays):
        store.loaded[name] = array


def _refuse_unconsolidated(source: Source, consolidated: bool | None) -> None:
    if consolidated and not source.zarr.is_consolidated:
        raise ValueError(f"{source.uri}: consolidated metadata is asked for, and there is none")


def _repaired(target: Any) -> str:
    """The address: `open_mfdataset` makes an absolute path of what it takes for a file, such as `manifest+s3://…`."""
    text = address(target)
    for prefix in ("manifest+", "icechunk+", "ref+"):
        at = text.rfind(f"/{prefix}")
        if os.path.isabs(text) and at >= 0:
            word, _, rest = text[at + 1 :].partition(":/")
            return f"{word}://{rest.lstrip('/')}" if rest else text
    return text

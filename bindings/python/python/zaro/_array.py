"""Arrays."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _dtype, _zaro
from ._errors import OutOfBoundsError, UnsupportedError, UsageError
from ._source import Source, progress_of

if TYPE_CHECKING:
    import dask.array

#: Blocks for other programs: whole shards up to this many bytes.
BLOCK = 128 << 20


def _is_basic(item: Any) -> bool:
    return isinstance(item, (slice, int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _expand(key: Any, ndim: int) -> tuple[list[Any], list[int]]:
    """One index for each dimension, masks as positions; and for each the number of the item it came from: what came
    from one item, or from neighbours, is next to each other for numpy.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    out: list[Any] = []
    for item in items:
        if item is Ellipsis or isinstance(item, slice):
            out.append([item])
        elif item is None:
            raise UsageError("None (newaxis) is no index of a stored array; reshape the result")
        elif _is_basic(item):
            out.append([int(item)])
        else:
            array = np.asarray(item)
            if array.dtype == bool:
                if array.ndim == 0:
                    raise UsageError("a single bool is no index of a stored array")
                out.append(list(array.nonzero()) + [("mask", array.shape)])
            elif array.dtype.kind in "iu" or array.size == 0:
                out.append([array.astype(np.int64)])
            else:
                raise OutOfBoundsError(f"an index is made of whole numbers or bools, not {array.dtype}")
    dims = sum(len([x for x in item if not isinstance(x, tuple)]) for item in out if item[0] is not Ellipsis)
    if sum(item[0] is Ellipsis for item in out) > 1:
        raise OutOfBoundsError("only one ... is allowed")
    if dims > ndim:
        raise OutOfBoundsError(f"the selection has {dims} dimensions, the array {ndim}")
    if not any(item[0] is Ellipsis for item in out):
        out.append([Ellipsis])
    indexes: list[Any] = []
    came: list[int] = []
    for number, item in enumerate(out):
        if item[0] is Ellipsis:
            item = [slice(None)] * (ndim - dims)
        for index in item:
            if isinstance(index, tuple):
                continue
            indexes.append(index)
            came.append(number)
    return indexes, came


def _check_masks(key: Any, shape: Sequence[int]) -> None:
    """A mask must be as long as the dimensions it selects from."""
    items = list(key) if isinstance(key, tuple) else [key]
    counts = [np.asarray(i).ndim if np.asarray(i).dtype == bool else 1 for i in items if i is not Ellipsis]
    missing = len(shape) - sum(counts)
    at = 0
    for item in items:
        if item is Ellipsis:
            at += missing
            continue
        if isinstance(item, slice) or np.asarray(item).dtype != bool:
            at += 1
            continue
        mask = np.asarray(item)
        wanted = tuple(shape[at : at + mask.ndim])
        if mask.shape != wanted:
            raise OutOfBoundsError(f"a mask of shape {mask.shape} for dimensions of {wanted}")
        at += mask.ndim


class _Outer:
    """`array.oindex[...]`: lists and masks select along their own dimensions."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def _key(self, key: Any) -> tuple[Any, ...]:
        _check_masks(key, self._array.shape)
        indexes, _ = _expand(key, self._array.ndim)
        out: list[Any] = []
        for index in indexes:
            if isinstance(index, np.ndarray):
                if index.ndim != 1:
                    raise OutOfBoundsError("along a dimension, oindex takes a list of one dimension")
                index = index.tolist()
            out.append(index)
        return tuple(out)

    def __getitem__(self, key: Any) -> Any:
        return self._array._core.read_outer(self._key(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array._write(self._key(key), value)


class _Points:
    """`array.vindex[...]`: one element per point; the dimensions of the points come first."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        _check_masks(key, self._array.shape)
        indexes, _ = _expand(key, self._array.ndim)
        return self._array._points(indexes)[0]


class Array:
    """An array of a Zarr. ``array[...]`` reads it into numpy, with indexes as numpy has them.

    >>> import zaro, numpy as np, tempfile
    >>> a = zaro.create(tempfile.mkdtemp() + "/a.zarr", shape=(4, 6), dtype="int32", chunks=(2, 3))
    >>> a[...] = np.arange(24).reshape(4, 6)
    >>> a[1, ::-2]
    array([11,  9,  7], dtype=int32)
    >>> a[[0, 3], [5, 0]]
    array([ 5, 18], dtype=int32)
    """

    __slots__ = ("__weakref__", "_core", "_described", "_path", "_source")

    def __init__(self, source: Source, path: str, core: _zaro.Array) -> None:
        self._source, self._path, self._core = source, path, core
        self._described: dict[str, Any] | None = None

    # What it is.

    @property
    def meta(self) -> dict[str, Any]:
        """Its metadata in one form for all versions; the book's chapter on ``zaro meta --json`` has the fields."""
        if self._described is None:
            self._described = self._core.describe()
        return self._described

    @property
    def document(self) -> Any:
        """Its document, as it is stored."""
        return self._core.document()

    @property
    def uri(self) -> str:
        """The address it was opened from."""
        return self._source.uri

    @property
    def path(self) -> str:
        """Its path below that address; ``""`` if it is what the address names."""
        return self._path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.rpartition("/")[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self._core.shape

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self._core.shape)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self._core.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return self._core.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of its elements in memory; of strings, without their texts."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[Any, ...]:
        """The shape of a chunk, the smallest part that is read; of varying chunks, the lengths along each dimension."""
        meta = self.meta
        return tuple(meta["chunk_shape"] if "chunk_shape" in meta else meta["chunk_shapes"])

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, the smallest part that is stored as a file of its own; ``None`` without shards."""
        shape = self.meta.get("shard_shape")
        return None if shape is None else tuple(shape)

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The names of its dimensions; ``None`` for one without a name."""
        return tuple(self.meta["dimension_names"] or [None] * self.ndim)

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes, a copy; :meth:`set_attrs` changes them."""
        return dict(self.meta["attributes"])

    @property
    def fill_value(self) -> Any:
        """What elements are that were never written; ``None`` if the document leaves that open."""
        fill = self._core.fill()
        if fill is None:
            return None
        data_type = self.meta["data_type"]
        if self.dtype.kind in "TO":
            return _dtype.from_items(
                [fill.decode()] if data_type == "string" else [fill], data_type, self.dtype, (1,), "C"
            )[0]
        return np.frombuffer(fill, self.dtype)[0]

    @property
    def codecs(self) -> list[dict[str, Any]]:
        """Its codecs, as V3 writes them."""
        return self.meta["codecs"]

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self.meta["zarr_format"]

    # Reading.

    def __getitem__(self, key: Any) -> Any:
        out = self._core.getitem(key)
        return self._as_numpy(key) if out is NotImplemented else out

    def _as_numpy(self, key: Any) -> Any:
        """Lists, masks and points, by numpy's rules."""
        _check_masks(key, self.shape)
        indexes, came = _expand(key, self.ndim)
        points, before = self._points(indexes)
        advanced = [n for n, index in zip(came, indexes) if not isinstance(index, slice)]
        # Ints count as arrays beside an array; if a slice is between them, their dimensions come first.
        if all(b - a <= 1 for a, b in zip(advanced, advanced[1:])):
            shared = points.ndim - sum(isinstance(index, slice) for index in indexes)
            return np.moveaxis(points, range(shared), range(before, before + shared))
        return points

    def _points(self, indexes: list[Any]) -> tuple[Any, int]:
        """The elements at points, whose dimensions come first; and how many other dimensions are before them."""
        arrays = {d: index for d, index in enumerate(indexes) if isinstance(index, np.ndarray)}
        first = next((d for d, index in enumerate(indexes) if not isinstance(index, slice)), 0)
        before = sum(isinstance(index, slice) for index in indexes[:first])
        if not arrays:
            indexes = [[index] if isinstance(index, int) else index for index in indexes]
            return self._core.read_outer(tuple(indexes)), before
        if len(arrays) == 1:
            # One list is a selection along its dimension.
            [(d, array)] = arrays.items()
            key = [array.ravel().tolist() if i == d else index for i, index in enumerate(indexes)]
            read = self._core.read_outer(tuple(key))
            at = sum(isinstance(index, slice) for index in indexes[:d])
            read = np.moveaxis(read, at, 0)
            return read.reshape(array.shape + read.shape[1:]), before
        try:
            together = np.broadcast_arrays(*arrays.values())
        except ValueError:
            shapes = ", ".join(str(array.shape) for array in arrays.values())
            raise OutOfBoundsError(f"lists of the shapes {shapes} do not match; oindex takes them one by one") from None
        shape = together[0].shape
        places = [np.ascontiguousarray(a.ravel(), "<i8").view(np.uint8) for a in together]
        rest = tuple(slice(None) if d in arrays else index for d, index in enumerate(indexes))
        read = self._core.read_points(list(arrays), places, rest)
        return read.reshape(shape + read.shape[1:]), before

    @property
    def oindex(self) -> _Outer:
        """Reads and writes with lists and masks that each select along their own dimension."""
        return _Outer(self)

    @property
    def vindex(self) -> _Points:
        """Reads one element per point; each chunk is read once. The dimensions of the points come first."""
        return _Points(self)

    def read(
        self,
        selection: Any = ...,
        *,
        out: Any = None,
        order: str = "C",
        missing: str = "fill",
        progress: Any = None,
    ) -> Any:
        """Reads a selection of ints, slices and lists, each along its own dimension.

        :param out: an array to read into, of the right shape and type, contiguous in C or Fortran order; it is returned.
        :param order: ``"C"`` or ``"F"``: how the elements lie in memory.
        :param missing: ``"error"`` to fail on chunks that are missing, which are otherwise the fill value.
        :param progress: ``True`` for a bar, or a callable of the bytes done and the total.
        """
        key = self.oindex._key(selection)
        progress = progress_of(progress, self.name or "read")
        if out is None:
            return self._core.read_outer(key, order, missing, progress)
        shape = self._shape_of(key)
        if not isinstance(out, np.ndarray):
            raise UsageError("out is an array of numpy")
        if out.shape != shape or out.dtype != self.dtype:
            raise UsageError(f"out is {out.dtype} of shape {out.shape}, the selection {self.dtype} of shape {shape}")
        if out.flags.c_contiguous:
            self._core.read_into(key, out.reshape(-1).view(np.uint8), "C", missing, progress)
        elif out.flags.f_contiguous:
            self._core.read_into(key, out.T.reshape(-1).view(np.uint8), "F", missing, progress)
        else:
            out[...] = self._core.read_outer(key, order, missing, progress)
        return out

    def _shape_of(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        shape = []
        for index, extent in zip(key, self.shape):
            if isinstance(index, slice):
                shape.append(len(range(*index.indices(extent))))
            elif isinstance(index, list):
                shape.append(len(index))
        return tuple(shape)

    async def read_async(self, selection: Any = ..., **options: Any) -> Any:
        """:meth:`read`, in a thread of its own."""
        return await asyncio.to_thread(self.read, selection, **options)

    def sel(self, *, method: str | None = None, tolerance: Any = None, **labels: Any) -> Any:
        """Reads by coordinate values: ``array.sel(time="2000-07", lat=slice(-10, 10))``, as in xarray.

        :param method: for values that are not exactly there: ``"nearest"``, ``"pad"``, ``"backfill"``.
        :param tolerance: the largest distance of a match: a number, or a time span such as ``"12h"``.
        """
        return self._core.read_outer(self._find(labels, {}, method, tolerance))

    def isel(self, **positions: Any) -> Any:
        """Reads by position, by the names of dimensions: ``array.isel(time=0, lat=slice(3, 9))``."""
        key: list[Any] = [slice(None)] * self.ndim
        for name, index in positions.items():
            if name not in self.dims:
                raise UsageError(f"there is no dimension {name!r}, but {', '.join(map(str, self.dims))}")
            key[self.dims.index(name)] = index
        return self.oindex[tuple(key)]

    def _find(self, labels: Any, positions: Any, method: str | None, tolerance: Any) -> tuple[Any, ...]:
        sel = [f"{name}={_label(value)}" for name, value in labels.items()]
        isel = [f"{name}={_label(value)}" for name, value in positions.items()]
        return tuple(self._core.find(sel, isel, method, None if tolerance is None else str(tolerance)))

    def stat(self, *, progress: Any = None) -> dict[str, Any]:
        """Statistics of all elements, in one pass within the memory budget: smallest, largest, mean, missing chunks."""
        return _zaro.stat(self._core, progress_of(progress, self.name or "stat"))

    def iter_blocks(self, memory: int = BLOCK) -> Iterator[tuple[tuple[slice, ...], Any]]:
        """Reads it block by block: whole shards (or chunks) of at most ``memory`` bytes, as many as fit, each with
        where it lies.
        """
        blocks = self.block_shape(memory)
        counts = [range(0, max(extent, 0), block) for extent, block in zip(self.shape, blocks)]
        for corner in np.ndindex(*(len(count) for count in counts)):
            starts = [count[i] for count, i in zip(counts, corner)]
            at = tuple(slice(a, min(a + n, e)) for a, n, e in zip(starts, blocks, self.shape))
            yield at, self[at]

    def block_shape(self, memory: int = BLOCK) -> tuple[int, ...]:
        """The shape of blocks of whole shards of at most ``memory`` bytes; of whole chunks, if a shard is larger."""
        size = max(self.dtype.itemsize, 1)
        chunks = self.chunks
        if any(isinstance(c, list) for c in chunks):
            grid = self.meta.get("shard_shapes") or chunks
            chunks = tuple(
                max(n[0] if isinstance(n, list) else n for n in c) if isinstance(c, list) else c for c in grid
            )
            return tuple(min(c, max(e, 1)) for c, e in zip(chunks, self.shape))
        unit = self.shards or chunks
        if math.prod(unit) * size > memory:
            unit = chunks
        block = [max(min(n, max(e, 1)), 1) for n, e in zip(unit, self.shape)]
        within = self.shards if self.shards and unit is chunks else self.shape
        # Longer along the last dimensions first: they lie together.
        for d in reversed(range(len(block))):
            room = memory // max(math.prod(block) * size, 1)
            if room > 1:
                block[d] = min(block[d] * room // unit[d] * unit[d] or block[d], max(within[d], 1))
        return tuple(block)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Along the first dimension; read chunk by chunk."""
        step = self.chunks[0] if self.shape else 1
        step = step if isinstance(step, int) else 1
        for start in range(0, len(self), max(step, 1)):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("an array is read from its store: it cannot be had without a copy")
        read = self[...]
        return read if dtype is None else np.asarray(read, dtype)

    # Writing.

    def __setitem__(self, key: Any, value: Any) -> None:
        _check_masks(key, self.shape)
        indexes, _ = _expand(key, self.ndim)
        arrays = [index for index in indexes if isinstance(index, np.ndarray)]
        if len(arrays) > 1 or (arrays and (arrays[0].ndim != 1 or any(isinstance(i, int) for i in indexes))):
            raise UnsupportedError("points cannot be written; oindex takes lists along their own dimensions")
        self._write(tuple(i.tolist() if isinstance(i, np.ndarray) else i for i in indexes), value)

    def write(
        self,
        selection: Any,
        value: Any,
        *,
        keep_fill: bool = False,
        single_writer: bool = False,
        progress: Any = None,
    ) -> None:
        """Writes to a selection, from as many threads and processes as there are: what others write to the same chunk or
        shard is kept.

        :param keep_fill: also store chunks of nothing but the fill value.
        :param single_writer: for stores without conditional puts: others must not write meanwhile.
        """
        options = {"keep_fill": keep_fill, "single_writer": single_writer}
        options["progress"] = progress_of(progress, self.name or "write")  # type: ignore[assignment]
        self._write(self.oindex._key(selection), value, options)

    def _write(self, key: tuple[Any, ...], value: Any, options: dict[str, Any] | None = None) -> None:
        self._source.writable()
        values, order = self._prepared(value, self._shape_of(key))
        self._core.write(key, values, order, options)

    def _prepared(self, value: Any, shape: tuple[int, ...]) -> tuple[Any, str]:
        """The elements as the library takes them: contiguous bytes of the array's own type, or a list of bytes."""
        if self.dtype.kind in "TO":
            wide = np.broadcast_to(np.asarray(value, self.dtype if self.dtype.kind == "T" else object), shape)
            return _dtype.to_items(wide, self.meta["data_type"], "C"), "C"
        given = np.asarray(value)
        if given.dtype.kind in "fc" and self.dtype.kind in "iub":
            if not np.array_equal(given, given.astype(self.dtype).astype(given.dtype)):
                raise UsageError(f"{given.dtype} would lose its fractions in {self.dtype}; convert it first")
        if given.dtype.kind in "mM" and self.dtype.kind in "iu":
            given = given.view(np.int64)
        wide = np.broadcast_to(given.astype(self.dtype, copy=False), shape)
        if wide.flags.f_contiguous and not wide.flags.c_contiguous:
            return wide.T.reshape(-1).view(np.uint8), "F"
        return np.ascontiguousarray(wide).reshape(-1).view(np.uint8), "C"

    def append(self, value: Any, axis: int | str = 0, *, progress: Any = None, single_writer: bool = False) -> int:
        """Appends along a dimension, and returns where the new part starts. Readers see all of it or nothing; several
        processes may append at once.
        """
        self._source.writable()
        if isinstance(axis, str):
            axis = self.dims.index(axis)
        axis = range(self.ndim)[axis]
        given = np.asarray(value, None if self.dtype.kind not in "TO" else object)
        if given.ndim == self.ndim - 1:
            given = np.expand_dims(given, axis)
        wanted = tuple(given.shape[axis] if d == axis else n for d, n in enumerate(self.shape)) if given.ndim else ()
        if given.shape != wanted or given.ndim != self.ndim:
            raise UsageError(f"{given.shape} cannot be appended along dimension {axis} of {self.shape}")
        values, order = self._prepared(given, given.shape)
        options = {"single_writer": single_writer, "progress": progress_of(progress, self.name or "append")}
        self._core, start = _zaro.append(self._core, axis, given.shape[axis], values, order, options)
        self._described = None
        return start

    def resize(self, shape: Sequence[int]) -> None:
        """Gives it another shape. What is cut off is deleted; what is added is the fill value."""
        store = self._source.writable()
        self._core = _zaro.resize(store, self._core.path, [int(n) for n in shape])
        self._described = None

    def set_attrs(self, attrs: dict[str, Any] | None = None, *, replace: bool = False, **more: Any) -> None:
        """Sets attributes; ``None`` removes one. With ``replace`` there are no others afterwards."""
        _edit(self._source, self._core.path, {**(attrs or {}), **more}, replace)
        self._core = self._source.zarr.array(self._core.path)
        self._described = None

    # Neighbours.

    def to_dask(self, chunks: Any = None) -> dask.array.Array:
        """An array of Dask whose blocks are whole shards; of the same name whenever it is the same data."""
        import dask.array as da

        chunks = self.block_shape() if chunks is None else chunks
        return da.from_array(self, chunks=chunks, asarray=True, fancy=False, name=None, lock=False)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        # Without the state of its document, data that has changed would have the name of the old.
        state = self._source.zarr.state(self._core.path)
        return "zaro.Array", *self._source.key(), self._path, state

    def __reduce__(self) -> tuple[Any, ...]:
        return _array_of, (self._source, self._path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        return self._source.key() == other._source.key() and self._path == other._path

    def __hash__(self) -> int:
        return hash((self._source.key(), self._path))

    def __repr__(self) -> str:
        shape = ", ".join(f"{n}: {e}" if n else str(e) for n, e in zip(self.dims, self.shape))
        return f"<zaro.Array {_zaro.redacted(self.uri)} {self._path or '/'} ({shape}) {self.dtype}>"

    def _repr_html_(self) -> str:
        from html import escape

        rows = {
            "Path": self._path or "/",
            "Shape": self.shape,
            "Type": self.dtype,
            "Chunks": self.chunks,
            "Shards": self.shards,
            "Codecs": ", ".join(c["name"] for c in self.codecs),
            "Bytes": f"{self.nbytes:,}",
        }
        cells = "".join(f"<tr><th>{k}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items())
        return f"<table>{cells}</table>"


def _array_of(source: Source, path: str) -> Array:
    return Array(source, path, source.zarr.array(source.full(path)))


def _edit(source: Source, path: str, attrs: dict[str, Any], replace: bool) -> None:
    store = source.writable()
    unset = [name for name, value in attrs.items() if value is None and not replace]
    set_ = {name: value for name, value in attrs.items() if replace or value is not None}
    _zaro.edit_attributes(store, path, set_, unset, replace)
    source.zarr = _zaro.open_in(store, source.options)


def _label(value: Any) -> str:
    """A coordinate value as the library's text for it."""
    if isinstance(value, slice):
        parts = ["" if part is None else _label(part) for part in (value.start, value.stop)]
        return ":".join([*parts, *([] if value.step is None else [_label(value.step)])])
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return f"[{','.join(_label(item) for item in value)}]"
    if isinstance(value, np.generic) and value.dtype.kind not in "Mm":
        value = value.item()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, np.integer)):
        return str(value)
    if hasattr(value, "isoformat"):
        value = value.isoformat()
    text = str(value)
    return f'"{text}"' if any(c in text for c in ",:=[]\"' ") else text

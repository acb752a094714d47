"""A store for zarr-python: ``zarr.open(zaro.Store(uri))``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store as _Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

from . import _zaro
from ._source import _frozen, address


def _range(request: ByteRequest | None) -> tuple[int | None, int | None]:
    match request:
        case None:
            return None, None
        case RangeByteRequest(start, end):
            return start, end - start
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, None
    raise TypeError(f"Unexpected byte_range, got {request}.")


class Store(_Store):
    """Everything that zaro opens, as keys and bytes: references, versions, archives, buckets.

    :param uri: an address, as for :func:`zaro.open`.
    :param read_only: whether writing is refused.
    :param options: how to reach it.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(self, uri: Any, *, read_only: bool = True, **options: Any) -> None:
        super().__init__(read_only=read_only)
        self.uri, self.options = address(uri), options
        if read_only:
            self._core = _zaro.open_store(self.uri, options)
            self._base = ""
        else:
            self._core, self._base = _zaro.open_for_writing(self.uri, "", options)

    def with_read_only(self, read_only: bool = False) -> Store:
        return type(self)(self.uri, read_only=read_only, **self.options)

    def _key(self, key: str) -> str:
        return f"{self._base}/{key}" if self._base else key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and self._id() == other._id()

    def __hash__(self) -> int:
        return hash(self._id())

    def _id(self) -> tuple[Any, ...]:
        return self.uri, self.read_only, _frozen(self.options)

    def __str__(self) -> str:
        return f"zaro::{_zaro.redacted(self.uri)}"

    def __repr__(self) -> str:
        return f"zaro.Store({_zaro.redacted(self.uri)!r}, read_only={self.read_only})"

    def __getstate__(self) -> dict[str, Any]:
        return {"uri": self.uri, "read_only": self.read_only, "options": self.options, "open": self._is_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["uri"], read_only=state["read_only"], **state["options"])  # type: ignore[misc]
        self._is_open = state["open"]

    # Without an event loop: what zarr's fused pipeline asks for.

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        prototype = prototype or default_buffer_prototype()
        offset, length = _range(byte_range)
        if length == 0 or (offset is not None and offset == 0 and byte_range is not None and length == 0):
            return prototype.buffer.from_bytes(b"") if self._core.size(self._key(key)) is not None else None
        found = self._core.get(self._key(key), offset, length)
        return None if found is None else prototype.buffer.from_bytes(memoryview(found))  # type: ignore[arg-type]

    def set_sync(self, key: str, value: Buffer) -> None:
        self._check_writable()
        self._core.put(self._key(key), _bytes(value))

    def delete_sync(self, key: str) -> None:
        self._check_writable()
        self._core.delete(self._key(key))

    # The same for the event loop.

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        _range(byte_range)
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*(self.get(key, prototype, wanted) for key, wanted in key_ranges)))

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._core.size, self._key(key)) is not None

    async def getsize(self, key: str) -> int:
        size = await asyncio.to_thread(self._core.size, self._key(key))
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(f"Store.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead.")
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await asyncio.to_thread(self._core.put, self._key(key), _bytes(value), True)

    async def delete(self, key: str) -> None:
        self._check_writable()
        await asyncio.to_thread(self._core.delete, self._key(key))

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await asyncio.to_thread(self._core.delete_prefix, self._key(prefix.strip("/")))

    async def _keys(self, prefix: str) -> list[str]:
        base = f"{self._base}/" if self._base else ""
        # Listings are of folders; a prefix may end within a name.
        folder = prefix.rpartition("/")[0]
        found = await asyncio.to_thread(self._core.keys, self._key(folder) if folder else self._base)
        return [key[len(base) :] for key, _ in found if key[len(base) :].startswith(prefix)]

    async def list(self) -> AsyncIterator[str]:
        for key in await self._keys(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in await self._keys(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = prefix.strip("/")
        found = await asyncio.to_thread(self._core.list, self._key(folder) if folder else self._base)
        for name, _ in found:
            yield name.strip("/").rpartition("/")[2]


def _bytes(value: Buffer) -> Any:
    import numpy as np

    return np.ascontiguousarray(value.as_numpy_array()).view(np.uint8)

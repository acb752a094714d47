"""``zaro://`` for fsspec: what zaro opens, as files to read. For whoever takes an address as text only."""

from __future__ import annotations

from typing import Any

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from . import _zaro
from ._errors import Error


_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


class ZaroFileSystem(AbstractFileSystem):
    """``zaro://ADDRESS``, or ``zaro://ADDRESS/key`` for a key in it. Read only.

    :param address: what is opened; taken from the first path by ``fsspec.open`` and ``url_to_fs``.
    """

    protocol = "zaro"
    root_marker = ""
    cachable = True

    def __init__(self, address: str | None = None, **options: Any) -> None:
        super().__init__(address=address, **options)
        known = ("asynchronous", "loop", "use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache")
        self.options = {name: value for name, value in options.items() if name not in known}
        self._open_stores: dict[str, _zaro.Store] = {}
        if address:
            self._store(address)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return {"address": ZaroFileSystem._strip_protocol(path)}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        text = str(path)
        return text.removeprefix("zaro://").removeprefix("zaro::").rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"zaro://{self._strip_protocol(name)}"

    def _store(self, path: str) -> tuple[_zaro.Store, str]:
        """The store of a path, and the key in it: what is there is opened, or else what is above it."""
        path = self._strip_protocol(path)
        for address, store in self._open_stores.items():
            if path == address or path.startswith(f"{address}/"):
                return store, path[len(address) :].strip("/")
        address = path
        if path.rpartition("/")[2] in _DOCUMENTS:
            # A document is a key, though its address would open the node.
            address = path.rpartition("/")[0]
        while address:
            try:
                store = _zaro.open_store(address, self.options)
                if store.list(""):
                    self._open_stores[address] = store
                    return store, path[len(address) :].strip("/")
            except Error:
                if "/" not in address.strip("/"):
                    raise
            address = address.rpartition("/")[0]
        raise FileNotFoundError(path)

    def _object(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        store, key = self._store(path)
        offset: int | None
        length: int | None
        if start is not None and start < 0:
            offset, length = start, None
        else:
            offset = None if start is None and end is None else start or 0
            length = None if end is None else end - (start or 0)
        if end is not None and end < 0 or (start is not None and start < 0 and end is not None):
            size = store.size(key)
            if size is None:
                raise FileNotFoundError(path)
            begin = range(size)[slice(start, end)]
            offset, length = begin.start, len(begin)
        if length is not None and length <= 0:
            return b""
        found = store.get(key, offset, length) if key else None
        if found is None:
            raise FileNotFoundError(path)
        return bytes(memoryview(found))  # type: ignore[arg-type]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        return self._object(path, start, end)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        store, key = self._store(path)
        if key:
            size = store.size(key)
            if size is not None:
                return {"name": path, "size": size, "type": "file"}
        if not key or store.list(key):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        store, key = self._store(path)
        base = path[: len(path) - len(key)].rstrip("/") if key else path
        found = [
            {"name": f"{base}/{name.strip('/')}", "size": size or 0, "type": "directory" if size is None else "file"}
            for name, size in store.list(key, True)
        ]
        if not found and key:
            return [self.info(path)] if detail else [path]
        return found if detail else [entry["name"] for entry in found]

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode != "rb":
            raise NotImplementedError("zaro:// is read only; write with zaro itself, or zaro.Store")
        import io

        return io.BytesIO(self._object(path))

"""Groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _zaro
from ._array import Array, _edit
from ._errors import NotFoundError
from ._source import Source


class Group:
    """A group of a Zarr: a mapping of names to groups and arrays.

    >>> import zaro, tempfile
    >>> g = zaro.create_group(tempfile.mkdtemp() + "/g.zarr", attrs={"title": "ice"})
    >>> _ = g.create("depth", shape=(3,), dtype="float32")
    >>> list(g), g.attrs
    (['depth'], {'title': 'ice'})
    """

    __slots__ = ("__weakref__", "_meta", "_path", "_source")

    def __init__(self, source: Source, path: str, meta: dict[str, Any]) -> None:
        self._source, self._path, self._meta = source, path, meta

    @property
    def uri(self) -> str:
        """The address it was opened from."""
        return self._source.uri

    @property
    def path(self) -> str:
        """Its path below that address."""
        return self._path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.rpartition("/")[2]

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes, a copy; :meth:`set_attrs` changes them."""
        return dict(self._meta["attributes"])

    @property
    def meta(self) -> dict[str, Any]:
        """Its metadata in one form for all versions."""
        return {k: v for k, v in self._meta.items() if k not in ("array", "document", "fill", "error")}

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self._meta["zarr_format"]

    def _below(self, name: str) -> str:
        return f"{self._path}/{name.strip('/')}".strip("/")

    def __getitem__(self, name: str) -> Group | Array:
        return node(self._source, self._below(name))

    def children(self) -> dict[str, Group | Array]:
        """Everything directly below it, by name, found at once."""
        found = self._source.zarr.children(self._source.full(self._path))
        return {meta["path"].rpartition("/")[2]: _made(self._source, meta) for meta in found}

    def walk(self) -> dict[str, Group | Array]:
        """Everything below it, by path from here, found at once."""
        base = self._source.full(self._path)
        found = self._source.zarr.walk(base)
        cut = len(base) + 1 if base else 0
        return {meta["path"][cut:]: _made(self._source, meta) for meta in found if meta["path"] != base}

    def arrays(self) -> dict[str, Array]:
        """The arrays directly below it."""
        return {name: node for name, node in self.children().items() if isinstance(node, Array)}

    def groups(self) -> dict[str, Group]:
        """The groups directly below it."""
        return {name: node for name, node in self.children().items() if isinstance(node, Group)}

    def __iter__(self) -> Iterator[str]:
        return iter(self.children())

    def __len__(self) -> int:
        return len(self.children())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self[name]
        except NotFoundError:
            return False
        return True

    def keys(self) -> list[str]:
        """The names of what is directly below it."""
        return list(self.children())

    def items(self) -> list[tuple[str, Group | Array]]:
        """Names and nodes."""
        return list(self.children().items())

    def create(self, name: str, **options: Any) -> Array:
        """Creates an array below it; :func:`zaro.create` has the options."""
        from . import _create

        return _create.create_in(self._source, self._below(name), **options)

    def create_group(self, name: str, *, attrs: dict[str, Any] | None = None, overwrite: bool = False) -> Group:
        """Creates a group below it."""
        path = self._below(name)
        store = self._source.writable()
        _zaro.create_group(store, self._source.full(path), attrs, None, overwrite)
        self._source.zarr = _zaro.open_in(store, self._source.options)
        made = node(self._source, path)
        assert isinstance(made, Group)
        return made

    def set_attrs(self, attrs: dict[str, Any] | None = None, *, replace: bool = False, **more: Any) -> None:
        """Sets attributes; ``None`` removes one. With ``replace`` there are no others afterwards."""
        path = self._source.full(self._path)
        _edit(self._source, path, {**(attrs or {}), **more}, replace)
        self._meta = self._source.zarr.node(path)

    def __delitem__(self, name: str) -> None:
        store = self._source.writable()
        _zaro.delete(store, self._source.full(self._below(name)))
        self._source.zarr = _zaro.open_in(store, self._source.options)

    def consolidate(self) -> int:
        """Writes the metadata of everything below it into it; returns of how many nodes."""
        return _zaro.consolidate(self._source.writable(), self._source.full(self._path))

    def __reduce__(self) -> tuple[Any, ...]:
        return node, (self._source, self._path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return self._source.key() == other._source.key() and self._path == other._path

    def __hash__(self) -> int:
        return hash((self._source.key(), self._path))

    def __repr__(self) -> str:
        return f"<zaro.Group {_zaro.redacted(self.uri)} {self._path or '/'}>"


def _made(source: Source, meta: dict[str, Any]) -> Group | Array:
    path = meta["path"]
    if source.base:
        path = path[len(source.base) :].strip("/")
    if meta["kind"] == "group":
        return Group(source, path, meta)
    if "array" not in meta:
        raise meta["error"]
    return Array(source, path, meta["array"])


def node(source: Source, path: str) -> Group | Array:
    """The node at `path` below what the address names."""
    return _made(source, source.zarr.node(source.full(path)))

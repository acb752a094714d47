"""Open any Zarr, wherever it lives, at any version of it.

>>> import zaro, numpy as np, tempfile
>>> where = tempfile.mkdtemp() + "/ocean.zarr"
>>> _ = zaro.create(where, "sst", data=np.arange(6.0).reshape(2, 3), dims=["lat", "lon"])
>>> zaro.open(where)["sst"][1, ::-1]
array([5., 4., 3.])
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING, Any

from . import _zaro
from ._errors import (
    CancelledError,
    ConflictError,
    Error,
    InvalidError,
    IoError,
    NotFoundError,
    NotPermittedError,
    OutOfBoundsError,
    UnsupportedError,
    UsageError,
    Warning,
)
from ._zaro import __version__

if TYPE_CHECKING:
    from . import image, manifest, refs
    from ._array import Array
    from ._create import create, create_group
    from ._group import Group
    from ._tools import consolidate, copy, delete, unconsolidate, validate
    from ._xarray_write import to_zarr
    from ._zarr_store import Store

__all__ = [
    "Array",
    "CancelledError",
    "ConflictError",
    "Error",
    "Group",
    "InvalidError",
    "IoError",
    "NotFoundError",
    "NotPermittedError",
    "OutOfBoundsError",
    "Store",
    "UnsupportedError",
    "UsageError",
    "Warning",
    "__version__",
    "clear_cache",
    "consolidate",
    "copy",
    "create",
    "create_group",
    "delete",
    "image",
    "list",
    "manifest",
    "meta",
    "open",
    "read",
    "refs",
    "set_memory",
    "set_threads",
    "to_zarr",
    "unconsolidate",
    "validate",
]

#: Where names come from that need numpy or more: they are imported when first used.
_LAZY = {
    "Array": "_array",
    "Group": "_group",
    "create": "_create",
    "create_group": "_create",
    "copy": "_tools",
    "consolidate": "_tools",
    "unconsolidate": "_tools",
    "delete": "_tools",
    "validate": "_tools",
    "to_zarr": "_xarray_write",
    "Store": "_zarr_store",
    "image": "",
    "manifest": "",
    "refs": "",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module 'zaro' has no attribute {name!r}")
    module = _LAZY[name]
    if not module:
        return import_module(f"zaro.{name}")
    value = getattr(import_module(f"zaro.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> Any:
    return sorted(__all__)


def open(uri: Any, path: str = "", *, mode: str = "r", **options: Any) -> Group | Array:
    """Opens a Zarr, or a node of it: a :class:`Group` or an :class:`Array`.

    :param uri: a path, ``file://``, ``s3://``, ``gs://``, ``az://`` or ``http(s)://``; a ``.zip``; Kerchunk's JSON or
        Parquet; an Icechunk repository; a manifest. The book's chapter on stores has them all.
    :param path: a node below it.
    :param mode: ``"r"``, or ``"r+"`` to write, too.
    :param options: how to reach it: ``anonymous``, ``region``, ``endpoint``, ``profile``, ``headers`` (a dict), ``root``
        and ``target`` of references, ``branch``, ``tag`` or ``snapshot`` of Icechunk, ``objects`` of a manifest,
        ``consolidated``, ``strict``, ``zarr_format``, and all names of the library's store options.
    """
    from ._group import node
    from ._source import Source, address

    source = Source(address(uri), options, mode)
    found = node(source, path.strip("/"))
    _warn(source.zarr.findings())
    return found


def list(uri: Any, path: str = "", **options: Any) -> dict[str, Group | Array]:
    """Everything below a group, by path, found at once."""
    found = open(uri, path, **options)
    from ._group import Group

    return found.walk() if isinstance(found, Group) else {"": found}


def meta(uri: Any, path: str = "", **options: Any) -> dict[str, Any]:
    """The metadata of a node, in one form for all versions of Zarr."""
    return open(uri, path, **options).meta


def read(uri: Any, path: str = "", selection: Any = ..., *, out: Any = None, **options: Any) -> Any:
    """Opens an array and reads a selection of it."""
    found = open(uri, path, **options)
    from ._array import Array

    if not isinstance(found, Array):
        names = ", ".join(found.keys()[:10])
        raise UsageError(f"this is a group, with {names or 'nothing in it'}", found.uri, found.path or "/")
    return found.read(selection, out=out)


def set_memory(bytes: int) -> None:
    """Sets the memory for caches and bytes in flight, of all that this process opens from now on together."""
    _zaro.configure(bytes, None)


def set_threads(threads: int) -> None:
    """Sets how many threads decode and encode, for all that this process opens from now on."""
    _zaro.configure(None, threads)


def clear_cache() -> None:
    """Forgets what is cached for what is opened from now on, and handles kept for pickles."""
    from ._source import forget

    forget()
    _zaro.configure(*_zaro.configure())


def _warn(findings: Any) -> None:
    import warnings

    for finding in findings:
        warnings.warn(finding, Warning, stacklevel=3)


if _os.environ.get("ZARO_NUM_THREADS", "").isdigit():
    set_threads(int(_os.environ["ZARO_NUM_THREADS"]))

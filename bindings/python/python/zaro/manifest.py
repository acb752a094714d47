"""Versions of a Zarr: checksums, manifests, the states of a bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import _zaro
from ._errors import ConflictError
from ._source import address, progress_of

__all__ = ["at", "checksum", "create", "history", "open", "verify"]


def _settled(work: Callable[[], Any]) -> Any:
    """What is written in a row, such as row by row, is marked as such for half a second after the last write: waits."""
    for _ in range(20):
        try:
            return work()
        except ConflictError as e:
            if e.key is None or not e.key.endswith(".zaro-writing"):
                raise
            time.sleep(0.1)
    return work()


def checksum(uri: Any, *, progress: Any = None, **options: Any) -> str:
    """The checksum of a Zarr in a folder or a bucket: one text for all its files.

    >>> import zaro, tempfile
    >>> where = tempfile.mkdtemp() + "/a.zarr"
    >>> _ = zaro.create(where, data=[1, 2, 3])
    >>> len(zaro.manifest.checksum(where).split("-")[0])
    32
    """
    progress = progress_of(progress, "checksum")
    return _settled(lambda: _zaro.checksum(address(uri), options, progress))


def create(
    uri: Any,
    output: Any = None,
    *,
    folder: Any = None,
    zarr: str | None = None,
    replace: bool = False,
    progress: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Writes a manifest of a Zarr as it is now: to the file ``output``, or to its place in a ``folder`` of manifests."""
    progress = progress_of(progress, "manifest")
    uri = address(uri)
    return _settled(lambda: _zaro.manifest_create(uri, output, folder, zarr, replace, options, progress))


def verify(
    uri: Any, folder: Any = None, *, bytes: bool = False, progress: Any = None, **options: Any
) -> dict[str, Any]:
    """Checks a manifest in itself, and against a folder; with ``bytes`` every file is read. ``["ok"]`` says how it is."""
    return _zaro.manifest_verify(address(uri), folder, bytes, options, progress_of(progress, "verify"))


def history(uri: Any, *, gap: int = 0, **options: Any) -> list[dict[str, Any]]:
    """The states that a Zarr in a bucket with versions has had; changes less than ``gap`` seconds apart are one."""
    return _zaro.manifest_history(address(uri), gap, options)


def at(uri: Any, time: Any, **options: Any) -> bytes:
    """The manifest of a Zarr in a bucket with versions as it was at a time: write it to a file, and open that."""
    text = time.isoformat() if hasattr(time, "isoformat") else str(time)
    if len(text) == 10:
        text += "T00:00:00Z"
    return bytes(_zaro.manifest_at(address(uri), text, options))


def open(uri: Any, path: str = "", *, objects: str | None = None, **options: Any) -> Any:
    """Opens the version of a Zarr that a manifest names."""
    from . import open as open_any

    text = address(uri)
    return open_any(text if text.startswith("manifest+") else f"manifest+{text}", path, objects=objects, **options)

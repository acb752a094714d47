"""Copying and validating."""

from __future__ import annotations

from typing import Any

from . import _zaro
from ._array import _label
from ._source import Source, address, progress_of


def copy(
    source: Any,
    target: Any,
    *,
    path: str = "",
    to: str = "",
    progress: Any = None,
    source_options: dict[str, Any] | None = None,
    target_options: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Copies a Zarr, or the part of it at ``path``, within the memory budget; a copy that was stopped goes on where it was.

    :param chunks, shards: other shapes, by position or by name: ``chunks={"time": 100}``; ``shards=False`` for none.
    :param codecs, dtype, order, zarr_format, separator, key_encoding: how it is stored, as for :func:`zaro.create`.
    :param vars, sel, isel, select: only these arrays, or this part of each.
    :param overwrite: replace what is there.
    :param consolidate: write consolidated metadata at the end; by default if the source has them.
    :param verify: read both again and compare every element.
    :param memory: the budget in bytes.
    :param progress: ``True`` for a bar, or a callable of the bytes done and the total.
    """
    for name in ("sel", "isel"):
        if isinstance(options.get(name), dict):
            options[name] = [f"{dim}={_label(value)}" for dim, value in options[name].items()]
    return _zaro.copy(
        address(source),
        path.strip("/"),
        source_options or {},
        address(target),
        to.strip("/"),
        target_options or {},
        options,
        progress_of(progress, "copy"),
    )


def validate(uri: Any, path: str = "", *, data: bool = False, progress: Any = None, **options: Any) -> dict[str, Any]:
    """Checks the metadata of all nodes against the specification, and with ``data`` decodes every chunk.

    Returns a report: ``ok``, the numbers of errors and warnings, and all ``findings``.
    """
    return _zaro.validate(address(uri), path.strip("/"), data, options, progress_of(progress, "validate"))


def consolidate(uri: Any, path: str = "", **options: Any) -> int:
    """Writes the metadata of everything below a group into it: one request opens it all. Returns of how many nodes."""
    source = Source(address(uri), options, "r+")
    return _zaro.consolidate(source.writable(), source.full(path))


def unconsolidate(uri: Any, path: str = "", **options: Any) -> bool:
    """Removes consolidated metadata; ``False`` if there were none."""
    source = Source(address(uri), options, "r+")
    return _zaro.unconsolidate(source.writable(), source.full(path))


def delete(uri: Any, path: str = "", **options: Any) -> None:
    """Deletes a node and everything below it."""
    source = Source(address(uri), options, "r+")
    _zaro.delete(source.writable(), source.full(path))

"""Reference stores, such as Kerchunk's: Zarrs whose bytes lie elsewhere. ``zaro.open`` reads them."""

from __future__ import annotations

from typing import Any

from . import _zaro
from ._source import address, progress_of

__all__ = ["convert", "stat", "validate"]


def validate(uri: Any, *, sample: int | None = 100, progress: Any = None, **options: Any) -> dict[str, Any]:
    """Checks that references make a Zarr, that their objects exist, and that a sample of chunks decodes; ``None`` for all."""
    return _zaro.refs_validate(address(uri), sample, options, progress_of(progress, "validate"))


def stat(uri: Any, **options: Any) -> dict[str, Any]:
    """What a reference store refers to: arrays, objects, bytes."""
    return _zaro.refs_stat(address(uri), options)


def convert(
    uri: Any,
    target: Any,
    *,
    overwrite: bool = False,
    record_size: int = 100_000,
    progress: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Writes references in another form, by the name of the target: ``.json`` (``.json.gz``, ``.json.zst``) or ``.parq``.

    Icechunk repositories and manifests can be converted, too.
    """
    progress = progress_of(progress, "convert")
    return _zaro.refs_convert(address(uri), address(target), overwrite, record_size, options, progress)

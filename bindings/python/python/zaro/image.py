"""OME-Zarr images: levels, labels, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _zaro
from ._array import Array
from ._source import Source, address, progress_of

__all__ = ["Image", "convert", "open", "render", "validate"]


class Image:
    """An OME-Zarr image."""

    def __init__(self, source: Source, path: str) -> None:
        self._source, self._path = source, path
        cores, self._labels = _zaro.image_levels(source.zarr, source.full(path))
        self.levels = [Array(source, core.path, core) for core in cores]

    @property
    def path(self) -> str:
        """Its path below the address."""
        return self._path

    @property
    def info(self) -> dict[str, Any]:
        """What is known about it: axes, scales, channels."""
        return _zaro.image_overview(self._source.zarr, self._source.full(self._path))

    def level(self, number: int) -> Array:
        """A level; 0 is the finest."""
        return self.levels[number]

    @property
    def labels(self) -> dict[str, Image]:
        """Its label images, by name."""
        return {path.rpartition("/")[2]: Image(self._source, path) for path in self._labels}

    def render(self, **options: Any) -> Any:
        """Draws it as its metadata say: an array of rows, columns and RGBA.

        :param size: the longest side, or (width, height); the level is chosen by it.
        :param crop: (x, y, width, height) in pixels of the finest level.
        :param z, t: the plane; with ``project="max"`` or ``"mean"``, ``z`` may be (first, end).
        :param channels: such as ``["0:FF0000", "DAPI"]``; by default those that the image shows.
        :param labels: ``True``, or names of label images to draw over it.
        """
        memory, width, height, _ = _zaro.image_render(self._source.zarr, self._source.full(self._path), options)
        return np.ndarray((height, width, 4), np.uint8, memory)  # type: ignore[call-overload]

    def __reduce__(self) -> tuple[Any, ...]:
        return Image, (self._source, self._path)

    def __repr__(self) -> str:
        return f"<zaro.image.Image {_zaro.redacted(self._source.uri)} {self._path or '/'}, {len(self.levels)} levels>"


def open(uri: Any, path: str = "", **options: Any) -> Image:
    """Opens an image."""
    return Image(Source(address(uri), options, "r"), path.strip("/"))


def render(uri: Any, path: str = "", *, storage_options: dict[str, Any] | None = None, **options: Any) -> Any:
    """Draws an image, a well or a plate; :meth:`Image.render` has the options."""
    source = Source(address(uri), storage_options or {}, "r")
    memory, width, height, _ = _zaro.image_render(source.zarr, path.strip("/"), options)
    return np.ndarray((height, width, 4), np.uint8, memory)  # type: ignore[call-overload]


def validate(uri: Any, path: str = "", *, strict: bool = False, **options: Any) -> dict[str, Any]:
    """Checks the metadata of an image against its specification."""
    source = Source(address(uri), {**options, "consolidated": False}, "r")
    return _zaro.image_validate(source.zarr, path.strip("/"), address(uri), strict)


def convert(
    files: Any, uri: Any, path: str = "", *, progress: Any = None, storage_options: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """Converts pictures (TIFF, OME-TIFF, PNG, JPEG, npy) to an OME-Zarr image.

    :param levels, chunks, shards, codecs, name, pixel_size, unit, overwrite: how.
    """
    files = [files] if isinstance(files, str) or hasattr(files, "__fspath__") else list(files)
    store, full = _zaro.open_for_writing(address(uri), path.strip("/"), storage_options or {})
    return _zaro.image_convert(files, store, full, options, progress_of(progress, "convert"))

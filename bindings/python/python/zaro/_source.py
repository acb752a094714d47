"""What was opened: an address with options, and the open handle. Pickles as the former."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from . import _zaro

#: How long an unpickled handle is kept after its last use, in seconds: tasks of a cluster come one after the other.
_GRACE = 30.0

_kept: dict[tuple[Any, ...], tuple[float, Source]] = {}
_lock = threading.Lock()


def _reset_lock() -> None:
    # A thread that held it does not exist in a forked child.
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def _frozen(options: Any) -> Any:
    if isinstance(options, dict):
        return tuple(sorted((k, _frozen(v)) for k, v in options.items()))
    if isinstance(options, (list, tuple)):
        return tuple(_frozen(v) for v in options)
    return options


def address(uri: Any) -> str:
    """An address as text. `zaro::` in front is what keeps other libraries from taking it for a file."""
    text = os.fspath(uri) if hasattr(uri, "__fspath__") else uri
    if not isinstance(text, str):
        raise TypeError(f"an address is a str or a path, not {type(uri).__name__}")
    return text.removeprefix("zaro::").removeprefix("zaro://")


class Source:
    """An address, its options, and what is open there."""

    __slots__ = ("__weakref__", "base", "mode", "options", "store", "uri", "zarr")

    def __init__(self, uri: str, options: dict[str, Any], mode: str, path: str = "") -> None:
        self.uri = uri
        self.options = {name: value for name, value in options.items() if value is not None}
        self.mode = mode
        self.store: _zaro.Store | None = None
        #: The path in the store of what the address names: a store is written to from its top.
        self.base = ""
        if mode == "r":
            self.zarr = _zaro.open(uri, self.options)
        elif mode == "r+":
            self.store, self.base = _zaro.open_for_writing(uri, "", self.options)
            self.zarr = _zaro.open_in(self.store, self.options)
        else:
            raise ValueError("mode is 'r' or 'r+'")

    def full(self, path: str) -> str:
        """The path in the store of a node below the address."""
        path = path.strip("/")
        return f"{self.base}/{path}".strip("/") if self.base else path

    def writable(self) -> _zaro.Store:
        if self.store is None:
            from ._errors import UsageError

            raise UsageError("opened for reading only; open it with mode='r+'", self.uri)
        return self.store

    def key(self) -> tuple[Any, ...]:
        return self.uri, self.mode, _frozen(self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (self.uri, self.options, self.mode)


def reopen(uri: str, options: dict[str, Any], mode: str) -> Source:
    """The source of a pickle: one open handle per process for all that name the same."""
    key = uri, mode, _frozen(options)
    now = time.monotonic()
    with _lock:
        for old in [k for k, (used, _) in _kept.items() if now - used > _GRACE]:
            del _kept[old]
        if key in _kept:
            source = _kept[key][1]
            _kept[key] = now, source
            return source
    source = Source(uri, options, mode)
    with _lock:
        source = _kept.setdefault(key, (now, source))[1]
    return source


def forget() -> None:
    """Closes the handles that are kept for pickles."""
    with _lock:
        _kept.clear()


class Progress:
    """A bar of tqdm, or a line where that is not installed, as a callable of what is done and the total."""

    def __init__(self, what: str) -> None:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped]

            self.bar: Any = tqdm(desc=what, unit="B", unit_scale=True)
        except ImportError:
            self.bar = None
        self.what = what

    def __call__(self, done: int, total: int | None) -> None:
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
            if done == total:
                self.bar.close()
        else:
            import sys

            end = "\n" if done == total else "\r"
            print(f"{self.what}: {done} of {total}", end=end, file=sys.stderr, flush=True)


def progress_of(progress: Any, what: str) -> Any:
    """The callable for `progress=`: `True` for a bar, a callable of its own, or none."""
    if progress is True:
        return Progress(what)
    return progress or None

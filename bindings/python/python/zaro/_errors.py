"""Exceptions: one base with the context of the failure, and the builtin that Python's users expect beside it."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """What went wrong, and where.

    ``kind`` is a stable name, the same as in the command and the server; ``store``, ``node``, ``key`` and ``field`` say
    where, each ``None`` if it does not apply; ``hints`` say what would help.
    """

    kind = "error"

    def __init__(
        self,
        message: str,
        store: str | None = None,
        node: str | None = None,
        key: str | None = None,
        field: str | None = None,
        hints: tuple[str, ...] = (),
    ) -> None:
        # All of it is in `args`, so that it survives a pickle.
        super().__init__(message, store, node, key, field, hints)
        self.message, self.store, self.node, self.key, self.field, self.hints = (
            message,
            store,
            node,
            key,
            field,
            tuple(hints),
        )

    def __str__(self) -> str:
        where = [part for part in (self.store, self.node, self.key, self.field) if part]
        text = f"{': '.join([*where, self.message])}"
        return "; ".join([text, *self.hints])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


class UsageError(Error, ValueError):
    """The request is invalid."""

    kind = "usage"


class OutOfBoundsError(UsageError, IndexError):
    """The request is invalid: a position that does not exist."""


class NotFoundError(Error, FileNotFoundError, KeyError):
    """What was asked for does not exist."""

    kind = "not-found"


class InvalidError(Error, ValueError):
    """The data or metadata violate the specification, or are damaged."""

    kind = "invalid"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported."""

    kind = "unsupported"


class IoError(Error, OSError):
    """The store could not be read or written: disk, network, timeout, a fault of the server."""

    kind = "io"


class ConflictError(IoError):
    """Somebody else changed what was about to be replaced, or what was being read. Nothing was lost or mixed."""

    kind = "conflict"


class NotPermittedError(Error, PermissionError):
    """The store refused access."""

    kind = "not-permitted"


class CancelledError(Error):
    """The operation was stopped."""

    kind = "cancelled"


class Warning(UserWarning):
    """Something in the metadata was tolerated."""


_BY_KIND: dict[str, type[Error]] = {
    c.kind: c
    for c in (
        UsageError,
        NotFoundError,
        InvalidError,
        UnsupportedError,
        IoError,
        ConflictError,
        NotPermittedError,
        CancelledError,
    )
}


def make(
    kind: str,
    message: str,
    store: str | None,
    node: str | None,
    key: str | None,
    field: str | None,
    hints: list[str],
) -> Error:
    """The exception of an error of the library; called by the compiled module."""
    if kind == "usage" and field == "index":
        return OutOfBoundsError(message, store, node, key, None, tuple(hints))
    return _BY_KIND.get(kind, Error)(message, store, node, key, field, tuple(hints))

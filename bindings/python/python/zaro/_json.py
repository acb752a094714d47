"""JSON of attributes, which may hold numpy's numbers and arrays."""

from __future__ import annotations

import json
from typing import Any


def _default(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (bytes, bytearray)):
        return value.decode()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"attributes are JSON, which has no {type(value).__name__}")


def dumps(value: Any) -> str:
    return json.dumps(value, default=_default)

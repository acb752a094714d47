"""Data types of Zarr and of numpy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

_UNITS = {
    "year": "Y", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s",
    "millisecond": "ms", "microsecond": "us", "nanosecond": "ns", "picosecond": "ps", "femtosecond": "fs",
    "attosecond": "as", "generic": "generic",
}  # fmt: skip


def _small(name: str) -> np.dtype[Any] | None:
    """A type of the package ml_dtypes, or its bits where that is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    found = getattr(ml_dtypes, name, None)
    return None if found is None else np.dtype(found)


def numpy_dtype(data_type: Any) -> np.dtype[Any]:
    """Numpy's type of a Zarr data type, given as V3 writes it: a name, or a name with a configuration."""
    name, config = (data_type, {}) if isinstance(data_type, str) else (data_type["name"], data_type["configuration"])
    match name:
        case "string":
            return np.dtypes.StringDType()  # type: ignore[return-value]
        case "bytes" | "list" | "json" | "variable_length_bytes":
            return np.dtype(object)
        case "null_terminated_bytes":
            return np.dtype(f"S{config['length_bytes']}")
        case "fixed_length_utf32":
            return np.dtype(f"<U{config['length_bytes'] // 4}")
        case "raw_bytes":
            return np.dtype(f"V{config['length_bytes']}")
        case "numpy.datetime64" | "numpy.timedelta64":
            kind = "M8" if "date" in name else "m8"
            unit = _UNITS.get(config["unit"], config["unit"])
            if unit == "generic":
                return np.dtype(f"<{kind}")
            scale = config["scale_factor"]
            return np.dtype(f"<{kind}[{'' if scale == 1 else scale}{unit}]")
        case "struct":
            fields = [(f["name"], numpy_dtype(f["data_type"])) for f in config["fields"]]
            return np.dtype(fields)
        case "subarray":
            return np.dtype((numpy_dtype(config["data_type"]), tuple(config["shape"])))
        case "int2" | "int4" | "uint2" | "uint4":
            return _small(name) or np.dtype("i1" if name[0] == "i" else "u1")
    if name.startswith("r") and name[1:].isdigit():
        return np.dtype(f"V{int(name[1:]) // 8}")
    if name.startswith(("float8_", "float6_", "float4_")):
        return _small(name) or np.dtype("u1")
    if name == "bfloat16":
        return _small(name) or np.dtype("<u2")
    if name.startswith("complex_"):
        inner = numpy_dtype(name.removeprefix("complex_"))
        if inner.kind == "f" and inner.itemsize in (4, 8):
            return np.dtype(f"<c{2 * inner.itemsize}")
        return np.dtype([("real", inner), ("imag", inner)])
    return np.dtype(name).newbyteorder("<")


def from_items(items: list[Any], data_type: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> Any:
    """An array of elements of variable length."""
    name = data_type if isinstance(data_type, str) else data_type["name"]
    if name == "string":
        out = np.empty(len(items), dtype)
        out[:] = items
    else:
        if name == "list":
            inner = numpy_dtype(data_type["configuration"]["data_type"])
            items = [np.frombuffer(bytearray(item), inner) for item in items]
        elif name == "json":
            items = [json.loads(item) if item else None for item in items]
        out = np.empty(len(items), object)
        for i, item in enumerate(items):
            out[i] = item
    return out.reshape(shape, order=order)  # type: ignore[call-overload]


def to_items(values: Any, data_type: Any, order: str) -> list[bytes]:
    """The elements of variable length of an array, as bytes."""
    name = data_type if isinstance(data_type, str) else data_type["name"]
    flat = np.asarray(values).ravel(order=order).tolist()  # type: ignore[arg-type]
    if name == "string":
        return [item if isinstance(item, bytes) else ("" if item is None else str(item)).encode() for item in flat]
    if name == "list":
        inner = numpy_dtype(data_type["configuration"]["data_type"])
        return [np.ascontiguousarray(item, inner).tobytes() for item in flat]
    if name == "json":
        return [json.dumps(item).encode() for item in flat]
    return [bytes(item) for item in flat]


def zarr_name(dtype: Any) -> str:
    """A data type of numpy, or its name, as the library takes it."""
    if isinstance(dtype, str):
        try:
            dtype = np.dtype(dtype)
        except TypeError:
            return dtype
    if isinstance(dtype, dict):
        return json.dumps(dtype)
    if isinstance(dtype, type) and issubclass(dtype, str):
        return "string"
    dtype = np.dtype(dtype)
    if dtype.kind in "TO":
        return "string"
    if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None:
        return f"r{8 * dtype.itemsize}" if dtype.name.startswith("void") else dtype.name
    if dtype.names is not None:
        return json.dumps(_fields(dtype))
    if dtype.name.startswith(("bfloat", "float8_", "float6_", "float4_", "int2", "int4", "uint2", "uint4")):
        return dtype.name
    return dtype.str


def _fields(dtype: np.dtype[Any]) -> list[Any]:
    out: list[Any] = []
    for name in dtype.names or ():
        field = dtype[name]
        if field.subdtype is not None:
            base, shape = field.subdtype
            out.append([name, _fields(base) if base.names else base.str, list(shape)])
        else:
            out.append([name, _fields(field) if field.names else field.str])
    return out


def fill_bytes(value: Any, dtype: Any, name: str) -> bytes:
    """The bytes of a fill value of this type."""
    if name == "string":
        return str(value).encode()
    if name == "bytes":
        return bytes(value)
    if np.dtype(dtype).kind == "O":
        return json.dumps(value).encode()
    made = np.empty((), dtype)
    made[()] = value
    return made.astype(np.dtype(dtype).newbyteorder("<")).tobytes()

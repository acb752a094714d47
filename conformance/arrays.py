"""Numpy side of the comparisons: random data of every type, and "is what zaro printed this array?"."""

import base64
import io
import json
import math

import numpy as np

WORDS = ["", "a", "zaro", "é", "長さ", "🙂x", "a b", 'quo"te', "tab\there", "back\\slash", "long " * 12]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"]


def random_array(rng, dtype, shape, awkward=True):
    """Data of one type with the awkward values (extremes, NaN, signed zero, NaT) sprinkled in."""
    dtype = np.dtype(dtype)
    count = math.prod(shape)
    if dtype.kind == "b":
        flat = rng.integers(0, 2, count).astype(bool)
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        flat = rng.integers(info.min, info.max, count, dtype=dtype.newbyteorder("="), endpoint=True)
        if rng.random() < 0.6:
            flat = (np.arange(count) % 50).astype(dtype)
    elif dtype.kind == "f":
        flat = rng.normal(0, 100, count).astype(dtype)
        if awkward and count:
            for value in (np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny):
                flat[rng.integers(0, count, max(1, count // 20))] = value
    elif dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        flat = random_array(rng, part, (count * 2,), awkward).view(np.dtype(f"c{dtype.itemsize}")).copy()
    elif dtype.kind in "mM":
        flat = rng.integers(-10**6, 10**6, count).astype("i8")
        if awkward and count:
            flat[rng.integers(0, count, max(1, count // 10))] = np.iinfo("i8").min
        flat = flat.view(dtype.newbyteorder("="))
    elif dtype.kind == "U":
        flat = np.array([rng.choice(WORDS)[: dtype.itemsize // 4] for _ in range(count)], dtype.newbyteorder("="))
    elif dtype.kind == "S":
        flat = np.array([bytes(rng.integers(97, 123, rng.integers(0, dtype.itemsize + 1)).tolist()) for _ in range(count)], dtype)
    elif dtype.names:
        flat = np.zeros(count, dtype)
        for name in dtype.names:
            field = dtype.fields[name][0]
            flat[name] = random_array(rng, field.base, (count, *field.shape), awkward)
    elif dtype.kind == "V":
        flat = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype) if count else np.zeros(0, dtype)
    else:
        raise TypeError(dtype)
    return flat.astype(dtype).reshape(shape) if dtype.kind != "V" else flat.reshape(shape)


def random_text(rng, shape):
    return np.array([str(rng.choice(WORDS)) for _ in range(math.prod(shape))], object).reshape(shape)


def little(array):
    """The array with every number in it little-endian."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).reshape(array.shape)


def raw_equal(out, array, order="C"):
    want = little(array).tobytes(order)
    if out == want:
        return None
    if len(out) != len(want):
        return f"{len(out)} raw bytes, want {len(want)}"
    where = next(i for i, (a, b) in enumerate(zip(out, want)) if a != b)
    return f"raw byte {where} of {len(want)} is {out[where]:#x}, want {want[where]:#x}"


def npy_equal(out, array):
    try:
        got = np.load(io.BytesIO(out), allow_pickle=False)
    except (ValueError, EOFError) as e:
        return f"not an npy file: {e}"
    if got.shape != array.shape:
        return f"npy shape {got.shape}, want {array.shape}"
    if got.dtype.newbyteorder("<") != array.dtype.newbyteorder("<"):
        return f"npy dtype {got.dtype}, want {array.dtype}"
    return raw_equal(little(got).tobytes(), array)


def json_equal(out, array):
    try:
        got = json.loads(out)
    except (ValueError, EOFError) as e:
        return f"not JSON: {e}: {out[:100]!r}"
    return tree_equal(got, np.asarray(array), "")


def tree_equal(got, want, path):
    """Nested lists against an array; None, or where they differ."""
    if want.ndim == 0:
        return leaf_equal(got, want[()], path)
    if not isinstance(got, list) or len(got) != len(want):
        return f"at [{path}]: want a list of {len(want)}, got {str(got)[:80]}"
    descend = tree_equal if want.ndim > 1 else leaf_equal
    for i, (g, w) in enumerate(zip(got, want)):
        why = descend(g, w, f"{path},{i}".lstrip(","))
        if why:
            return why
    return None


def leaf_equal(got, want, path):
    return None if same_leaf(got, want) else f"at [{path}]: got {str(got)[:80]!r}, want {want!r:.80}"


def same_leaf(got, want):
    """One JSON value against one numpy scalar or Python object."""
    if isinstance(want, np.ndarray):
        return tree_equal(got, want, "") is None
    if isinstance(want, np.void):
        if want.dtype.names:
            return isinstance(got, dict) and list(got) == list(want.dtype.names) and all(same_leaf(got[n], want[n]) for n in got)
        return got == base64.b64encode(want.tobytes()).decode()
    if isinstance(want, (np.datetime64, np.timedelta64)):
        return type(got) is int and got == int(want.astype("i8"))
    if isinstance(want, (bool, np.bool_)):
        return got is bool(want)
    if isinstance(want, (int, np.integer)):
        return type(got) is int and got == int(want)
    if isinstance(want, (complex, np.complexfloating)):
        return isinstance(got, list) and len(got) == 2 and same_leaf(got[0], want.real) and same_leaf(got[1], want.imag)
    if isinstance(want, (float, np.floating)):
        return same_float(got, want)
    if isinstance(want, np.bytes_):
        return got == bytes(want).decode("utf-8", "replace")
    if isinstance(want, (bytes, bytearray)):
        return got == base64.b64encode(want).decode()
    if want is None:
        return got in (None, "")
    if isinstance(want, str):
        return got == str(want)
    if isinstance(want, (list, tuple)):
        return isinstance(got, list) and len(got) == len(want) and all(map(same_leaf, got, want))
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same_leaf(got[k], want[k]) for k in want)
    return False


SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def same_float(got, want):
    """Equal after rounding the printed number to the element's own type, the sign of zero included."""
    if isinstance(got, str):
        got = SPECIAL.get(got)
    if got is None or isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    kind = want.dtype.type if isinstance(want, np.floating) else np.float64
    with np.errstate(over="ignore"):
        got, want = kind(got), kind(want)
    if np.isnan(want) or np.isnan(got):
        return bool(np.isnan(want) and np.isnan(got))
    return bool(got == want and np.signbit(got) == np.signbit(want))

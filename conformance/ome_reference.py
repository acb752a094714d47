"""A second opinion on pictures and pyramids: OMERO's formulas and the plain downsamplings, in numpy.

Written from the rules and not from zaro's code: an error would have to be made twice to stay unseen. No speed is
sought; every step is the formula, in float64 or in whole numbers.
"""

import numpy as np


def curve(v, family, k):
    """f(v) of a family: what stretches the intensities 0..255."""
    v = np.asarray(v, np.float64)
    if family == "polynomial":
        return v**k
    if family == "logarithmic":
        return np.where(v > 0, np.log(np.where(v > 0, v, 1.0)), 0.0)
    if family == "exponential":
        return np.exp(v**k)
    return v


def whole_range(dtype):
    """The least and the most of an integer type."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def window_of(channel, dtype):
    """Start and end that count: a window that is upside down or wider than the type is the type's range."""
    start, end = channel["window"]["start"], channel["window"]["end"]
    if np.dtype(dtype).kind in "iu":
        low, high = whole_range(dtype)
        if start > end or start < low or end > high:
            return low, high
    return start, end


def quantize(raw, channel):
    """Raw values to 0..255, as the channel's window, family, coefficient and inversion say."""
    start, end = window_of(channel, raw.dtype)
    family = channel.get("family", "linear")
    k = channel.get("coefficient", 1.0) if family in ("polynomial", "exponential") else 1.0
    x = raw.astype(np.float64)
    with np.errstate(all="ignore"):
        v = 255.0 * (x - start) / (end - start)
        zero, full = curve(0.0, family, k), curve(255.0, family, k)
        q = np.floor(255.0 * (curve(np.clip(v, 0.0, 255.0), family, k) - zero) / (full - zero) + 0.5)
    q = np.where(x < start, 0.0, np.where(x >= end, 255.0, q))
    # A NaN is neither below the start nor above the end, and is drawn as nothing.
    q = np.clip(np.nan_to_num(q, nan=0.0), 0, 255).astype(np.int64)
    inverted = channel.get("inverted", channel.get("reverseIntensity", False))
    return 255 - q if inverted else q


def colour(text):
    return [int(text[i : i + 2], 16) for i in (0, 2, 4)]


def draw(planes, omero, model=None):
    """One picture (y, x, 3) of the planes (c, y, x), by OMERO's rules."""
    model = model or omero.get("rdefs", {}).get("model", "color")
    out = np.zeros((*planes.shape[1:], 3), np.int64)
    active = [i for i, c in enumerate(omero["channels"]) if c.get("active", True)]
    if model == "greyscale":
        for i in active[:1]:
            out += quantize(planes[i], omero["channels"][i])[..., None]
    else:
        for i in active:
            q = quantize(planes[i], omero["channels"][i])
            for j, component in enumerate(colour(omero["channels"][i]["color"])):
                out[..., j] = np.minimum(255, out[..., j] + q * component // 255)
    return out.astype(np.uint8)


def rgba_of(packed):
    """Red, green, blue, alpha of a mask's packed colour, signed or not."""
    return list((int(packed) & 0xFFFFFFFF).to_bytes(4, "big"))


def overlay(picture, label, colours, opacity=1.0):
    """The picture with the coloured values of `label` over it: straight alpha, one source over the other."""
    out = picture.astype(np.float64)
    for value, rgba in colours.items():
        alpha = rgba[3] / 255 * opacity
        at = label == value
        out[at] = alpha * np.array(rgba[:3], np.float64) + (1 - alpha) * out[at]
        out[at] = np.floor(out[at] + 0.5)
    return out.astype(np.uint8)


def resample(label, shape):
    """The nearest pixels of a label for another size, by their centres; of two that are as near, the first."""
    for axis, size in enumerate(shape):
        if label.shape[axis] != size:
            at = np.ceil((np.arange(size) + 0.5) * label.shape[axis] / size - 1).astype(int)
            label = np.take(label, np.clip(at, 0, label.shape[axis] - 1), axis)
    return label


def blocks(data, factors):
    """The blocks of a downsampling as one more, last axis; what is left over at the ends is dropped."""
    size = [n // f for n, f in zip(data.shape, factors)]
    cut = data[tuple(slice(0, n * f) for n, f in zip(size, factors))]
    split = cut.reshape([part for n, f in zip(size, factors) for part in (n, f)])
    rank = data.ndim
    return split.transpose([*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]).reshape(*size, -1)


def decimate(data, factors):
    """The first sample of each block."""
    return blocks(data, factors)[..., 0]


def mean(data, factors):
    """The mean of each block; of whole numbers rounded, halves up, in whole numbers."""
    all_of = blocks(data, factors)
    count = all_of.shape[-1]
    if data.dtype.kind in "iu":
        total = np.zeros(all_of.shape[:-1], object)
        for i in range(count):
            total = total + all_of[..., i].astype(object)
        rounded = (2 * total + count) // (2 * count)
        return np.array(rounded.tolist(), data.dtype).reshape(all_of.shape[:-1])
    return all_of.astype(np.float64).mean(-1).astype(data.dtype)


def mode(data, factors):
    """The value that is there most often, the least of those on a tie."""
    all_of = np.sort(blocks(data, factors), -1)
    best = all_of[..., 0].copy()
    times = np.zeros(best.shape, int)
    for i in range(all_of.shape[-1]):
        n = (all_of == all_of[..., i : i + 1]).sum(-1)
        better = n > times
        best[better], times[better] = all_of[..., i][better], n[better]
    return best

"""What the tests share. Cases are random, but the same in every run; ZARO_CASES and SEED ask for more and others."""

import os
import random

import numpy as np
import pytest

CASES = int(os.environ.get("ZARO_CASES") or "300")
SEED = int(os.environ.get("SEED", "1"))


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


@pytest.fixture
def dice():
    return random.Random(SEED)


@pytest.fixture
def grid(tmp_path):
    """An array of 3 dimensions with shards, its elements, and its address."""
    import zaro

    data = np.arange(12 * 10 * 8, dtype="i4").reshape(12, 10, 8)
    where = str(tmp_path / "grid.zarr")
    made = zaro.create(
        where, "a", data=data, chunks=(2, 5, 4), shards=(4, 10, 8), dims=["t", "y", "x"], attrs={"units": "m"}
    )
    return made, data, where


#: Tests of xarray's suite that fail, and why; strict, so that one that passes is noticed.
XARRAY_SUITE = {
    "test_shard_encoding_with_dask[2]": "engine='zarr' fails it, too: skip marks that work only in xarray's own tree",
    "test_hidden_zarr_keys[3]": "the same",
    "test_dimension_names[2]": "the same",
    "test_zarr_fill_value_in_encoding_on_read[2]": "the same",
    "test_zarr_fill_value_setting[2-int]": "use_zarr_fill_value_as_mask=False is honoured; engine='zarr' ignores it",
    "test_zarr_fill_value_setting[2-float]": "the same",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.module.__name__ == "test_xarray_suite" and item.name in XARRAY_SUITE:
            item.add_marker(pytest.mark.xfail(reason=XARRAY_SUITE[item.name], strict=True))

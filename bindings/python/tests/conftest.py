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

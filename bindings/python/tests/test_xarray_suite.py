"""xarray's own tests of its Zarr engine, with zaro reading what zarr wrote."""

import contextlib

import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask  # noqa: F401
from xarray.tests.test_backends import ZarrBase, create_tmp_file


class TestZaro(ZarrBase):
    @contextlib.contextmanager
    def create_zarr_target(self):
        with create_tmp_file(suffix=".zarr") as tmp:
            yield tmp

    @contextlib.contextmanager
    def open(self, path, **kwargs):
        kwargs.pop("mode", None)
        with xr.open_dataset(path, engine="zaro", **kwargs) as ds:
            yield ds


# What fails in the same way with engine="zarr" here (skip marks that do not work outside of xarray's own tree), and
# what is about writing with zarr.
LOST_BY_ZARR = {
    "test_append_string_length_mismatch_raises",
    "test_append_string_length_mismatch_works",
}
for _name in LOST_BY_ZARR & set(dir(TestZaro)):
    setattr(TestZaro, _name, pytest.mark.skip("engine='zarr' fails it, too")(getattr(TestZaro, _name)))

"""xarray's own tests of its Zarr engine, with zaro reading what zarr wrote."""

import contextlib

import xarray as xr
from xarray.tests.conftest import time_unit, use_dask  # noqa: F401
from xarray.tests.test_backends import (  # noqa: F401
    ZarrBase,
    create_tmp_file,
    default_zarr_format,
    tmp_store,
)


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

"""Dask: names, blocks, one handle per worker, clusters of processes."""

import numpy as np
import pytest
import xarray as xr
import zaro

da = pytest.importorskip("dask.array")
import dask  # noqa: E402


def test_names_are_those_of_the_data(grid):
    a, data, where = grid
    one, two = zaro.open(where, "a").to_dask(), zaro.open(where, "a").to_dask()
    assert one.name == two.name and one.chunks[0][0] % 4 == 0
    assert np.array_equal(one.compute(), data)
    a.append(data[:1])
    assert zaro.open(where, "a").to_dask().name != one.name
    assert xr.open_dataset(where, engine="zaro", chunks={}).a.data.name == xr.open_dataset(where, engine="zaro", chunks={}).a.data.name


def test_threads_and_processes(grid):
    _, data, where = grid
    x = zaro.open(where, "a").to_dask(chunks=(5, 5, 5))
    for scheduler in ("threads", "processes", "sync"):
        assert x.sum().compute(scheduler=scheduler) == data.sum()


def _opens():
    return len(zaro._source._kept)


def test_cluster(grid, tmp_path):
    """Several worker processes read and write; each has one handle for all its tasks."""
    distributed = pytest.importorskip("distributed")
    _, data, where = grid
    with dask.config.set({"distributed.worker.daemon": False}):
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            ds = xr.open_dataset(where, engine="zaro", chunks={"t": 2})
            assert float(ds.a.mean()) == data.mean()
            assert all(n <= 1 for n in client.run(_opens).values())
            to = zaro.create(tmp_path / "to.zarr", shape=data.shape, dtype="i4", chunks=(2, 5, 4), shards=(12, 10, 8))
            da.store(da.from_array(data, chunks=(5, 3, 3)), to, lock=False)
            assert np.array_equal(to[:], data)
            zaro.to_zarr(ds, tmp_path / "ds.zarr")
            xr.testing.assert_identical(xr.open_dataset(tmp_path / "ds.zarr", engine="zaro").load().drop_encoding(), ds.compute().drop_encoding())

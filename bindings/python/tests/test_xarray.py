"""The xarray engine: what is right, lazy, and asked for together."""

import asyncio
import pickle

import numpy as np
import pytest
import xarray as xr
import zaro


@pytest.fixture
def ocean(tmp_path):
    time = np.arange("2000-01-01", "2000-01-11", dtype="M8[D]").astype("M8[ns]")
    ds = xr.Dataset(
        {
            "sst": (("time", "lat", "lon"), np.random.default_rng(1).random((10, 6, 8)).astype("f4"), {"units": "K"}),
            "mask": (("lat", "lon"), np.arange(48).reshape(6, 8) % 3),
        },
        {"time": time, "lat": np.linspace(-50, 50, 6), "lon": np.arange(8) * 45.0, "area": ("lat", np.arange(6.0))},
        {"title": "ice"},
    )
    return ds, str(tmp_path / "ocean.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_same_as_zarr(ocean, zarr_format):
    ds, where = ocean
    ds.to_zarr(where, zarr_format=zarr_format, encoding={"sst": {"chunks": (3, 6, 4)}})
    with xr.open_dataset(where, engine="zaro") as a, xr.open_dataset(where, engine="zarr") as b:
        xr.testing.assert_identical(a, b)
        xr.testing.assert_identical(a.load(), ds)
        assert a.sst.encoding["preferred_chunks"] == {"time": 3, "lat": 6, "lon": 4}
    for key in ["sst", "mask"]:
        assert type(xr.open_dataset(where, engine="zaro")[key].variable._data).__name__ != "ndarray", "lazy"


def test_indexers(ocean):
    ds, where = ocean
    ds.to_zarr(where)
    a = xr.open_dataset(where, engine="zaro", cache=False)
    points = {"time": xr.DataArray([0, 9, 3], dims="p"), "lat": xr.DataArray([5, 0, 1], dims="p")}
    cases = [
        dict(time=slice(None, None, -2)),
        dict(time=[3, 1], lon=[7, 0, 2]),
        dict(time=0, lat=slice(4, 1, -1)),
        dict(lat=ds.lat.values > 0),
        points,
        dict(time=xr.DataArray([[1, 2], [3, 4]], dims=("a", "b")), lon=slice(2, 5)),
    ]
    for case in cases:
        xr.testing.assert_identical(a.isel(case).load(), ds.isel(case))
        xr.testing.assert_identical(a.isel(time=slice(1, 9, 2)).isel(lat=[0, 2]).load(), ds.isel(time=slice(1, 9, 2), lat=[0, 2]))
    assert asyncio.run(a.sst.isel(time=1).load_async()).identical(ds.sst.isel(time=1))


def test_null_fills_are_none(tmp_path):
    """Zeros of a V2 array whose fill value is null are zeros."""
    import zarr

    z = zarr.create_array(
        tmp_path / "n.zarr", name="v", shape=(3,), dtype="i2", zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["x"]}
    )
    z[:] = [0, 1, 2]
    import json

    path = tmp_path / "n.zarr" / "v" / ".zarray"
    document = json.loads(path.read_text())
    document["fill_value"] = None
    path.write_text(json.dumps(document))
    ds = xr.open_dataset(tmp_path / "n.zarr", engine="zaro")
    assert ds.v.dtype == "i2" and ds.v.values.tolist() == [0, 1, 2]


def test_shards_are_preferred(tmp_path):
    zaro.create(tmp_path / "s.zarr", "v", shape=(100, 100), dtype="f4", chunks=(10, 10), shards=(50, 50), dims=["y", "x"])
    ds = xr.open_dataset(tmp_path / "s.zarr", engine="zaro", chunks={})
    assert ds.v.chunks == ((50, 50), (50, 50))
    assert ds.v.encoding["chunks"] == (10, 10) and ds.v.encoding["shards"] == (50, 50)


def test_trees(ocean):
    ds, where = ocean
    tree = xr.DataTree.from_dict({"/": ds[["lat"]], "/a": ds, "/a/b": ds[["mask"]]})
    tree.to_zarr(where)
    got = xr.open_datatree(where, engine="zaro")
    xr.testing.assert_identical(got.load(), xr.open_datatree(where, engine="zarr").load())
    xr.testing.assert_identical(xr.open_dataset(where, engine="zaro", group="a").load(), xr.open_dataset(where, engine="zarr", group="a").load())
    assert set(xr.open_groups(where, engine="zaro")) == {"/", "/a", "/a/b"}


def test_names_that_are_missing(tmp_path):
    zaro.create(tmp_path / "p.zarr", "v", data=np.zeros((3, 4, 3)))
    ds = xr.open_dataset(tmp_path / "p.zarr", engine="zaro")
    assert dict(ds.sizes) == {"phony_dim_3": 3, "phony_dim_4": 4, "phony_dim_3_1": 3}
    with pytest.raises(KeyError):
        xr.open_dataset(tmp_path / "p.zarr", engine="zaro", phony_dims=False)


def test_strings_and_pickles(ocean):
    ds, where = ocean
    ds = ds.assign(name=("lat", np.array(list("abcdef"), object)))
    ds.to_zarr(where)
    got = xr.open_dataset(where, engine="zaro")
    assert got.name.values.tolist() == list("abcdef")
    xr.testing.assert_identical(pickle.loads(pickle.dumps(got)).load(), got.load())


def test_what_it_opens_by_itself(ocean, tmp_path):
    ds, where = ocean
    engine = xr.backends.plugins.list_engines()["zaro"]
    assert not engine.guess_can_open(where), "a .zarr is zarr's"
    assert engine.guess_can_open("manifest+s3://b/m.json") and engine.guess_can_open("x.zarr.zip")
    from zaro.xarray import _repaired

    assert _repaired("/somewhere/manifest+s3:/b/m.json") == "manifest+s3://b/m.json"
    assert _repaired(f"zaro::{where}") == where
    ds.to_zarr(where)
    xr.testing.assert_identical(xr.open_dataset(zaro.open(where), engine="zaro").load(), ds)
    both = xr.open_mfdataset([where], engine="zaro")
    xr.testing.assert_identical(both.compute().drop_encoding(), ds.drop_encoding())


def test_missing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(tmp_path / "none.zarr", engine="zaro")

"""Writing: nothing is lost, readers of other programs agree."""

import multiprocessing

import numpy as np
import pytest
import xarray as xr
import zarr
import zaro


def test_what_is_written_is_read_by_zarr(tmp_path):
    rng = np.random.default_rng(1)
    for i, (dtype, fmt, shards, codecs) in enumerate(
        [("f4", 3, (8, 8), "zstd:5"), ("i2", 2, None, "zlib:6"), ("u1", 3, None, "none"), ("f8", 3, None, "blosc:lz4:5:shuffle")]
    ):
        data = (rng.random((13, 9)) * 100).astype(dtype)
        a = zaro.create(
            tmp_path / f"{i}.zarr", shape=data.shape, dtype=dtype, chunks=(4, 4), shards=shards, codecs=codecs, zarr_format=fmt
        )
        a[:5] = data[:5]
        a[5:, ::2] = data[5:, ::2]
        a.oindex[[12, 5, 6, 7, 8, 9, 10, 11], [1, 3, 5, 7]] = data[np.ix_([12, 5, 6, 7, 8, 9, 10, 11], [1, 3, 5, 7])]
        assert np.array_equal(zarr.open_array(tmp_path / f"{i}.zarr", mode="r")[:], data), i
        assert np.array_equal(a[:], data)
    f = zaro.create(tmp_path / "f.zarr", data=np.asfortranarray(rng.random((4, 5, 6))))
    assert np.array_equal(f[:].ravel(order="F"), f[:].T.ravel())


def test_append_resize_attrs(tmp_path):
    where = tmp_path / "a.zarr"
    a = zaro.create(where, "v", data=np.arange(6).reshape(2, 3), dims=["t", "x"])
    assert a.append([[6, 7, 8]]) == 2 and a.shape == (3, 3)
    assert a.append([9, 10, 11], "t") == 3
    assert np.array_equal(zarr.open_array(where / "v", mode="r")[:], np.arange(12).reshape(4, 3))
    with pytest.raises(ValueError):
        a.append([1, 2])
    a.resize((2, 4))
    assert a[:].tolist() == [[0, 1, 2, 0], [3, 4, 5, 0]]
    a.set_attrs(units="m", note=np.float32(1.5))
    assert a.attrs == {"units": "m", "note": 1.5}
    a.set_attrs(note=None)
    assert zaro.open(where, "v").attrs == {"units": "m"}
    group = zaro.open(where, mode="r+")
    group.set_attrs({"title": "x"}, replace=True)
    sub = group.create_group("sub", attrs={"k": [1, 2]})
    sub.create("w", data=np.array(["a", "bb"]), dtype="string")
    assert zaro.open(where)["sub/w"][:].tolist() == ["a", "bb"] and zaro.open(where)["sub"].attrs == {"k": [1, 2]}
    assert group.consolidate() >= 3 and zaro.open(where).attrs == {"title": "x"}
    del group["sub"]
    assert list(zaro.open(where, consolidated=False)) == ["v"]
    with pytest.raises(zaro.Error):
        zaro.create(where, "v", data=[1])
    assert zaro.create(where, "v", data=[1], overwrite=True)[:].tolist() == [1]
    with pytest.raises(ValueError, match="fractions"):
        zaro.open(where, "v", mode="r+")[:] = 1.5
    with pytest.raises(NotImplementedError):
        zaro.create(tmp_path / "p.zarr", data=np.zeros((3, 3)))[[0, 1], [1, 2]] = 1


def _write(where, rows):
    a = zaro.open(where, mode="r+")
    for row in rows:
        a[row] = row


def test_many_processes_write_one_shard(tmp_path):
    where = str(tmp_path / "w.zarr")
    zaro.create(where, shape=(128, 32), dtype="i4", chunks=(2, 32), shards=(128, 32), fill_value=-1)
    jobs = [multiprocessing.get_context("spawn").Process(target=_write, args=(where, range(i, 128, 4))) for i in range(4)]
    [j.start() for j in jobs]
    [j.join() for j in jobs]
    assert np.array_equal(zaro.open(where)[:], np.repeat(np.arange(128)[:, None], 32, 1))


def test_copy_validate_consolidate(tmp_path):
    where, to = str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")
    data = np.arange(600.0).reshape(20, 30)
    zaro.create(where, "v", data=data, chunks=(5, 5), dims=["y", "x"])
    done = zaro.copy(where, to, chunks={"x": 30}, shards=[20, 30], codecs="gzip:3", verify=True)
    assert done["arrays"] == 1
    b = zaro.open(to, "v")
    assert b.chunks == (5, 30) and b.shards == (20, 30) and np.array_equal(b[:], data)
    part = str(tmp_path / "c.zarr")
    zaro.copy(where, part, isel={"y": slice(2, 4)}, zarr_format=2)
    assert np.array_equal(zarr.open_group(part, mode="r")["v"][:], data[2:4])
    assert zaro.validate(to, data=True)["ok"]
    (tmp_path / "b.zarr" / "v" / "c" / "0" / "0").write_bytes(b"x")
    report = zaro.validate(to, data=True)
    assert not report["ok"] and report["findings"]
    assert zaro.consolidate(where) >= 1 and zaro.unconsolidate(where) and not zaro.unconsolidate(where)
    with pytest.raises(zaro.Error):
        zaro.copy(where, part)
    zaro.delete(part, "v")
    assert list(zaro.open(part, consolidated=False)) == []


@pytest.fixture
def ds():
    rng = np.random.default_rng(2)
    sst = (280 + 10 * rng.random((6, 4, 5))).astype("f4")
    sst[2, 1] = np.nan
    return xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst), "name": ("lat", np.array(["a", "b", "c", "d"], object)), "ok": ("lat", [True, False, True, True])},
        {"time": np.arange("2001-01-01", "2001-01-07", dtype="M8[D]").astype("M8[ns]"), "lat": np.arange(4.0), "lon": np.arange(5.0)},
        {"title": "t"},
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dask", [False, True])
def test_to_zarr(ds, tmp_path, zarr_format, dask):
    where = str(tmp_path / "d.zarr")
    encoding = {"sst": {"dtype": "i2", "scale_factor": 0.001, "add_offset": 280.0, "_FillValue": -32768}}
    zaro.to_zarr(ds.chunk(time=2) if dask else ds, where, encoding=encoding, zarr_format=zarr_format)
    for engine in ("zaro", "zarr"):
        got = xr.open_dataset(where, engine=engine).load()
        xr.testing.assert_allclose(got, ds, atol=0.001)
        assert np.isnan(got.sst.values[2, 1]).all() and got.ok.dtype == bool
    with pytest.raises(ValueError):
        zaro.to_zarr(ds, where)
    later = ds.assign_coords(time=ds.time + np.timedelta64(6, "D"))
    zaro.to_zarr(later.chunk(time=3) if dask else later, where, append_dim="time")
    xr.testing.assert_allclose(xr.open_dataset(where, engine="zaro").load(), xr.concat([ds, later], "time", data_vars="minimal", coords="minimal", compat="override", join="override"), atol=0.001)
    new = (ds[["sst"]] * 0 + 281).isel(time=slice(1, 3)).drop_vars(["lat", "lon"])
    zaro.to_zarr(new, where, region={"time": slice(4, 6)})
    got = xr.open_dataset(where, engine="zaro").sst.isel(time=slice(4, 6)).load()
    assert np.allclose(got.values[np.isfinite(got.values)], 281, atol=0.001)
    with pytest.raises(ValueError):
        zaro.to_zarr(new, where, region={"time": slice(4, 9)})


def test_dask_writes_unaligned_into_shards(tmp_path):
    da = pytest.importorskip("dask.array")
    data = np.arange(96 * 96).reshape(96, 96)
    a = zaro.create(tmp_path / "s.zarr", shape=data.shape, dtype="i8", chunks=(8, 8), shards=(48, 48))
    da.store(da.from_array(data, chunks=(7, 11)), a, lock=False)
    assert np.array_equal(a[:], data)

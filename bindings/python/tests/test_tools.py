"""Images, versions, references, archives."""

import json
import zipfile

import numpy as np
import pytest
import xarray as xr
import zaro


def test_images(tmp_path):
    pixels = (np.arange(128 * 96).reshape(128, 96) % 251).astype("u1")
    np.save(tmp_path / "p.npy", pixels)
    [made] = zaro.image.convert(tmp_path / "p.npy", tmp_path / "i.zarr", levels=2)
    image = zaro.image.open(tmp_path / "i.zarr")
    assert len(image.levels) == 2 and np.array_equal(image.level(0)[...].squeeze(), pixels)
    assert image.level(1).shape[-1] == 48 and image.info and "2 levels" in repr(image)
    drawn = image.render(size=48)
    assert drawn.shape == (48, 36, 4) and drawn.dtype == np.uint8 and drawn[..., 3].min() == 255
    assert np.array_equal(zaro.image.render(tmp_path / "i.zarr", size=48), drawn)
    assert zaro.image.validate(tmp_path / "i.zarr")["valid"]
    assert image.render(crop=(0, 0, 10, 20)).shape == (20, 10, 4)
    assert image.level(0).to_dask().shape == image.level(0).shape
    with pytest.raises(ValueError, match="nonsense"):
        image.render(nonsense=1)


def test_versions(tmp_path):
    where = tmp_path / "v.zarr"
    a = zaro.create(where, data=np.arange(10))
    first = zaro.manifest.checksum(where)
    made = zaro.manifest.create(where, tmp_path / "m.json")
    assert made["checksum"] == first and zaro.manifest.verify(tmp_path / "m.json", where, bytes=True)["ok"]
    with zaro_warnings():
        old = zaro.manifest.open(tmp_path / "m.json", objects=str(where))
        assert old[:].tolist() == list(range(10))
    a[:] = 1
    assert zaro.manifest.checksum(where) != first
    assert not zaro.manifest.verify(tmp_path / "m.json", where, bytes=True)["ok"]


def zaro_warnings():
    import warnings

    return warnings.catch_warnings(action="ignore")


def test_references(tmp_path):
    data = np.arange(6, dtype="<i4")
    (tmp_path / "data.bin").write_bytes(data.tobytes())
    document = {"zarr_format": 2, "shape": [6], "chunks": [3], "dtype": "<i4", "compressor": None, "filters": None, "fill_value": None, "order": "C"}
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "v/.zarray": json.dumps(document),
        "v/.zattrs": '{"_ARRAY_DIMENSIONS": ["x"]}',
        "v/0": [str(tmp_path / "data.bin"), 0, 12],
        "v/1": [str(tmp_path / "data.bin"), 12, 12],
    }
    where = tmp_path / "r.json"
    where.write_text(json.dumps({"version": 1, "refs": refs}))
    assert zaro.refs.validate(where, sample=None)["errors"] == 0
    assert zaro.refs.stat(where)
    zaro.refs.convert(where, tmp_path / "r.parq")
    for form in (where, tmp_path / "r.parq"):
        assert np.array_equal(zaro.open(form, "v")[:], data)
        assert xr.open_dataset(form, engine="zaro").v.values.tolist() == data.tolist()
    (tmp_path / "data.bin").unlink()
    with pytest.raises(zaro.Error):
        zaro.open(where, "v")[:]
    assert zaro.refs.validate(where, sample=None)["errors"] > 0


def test_archives(tmp_path):
    zaro.create(tmp_path / "z.zarr", "v", data=np.arange(5), dims=["x"])
    with zipfile.ZipFile(tmp_path / "z.zarr.zip", "w") as archive:
        for path in (tmp_path / "z.zarr").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(tmp_path / "z.zarr"))
    assert xr.open_dataset(tmp_path / "z.zarr.zip").v.values.tolist() == list(range(5))


def test_icechunk(tmp_path):
    icechunk = pytest.importorskip("icechunk")
    import zarr

    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "ice")))
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="v", shape=(4,), dtype="i4", dimension_names=["x"])[:] = [1, 2, 3, 4]
    first = session.commit("one")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="v")[:] = 9
    session.commit("two")
    assert zaro.open(tmp_path / "ice", "v")[:].tolist() == [9] * 4
    assert zaro.open(tmp_path / "ice", "v", snapshot=first)[:].tolist() == [1, 2, 3, 4]
    ds = xr.open_dataset(tmp_path / "ice", engine="zaro", storage_options={"snapshot": first})
    assert ds.v.values.tolist() == [1, 2, 3, 4]

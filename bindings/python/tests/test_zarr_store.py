"""zarr's own tests of stores, and reading through zarr what only zaro opens."""

import json
import pathlib

import numpy as np
import pytest
import zarr
import zaro
from zarr.core.buffer import Buffer, cpu
from zarr.testing.store import StoreTests
from zaro import Store


class TestStore(StoreTests[Store, cpu.Buffer]):
    store_cls = Store
    buffer_cls = cpu.Buffer

    async def get(self, store: Store, key: str) -> Buffer:
        return self.buffer_cls.from_bytes((pathlib.Path(store.uri) / key).read_bytes())

    async def set(self, store: Store, key: str, value: Buffer) -> None:
        path = pathlib.Path(store.uri) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        (tmp_path / "store").mkdir()
        return {"uri": str(tmp_path / "store"), "read_only": False}

    @pytest.fixture
    def store(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    @pytest.fixture
    async def store_not_open(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    def test_store_repr(self, store):
        assert repr(store).startswith("zaro.Store(") and str(store).startswith("zaro::")

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    def test_store_supports_partial_writes(self, store):
        assert not getattr(store, "supports_partial_writes", False)


def test_zarr_reads_references(tmp_path):
    (tmp_path / "data.bin").write_bytes(np.arange(6, dtype="<i4").tobytes())
    document = {"zarr_format": 2, "shape": [6], "chunks": [3], "dtype": "<i4", "compressor": None, "filters": None, "fill_value": 0, "order": "C"}
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(document),
        "v/0": [str(tmp_path / "data.bin"), 0, 12],
        "v/1": [str(tmp_path / "data.bin"), 12, 12],
    }
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    group = zarr.open_group(Store(tmp_path / "refs.json"), mode="r")
    assert group["v"][:].tolist() == list(range(6))
    assert zaro.open(tmp_path / "refs.json", "v")[:].tolist() == list(range(6))


def test_zarr_writes(tmp_path):
    store = Store(tmp_path / "w.zarr", read_only=False)
    z = zarr.create_array(store, name="a", shape=(10, 10), dtype="f4", chunks=(5, 5), shards=(10, 10))
    z[:] = 3
    assert (zaro.open(tmp_path / "w.zarr", "a")[:] == 3).all()
    with pytest.raises(ValueError):
        zarr.open_group(Store(tmp_path / "w.zarr"), mode="r+").create_array("b", shape=1, dtype="i1")


def test_fsspec(tmp_path):
    import fsspec

    where = str(tmp_path / "f.zarr")
    zaro.create(where, "a", data=np.arange(10), chunks=5)
    assert zarr.open_group(f"zaro://{where}", mode="r")["a"][:].tolist() == list(range(10))
    fs, path = fsspec.url_to_fs(f"zaro://{where}")
    assert {e["name"].rpartition("/")[2] for e in fs.ls(path)} == {"zarr.json", "a"}
    text = fs.cat_file(f"{path}/zarr.json")
    assert json.loads(text)["node_type"] == "group" and fs.cat_file(f"{path}/zarr.json", 0, 3) == text[:3]
    assert fs.cat_file(f"{path}/zarr.json", -3) == text[-3:] and fs.cat_file(f"{path}/zarr.json", 1, -1) == text[1:-1]
    assert fs.exists(f"{path}/a/zarr.json") and not fs.exists(f"{path}/b")
    with fsspec.open(f"zaro://{where}/zarr.json") as f:
        assert f.read() == text
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{path}/nothing")

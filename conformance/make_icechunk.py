"""Makes small Icechunk repositories, of versions 1 and 2 of the format, and says what is in them.

    python conformance/make_icechunk.py FOLDER

writes `v1.zip`, `v2.zip` and `expected.json`; those in `zaro/tests/data/icechunk` were made so. Needs icechunk 2.3 and
zarr 3. Ids are random, so the files differ from run to run.

`expected.json` has, for each repository, its branches and tags, and for each version the bytes of every array: their
number and CRC-32, as zarr-python reads them, or as they follow from the virtual chunks' rule: byte `i` of the object
`PATH` is `(i * 7 + len(PATH)) % 251`.
"""

import datetime
import json
import pathlib
import shutil
import sys
import tempfile
import warnings
import zipfile
import zlib

import icechunk as ic
import numpy as np
import zarr

warnings.filterwarnings("ignore")
ic.set_logs_filter("error")


def content(path, offset, length):
    """The bytes of a virtual object."""
    at = np.arange(offset, offset + length, dtype="u8")
    return ((at * 7 + len(path)) % 251).astype("u1").tobytes()


def config():
    out = ic.RepositoryConfig.default()
    out.inline_chunk_threshold_bytes = 24
    out.manifest = ic.ManifestConfig(
        splitting=ic.ManifestSplittingConfig.from_dict(
            {ic.ManifestSplitCondition.path_matches(".*split"): {ic.ManifestSplitDimCondition.Any(): 2}}
        ),
        virtual_chunk_location_compression=ic.ManifestVirtualChunkLocationCompressionConfig(min_num_chunks=50),
    )
    s3 = ic.s3_store(region="us-east-1", anonymous=True, endpoint_url="https://objects.example.org", s3_compatible=True)
    out.set_virtual_chunk_container(ic.VirtualChunkContainer("s3://archive/", s3))
    out.set_virtual_chunk_container(ic.VirtualChunkContainer("s3://named/deep/", s3, name="box"))
    return out


class Maker:
    def __init__(self, folder, spec):
        self.repo = ic.Repository.create(ic.local_filesystem_storage(str(folder)), config=config(), spec_version=spec)
        self.repo.save_config()
        self.virtual = {}

    def virtual_array(self, store, path, shape, chunks, refs):
        """An array of virtual chunks; `refs` maps indexes to (location, path of the object, offset, checksum)."""
        array = zarr.create_array(store, name=path, shape=shape, chunks=chunks, dtype="u1", compressors=None, fill_value=9)
        values = np.full(shape, 9, "u1")
        size = int(np.prod(chunks))
        for index, (location, at, offset, checksum) in refs.items():
            key = f"{path}/" + "/".join(["c", *map(str, index)])
            store.set_virtual_ref(key, location, offset=offset, length=size, checksum=checksum)
            window = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))
            values[window] = np.frombuffer(content(at, offset, size), "u1").reshape(chunks)
        self.virtual[path] = values
        return array

    def fill(self):
        session = self.repo.writable_session("main")
        store = session.store
        root = zarr.create_group(store, attributes={"title": "a small one"})
        native = root.create_array("native", shape=(6, 40), chunks=(3, 20), dtype="i4", fill_value=-1)
        native[:] = np.arange(240).reshape(6, 40)
        inline = root.create_array("inline", shape=(4,), chunks=(2,), dtype="f8", compressors=None)
        inline[:] = [1.5, 2.5, 3.5, 4.5]
        root.create_array("empty", shape=(5, 5), chunks=(2, 2), dtype="i2", fill_value=3)
        scalar = root.create_array("scalar", shape=(), dtype="i8", compressors=None)
        scalar[...] = 4326
        deep = root.create_group("grp").create_group("deep-er").create_array("größe/β", shape=(3,), chunks=(3,), dtype="u2")
        deep[:] = [7, 8, 9]
        root.create_group("grp-x")
        split = root.create_array("grp/split", shape=(9, 8), chunks=(1, 2), dtype="u1", fill_value=200, compressors=None)
        split[:7] = np.arange(56).reshape(7, 8)
        split[2, 2:4] = 200
        then = datetime.datetime(2021, 5, 4, 3, 2, 1, tzinfo=datetime.timezone.utc)
        self.virtual_array(
            store,
            "grp/virtual",
            (4, 30),
            (2, 10),
            {
                (0, 0): ("s3://archive/a/one.nc", "a/one.nc", 100, None),
                (0, 1): ("s3://archive/a/one.nc", "a/one.nc", 5000, "0123abcd"),
                (1, 0): ("s3://archive/with%20space%25.nc", "with space%.nc", 0, then),
                (1, 2): ("vcc://box/inner/two.nc", "deep/inner/two.nc", 17, '"quoted"'),
            },
        )
        many = {
            (i,): (f"s3://archive/year/{1990 + i // 12}/month-{i % 12:02}.nc", f"year/{1990 + i // 12}/month-{i % 12:02}.nc", 10 * i, None)
            for i in range(120)
        }
        self.virtual_array(store, "many", (500,), (4,), many)
        first = session.commit("first", metadata={"who": "a test", "n": 3})
        self.repo.create_tag("v1.0", first)
        self.repo.create_tag("gone", first)
        self.repo.delete_tag("gone")
        self.repo.create_branch("dev", first)
        self.repo.create_branch("höhe %x", first)
        session = self.repo.writable_session("main")
        root = zarr.open_group(session.store)
        root["inline"][0] = 9.5
        root["native"][0:3, 0:20] = 5
        del root["grp/deep-er"]
        session.commit("second")

    def values(self, session):
        out = {}
        root = zarr.open_group(session.store, mode="r")
        for path, node in root.members(max_depth=None):
            if isinstance(node, zarr.Array):
                values = self.virtual[path] if path in self.virtual else node[...]
                data = np.ascontiguousarray(values).tobytes()
                out[path] = {"bytes": len(data), "crc": zlib.crc32(data)}
        return out

    def expected(self, spec):
        # Not from its list: the library shows names as it writes them to disk, and then does not know them.
        branches = {n: self.repo.lookup_branch(n) for n in ("dev", "höhe %x", "main")}
        tags = {"v1.0": self.repo.lookup_tag("v1.0")}
        versions = {s: self.values(self.repo.readonly_session(snapshot_id=s)) for s in {*branches.values(), *tags.values()}}
        return {"format": spec, "branches": branches, "tags": tags, "snapshots": versions}


def pack(folder, target):
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not name.startswith(("overwritten/", "transactions/")):
                info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
                out.writestr(info, path.read_bytes())


def main(target):
    target.mkdir(parents=True, exist_ok=True)
    expected = {}
    for spec in (1, 2):
        folder = pathlib.Path(tempfile.mkdtemp())
        maker = Maker(folder, spec)
        maker.fill()
        expected[f"v{spec}"] = maker.expected(spec)
        pack(folder, target / f"v{spec}.zip")
        shutil.rmtree(folder)
    (target / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

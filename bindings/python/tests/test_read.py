"""Reading: every index numpy has, every type, errors, pickles, forks, Ctrl-C."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
import zarr
import zaro
from conftest import CASES


def random_index(dice, extent):
    """One index along a dimension, of any kind."""
    n = extent
    kind = dice.choice(["int", "slice", "slice", "slice", "list", "mask", "all"])
    if kind == "int" and n:
        return dice.randrange(-n, n)
    if kind == "list" and n:
        return [dice.randrange(-n, n) for _ in range(dice.randrange(0, 6))]
    if kind == "mask":
        return np.array([dice.random() < 0.5 for _ in range(n)], bool)
    if kind == "slice":
        def end():
            return dice.choice([None, dice.randrange(-n - 3, n + 4)])

        return slice(end(), end(), dice.choice([None, 1, 2, 3, -1, -2, 5]))
    return slice(None)


def random_key(dice, shape):
    """A key as numpy takes it; lists and masks, which numpy would broadcast, are made to fit."""
    key = [random_index(dice, n) for n in shape]
    if dice.random() < 0.3:
        key = key[: dice.randrange(len(key) + 1)]
    lists = [i for i, k in enumerate(key) if isinstance(k, (list, np.ndarray))]
    if len(lists) > 1:
        length = dice.randrange(1, 5)
        for i in lists:
            key[i] = [dice.randrange(-shape[i], shape[i]) for _ in range(length)] if shape[i] else slice(None)
        if dice.random() < 0.3 and all(shape[i] for i in lists):
            # Points in two dimensions.
            for i in lists:
                key[i] = np.array([[dice.randrange(shape[i]) for _ in range(2)] for _ in range(3)])
    if dice.random() < 0.2:
        key.insert(dice.randrange(len(key) + 1), ...)
    return tuple(key)


def test_selections_equal_numpy(tmp_path, dice):
    """Random shapes, chunks, shards, types and keys."""
    done = 0
    while done < CASES:
        ndim = dice.randrange(1, 5)
        shape = tuple(dice.randrange(1, 9) for _ in range(ndim))
        dtype = dice.choice(["i1", "u2", "i4", "f4", "f8", "c16", "bool", "U3", "S2", "M8[s]", "string"])
        data = np.arange(np.prod(shape)).reshape(shape)
        data = data.astype("U3") if dtype == "string" else data.astype(dtype) if dtype != "M8[s]" else data.astype("i8").view("M8[s]")
        chunks = tuple(dice.randrange(1, n + 1) for n in shape)
        shards = tuple(c * dice.randrange(1, 3) for c in chunks) if dice.random() < 0.4 else None
        a = zaro.create(
            str(tmp_path / f"{done}.zarr"),
            data=data,
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            zarr_format=3 if shards else dice.choice([2, 3]),
        )
        assert a.shape == shape
        if dtype == "string":
            data = data.astype(np.dtypes.StringDType())
        for _ in range(10):
            key = random_key(dice, shape)
            try:
                with warnings.catch_warnings():
                    # Positions outside that select nothing: numpy warns that they will be errors.
                    warnings.simplefilter("error")
                    want = data[key]
            except (IndexError, DeprecationWarning):
                with pytest.raises(IndexError):
                    a[key]
                continue
            got = a[key]
            assert np.shape(got) == np.shape(want), key
            assert np.array_equal(got, want), (shape, chunks, key)
            outer = tuple(k for k in key if k is not Ellipsis)
            if len(outer) == ndim and all(np.asarray(k).ndim < 2 for k in outer if not isinstance(k, slice)):
                lists = [
                    np.arange(n)[k] if isinstance(k, slice) else np.atleast_1d(np.arange(n)[k])
                    for k, n in zip(outer, shape)
                ]
                want = data[np.ix_(*lists)]
                drop = tuple(i for i, k in enumerate(outer) if isinstance(k, int))
                want = want.squeeze(axis=drop) if drop else want
                assert np.array_equal(a.oindex[outer], want), outer
            done += 1


def test_points_read_each_chunk_once(grid):
    a, data, _ = grid
    t, y = np.array([[0, 11], [3, 3]]), np.array([[9, 0], [5, 5]])
    assert np.array_equal(a.vindex[t, y], data[t, y])
    assert np.array_equal(a.vindex[t, :, y[..., ::-1] % 8], data[t, :, y[..., ::-1] % 8])
    mask = data % 7 == 0
    assert np.array_equal(a[mask], data[mask])
    assert np.array_equal(a[data[:, 0, 0] > 400], data[data[:, 0, 0] > 400])


def test_read_into_a_buffer(grid):
    a, data, _ = grid
    for order in "CF":
        out = np.zeros((3, 10, 4), "i4", order=order)
        assert a.read(np.s_[1:4, :, ::2], out=out) is out
        assert np.array_equal(out, data[1:4, :, ::2])
    strided = np.zeros((12, 20, 8), "i4")[:, ::2]
    assert np.array_equal(a.read(out=strided), data)
    with pytest.raises(ValueError):
        a.read(out=np.zeros((1, 2, 3), "i4"))
    with pytest.raises(ValueError):
        a.read(out=np.zeros(data.shape, "i8"))
    f = a.read(order="F")
    assert f.flags.f_contiguous and np.array_equal(f, data)
    read = a[...]
    assert read.flags.writeable and read.flags.aligned
    assert memoryview(read.base if not isinstance(read.base, np.ndarray) else read.base.base).nbytes == data.nbytes


def test_what_an_array_is(grid):
    a, data, where = grid
    assert (a.shape, a.ndim, a.size, a.dtype, a.nbytes) == (data.shape, 3, data.size, data.dtype, data.nbytes)
    assert (a.chunks, a.shards, a.dims, a.attrs) == ((2, 5, 4), (4, 10, 8), ("t", "y", "x"), {"units": "m"})
    assert (a.fill_value, a.zarr_format, a.path, a.name, len(a)) == (0, 3, "a", "a", 12)
    assert [c["name"] for c in a.codecs] == ["sharding_indexed"]
    assert "zaro.Array" in repr(a) and "<table>" in a._repr_html_()
    assert np.array_equal(np.asarray(a), data)
    assert np.array_equal(np.stack(list(a)), data)
    blocks = list(a.iter_blocks(memory=4 * 10 * 8 * 4))
    out = np.zeros_like(data)
    for at, block in blocks:
        out[at] = block
    assert len(blocks) == 3 and np.array_equal(out, data)
    assert a.stat()["elements"] == data.size
    assert zaro.read(where, "a", np.s_[0, 0]).tolist() == list(range(8))
    assert list(zaro.list(where)) == ["a"] and zaro.meta(where, "a")["shape"] == [12, 10, 8]
    group = zaro.open(where)
    assert list(group) == ["a"] and "a" in group and "b" not in group and group["a"] == zaro.open(where, "a")


def test_types(tmp_path):
    """Every type that numpy has, written by zarr and read here."""
    cases = {
        "bool": np.array([True, False, True]),
        "half": np.array([1.5, np.inf, np.nan], "f2"),
        "big": np.array([1, 2, 3], ">i4"),
        "complex": np.array([1 + 2j, 3 - 4j, 0], "c8"),
        "date": np.array(["2000-01-01", "1970-05-05", "NaT"], "M8[ms]"),
        "span": np.array([1, 2, 3], "m8[h]"),
        "text": np.array(["a", "bcd", "é"], "U3"),
        "raw": np.array([b"a", b"bc", b""], "S2"),
        "struct": np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "<i2"), ("b", "<f8")]),
        "string": np.array(["", "much longer than the others", "ü"], np.dtypes.StringDType()),
    }
    for name, data in cases.items():
        for zarr_format in (2, 3):
            if zarr_format == 2 and name == "string":
                continue
            where = tmp_path / f"{name}{zarr_format}.zarr"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                z = zarr.create_array(where, shape=data.shape, dtype=data.dtype, zarr_format=zarr_format)
                z[:] = data
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                a = zaro.open(where)
            got = a[:]
            assert got.dtype.kind == data.dtype.kind, name
            assert np.array_equal(got, data, equal_nan=data.dtype.kind in "fcmM"), name
            if data.dtype.kind != "T":
                assert np.array_equal(a.vindex[[2, 0]], data[[2, 0]], equal_nan=data.dtype.kind in "fcmM"), name


def test_missing_is_not_failed(tmp_path):
    a = zaro.create(tmp_path / "m.zarr", shape=4, dtype="f4", chunks=2, fill_value=np.nan)
    a[:2] = [1, 2]
    assert np.array_equal(a[:], [1, 2, np.nan, np.nan], equal_nan=True)
    with pytest.raises(zaro.NotFoundError):
        a.read(missing="error")
    (tmp_path / "m.zarr" / "c" / "0").write_bytes(b"damaged")
    with pytest.raises(zaro.InvalidError) as e:
        zaro.open(tmp_path / "m.zarr")[:]
    assert e.value.kind == "invalid" and e.value.key == "c/0" and "m.zarr" in e.value.store


def test_errors_are_also_builtins_and_pickle(tmp_path, grid):
    a, _, where = grid
    with pytest.raises(FileNotFoundError) as e:
        zaro.open(tmp_path / "nothing.zarr")
    assert e.value.kind == "not-found" and "nothing.zarr" in str(e.value)
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is type(e.value) and str(again) == str(e.value) and again.store == e.value.store
    for key in [(99,), (0, 0, 0, 0), (..., ...), np.zeros(5, bool), "x", 1.5]:
        with pytest.raises(IndexError):
            a[key]
    with pytest.raises(ValueError):
        a[::0]
    with pytest.raises(ValueError):
        zaro.open(where, "a")[:] = 0
    with pytest.raises(KeyError):
        zaro.open(where)["b"]
    with pytest.raises(ValueError, match="nonsense"):
        zaro.open(where, nonsense=1)
    for kind, cls in zaro._errors._BY_KIND.items():
        e = zaro._errors.make(kind, "m", "s", "/n", "k", None, ["do that"])
        assert type(e) is cls and e.kind == kind and pickle.loads(pickle.dumps(e)).args == e.args
        assert str(e) == "s: /n: k: m; do that"


def test_pickles_are_addresses(grid):
    a, data, where = grid
    text = pickle.dumps(zaro.open(where, "a"))
    assert len(text) < 400
    one, two = pickle.loads(text), pickle.loads(text)
    assert one._source is two._source, "one handle for all that name the same"
    assert np.array_equal(one[:], data) and one == zaro.open(where, "a")
    assert pickle.loads(pickle.dumps(zaro.open(where)))["a"].shape == data.shape


def test_selection_by_coordinates(tmp_path):
    where = str(tmp_path / "c.zarr")
    zaro.create(where, "lat", data=np.array([10.0, 20.0, 30.0]), dims=["lat"])
    zaro.create(
        where, "time", data=np.arange(5), dims=["time"], attrs={"units": "days since 2000-01-01", "calendar": "standard"}
    )
    v = np.arange(15.0).reshape(5, 3)
    zaro.create(where, "v", data=v, dims=["time", "lat"])
    a = zaro.open(where, "v")
    assert np.array_equal(a.sel(lat=20.0), v[:, 1])
    assert np.array_equal(a.sel(lat=slice(15, 30), time="2000-01-03"), v[2, 1:])
    assert np.array_equal(a.sel(lat=[30.0, 10.0]), v[:, [2, 0]])
    assert np.array_equal(a.sel(lat=19, method="nearest"), v[:, 1])
    assert np.array_equal(a.sel(time=np.datetime64("2000-01-02T00:00:00")), v[1])
    assert np.array_equal(a.isel(time=-1, lat=slice(None, None, -1)), v[-1, ::-1])
    with pytest.raises(zaro.Error):
        a.sel(lat=19)
    with pytest.raises(ValueError):
        a.isel(depth=0)


def test_threads_and_async(grid):
    _, data, where = grid
    a = zaro.open(where, "a")
    wrong = []

    def work():
        for i in range(50):
            if not np.array_equal(a[i % 12], data[i % 12]):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong

    async def many():
        return await asyncio.gather(*(a.read_async(np.s_[i]) for i in range(12)))

    assert np.array_equal(np.stack(asyncio.run(many())), data)


def _sum(a):
    return int(a[:].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(grid, method):
    _, data, where = grid
    a = zaro.open(where, "a")
    assert a[:].sum() == data.sum()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_sum, [a] * 6) == [data.sum()] * 6


def test_a_fork_in_the_middle_of_reads(grid):
    """The child reads while threads of the parent are busy, as a DataLoader does."""
    _, data, where = grid
    a = zaro.open(where, "a")
    stop = threading.Event()

    def work():
        while not stop.is_set():
            a[:]

    busy = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in busy]
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                ok = np.array_equal(a[:], data) and np.array_equal(zaro.open(where, "a")[3], data[3])
                os._exit(0 if ok else 1)
            end = time.monotonic() + 20
            while time.monotonic() < end:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    break
                time.sleep(0.002)
            else:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                pytest.fail("the child hangs")
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        [t.join() for t in busy]


def test_ctrl_c_stops_a_read(tmp_path):
    """A read of seconds ends within 0.3 s of the signal, and the array still works."""
    script = textwrap.dedent("""
        import sys, time, signal, threading, os, numpy as np, zaro
        a = zaro.create(sys.argv[1], shape=(4000, 256, 1024), dtype="f4", chunks=(1, 64, 64), fill_value=1)
        a[::400, :64, :64] = 2
        a = zaro.open(sys.argv[1])
        sent = []
        def interrupt():
            time.sleep(0.5)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            while True:
                a[...]
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
        assert a[0, 0, 0] == 2
    """)
    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "big.zarr")], capture_output=True, text=True, timeout=120
    )
    assert out.returncode == 0, out.stderr
    assert float(out.stdout) < 1.0, "0.3 s on a quiet machine"


def test_importing_is_cheap_and_needs_no_numpy():
    code = "import sys, zaro; assert 'numpy' not in sys.modules and 'xarray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_leak():
    import resource
    import tempfile

    where = tempfile.mkdtemp() + "/l.zarr"
    zaro.create(where, data=np.zeros((64, 1024)), chunks=(64, 1024))
    for _ in range(200):
        zaro.open(where)[:]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1500):
        zaro.open(where)[:]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_progress_and_settings(grid):
    _, data, where = grid
    seen = []
    a = zaro.open(where, "a")
    assert np.array_equal(a.read(progress=lambda done, total: seen.append((done, total))), data)
    assert seen and seen[-1][0] == data.nbytes

    def fails(done, total):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        a.read(progress=fails)
    memory, threads = zaro._zaro.configure()
    zaro.set_threads(2)
    zaro.set_memory(64 << 20)
    assert zaro._zaro.configure() == (64 << 20, 2)
    assert np.array_equal(zaro.open(where, "a")[:], data)
    zaro.clear_cache()
    zaro.set_memory(memory)

"""Faults in system calls: every command that writes, with errors and kills at its steps, and two of it at once.

    python conformance/faults/files.py                      a sample of every command
    python conformance/faults/files.py --all                every step of every command
    python conformance/faults/files.py --only copy-zip --calls write --at 3 --errno ENOSPC     one fault again

What must hold, whatever fails (docs/design/011-fault-injection.md):
  exit 0            the result is right;
  any other exit    what a reader sees is the old or the new, the source is unharmed, and no panic;
  afterwards        the same command finishes the work, and leaves no temporary files.
What a reader sees is told by zarr-python, never by zaro.
"""

import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import common  # noqa: E402
import numpy as np  # noqa: E402
import zarr  # noqa: E402

warnings.filterwarnings("ignore")
HERE = Path(__file__).resolve().parent

# Which errors a call may give, and whether all later calls of the class fail as well (a full disk stays full).
ERRORS = {
    "open": ["EIO", "EMFILE", "EACCES", "EINTR", "ESTALE", "ENOSPC"],
    "read": ["EIO", "EINTR", "ESTALE"],
    "write": ["EIO", "ENOSPC", "EDQUOT", "EINTR"],
    "rename": ["EIO", "ENOSPC", "EACCES"],
    "link": ["EIO", "ENOSPC", "EACCES", "EPERM"],
    "unlink": ["EIO", "EACCES"],
    "mkdir": ["EIO", "ENOSPC", "EACCES"],
    "sync": ["EIO", "ENOSPC", "EINTR"],
    "truncate": ["EIO", "ENOSPC", "EINTR"],
    "stat": ["EIO", "EACCES", "ESTALE"],
    "list": ["EIO", "ESTALE"],
    "chmod": ["EIO", "EPERM"],
}
CHANGING = "open,write,rename,link,unlink,mkdir,sync,truncate,chmod"
KILLS = {"KILL": -1, "KILL-AFTER": -2}


# --- what a reader sees -------------------------------------------------------------------------------------------------


def digest(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p if isinstance(p, bytes) else repr(p).encode())
        h.update(b"\0")
    return h.hexdigest()[:16]


def node_state(node):
    attrs = {k: v for k, v in node.attrs.asdict().items() if k != "_ARRAY_DIMENSIONS"}
    facts = [type(node).__name__, sorted(attrs.items(), key=lambda x: x[0])]
    if isinstance(node, zarr.Array):
        data = node[...]
        facts += [node.shape, str(node.dtype), np.asarray(data).tobytes() if data.dtype != object else data.tolist()]
    return digest(*facts)


def stale(folder):
    """Which Zarrs in a work folder look different through their consolidated metadata."""
    zarrs = [p for p in sorted(folder.iterdir()) if p.is_dir() and not is_temporary(p.name) and visible(p)]
    documents = {p: p / "zarr.json" for p in zarrs}
    carry = [p for p, d in documents.items() if (p / ".zmetadata").exists() or d.exists() and b"consolidated_metadata" in d.read_bytes()]
    return ", ".join(f"{p.name}: {difference(zarr_state(p), zarr_state(p, True))}" for p in carry if zarr_state(p) != zarr_state(p, True))


def zarr_state(path, consolidated=False):
    """A digest for each node of the Zarr in a folder, "" if there is none, or what is wrong with it."""
    try:
        root = zarr.open(str(path), mode="r", use_consolidated=consolidated) if visible(path) else None
    except Exception as e:  # noqa: BLE001, whatever it is, a reader could not read it
        return f"unreadable: {type(e).__name__}: {e}"
    if root is None:
        return ""
    try:
        nodes = {"": root}
        if isinstance(root, zarr.Group):
            nodes |= dict(root.members(max_depth=None))
        # What is put aside to be deleted has a name that is kept for temporary files.
        return {name: node_state(node) for name, node in nodes.items()}
    except Exception as e:  # noqa: BLE001
        return f"unreadable: {type(e).__name__}: {e}"


def visible(path):
    return any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zarray"))


def zip_state(path):
    try:
        with zipfile.ZipFile(path) as z:
            return {n: digest(z.read(n)) for n in sorted(z.namelist())}
    except Exception as e:  # noqa: BLE001
        return f"unreadable: {e}"


def state(folder):
    """What a reader sees of everything in a work folder; what is not (yet) a Zarr is nothing."""
    seen = {}
    for p in sorted(folder.iterdir()):
        if p.name == "tmp" or is_temporary(p.name):
            continue
        if p.is_dir():
            s = zarr_state(p) or plain_state(p)
        elif p.suffix in (".zip", ".ozx"):
            s = zip_state(p)
        else:
            s = digest(p.read_bytes())
        if s:
            seen[p.name] = s
    return seen


def plain_state(folder):
    """A folder that is no Zarr: the files in it, if any of them is of a kind that counts on its own."""
    if folder.suffix not in (".parq", ".files"):
        return ""
    return {str(p.relative_to(folder)): digest(p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file() and not is_temporary(p.name)}


def is_temporary(name):
    return name.startswith(".") and not name.startswith(".z") or name.startswith(".zaro") or name.endswith((".part", ".tmp", ".cache"))


def leftovers(folder):
    return sorted(
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if (is_temporary(p.name) and p.suffix != ".cache") or p.parent.name == "tmp"
    )


# --- the commands -----------------------------------------------------------------------------------------------------


def make_v3(path):
    g = zarr.open_group(str(path), mode="w", zarr_format=3, attributes={"title": "t"})
    rng = np.random.default_rng(1)
    a = g.create_array("a", shape=(6, 8), chunks=(2, 4), dtype="i4", fill_value=-1, dimension_names=("y", "x"), attributes={"units": "m"})
    a[:4] = rng.integers(0, 99, (4, 8))
    s = g.create_group("sub").create_array("s", shape=(8, 8), shards=(4, 4), chunks=(2, 2), dtype="f4", dimension_names=("y", "x"))
    s[:] = rng.random((8, 8))


def make_v2(path):
    g = zarr.open_group(str(path), mode="w", zarr_format=2, attributes={"title": "t"})
    rng = np.random.default_rng(2)
    for name in ("a", "sub/b"):
        a = g.create_array(name, shape=(6, 8), chunks=(3, 4), dtype="<i2", fill_value=None, attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "n": name})
        a[:] = rng.integers(0, 99, (6, 8))


def make_image(path, zaro):
    np.save(path.parent / "pixels.npy", np.random.default_rng(3).integers(0, 999, (2, 32, 32)).astype("u2"))
    call(zaro, path.parent, ["image", "convert", "pixels.npy", path.name, "--axes", "cyx", "--chunks", "1,16,16", "--levels", "1"])


def call(zaro, folder, argv):
    done = subprocess.run([zaro, *argv], cwd=folder, capture_output=True, env=environment(folder))
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.returncode} {done.stderr.decode()}")


class Case:
    """A command, what it starts from, and whether it may be given again once it is done.

    `gone`: what is replaced (all that differs, or the node "store:path") may be gone before the new is there, but is never half there.
    `parts`: the array (store, node) whose elements may each be old or new: chunks are written one by one.
    `unlisted`: nodes that may be there before the document that lists them says so.
    `adds`: given twice, it does more than given once; so do two at once.
    """

    def __init__(self, name, setup, argv, again=True, gone=False, parts=None, unlisted=None, adds=False):
        self.name, self.setup, self.again, self.gone, self.parts = name, setup, again, gone, parts
        self.adds = adds
        self.unlisted = unlisted or {}
        self.argv = argv.split() if isinstance(argv, str) else argv


def v3(folder, _):
    make_v3(folder / "v3.zarr")


def v2(folder, _):
    make_v2(folder / "v2.zarr")


def v3_and_old(folder, _):
    make_v3(folder / "v3.zarr")
    make_v2(folder / "d.zarr")


def v3_over_same(folder, _):
    for name in ("v3.zarr", "d.zarr"):
        make_v3(folder / name)
    a = zarr.open_array(str(folder / "d.zarr" / "a"))
    np.save(folder / "p.npy", np.full(a.shape, 5, dtype=a.dtype))
    a[:] = 4


def v3_in_other(folder, zaro):
    make_v3(folder / "v3.zarr")
    make_v3(folder / "d.zarr")
    zarr.open_group(str(folder / "d.zarr"))["sub"].attrs["old"] = True
    call(zaro, folder, ["consolidate", "d.zarr"])


def v3_consolidated(folder, zaro):
    make_v3(folder / "v3.zarr")
    call(zaro, folder, ["consolidate", "v3.zarr"])


def array_consolidated(folder, zaro):
    array(folder, zaro)
    call(zaro, folder, ["consolidate", "v3.zarr"])


def v2_group(folder, zaro):
    call(zaro, folder, ["create", "g.zarr", "--group", "--zarr-format", "2"])
    make_v3(folder / "v3.zarr")


def array(folder, _):
    make_v3(folder / "v3.zarr")
    np.save(folder / "new.npy", np.arange(16, dtype="i4").reshape(2, 8))


def pixels(folder, _):
    np.save(folder / "p.npy", np.arange(2048, dtype="u2").reshape(2, 32, 32))


def v2_and_new(folder, _):
    make_v2(folder / "v2.zarr")
    a = zarr.open_array(str(folder / "v2.zarr" / "a"), mode="r")
    np.save(folder / "new.npy", np.ones((2, *a.shape[1:]), dtype=a.dtype))


def image_and_pixels(folder, zaro):
    make_image(folder / "i.zarr", zaro)
    a = zarr.open_array(str(folder / "i.zarr" / "0"), mode="r")
    np.save(folder / "p.npy", np.full(a.shape, 77, dtype=a.dtype))


def image(folder, zaro):
    make_image(folder / "i.zarr", zaro)


def image_with_labels(folder, zaro):
    image(folder, zaro)
    np.save(folder / "l.npy", (np.arange(32 * 32).reshape(1, 32, 32) // 100).astype("u1"))


def image_with_two_labels(folder, zaro):
    image_with_labels(folder, zaro)
    np.save(folder / "old.npy", np.ones((1, 32, 32), dtype="u1"))
    call(zaro, folder, "image add-labels i.zarr cells --from old.npy --axes cyx".split())


def two_images(folder, zaro):
    image(folder, zaro)
    shutil.copytree(folder / "i.zarr", folder / "j.zarr")
    zarr.open_array(str(folder / "j.zarr" / "0"))[:] = 3


def packed(folder, zaro):
    image(folder, zaro)
    call(zaro, folder, ["image", "pack", "i.zarr", "i.ozx"])


def references(folder, zaro):
    demo = folder / "tmp" / "demo"
    call(zaro, folder, ["demo", str(demo)])
    for name in ("field.json", "field.dat"):
        shutil.copy(demo / name, folder / name)
    shutil.rmtree(demo)


def manifest(folder, zaro):
    make_v3(folder / "v3.zarr")
    call(zaro, folder, ["manifest", "create", "v3.zarr", "-o", "m.json"])


def other_version(folder, zaro):
    manifest(folder, zaro)
    shutil.copytree(folder / "v3.zarr", folder / "copy.zarr")
    a = zarr.open_group(str(folder / "copy.zarr"))
    a["a"][:] = 1
    other = a.create_array("other", shape=(6, 6), chunks=(2, 2), dtype="<i2")
    other[:] = 5


CASES = [
    Case("create-array", v3, "create v3.zarr new --shape 4,4 --dtype int16 --chunks 2,2", again=False),
    Case("create-group", v3, "create v3.zarr new/deep --group", again=False, unlisted={"v3.zarr": ("new",)}),
    Case("write-create", array, "write v3.zarr new --from new.npy --create --chunks 1,4"),
    Case("write-part", array, "write v3.zarr a --from new.npy --start 1,0", parts=("v3.zarr", "a")),
    Case("append", array, "write v3.zarr a --from new.npy --append y", again=False, adds=True),
    Case("attrs", v3, "attrs v3.zarr a --set units=km"),
    Case("grow", v3, "resize v3.zarr a --shape 9,9"),
    Case("shrink", v3, "resize v3.zarr a --shape 3,5"),
    Case("shrink-by", v3, "resize v3.zarr a --axis y=-2", again=False, adds=True),
    Case("grow-by", v3, "resize v3.zarr a --axis y=+2 --axis x=+3", again=False, adds=True),
    Case("consolidate", v3, "consolidate v3.zarr"),
    Case("delete", v3_consolidated, "delete v3.zarr sub --yes", again=False),
    Case("delete-all", v3, ["delete", "v3.zarr", "", "--yes"], again=False),
    Case("copy", v3, "copy v3.zarr d.zarr"),
    Case("copy-rechunk", v3, "copy v3.zarr d.zarr --chunks y=1,x=8 --shards none --codec zstd:1"),
    Case("copy-pieces", v3, "copy v3.zarr d.zarr --chunks y=8,x=1 --shards none --memory 4K"),
    Case("copy-zip", v3, "copy v3.zarr d.zarr.zip"),
    Case("copy-v2", v3, "copy v3.zarr d.zarr --zarr-format 2 --shards none --verify"),
    Case("copy-overwrite", v3_and_old, "copy v3.zarr d.zarr --overwrite"),
    Case("copy-overwrite-node", v3_in_other, "copy v3.zarr/sub d.zarr/sub --overwrite --chunks y=2,x=2"),
    Case("create-overwrite", v3_consolidated, "create v3.zarr a --shape 4,4 --dtype int16 --chunks 2,2 --overwrite"),
    Case("write-overwrite", array, "write v3.zarr a --from new.npy --create --chunks 1,4 --overwrite"),
    Case("in-place-v3", v2, "copy v2.zarr --in-place --zarr-format 3"),
    Case("in-place-v2", lambda f, _: make_plain_v3(f), "copy v3.zarr --in-place --zarr-format 2"),
    Case("in-place-v2-keys", lambda f, _: make_plain_v3(f, None), "copy v3.zarr --in-place --zarr-format 2"),
    Case("read-npy", v3, "read v3.zarr a -o a.npy"),
    Case("image-convert", pixels, "image convert p.npy i.zarr --axes cyx --chunks 1,16,16"),
    Case("convert-overwrite", image_and_pixels, "image convert p.npy i.zarr --axes cyx --overwrite"),
    Case("pyramid", image, "image pyramid i.zarr --levels 3", unlisted={"i.zarr": ("1", "2")}),
    Case("pyramid-to", image, "image pyramid i.zarr --to j.zarr --levels 3"),
    Case("pyramid-to-overwrite", two_images, "image pyramid i.zarr --to j.zarr --levels 3 --overwrite"),
    Case("add-labels", image_with_labels, "image add-labels i.zarr cells --from l.npy --axes cyx", unlisted={"i.zarr": ("labels",)}),
    Case("labels-overwrite", image_with_two_labels, "image add-labels i.zarr cells --from l.npy --axes cyx --overwrite"),
    Case("edit", image, "image edit i.zarr --channel 0:label=DNA,color=FF0000"),
    Case("upgrade", image, "image upgrade i.zarr j.zarr --to 0.4"),
    Case("upgrade-overwrite", two_images, "image upgrade i.zarr j.zarr --to 0.4 --overwrite"),
    Case("upgrade-in-place", image, "image upgrade i.zarr --in-place --to 0.4"),
    Case("pack", image, "image pack i.zarr i.ozx"),
    Case("unpack", packed, "image unpack i.ozx j.zarr"),
    Case("ref-convert", references, "ref convert field.json field.parq --keep-relative"),
    Case("manifest-create", v3, "manifest create v3.zarr -o m.json"),
    Case("manifest-to", v3, "manifest create v3.zarr --to places.files --zarr 0123-4567"),
    Case("fetch", manifest, "manifest fetch m.json copy.zarr --objects v3.zarr"),
    Case("fetch-overwrite", other_version, "manifest fetch m.json copy.zarr --overwrite --objects v3.zarr", gone=True),
    Case("checksum-cache", v3, "checksum v3.zarr --cache digests.cache"),
]


def make_plain_v3(folder, keys={"name": "v2", "separator": "."}):
    g = zarr.open_group(str(folder / "v3.zarr"), mode="w", zarr_format=3, attributes={"title": "t"})
    for name in ("a", "sub/b"):
        a = g.create_array(name, shape=(6, 8), chunks=(3, 4), dtype="<i2", fill_value=7, chunk_key_encoding=keys)
        a[:] = np.arange(48).reshape(6, 8)


# --- one fault --------------------------------------------------------------------------------------------------------


def environment(folder, **more):
    return {**os.environ, "TMPDIR": str(folder / "tmp"), "RAYON_NUM_THREADS": "2", **more}


def both(old, new):
    """What is the same in two states, also of the nodes of one Zarr."""
    return {k: both(v, new[k]) if isinstance(v, dict) else v for k, v in old.items() if v == new.get(k) or isinstance(v, dict) and k in new}


class Bench:
    """One command with its template folder, the states before and after, and how many calls it makes."""

    unit = "calls"

    def __init__(self, case, zaro, shim, where):
        self.case, self.zaro, self.shim, self.where = case, zaro, shim, where
        self.template = where / f"{case.name}.template"
        (self.template / "tmp").mkdir(parents=True)
        case.setup(self.template, zaro)
        self.old = state(self.template)
        folder = self.fresh("clean")
        report = where / f"{case.name}.calls"
        done = self.run(folder, ZARO_FAULT_REPORT=str(report))
        if done.returncode:
            raise RuntimeError(f"{case.name}: fails without a fault: {done.stderr.decode().strip()}")
        self.new = state(folder)
        self.calls = {k: int(v) for k, v in (line.split() for line in report.read_text().splitlines())}
        self.clean = leftovers(folder)
        if case.parts:
            self.values = zarr.open_array(str(folder / case.parts[0] / case.parts[1]), mode="r")[...]
        shutil.rmtree(folder)

    def fresh(self, name):
        folder = self.where / f"{self.case.name}.{name}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, folder, symlinks=True)
        return folder

    def command(self, folder, **faults):
        env = environment(folder, LD_PRELOAD=str(self.shim), ZARO_FAULT_UNDER=str(folder), **faults)
        return [self.zaro, *self.case.argv], dict(cwd=folder, env=env)

    def run(self, folder, **faults):
        argv, how = self.command(folder, **faults)
        return subprocess.run(argv, **how, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)

    def judge(self, folder, code, what):
        """What is wrong with what is here now, after an end with this exit code; or None."""
        if code == common.PANIC:
            return f"{what}: panicked"
        seen = state(folder)
        if code == 0 and seen != self.new:
            return f"{what}: exit 0, but {difference(self.new, seen)}"
        allowed = [self.old, self.new]
        if self.case.gone:
            # Replacing cannot be seen at once as a whole everywhere; then nothing is seen, never a mixture.
            allowed += [{k: v for k, v in self.old.items() if k in self.new and self.new[k] == v}, both(self.old, self.new)]
            # Also nodes of it that the new has just as the old had them.
            if isinstance(self.case.gone, str):
                store, node = self.case.gone.split(":")
                rest = both(self.old, self.new)
                rest[store] = {k: v for k, v in rest[store].items() if k != node and not k.startswith(f"{node}/")}
                allowed.append(rest)
        if seen not in allowed and self.listed(seen) not in allowed and not self.each_element_old_or_new(folder, seen):
            return f"{what}: exit {code}, neither old nor new: from old {difference(self.old, seen)}; from new {difference(self.new, seen)}"
        return None

    def listed(self, seen):
        """What is seen, without nodes that nothing leads to yet, if all others are as they were."""
        out = dict(seen)
        for store, hidden in self.case.unlisted.items():
            if isinstance(seen.get(store), dict):
                out[store] = {k: v for k, v in seen[store].items() if k.split("/")[0] not in hidden or k in self.old[store]}
        return out

    def each_element_old_or_new(self, folder, seen):
        if not self.case.parts:
            return False
        store, name = self.case.parts
        others = [{**s, store: {**s[store], name: None}} for s in (seen, self.old)]
        old, now = (zarr.open_array(str(f / store / name), mode="r")[...] for f in (self.template, folder))
        new = self.values
        return others[0] == others[1] and bool(np.all((now == old) | (now == new)))

    def finish(self, folder, what):
        """The same command again, without faults."""
        before = state(folder)
        # A change of a shape that was killed leaves word of it, and is not made twice.
        noted = self.case.argv[0] == "resize" and any(folder.rglob(".zaro-turn.json"))
        if not self.case.again and before == self.new and not noted:
            return None
        done = self.run(folder)
        seen = state(folder)
        if seen != self.new:
            return f"{what}: given again (exit {done.returncode}: {last(done)}): {difference(self.new, seen)}"
        # Where all was whole already, nothing is written, and so nothing is looked at.
        left = [x for x in leftovers(folder) if x not in self.clean]
        if left and before != self.new:
            return f"{what}: given again, left behind {left}"
        return None

    def inject(self, calls, at, error, times):
        what = f"{self.case.name} --calls {calls or 'all'} --at {at} --errno {error}" + (" --stays" if times == 0 else "")
        folder = self.fresh("fault")
        number = KILLS[error] if error in KILLS else getattr(errno, error)
        try:
            done = self.run(
                folder,
                ZARO_FAULT_CALLS=calls,
                ZARO_FAULT_AT=str(at),
                ZARO_FAULT_ERRNO=str(number),
                ZARO_FAULT_TIMES=str(times),
            )
        except subprocess.TimeoutExpired:
            return f"{what}: hangs"
        code = done.returncode
        if code < 0 and not (error in KILLS and code == -signal.SIGKILL):
            return f"{what}: died by signal {-code}: {last(done)}"
        # One EINTR is no fault: POSIX lets any call be interrupted, and every caller tries again.
        if error == "EINTR" and times == 1 and code != 0:
            return f"{what}: exit {code}: {last(done)}"
        return self.judge(folder, code, what) or self.finish(folder, what)

    def twice(self, rng):
        """Two at once; each may fail, but not both and not silently."""
        what = f"{self.case.name} two at once"
        folder = self.fresh("twice")
        argv, how = self.command(folder)
        first = subprocess.Popen(argv, **how, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(rng.random() * 0.02)
        second = subprocess.Popen(argv, **how, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        texts = [p.communicate(timeout=120)[1].decode().strip().splitlines()[-1:] for p in (first, second)]
        codes = (first.returncode, second.returncode)
        if common.PANIC in codes or any(c < 0 for c in codes):
            return f"{what}: {codes} {texts}"
        if self.case.adds and codes == (0, 0):
            seen = state(folder)
            again = self.fresh("twice")
            for _ in range(2):
                self.run(again)
            both = state(again)
            return None if seen == both else f"{what}: {difference(both, seen)}"
        if 0 in codes:
            return self.judge(folder, 0, f"{what}, exits {codes} {texts}")
        return self.judge(folder, max(codes), what) or self.finish(folder, what)


# Two different commands at once: (what they start from, one, the other).
PAIRS = [
    (v2, "copy v2.zarr --in-place --zarr-format 3", "attrs v2.zarr a --set units=km"),
    (v2_and_new, "copy v2.zarr --in-place --zarr-format 3", "write v2.zarr a --from new.npy --append 0"),
    (v2, "copy v2.zarr --in-place --zarr-format 3", "create v2.zarr other --group"),
    (v2, "copy v2.zarr --in-place --zarr-format 3", "resize v2.zarr a --axis 0=+3"),
    (v3_and_old, "copy v3.zarr new.zarr", "copy d.zarr/sub new.zarr/sub"),
    (array, "write v3.zarr a --from new.npy --append y", "resize v3.zarr a --axis y=-2"),
    (array, "write v3.zarr a --from new.npy --append y", "attrs v3.zarr a --set units=km"),
    (v3_consolidated, "delete v3.zarr sub --yes", "create v3.zarr other --group"),
    (v3_consolidated, "consolidate v3.zarr", "create v3.zarr other --group"),
    (array_consolidated, "attrs v3.zarr a --set units=km", "attrs v3.zarr a --set name=x"),
    (array_consolidated, "resize v3.zarr a --axis y=-2", "attrs v3.zarr a --set units=km"),
    (array_consolidated, "write v3.zarr a --from new.npy --append y", "attrs v3.zarr a --set units=km"),
    (array_consolidated, "write v3.zarr a --from new.npy --append y", "copy v3.zarr/sub v3.zarr --to other"),
    (v2_group, "create g.zarr a --group --attrs {\"t\":1}", "create g.zarr a --shape 3 --dtype int8 --attrs {\"k\":2}"),
    (v2_group, "create g.zarr a --shape 5 --dtype int8 --attrs {\"t\":1}", "create g.zarr a --shape 3 --dtype int8 --attrs {\"k\":2}"),
    (v2_group, "copy v3.zarr/a g.zarr --to a --zarr-format 2", "create g.zarr a --group --attrs {\"t\":1}"),
    (image, "image edit i.zarr --channel 0:label=DNA", "image edit i.zarr --name other"),
    (image, "image pyramid i.zarr --levels 3", "image edit i.zarr --name other"),
    (image_and_pixels, "image upgrade i.zarr --in-place --to 0.4", "write i.zarr 0 --from p.npy"),
    (image, "image upgrade i.zarr --in-place --to 0.4", "image edit i.zarr --name other"),
    (v3_over_same, "copy v3.zarr d.zarr --overwrite", "write d.zarr a --from p.npy"),
    (v3_over_same, "copy v3.zarr d.zarr --overwrite", "attrs d.zarr a --set units=km"),
    (v3_over_same, "copy v3.zarr d.zarr --overwrite", "create d.zarr other --group"),
    (v3_over_same, "copy v3.zarr d.zarr --overwrite", "copy v3.zarr d.zarr --overwrite --chunks y=2,x=2 --shards none"),
]


class Pair:
    """Two commands at once: what is there at the end is what some order of them makes, of those that say they did it."""

    unit = "orders"

    def __init__(self, number, zaro, where):
        self.setup, *commands = PAIRS[number]
        self.argvs = [c.split() for c in commands]
        self.name = " & ".join(commands)
        self.zaro, self.where = zaro, where
        self.template = where / f"pair{number}.template"
        (self.template / "tmp").mkdir(parents=True)
        self.setup(self.template, zaro)
        self.orders = {order: self.made(order) for order in ((), (0,), (1,), (0, 1), (1, 0))}
        self.calls = {"orders": len(self.orders)}

    def fresh(self):
        folder = self.where / "pair"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, folder, symlinks=True)
        return folder

    def start(self, folder, which):
        argv = [self.zaro, *self.argvs[which]]
        return subprocess.Popen(argv, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def made(self, order):
        """What the commands make, one after another; nothing if one of them fails then."""
        folder = self.fresh()
        for which in order:
            child = self.start(folder, which)
            child.communicate(timeout=120)
            if child.returncode:
                return None
        return state(folder)

    def try_once(self, delay):
        folder = self.fresh()
        first, later = (0, 1) if delay >= 0 else (1, 0)
        children = {first: self.start(folder, first)}
        time.sleep(abs(delay))
        children[later] = self.start(folder, later)
        texts = {which: child.communicate(timeout=120)[1].decode(errors="replace").strip()[-200:] for which, child in children.items()}
        did = {which for which, child in children.items() if child.returncode == 0}
        what = f"{self.name} ({delay * 1000:.1f} ms): {texts}"
        if any(child.returncode in (common.PANIC,) or child.returncode < 0 for child in children.values()):
            return f"{what}: panicked or died"
        # Who fails has changed nothing, or all of it.
        allowed = [s for order, s in self.orders.items() if s is not None and did <= set(order)]
        seen = state(folder)
        old = stale(folder)
        if old and len(did) == 2:
            return f"{what}: exit 0 of both, but consolidated metadata are stale: {old}"
        return None if seen in allowed else f"{what}: exit 0 of {sorted(did)}, but {difference(allowed[0], seen) if allowed else 'nothing allowed'}"


def difference(wanted, seen):
    if not isinstance(wanted, dict) or not isinstance(seen, dict):
        return f"{seen!r} for {wanted!r}"[:300]
    out = []
    for key in sorted(wanted.keys() | seen.keys()):
        a, b = wanted.get(key), seen.get(key)
        if a != b:
            out.append(f"{key or '/'}: " + (difference(a, b) if isinstance(a, dict) and isinstance(b, dict) else "missing" if b is None else "not expected" if a is None else f"{str(b)[:200]}" if isinstance(b, str) and b.startswith("unreadable") else "differs"))
    return ", ".join(out)[:600] or "the same"


def last(done):
    return (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1][:300]


def faults(bench, every, sample, rng):
    """Which faults to try: (classes, number of the call, error, how often)."""
    plan = []
    for calls, errors in ERRORS.items():
        for at in range(1, bench.calls.get(calls, 0) + 1):
            plan += [(calls, at, e, t) for e in errors for t in ((1, 0) if e in ("ENOSPC", "EDQUOT", "EACCES", "EMFILE") else (1,))]
    kills = sum(bench.calls.get(c, 0) for c in CHANGING.split(","))
    plan_kills = [(CHANGING, at, how, 1) for at in range(1, kills + 1) for how in KILLS]
    if every:
        return plan + plan_kills
    half = max(1, sample // 2)
    return rng.sample(plan, min(half, len(plan))) + rng.sample(plan_kills, min(sample - half, len(plan_kills)))


def options(text, sample):
    """What both injectors can be told."""
    p = common.parser(text)
    p.add_argument("--all", action="store_true", help="every step of every command")
    p.add_argument("--sample", type=int, default=sample, help=f"faults per command [default: {sample}]")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="only commands whose name contains this")
    p.add_argument("--at", type=int, help="one fault, at this step")
    p.add_argument("--keep", action="store_true", help="keep the work folder")
    return p


def try_all(args, cases, make, faults_of, more=None):
    """Makes a bench of each command, tries the faults of it, and `more`, tells which held, and ends the program."""
    zaro = str(Path(common.find_zaro(args.zaro)).resolve())
    where = Path(tempfile.mkdtemp(prefix="zaro-faults-"))
    tried, failed = 0, []

    def tell(name, bench, results):
        nonlocal tried
        bad = [r for r in results if r]
        tried += len(results)
        failed.extend(bad)
        for r in bad[: None if args.verbose else 5]:
            print(f"FAIL {r}", flush=True)
        print(f"{name}: {len(results) - len(bad)} of {len(results)} hold; {sum(bench.calls.values())} {bench.unit}", flush=True)

    try:
        for case in cases:
            if args.only and args.only not in case.name:
                continue
            try:
                bench = make(case, zaro, where)
            except RuntimeError as e:
                failed.append(str(e))
                print(f"FAIL {e}", flush=True)
                continue
            tell(case.name, bench, list(faults_of(bench)))
        for pair, results in more(zaro, where) if more else ():
            tell(pair.name, pair, results)
    finally:
        if args.keep:
            print(f"kept {where}")
        else:
            shutil.rmtree(where, ignore_errors=True)
    print(f"{tried - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def main():
    p = options(__doc__, sample=12)
    p.add_argument("--calls", help="with --at and --errno: one fault")
    p.add_argument("--errno")
    p.add_argument("--stays", action="store_true", help="all later calls fail as well")
    args = p.parse_args()
    rng = random.Random(args.seed)

    def make(case, zaro, where):
        shim = where / "shim.so"
        if not shim.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(shim), str(HERE / "shim.c"), "-ldl"], check=True)
        return Bench(case, zaro, shim, where)

    def faults_of(bench):
        if args.at:
            yield bench.inject(args.calls or "", args.at, args.errno or "EIO", 0 if args.stays else 1)
            return
        for fault in faults(bench, args.all, args.sample, rng):
            yield bench.inject(*fault)
        for _ in range(12 if args.all else 3):
            yield bench.twice(rng)

    def pairs(zaro, where):
        for number in range(len(PAIRS)):
            if args.at or args.only and args.only not in f"pair {PAIRS[number][1:]}":
                continue
            pair = Pair(number, zaro, where)
            yield pair, [pair.try_once(rng.uniform(-0.03, 0.03)) for _ in range(60 if args.all else args.sample)]

    try_all(args, CASES, make, faults_of, pairs)


if __name__ == "__main__":
    main()

"""Versions of a Zarr in real buckets: what zaro makes of them against what the rules give.

A Zarr is put into a versioned bucket step by step: objects put, overwritten, deleted, brought back, put in parts. Between
steps its state is written down by this script, from its own knowledge and one plain listing, by the rules of the format
(docs/design/007-versions.md) and with the reference implementation of the checksum, zarr_checksum, where that is
installed. Then zaro has to give the same: the manifest of now, the state at each of those moments, the checksum of every
state in its history, the values of an array as it was after it was overwritten.

    . target/servers/run/env && python conformance/versions.py [--objects 347] [--server seaweed|ceph]

It needs the servers of scripts/servers.sh; a server that is not running is left out, and said so.
"""

import datetime
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
from common import checksum_of, flat, md5
from s3 import S3

try:
    from zarr_checksum.checksum import ZarrChecksum
    from zarr_checksum.tree import ZarrChecksumTree
except ImportError:
    ZarrChecksumTree = None

BUCKET = "versioned"


def digest(tree):
    """The checksum of {path: (size, etag)} by the rules, and by zarr_checksum if it is here."""
    ours = checksum_of(tree)
    if ZarrChecksumTree is not None and tree:
        theirs = ZarrChecksumTree()
        for path, (size, etag) in tree.items():
            theirs.add_leaf(path=Path(path), size=size, digest=etag)
        assert str(theirs.process()) == ours or theirs.process().digest == ours
    return ours


class Zarr:
    """A Zarr in a bucket, and what it should look like."""

    def __init__(self, s3, zaro, env):
        self.s3, self.zaro, self.env = s3, zaro, env
        self.id = str(uuid.uuid4())
        self.prefix = f"zarr/{self.id}/"
        self.now = {}
        self.snapshots = []
        self.pool = ThreadPoolExecutor(16)

    @property
    def uri(self):
        return f"s3://{BUCKET}/zarr/{self.id}"

    def put_all(self, objects):
        put = lambda item: self.s3.put(BUCKET, self.prefix + item[0], item[1])
        for (path, data), _ in zip(objects.items(), self.pool.map(put, objects.items()), strict=True):
            self.now[path] = (len(data), md5(data))

    def delete_all(self, paths):
        list(self.pool.map(lambda p: self.s3.delete(BUCKET, self.prefix + p), paths))
        for path in paths:
            self.now.pop(path, None)

    def put_parts(self, path, parts):
        self.s3.put_parts(BUCKET, self.prefix + path, parts)
        etag = md5(b"".join(hashlib.md5(p).digest() for p in parts)) + f"-{len(parts)}"
        self.now[path] = (sum(map(len, parts)), etag)

    def snapshot(self):
        """Writes the state down, well apart from what comes before and after: some servers know whole seconds only."""
        time.sleep(1.1)
        moment = datetime.datetime.now(datetime.timezone.utc)
        self.snapshots.append((moment, dict(self.now)))
        time.sleep(1.1)

    def run(self, *args, codes=(0,)):
        done = subprocess.run([self.zaro, *args], env=self.env, capture_output=True, timeout=900)
        assert done.returncode in codes, f"{args}: exit {done.returncode}\n{done.stderr.decode()}"
        return done.stdout.decode()

    def listed(self):
        """The current versions, as the server lists them: {path: listing}; and the moment of the last change."""
        found, last = {}, ""
        for v in self.s3.versions(BUCKET, self.prefix):
            if v["IsLatest"] == "true":
                last = max(last, v["LastModified"])
                if not v["Deleted"]:
                    found[v["Key"][len(self.prefix) :]] = v
        return found, last


def iso(text):
    """A server's moment as a manifest has it."""
    t = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return t.isoformat()


def check_manifest(zarr, text):
    """A manifest against the server's own listing, by the rules."""
    document = json.loads(text)
    found, last = zarr.listed()
    assert document["fields"] == ["versionId", "lastModified", "size", "ETag"], document["fields"]
    wanted = {
        path: [v["VersionId"], iso(v["LastModified"]), int(v["Size"]), v["ETag"].strip('"')] for path, v in found.items()
    }
    got = dict(flat(document["entries"]))
    for path in sorted(wanted.keys() | got.keys()):
        assert got.get(path) == wanted.get(path), f"{path}: {got.get(path)}, not {wanted.get(path)}"
    assert list(got) == sorted(got, key=str.encode), "entries are out of order"
    sizes = {path: (v[2], v[3]) for path, v in wanted.items()}
    assert sizes == zarr.now, "the server does not have what was put"
    statistics = {
        "entries": len(wanted),
        "depth": max((p.count("/") for p in wanted), default=0),
        "totalSize": sum(v[2] for v in wanted.values()),
        "lastModified": iso(last),
        "zarrChecksum": digest(sizes),
    }
    assert document["statistics"] == statistics, f"{document['statistics']}, not {statistics}"
    return statistics["zarrChecksum"]


def array(values, chunk):
    """A Zarr V3 array of uint8 as objects."""
    meta = {
        "zarr_format": 3, "node_type": "array", "shape": [len(values)], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 7,
        "codecs": [{"name": "bytes"}],
    }  # fmt: skip
    out = {"array/zarr.json": json.dumps(meta).encode()}
    for i in range(0, len(values), chunk):
        part = bytes(values[i : i + chunk])
        out[f"array/c/{i // chunk}"] = part + bytes([7]) * (chunk - len(part))
    return out


def read(zarr, manifest):
    text = zarr.run("read", f"manifest+{manifest}", "array", "--format", "json")
    return json.loads(text)


def run_server(name, endpoint, options, zaro):
    rng = random.Random(options.seed)
    s3 = S3(endpoint, "zaro", "zaro-secret")
    env = {**os.environ, "AWS_ACCESS_KEY_ID": "zaro", "AWS_SECRET_ACCESS_KEY": "zaro-secret"}
    env.update(AWS_ENDPOINT_URL=endpoint, AWS_REGION="us-east-1")
    zarr = Zarr(s3, zaro, env)
    data = lambda: rng.randbytes(rng.randrange(1, 200))
    shape = lambda i: f"{i % 7}/{i // 7 % 11}/{i}"
    odd = ["x y/a+b", "x y/100%", "x y/a&b=c", "x y/a'b(c)"]
    values = [list(rng.randbytes(100)), list(rng.randbytes(100))]

    # 1. Most of it, and an array.
    zarr.put_all({shape(i): data() for i in range(options.objects)})
    zarr.put_all({"zarr.json": b'{"zarr_format":3,"node_type":"group"}', **array(values[0], 30)})
    zarr.put_all({path: data() for path in odd})
    zarr.snapshot()
    first = zarr.run("manifest", "create", zarr.uri).strip()
    assert first == digest(zarr.now), f"{first}, not {digest(zarr.now)}"

    # 2. Some anew, some gone, one in parts; the array overwritten, with one chunk less.
    zarr.put_all({shape(i): data() for i in range(0, options.objects, 3)})
    zarr.delete_all([shape(i) for i in range(1, options.objects, 10)])
    zarr.put_parts("big/0", [rng.randbytes(5 << 20), b"end"])
    zarr.put_all(array(values[1], 30))
    zarr.delete_all(["array/c/1"])
    zarr.snapshot()

    # 3. A whole folder gone, and what was gone back again, twice over; a deletion last.
    zarr.delete_all([p for p in zarr.now if p.startswith("3/")])
    for _ in range(2):
        zarr.put_all({shape(i): data() for i in range(1, options.objects, 20)})
    zarr.snapshot()
    zarr.delete_all(["zarr.json"])
    zarr.snapshot()

    with tempfile.TemporaryDirectory() as folder:
        # The manifest of now, where the bucket keeps them; a second time it is kept.
        made = json.loads(zarr.run("manifest", "create", zarr.uri, "--json"))
        key = f"zarr-manifest/{zarr.id[:3]}/{zarr.id[3:6]}/{zarr.id}/{made['checksum']}.json"
        assert made["manifest"] == f"s3://{BUCKET}/{key}" and made["outcome"] == "new", made
        _, text = s3.ok("GET", BUCKET, key)
        assert check_manifest(zarr, text) == made["checksum"]
        again = json.loads(zarr.run("manifest", "create", zarr.uri, "--json"))
        assert again["outcome"] == "kept" and again["checksum"] == made["checksum"], again

        # The state at each moment.
        files = []
        for i, (moment, state) in enumerate(zarr.snapshots):
            file = Path(folder, f"{i}.json")
            at = zarr.run("manifest", "history", zarr.uri, "--at", moment.isoformat(), "-o", str(file)).strip()
            assert at == digest(state), f"snapshot {i}: {at}, not {digest(state)}"
            got = {path: (v[2], v[3]) for path, v in flat(json.loads(file.read_text())["entries"])}
            assert got == state, f"snapshot {i} has other entries"
            files.append(file)
        before = zarr.run("manifest", "history", zarr.uri, "--at", "2001-01-01T00:00:00Z", codes=(3,))
        assert before == ""

        # Every state: those written down are among them, in order.
        states = [json.loads(line) for line in zarr.run("manifest", "history", zarr.uri, "--json").splitlines()]
        sums = [s["checksum"] for s in states]
        at = -1
        for i, (_, state) in enumerate(zarr.snapshots):
            assert digest(state) in sums[at + 1 :], f"snapshot {i} is not in the history"
            at = sums.index(digest(state), at + 1)
        assert sums[-1] == made["checksum"] and states[-1]["until"] is None
        gaps = zarr.run("manifest", "history", zarr.uri, "--json", "--gap", "1").splitlines()
        assert len(gaps) <= len(states)

        # The array as it was, through the manifest that was made then, and through one of a moment.
        stored = f"s3://{BUCKET}/zarr-manifest/{zarr.id[:3]}/{zarr.id[3:6]}/{zarr.id}/{first}.json"
        assert read(zarr, stored) == values[0]
        second = values[1][:30] + [7] * 30 + values[1][60:]
        assert read(zarr, f"{files[1]}::{zarr.uri}") == second
        assert read(zarr, f"{files[0]}::{zarr.uri}") == values[0]

        # Every manifest that was made names what is still there; no version is named twice over.
        for file in files:
            zarr.run("manifest", "verify", str(file), "--objects", zarr.uri)
        copy = Path(folder, "copy")
        zarr.run("manifest", "fetch", str(files[0]), str(copy), "--from", zarr.uri)
        fetched = {str(p.relative_to(copy)): (p.stat().st_size, md5(p.read_bytes())) for p in copy.rglob("*") if p.is_file()}
        assert fetched == zarr.snapshots[0][1], "fetched files differ"

        # What no manifest names, by our own count.
        named = set()
        for checksum in {first, made["checksum"]}:
            _, text = s3.ok("GET", BUCKET, f"zarr-manifest/{zarr.id[:3]}/{zarr.id[3:6]}/{zarr.id}/{checksum}.json")
            named |= {(zarr.prefix + path, v[0]) for path, v in flat(json.loads(text)["entries"])}
        garbage = {
            (v["Key"], v["VersionId"])
            for v in s3.versions(BUCKET, zarr.prefix)
            if not v["Deleted"] and v["IsLatest"] != "true" and (v["Key"], v["VersionId"]) not in named
        }
        listed = Path(folder, "garbage.jsonl")
        report = json.loads(zarr.run("manifest", "gc", zarr.uri, "--list", str(listed), "--json"))
        lines = [json.loads(line) for line in listed.read_text().splitlines()]
        assert {(g["key"], g["versionId"]) for g in lines} == garbage
        assert report["unnamed"] == len(garbage) and report["broken"] == [] and report["deleted"] is None
        gone = json.loads(zarr.run("manifest", "gc", zarr.uri, "--list", str(listed), "--yes", "--json"))
        assert gone["deleted"] == len(garbage), gone
        left = json.loads(zarr.run("manifest", "gc", zarr.uri, "--json"))
        assert left["unnamed"] == 0 and left["broken"] == [], left
        # What the manifests name is still there, and only that.
        assert read(zarr, stored) == values[0]
        zarr.run("manifest", "verify", str(files[1]), "--objects", zarr.uri, codes=(1,))
    check_overwrites(Zarr(s3, zaro, env), options.overwrites)
    return len(zarr.now), len(states), len(garbage)


def check_overwrites(zarr, count):
    """One document overwritten again and again beside a folder: no page may lose a version of it."""
    import history_differential as replay

    zarr.put_all({"a/0": b"x", "b/c/1": b"y"})
    put = lambda i: zarr.s3.put(BUCKET, zarr.prefix + "zarr.json", str(i).encode())
    for i in range(count):
        put(i)
    found = list(zarr.s3.versions(BUCKET, zarr.prefix))
    bucket = object.__new__(replay.Bucket)
    bucket.keys = {}
    for i, v in enumerate(found):
        moment = datetime.datetime.fromisoformat(v["LastModified"].replace("Z", "+00:00"))
        row = {"version": v["VersionId"], "at": round(moment.timestamp() * 1000), "deleted": v["Deleted"], "seq": -i}
        row.update(size=int(v.get("Size") or 0), etag=v.get("ETag", "").strip('"'))
        bucket.keys.setdefault(v["Key"].replace(zarr.prefix, replay.PREFIX, 1), []).append(row)
    assert len(found) == count + 2, f"the server lists {len(found)} versions itself"
    lines = zarr.run("manifest", "history", zarr.uri, "--json").splitlines()
    got = [[json.loads(line)[n] for n in ("since", "until", "checksum", "put", "deleted")] for line in lines]
    assert got == replay.replay(bucket), f"history: {len(got)} states, not {len(replay.replay(bucket))}"
    then = zarr.run("manifest", "history", zarr.uri, "--at", got[len(got) // 2][0], "-o", "-")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(then)
        file.flush()
        zarr.run("manifest", "verify", file.name, "--objects", zarr.uri)
        report = json.loads(zarr.run("manifest", "gc", zarr.uri, "--keep", file.name, "--json"))
    assert report["versions"] == count + 2, report


def main():
    p = common.parser(__doc__)
    p.add_argument("--objects", type=int, default=347, help="how many objects besides those of every run")
    p.add_argument("--overwrites", type=int, default=1500, help="how often one document is overwritten")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--server", choices=["seaweed", "ceph"], help="only this one")
    options = p.parse_args()
    zaro = common.find_zaro(options.zaro)
    ran = 0
    for name, variable in [("seaweed", "ZARO_TEST_S3"), ("ceph", "ZARO_TEST_CEPH")]:
        if options.server not in (None, name):
            continue
        if variable not in os.environ:
            print(f"skipped: no {name} ({variable} is not set)")
            continue
        started = time.monotonic()
        entries, states, garbage = run_server(name, os.environ[variable], options, zaro)
        ran += 1
        print(f"{name}: {entries} entries, {states} states, {garbage} versions collected, {time.monotonic() - started:.0f} s")
    if not ran:
        sys.exit("no server is running; see scripts/servers.sh")
    oracle = "zarr_checksum" if ZarrChecksumTree is not None else "the rules alone"
    print(f"versions: {ran} servers agree with {oracle}")


if __name__ == "__main__":
    main()

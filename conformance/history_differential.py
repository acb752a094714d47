"""Histories of random buckets beside a replay of our own.

A small server of S3's listings (in this file) holds a random bucket: objects put, overwritten, deleted and brought back, put
while the bucket kept no versions, many of them in the same second. It lists as the real ones do: few rows a page, pages that
end within the versions of a key, folders counted as rows, keys encoded or not, and by whim short pages with a delimiter, as
Ceph has them. What zaro says of the history, of every moment, of a manifest and of what could go must be what this
script finds by going through the same changes itself.

    python conformance/history_differential.py --cases 60 [--seed 1] [--rows 7]
"""

import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

import common
from common import checksum_of, flat, md5

ID = "abcdef01-2345"
PREFIX = f"zarr/{ID}/"
START = 1_700_000_000


class Bucket:
    """Rows of a versioned bucket, and how its server lists them."""

    def __init__(self, rng, rows):
        self.rng, self.rows = rng, rows
        self.millis = rng.random() < 0.5
        self.encodes = rng.random() < 0.7
        self.short = rng.random() < 0.4
        self.empty_marker = rng.random() < 0.3
        self.keys = {}  # key -> [version], the newest first
        self.manifests = {}
        self.requests = 0
        self.fill()
        self.index()

    def fill(self):
        rng = self.rng
        names = ["zarr.json", ".zattrs", "a", "b", "0", "1", "0.0", "0-1", "x y", "é", "a+b", "p%", "日"]
        paths = set()
        for _ in range(rng.choice([1, 3, 10, 40, 120])):
            paths.add("/".join(rng.choice(names) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))))
        # No path is also a folder of another: no manifest can hold that.
        paths = [p for p in sorted(paths) if not any(q.startswith(p + "/") for q in paths)]
        favourite = rng.choice(paths)
        moment, count = START * 1000, 0
        versioned = rng.random() < 0.7
        for _ in range(rng.choice([3, 20, 80, 300])):
            if rng.random() < 0.05:
                versioned = True if not versioned else rng.random() < 0.6
            moment += rng.choice([0, 0, 1, 400, 1000, 61_000])
            path = favourite if rng.random() < 0.3 else rng.choice(paths)
            history = self.keys.setdefault(PREFIX + path, [])
            count += 1
            name = md5(str(count).encode()) if versioned else "null"
            if not versioned:
                history[:] = [v for v in history if v["version"] != "null"]
            deleted = rng.random() < 0.25
            data = rng.randbytes(rng.randrange(20))
            at = moment if self.millis else moment // 1000 * 1000
            row = {"version": name, "at": at, "deleted": deleted, "size": len(data), "etag": md5(data), "seq": count}
            history.insert(0, row)
        # Old versions that were deleted for good.
        for history in self.keys.values():
            if len(history) > 1 and rng.random() < 0.2:
                del history[rng.randrange(1, len(history))]
        # Beside the Zarr, not in it.
        for key in ("zarr/abcdef01-234", "zarr/abcdef01-2345.x/a", "zarr/abcdef01-2346/a"):
            self.keys[key] = [{"version": "v", "at": START * 1000, "deleted": False, "size": 1, "etag": "e" * 32, "seq": 0}]
        self.keys = {k: v for k, v in self.keys.items() if v}

    def index(self):
        order = lambda key: key.encode()
        self.sorted = [(k, v) for k in sorted(self.keys, key=order) for v in self.keys[k]]

    def changes(self):
        """(moment, path, row) from the first to the last; within a moment by key, the older first."""
        out = []
        for key, rows in self.keys.items():
            if key.startswith(PREFIX):
                out += [(v["at"], key[len(PREFIX) :].encode(), v["seq"], key[len(PREFIX) :], v) for v in rows]
        return [(at, path, row) for at, _, _, path, row in sorted(out, key=lambda c: c[:3])]

    def state(self, at=None):
        """What is there now, or was at a moment."""
        out = {}
        for key, rows in self.keys.items():
            rows = [v for v in rows if at is None or v["at"] <= at]
            if key.startswith(PREFIX) and rows and not rows[0]["deleted"]:
                out[key[len(PREFIX) :]] = rows[0]
        return out

    def list(self, query):
        """A page, as XML."""
        versions = "versions" in query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        marker, version = query.get("key-marker", ""), query.get("version-id-marker", "")
        if not versions:
            marker = query.get("continuation-token", "")[1:] or query.get("start-after", "")
        limit = min(int(query.get("max-keys", 1000)), self.rows)
        if delimiter and self.short:
            limit = max(1, limit // 3)
        rows = [(k, v) for k, v in self.sorted if k.startswith(prefix)]
        if not versions:
            rows = [(k, v) for k, v in rows if v is self.keys[k][0] and not v["deleted"]]
        if marker:
            kept, passed = [], False
            for k, v in rows:
                if delimiter and marker.endswith(delimiter) and k.startswith(marker):
                    continue
                if k.encode() > marker.encode():
                    kept.append((k, v))
                elif k == marker and version:
                    if passed:
                        kept.append((k, v))
                    passed = passed or v["version"] == version
            rows = kept
        body, folders, count, last = [], [], 0, None
        used = 0
        for k, v in rows:
            cut = k.find(delimiter, len(prefix)) if delimiter else -1
            folder = k[: cut + 1] if cut >= 0 else None
            if folder is not None and folders and folders[-1] == folder:
                used += 1
                continue
            if count == limit:
                break
            count, used = count + 1, used + 1
            if folder is not None:
                folders.append(folder)
                last = (folder, "")
            else:
                body.append(self.row(k, v, versions))
                last = (k, v["version"])
        more = used < len(rows)
        enc = (lambda t: urllib.parse.quote_plus(t, safe="/")) if self.encodes else escape
        root = "ListVersionsResult" if versions else "ListBucketResult"
        out = [f"<?xml version='1.0'?><{root} xmlns='x'>"]
        if self.encodes:
            out.append("<EncodingType>url</EncodingType>")
        out.append(f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>")
        if more and versions:
            out.append(f"<NextKeyMarker>{enc(last[0])}</NextKeyMarker>")
            if not (self.empty_marker and not last[1]):
                out.append(f"<NextVersionIdMarker>{last[1]}</NextVersionIdMarker>")
        elif more:
            out.append(f"<NextContinuationToken>{escape('t' + last[0])}</NextContinuationToken>")
        out += body
        out += [f"<CommonPrefixes><Prefix>{enc(f)}</Prefix></CommonPrefixes>" for f in folders]
        return "".join([*out, f"</{root}>"]).encode()

    def row(self, key, v, versions):
        tag = "Contents" if not versions else "DeleteMarker" if v["deleted"] else "Version"
        key_text = urllib.parse.quote_plus(key, safe="/") if self.encodes else escape(key)
        moment = datetime.datetime.fromtimestamp(v["at"] / 1000, datetime.timezone.utc)
        fraction = f".{v['at'] % 1000:03}" if self.millis else ""
        out = f"<{tag}><Key>{key_text}</Key><LastModified>{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z</LastModified>"
        if versions:
            latest = "true" if v is self.keys[key][0] else "false"
            out += f"<VersionId>{v['version']}</VersionId><IsLatest>{latest}</IsLatest>"
        if not v["deleted"]:
            out += f"<ETag>&quot;{v['etag']}&quot;</ETag><Size>{v['size']}</Size>"
        return out + f"</{tag}>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    buckets = {}

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        name, _, key = url.path[1:].partition("/")
        bucket = self.buckets[name]
        bucket.requests += 1
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        status, body = 200, b""
        if key:
            body = bucket.manifests.get(urllib.parse.unquote(key))
            status, body = (404, b"") if body is None else (200, body)
        elif "versioning" in query:
            body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        elif query.get("prefix", "").startswith("zarr-manifest/"):
            keys = {k: [self.document(v)] for k, v in bucket.manifests.items()}
            other = object.__new__(Bucket)
            other.__dict__.update(bucket.__dict__, keys=keys)
            other.index()
            body = other.list(query)
        else:
            body = bucket.list(query)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @staticmethod
    def document(text):
        return {"version": "m1", "at": START * 1000, "deleted": False, "size": len(text), "etag": md5(text)}

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def iso(at):
    moment = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
    return moment.isoformat(timespec="auto")


def replay(bucket, gap=0):
    """[since, until, checksum, put, deleted] of every state."""
    out, files, put, deleted = [], {}, 0, 0
    changes = bucket.changes()
    for i, (at, path, row) in enumerate(changes):
        if row["deleted"]:
            deleted += path in files
            files.pop(path, None)
        else:
            files[path] = (row["size"], row["etag"])
            put += 1
        if i + 1 < len(changes) and changes[i + 1][0] <= at + gap * 1000:
            continue
        now = checksum_of(files)
        if out and out[-1][2] == now:
            continue
        if out:
            out[-1][1] = iso(at)
        out.append([iso(at), None, now, put, deleted])
        put = deleted = 0
    return out


def entries_of(state):
    return {p: [v["version"], iso(v["at"]), v["size"], v["etag"]] for p, v in state.items()}


class Case:
    def __init__(self, seed, rows, zaro, endpoint, folder):
        self.bucket = Bucket(random.Random(seed), rows)
        self.name, self.zaro, self.folder = f"b{seed}", zaro, Path(folder, str(seed))
        self.folder.mkdir()
        self.more = ["--endpoint", endpoint, "--anonymous"]
        self.uri = f"s3://{self.name}/{PREFIX[:-1]}"
        Handler.buckets[self.name] = self.bucket

    def run(self, *args, codes=(0,)):
        done = subprocess.run([self.zaro, *args, *self.more], capture_output=True, timeout=300)
        text = done.stderr.decode()
        assert done.returncode in codes, f"{args}: exit {done.returncode}\n{text}"
        return done.stdout.decode()

    def check(self):
        bucket, rng = self.bucket, self.bucket.rng
        changes = bucket.changes()
        gap = rng.choice([0, 0, 1, 60])
        # Every state.
        wanted = replay(bucket, gap)
        lines = self.run("manifest", "history", self.uri, "--json", "--gap", str(gap)).splitlines()
        got = [json.loads(line) for line in lines]
        got = [[g[n] for n in ("since", "until", "checksum", "put", "deleted")] for g in got]
        assert len(got) == len(wanted), f"history: {len(got)} states, not {len(wanted)}"
        for a, b in zip(got, wanted, strict=True):
            assert a == b, f"history: {a}, not {b}"
        # Some moments.
        moments = sorted({at for at, _, _ in changes})
        for at in rng.sample(moments, min(3, len(moments))):
            document = json.loads(self.run("manifest", "history", self.uri, "--at", iso(at), "-o", "-"))
            state = entries_of(bucket.state(at))
            assert dict(flat(document["entries"])) == state, f"--at {iso(at)}: entries differ"
        # Now.
        file = self.folder / "now.json"
        now = bucket.state()
        checksum = self.run("manifest", "create", self.uri, "-o", str(file)).strip()
        assert checksum == checksum_of({p: (v["size"], v["etag"]) for p, v in now.items()}), "create: the checksum differs"
        assert dict(flat(json.loads(file.read_text())["entries"])) == entries_of(now), "create: entries differ"
        assert self.run("checksum", self.uri).strip() == checksum, "checksum: differs from create"
        # A manifest of some moment is sound, and is not when a version it names does not exist.
        at = rng.choice(moments)
        then = bucket.state(at)
        then_file = self.folder / "then.json"
        self.run("manifest", "history", self.uri, "--at", iso(at), "-o", str(then_file))
        self.run("manifest", "verify", str(then_file), "--objects", self.uri)
        if then:
            text = then_file.read_text()
            path, v = rng.choice(sorted(then.items(), key=lambda e: e[0]))
            assert json.dumps(v["version"]) in text
            document = json.loads(text)
            at_entry = document["entries"]
            *folders, name = path.split("/")
            for part in folders:
                at_entry = at_entry[part]
            at_entry[name][0] = "gone"
            wrong = self.folder / "wrong.json"
            wrong.write_text(json.dumps(document))
            report = json.loads(self.run("manifest", "verify", str(wrong), "--objects", self.uri, "--json", codes=(1,)))
            assert [f["key"] for f in report["findings"]] == [path], report
        # What no manifest names.
        text = then_file.read_bytes()
        then_sum = json.loads(text)["statistics"]["zarrChecksum"]
        bucket.manifests[f"zarr-manifest/{ID[:3]}/{ID[3:6]}/{ID}/{then_sum}.json"] = text
        named = {(PREFIX + p, v["version"]) for p, v in then.items()}
        garbage = {
            (key, v["version"])
            for key, rows in bucket.keys.items()
            for v in rows[1:]
            if key.startswith(PREFIX) and not v["deleted"] and (key, v["version"]) not in named
        }
        listed = self.folder / "garbage.jsonl"
        report = json.loads(self.run("manifest", "gc", self.uri, "--list", str(listed), "--json"))
        lines = [json.loads(line) for line in listed.read_text().splitlines()]
        assert {(g["key"], g["versionId"]) for g in lines} == garbage and len(lines) == len(garbage), "gc: differs"
        markers = sum(v["deleted"] for k, rows in bucket.keys.items() if k.startswith(PREFIX) for v in rows)
        assert report["deleteMarkers"] == markers and report["broken"] == [], report
        return len(changes), len(wanted), bucket.requests


def main():
    p = common.parser(__doc__)
    p.add_argument("--cases", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--rows", type=int, default=7, help="rows a page")
    options = p.parse_args()
    zaro = common.find_zaro(options.zaro)
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    failed, totals = [], [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count() or 2) as pool:

        def one(seed):
            try:
                return seed, Case(seed, options.rows, zaro, endpoint, folder).check()
            except AssertionError as e:
                return seed, e
            finally:
                Handler.buckets.pop(f"b{seed}", None)

        first = options.seed * 1_000_000
        for seed, result in pool.map(one, range(first, first + options.cases)):
            if isinstance(result, AssertionError):
                failed.append(seed)
                print(f"bucket {seed}: {result}")
            else:
                totals = [a + b for a, b in zip(totals, result, strict=True)]
    if failed:
        sys.exit(f"{len(failed)} of {options.cases} buckets are wrong")
    changes, states, requests = totals
    print(f"history: {options.cases} buckets, {changes} changes, {states} states, {requests} pages of {options.rows} rows: all as replayed")


if __name__ == "__main__":
    main()

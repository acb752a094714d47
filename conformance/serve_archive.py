"""An archive of versions, served: addresses, redirects, the API, and a manifest of a million entries.

Starts `zaro serve` on an archive made in a temporary folder, and asks it over HTTP. The objects lie in a small web server
that keeps versions, as a bucket does. Checksums are computed here, from the description of the algorithm.

    python conformance/serve_archive.py                       # under a minute
    python conformance/serve_archive.py --entries 1000000     # the whole
    python conformance/serve_archive.py --examples 200        # more requests by schemathesis

Needs `schemathesis` for the API (scripts/requirements.txt); without it that part is told as left out. If `zarr` is there,
it reads a version, too.
"""

import hashlib
import http.client
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import common

SMALL = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d"
BIG = "b1b1b1b1-0000-4000-8000-000000000001"
FLAT = "f1a7f1a7-0000-4000-8000-000000000002"
MILLION = "b0a73d24038127434ace0a926c9893ee-1000000--499500000"
ROWS = 100_000

ARRAY = json.dumps({"zarr_format": 2, "shape": [5], "chunks": [3], "dtype": "|u1", "compressor": None,
                    "fill_value": 0, "order": "C", "filters": None})
OLD = {".zgroup": b'{"zarr_format": 2}', ".zattrs": b'{"a": 0}', "x/.zarray": ARRAY.encode(), "x/0": b"\1\2\3",
       "odd/a b#?%/\u00e9": b"odd"}
NEW = {**OLD, ".zattrs": b'{"a": 1}', "x/1": b"\4\5\6"}


def md5(data):
    return hashlib.md5(data).hexdigest()


class Tree:
    """Entries of a version by directory, for its checksum and its manifest."""

    def __init__(self):
        self.files, self.dirs = {}, {}

    def add(self, path, entry):
        *above, name = path.split("/")
        at = self
        for part in above:
            at = at.dirs.setdefault(part, Tree())
        at.files[name] = entry

    def digest(self):
        """The digest of the directory: its MD5, count and size."""
        dirs = []
        count, size = len(self.files), sum(e[2] for e in self.files.values())
        for name in sorted(self.dirs):
            text, n, bytes_ = self.dirs[name].digest()
            dirs.append({"digest": text, "name": name, "size": bytes_})
            count, size = count + n, size + bytes_
        files = [{"digest": self.files[n][3], "name": n, "size": self.files[n][2]} for n in sorted(self.files)]
        text = json.dumps({"directories": dirs, "files": files}, separators=(",", ":"))
        return f"{md5(text.encode())}-{count}--{size}", count, size

    def json(self):
        return {**self.files, **{name: below.json() for name, below in self.dirs.items()}}


def write_manifest(root, zarr, entries, day):
    """Writes the manifest of `entries`: (path, versionId, size, ETag). Its checksum is its name."""
    tree, depth = Tree(), 0
    for path, version, size, etag in entries:
        tree.add(path, (version, f"{day}T12:00:00+00:00", size, etag))
        depth = max(depth, path.count("/"))
    checksum, count, size = tree.digest()
    stated = {"entries": count, "depth": depth, "totalSize": size, "lastModified": f"{day}T12:00:00+00:00",
              "zarrChecksum": checksum}
    document = {"schemaVersion": 2, "fields": ["versionId", "lastModified", "size", "ETag"], "statistics": stated,
                "entries": tree.json()}
    folder = root / "zarr-manifest" / zarr[:3] / zarr[3:6] / zarr
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{checksum}.json", "w") as file:
        json.dump(document, file, separators=(",", ":"))
    return checksum


class Objects(BaseHTTPRequestHandler):
    """A web server whose objects have versions: `/zarr/{id}/{key}?versionId={version}`."""

    protocol_version = "HTTP/1.1"
    held = {}
    asked = []

    def do_GET(self):
        parsed = urllib.parse.urlparse(self.path)
        version = dict(urllib.parse.parse_qsl(parsed.query)).get("versionId")
        Objects.asked.append(self.path)
        data = self.held.get((urllib.parse.unquote(parsed.path), version))
        if data is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status, body = 200, data
        wanted = self.headers.get("Range")
        if wanted:
            first, last = wanted.removeprefix("bytes=").split("-")
            first, last = (int(first), int(last) if last else len(data) - 1) if first else (len(data) - int(last), len(data) - 1)
            last = min(last, len(data) - 1)
            status, body = 206, data[first:last + 1]
        self.send_response(status)
        self.send_header("ETag", f'"{md5(data)}"')
        self.send_header("x-amz-version-id", version)
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Zaro:
    """A running server."""

    def __init__(self, zaro, *args, stderr=None):
        command = [zaro, "serve", *map(str, args), "--bind", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        line = self.process.stdout.readline().strip()
        self.base = "/".join(line.split("/")[:3])
        # An archive has a second line: where its tree is.
        self.greeting = self.process.stdout.readline().strip()
        self.host = self.base.removeprefix("http://")

    def ask(self, target, method="GET", headers=None):
        """Status, headers and body; redirects are not followed."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, target, headers=headers or {})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, body

    def json(self, target):
        status, _, body = self.ask(target)
        return status, json.loads(body)

    def memory(self):
        """Resident now and at most, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines)
        return tuple(int(values[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


class Checks:
    """Counts what holds and what does not."""

    def __init__(self, verbose):
        self.passed, self.failed, self.verbose = 0, 0, verbose

    def __call__(self, what, found, wanted=True):
        if found == wanted:
            self.passed += 1
            if self.verbose:
                print(f"ok     {what}")
        else:
            self.failed += 1
            print(f"FAILED {what}: {str(found)[:300]!r}, not {str(wanted)[:300]!r}")


def versions_of(held, zarr, files, day):
    """Entries of a version whose objects the web server has."""
    for key, data in files.items():
        version = md5(f"{day} {key}".encode())
        held[f"/zarr/{zarr}/{key}", version] = data
        yield key, version, len(data), md5(data)


def check_tree(check, server, old, new):
    base = f"/zarrs/{SMALL[:3]}/{SMALL[3:6]}/{SMALL}"
    for target, wanted in [
        ("/zarrs/", 200), ("/zarrs/128/", 200), ("/zarrs/128/4a1/", 200), (f"{base}/", 200), (f"{base}/{new}.zarr/", 200),
        (f"{base}/{new}.zarr/x/", 200), (f"{base}/{new}.zarr/x", 301), (f"{base}/{new}.zarr", 301), ("/zarrs/128", 301),
        (f"{base}/{new}.json", 200), (f"{base}/{new}.zarr/x/7", 404), (f"{base}/{old}.zarr/x/1", 404),
        (f"{base}/{MILLION}.zarr/x", 404), (f"{base}/{new}", 404), ("/zarrs/000/", 404), ("/zarrs/128/4a1/nothing/", 404),
        ("/zarrs//128/", 400), ("/zarrs/../zarrs/", 400), (f"{base}/{new}.zarr/%2e%2e/x", 400),
    ]:
        check(f"GET {target}", server.ask(target)[0], wanted)
    for checksum, files in [(old, OLD), (new, NEW)]:
        for key, data in files.items():
            target = f"{base}/{checksum}.zarr/{urllib.parse.quote(key)}"
            version = md5(f"{'2024-01-01' if checksum == old else '2024-06-01'} {key}".encode())
            for method in ("GET", "HEAD"):
                status, headers, body = server.ask(target, method)
                place = urllib.parse.urlparse(headers.get("location", ""))
                found = (status, urllib.parse.unquote(place.path), place.query, body)
                check(f"{method} {target}", found, (307, f"/zarr/{SMALL}/{key}", f"versionId={version}", b""))
            status, headers, body = server.ask(target, headers={"Origin": "https://hms-dbmi.github.io"})
            found = (status, body, headers["etag"], "immutable" in headers["cache-control"])
            check(f"proxied {target}", found, (200, data, f'"{md5(data)}"', True))
            status, headers, body = server.ask(target, headers={"Sec-Fetch-Mode": "cors", "Range": "bytes=-2"})
            check(f"range of {target}", (status, body), (206, data[-2:]))
            status, _, _ = server.ask(target, headers={"Sec-Fetch-Mode": "cors", "If-None-Match": f'"{md5(data)}"'})
            check(f"304 {target}", status, 304)
    _, _, page = server.ask(f"{base}/?format=json")
    names = [row["name"] for row in json.loads(page)["entries"]]
    check("versions are listed", [n for n in names if n.endswith(".zarr")], sorted(f"{c}.zarr" for c in (old, new)))
    for name in (f"{SMALL}@{old}", f"{SMALL}@{new}", f"{SMALL}@2024-02-01", SMALL):
        wanted = OLD if name.endswith((old, "02-01")) else NEW
        for key in ("x/0", ".zattrs", "x/1"):
            status, _, body = server.ask(f"/data/{name}/{key}")
            check(f"/data/{name}/{key}", (status, body) if key in wanted else status, (200, wanted[key]) if key in wanted else 404)
    check("no version yet", server.ask(f"/data/{SMALL}@2023-01-01/.zgroup")[0], 404)


def check_api(check, server, old, new):
    status, page = server.json("/api/zarr/?page_size=2")
    check("zarrs", (status, page["count"], len(page["results"])), (200, 3, 2))
    status, page = server.json(f"/api/zarr/{SMALL}/versions/")
    check("versions", [(v["version_id"], v["latest"]) for v in page["results"]], [(new, True), (old, False)])
    base = f"/api/zarr/{SMALL}/versions/{new}/files/"
    status, page = server.json(base)
    check("files", [f["Key"] for f in page["results"]], sorted(NEW))
    check("a time has a space", page["results"][0]["LastModified"], "2024-06-01 12:00:00+00:00")
    check("download", server.ask(f"{base}?prefix=x/0&download=true")[0], 302)
    status, page = server.json(f"/api/zarr/{SMALL}/versions/{old}/diff/{new}/")
    check("diff", [(r["Change"], r["Key"]) for r in page["results"]], [("changed", ".zattrs"), ("added", "x/1")])
    status, headers, _ = server.ask(f"/api/zarr/{SMALL}/at/2024-02-01/")
    check("at", (status, headers["location"].endswith(f"/versions/{old}/")), (302, True))
    status, headers, body = server.ask("/api/zarr/", "POST")
    check("405", (status, json.loads(body)), (405, {"detail": 'Method "POST" not allowed.'}))
    check("301", server.ask("/api/zarr")[0], 301)


def check_pages(check, server, checksum, count):
    """Every file of the large version, page by page."""
    began, seen, last = time.perf_counter(), 0, ""
    target = f"/api/zarr/{BIG}/versions/{checksum}/files/"
    while target:
        _, page = server.json(target)
        keys = [f["Key"] for f in page["results"]]
        if keys != sorted(keys) or keys[0] <= last:
            break
        seen, last, target = seen + len(keys), keys[-1], page["next"]
    took = time.perf_counter() - began
    check("all files, page by page", seen, count)
    print(f"figure  {count} files in pages of 1000: {took:.1f} s, {took * 1e6 / count:.0f} us a file")


def check_diff(check, server, before, after, count):
    """Every difference of two large versions, page by page: every third entry has other bytes."""
    target, seen, times = f"/api/zarr/{BIG}/versions/{before}/diff/{after}/?page_size=1000", [], []
    while target:
        began = time.perf_counter()
        _, page = server.json(target)
        times.append(time.perf_counter() - began)
        seen += [(row["Key"], row["Change"]) for row in page["results"]]
        target = page["next"]
    wanted = {(f"0/{i // 10000}/{i // 100 % 100}/{i % 100}", "changed") for i in range(0, count, 3)}
    check("all differences, each once", (len(seen), set(seen) == wanted), (len(wanted), True))
    rest = statistics.median(times[1:]) if times[1:] else 0
    print(f"figure  {len(seen)} differences of two versions of {count} entries: first page {times[0]:.2f} s, others {rest * 1e3:.1f} ms each, "
          f"all {sum(times):.1f} s")
    check("later pages are looked up", rest < 0.5)


def median_of(server, targets, status):
    """The median time of a request on one connection, in microseconds, and how many a second."""
    connection = http.client.HTTPConnection(server.host, timeout=60)
    times = []
    for target in targets:
        began = time.perf_counter()
        connection.request("GET", target)
        response = connection.getresponse()
        response.read()
        times.append(time.perf_counter() - began)
        if response.status != status:
            raise SystemExit(f"{target}: {response.status}")
    connection.close()
    return statistics.median(times) * 1e6, len(times) / sum(times)


def check_large(check, server, checksum, changed, flat, small, count):
    base = f"/zarrs/{BIG[:3]}/{BIG[3:6]}/{BIG}/{checksum}.zarr"
    entry = f"{base}/0/0/0/0"
    before = server.memory()
    began = time.perf_counter()
    check("the first hit", server.ask(entry)[0], 307)
    print(f"figure  first request to a manifest of {count} entries: {time.perf_counter() - began:.2f} s")
    numbers = [(i * 7919) % count for i in range(3000)]
    large = median_of(server, [f"{base}/0/{i // 10000}/{i // 100 % 100}/{i % 100}" for i in numbers], 307)
    tiny = median_of(server, [f"/zarrs/128/4a1/{SMALL}/{small}.zarr/x/0"] * 3000, 307)
    print(f"figure  warm hits, one connection: {large[1]:.0f} a second, median {large[0]:.0f} us "
          f"(manifest of {len(NEW)} entries: {tiny[0]:.0f} us)")
    check("a hit does not cost more with more entries", large[0] < 3 * tiny[0] + 500)
    connection = http.client.HTTPConnection(server.host, timeout=120)
    target = f"/zarrs/{FLAT[:3]}/{FLAT[3:6]}/{FLAT}/{flat}.zarr/d/"
    server.ask(f"{target}0")
    for kind, accept in (("page", "text/html"), ("JSON", "application/json")):
        began = time.perf_counter()
        connection.request("GET", target, headers={"Accept": accept})
        response = connection.getresponse()
        first = response.read(1)
        took_first = time.perf_counter() - began
        text = first + response.read()
        # A page has all rows, and the way up; JSON comes a thousand at a time.
        rows = text.count(b"<a href=") - 1 if kind == "page" else len(json.loads(text)["entries"])
        check(f"rows of a {kind}", rows, min(count, ROWS) if kind == "page" else 1000)
        print(f"figure  folder of {rows} rows as {kind}: first byte after {took_first * 1e3:.0f} ms, "
              f"all {len(text) / 1e6:.1f} MB after {time.perf_counter() - began:.2f} s")
    check_pages(check, server, checksum, count)
    check_diff(check, server, checksum, changed, count)
    now, most = server.memory()
    print(f"figure  resident: {before[0]} MB before, {now} MB now, {most} MB at most")
    check("memory is bounded", most < 250 + 260 * count / 1e6)


def run_schemathesis(check, server, examples, folder, old, new):
    if importlib.util.find_spec("schemathesis") is None:
        print("left out: schemathesis is not installed")
        return
    tool = Path(sys.executable).parent / "schemathesis"
    known = {"zarr_id": SMALL, "version_id": old, "other_version_id": new, "time": "2024-03-01"}
    for name, parameters in (("anything", {}), ("what there is", known)):
        config = Path(folder) / "schemathesis.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in parameters.items()]
        config.write_text("\n".join(["[parameters]", *lines]) if lines else "")
        checks = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
                  "response_headers_conformance", "response_schema_conformance", "unsupported_method"]
        command = [tool, "--no-color", "--config-file", config, "run", f"{server.base}/api/openapi.json", "--checks", ",".join(checks),
                   "--max-examples", str(examples), "--phases", "examples,coverage,fuzzing", "--seed", "1"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder)
        check(f"schemathesis, {name}", done.returncode, 0)
        lines = done.stdout.splitlines()
        if done.returncode:
            print("\n".join(lines[-60:]), done.stderr[-2000:])
        else:
            print("        " + "\n        ".join(line.strip() for line in lines[-12:] if line.strip()))


def check_zarr_python(check, server, old, new):
    if importlib.util.find_spec("zarr") is None or importlib.util.find_spec("fsspec") is None:
        print("left out: zarr-python is not installed")
        return
    import zarr

    for checksum, wanted in ((old, [1, 2, 3, 0, 0]), (new, [1, 2, 3, 4, 5])):
        group = zarr.open_group(f"{server.base}/zarrs/128/4a1/{SMALL}/{checksum}.zarr/", mode="r", zarr_format=2)
        found = (group["x"][:].tolist(), dict(group.attrs))
        check(f"zarr-python reads {checksum}", found, (wanted, {"a": 0 if checksum == old else 1}))


def main():
    p = common.parser(__doc__)
    p.add_argument("--entries", type=int, default=100_000, help="entries of the large manifest")
    p.add_argument("--examples", type=int, default=25, help="requests of schemathesis for each operation")
    args = p.parse_args()
    zaro, check = common.find_zaro(args.zaro), Checks(args.verbose)
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    objects = ThreadingHTTPServer(("127.0.0.1", 0), Objects)
    threading.Thread(target=objects.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "archive"
        old = write_manifest(root, SMALL, versions_of(Objects.held, SMALL, OLD, "2024-01-01"), "2024-01-01")
        new = write_manifest(root, SMALL, versions_of(Objects.held, SMALL, NEW, "2024-06-01"), "2024-06-01")
        leaves = ((f"0/{i // 10000}/{i // 100 % 100}/{i % 100}", md5(b"%d" % i), i % 1000, md5(b"%d" % i))
                  for i in range(args.entries))
        big = write_manifest(root, BIG, leaves, "2024-01-01")
        leaves = ((f"0/{i // 10000}/{i // 100 % 100}/{i % 100}", md5(b"%d" % i), i % 1000, md5(b"%d" % (i + (i % 3 == 0) * args.entries)))
                  for i in range(args.entries))
        changed = write_manifest(root, BIG, leaves, "2023-12-01")
        if args.entries == 1_000_000:
            check("the checksum of a million leaves", big, MILLION)
        rows = ((f"d/{i}", md5(b"%d" % i), i, md5(b"%d" % i)) for i in range(min(args.entries, ROWS)))
        flat = write_manifest(root, FLAT, rows, "2024-01-01")
        port = objects.server_address[1]
        server = Zaro(zaro, f"arch={root}", "--objects", f"http://127.0.0.1:{port}/zarr", "--redirect")
        try:
            check("the greeting names the tree", server.greeting.endswith("/zarrs/"))
            check_tree(check, server, old, new)
            check_api(check, server, old, new)
            check_zarr_python(check, server, old, new)
            check_large(check, server, big, changed, flat, new, args.entries)
            run_schemathesis(check, server, args.examples, folder, old, new)
        finally:
            server.stop()
    print(f"{check.passed} passed, {check.failed} failed")
    sys.exit(bool(check.failed))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Folders over HTTP: what real clients make of the pages, the JSON and the WebDAV of `zaro serve`.

    serve_listing.py [--rows N] [-v]

A small tree with odd names is served, and each client must see the same set of names and the same bytes: fsspec, zarr,
rclone (`http:` and `webdav:`), obstore, cadaver, GDAL's /vsicurl/, litmus (six tests, through a shim), and zaro itself.
Then a version, whose MD5s rclone compares without moving a byte, and a folder of many rows, whose first byte must come at
once and which must not take memory. A client that is missing is a failure: nothing is passed over in silence.
"""

import ctypes
import glob
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import common

# What trips up those who write, read, encode or decode names.
ODD = ["with space", "hash#tag", "what?q=1", "per%cent", "per%41", "am&p", "am&amp;p", "<tag>", 'quo"te', "apos'trophe",
       "plus+plus", "semi;colon", "co:lon", "at@at", "eq=ual", "com,ma", "br[ack]et", "cur{ly}", "tilde~", "car^et",
       "dollar$", "ex!cl", "star*", "par(en)", "ünïcödé", "日本語", "emoji😀", "dot.ted", ".hidden", "..twodots", "-dash"]
FOLDERS = ["c", "sub folder", "sub#folder", "sub%20folder", "ünter"]
TIMEOUT = 60


def make_tree(root):
    """Writes the tree; its files as {key: bytes}."""
    files = {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}',
             "array/zarr.json": json.dumps({
                 "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0,
                 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
                 "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                 "codecs": [{"name": "bytes"}]}).encode(),
             "array/c/0": b"\x01\x02", "array/c/1": b"\x03\x04", "empty": b""}
    for at, name in enumerate(ODD):
        files[f"odd/{name}"] = f"{at} {name}".encode()
    for folder in FOLDERS:
        files[f"{folder}/0"] = folder.encode()
        files[f"{folder}/deep er/1"] = b"deep"
    for key, data in files.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


class Server:
    """`zaro serve` on a free port."""

    def __init__(self, zaro, *args):
        argv = [zaro, "serve", *map(str, args), "--bind", "127.0.0.1:0"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline().strip()
        if not self.first.startswith("http"):
            raise SystemExit(f"the server did not start: {self.first!r}")
        self.url = "/".join(self.first.split("/")[:3])
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def memory(self):
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def levels(files):
    """{folder: {names of files, names of folders with a slash}}."""
    out = {}
    for key in files:
        parts = key.split("/")
        for depth in range(len(parts)):
            name = parts[depth] + ("/" if depth + 1 < len(parts) else "")
            out.setdefault("/".join(parts[:depth]), set()).add(name)
    return out


def quoted(key):
    return urllib.parse.quote(key, safe="/")


def quoted_all(name):
    """As the server encodes a name: all but letters, digits and `-._~`."""
    return urllib.parse.quote(name, safe="")


def run(argv, **more):
    env = dict(os.environ, RCLONE_CONFIG="/dev/null", HOME=more.pop("home", os.environ.get("HOME", "/")), LC_ALL="C.UTF-8")
    return subprocess.run([str(a) for a in argv], capture_output=True, timeout=TIMEOUT, env=env, **more)


def tell(tally, label, got, want):
    """One comparison of sets or values."""
    if got == want:
        return tally.ok(label)
    if isinstance(want, (set, dict)) and isinstance(got, type(want)):
        lost, extra = sorted(set(want) - set(got)), sorted(set(got) - set(want))
        why = f"lost {lost[:5]}, extra {extra[:5]}" if lost or extra else "other contents"
    else:
        why = f"got {got!r:.300}, want {want!r:.300}"
    tally.fail(label, why)


def fsspec_http(tally, base, files):
    import fsspec

    fs = fsspec.filesystem("http")
    below = lambda url: urllib.parse.unquote(url[len(base):])
    for folder, names in levels(files).items():
        url = base + quoted(folder + "/" if folder else "")
        start = folder + "/" if folder else ""
        got = {below(u)[len(start):] for u in fs.ls(url, detail=False)}
        tell(tally, f"fsspec ls /{folder}", got, names)
    found = fs.find(base)
    tell(tally, "fsspec find", {below(u) for u in found}, set(files))
    tell(tally, "fsspec cat", {below(u): fs.cat_file(u) for u in found}, files)


def zarr_python(tally, base):
    import zarr

    group = zarr.open_group(base.rstrip("/"), mode="r")
    with warnings.catch_warnings(action="ignore"):  # of what is no node
        members = sorted(name.rstrip("/") for name, _ in group.members())
    tell(tally, "zarr-python members over fsspec", members, ["array"])
    tell(tally, "zarr-python values over fsspec", group["array"][:].tolist(), [1, 2, 3, 4])


def rclone(tally, base, files, root, work):
    kinds = {"http": [":http:", "--http-url", base],
             "webdav": [":webdav:", "--webdav-url", base, "--webdav-vendor", "other"]}
    for kind, (remote, *options) in kinds.items():
        done = run(["rclone", "lsf", "-R", "--files-only", remote, *options])
        tell(tally, f"rclone {kind} lsf -R", set(done.stdout.decode().splitlines()), set(files))
        # Sizes of the names as rclone has them.
        done = run(["rclone", "lsjson", "-R", "--files-only", remote, *options])
        sizes = {e["Path"]: e["Size"] for e in json.loads(done.stdout or b"[]")}
        tell(tally, f"rclone {kind} sizes", sizes, {key: len(data) for key, data in files.items()})
        copy = work / f"copy-{kind}"
        done = run(["rclone", "copy", remote, copy, *options])
        got = {str(p.relative_to(copy)): p.read_bytes() for p in copy.rglob("*") if p.is_file()}
        tell(tally, f"rclone {kind} copy", got, files)
        done = run(["rclone", "check", root, remote, "--download", *options])
        tell(tally, f"rclone {kind} check", done.returncode, 0)
        if done.returncode:
            print(done.stderr.decode()[-600:])


def obstore_http(tally, url, files):
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(url, client_options={"allow_http": True})
    plain = lambda path: urllib.parse.unquote(path)
    found = {plain(o["path"]): o["size"] for page in store.list() for o in page}
    # obstore shows names in its own encoding, so that `per%41` and `perA` look alike once decoded.
    want = {plain(key): len(data) for key, data in files.items()}
    tell(tally, "obstore list", found, want)
    for folder in ["", "array", "c"]:
        got = store.list_with_delimiter(folder or None)
        names = {o["path"].split("/")[-1] for o in got["objects"]}
        names |= {p.rstrip("/").split("/")[-1] + "/" for p in got["common_prefixes"]}
        tell(tally, f"obstore list_with_delimiter /{folder}", {plain(n) for n in names},
             {plain(n) for n in levels(files)[folder]})
    tell(tally, "obstore get", bytes(store.get("array/c/0").bytes()), files["array/c/0"])


def cadaver(tally, base, files, work):
    target = work / "cadaver-zarr.json"
    script = f"ls\nget zarr.json {target}\ncd odd\nls\npropnames dot.ted\nquit\n"
    done = run(["cadaver", base], input=script.encode(), home=work)
    out = done.stdout.decode("utf-8", "replace")
    listed = [name for name in ["array", "odd", "zarr.json", "dot.ted", "plus+plus", "tilde~"] if name in out]
    tell(tally, "cadaver ls", listed, ["array", "odd", "zarr.json", "dot.ted", "plus+plus", "tilde~"])
    tell(tally, "cadaver get", target.exists() and target.read_bytes(), files["zarr.json"])
    tell(tally, "cadaver propnames", "getcontentlength" in out, True)


def gdal(tally, base, files):
    """VSIReadDir of the library that rasterio brings."""
    import rasterio

    places = Path(rasterio.__file__).parent.parent
    found = glob.glob(str(places / "rasterio.libs" / "libgdal-*"))
    if not found:
        return tally.fail("GDAL /vsicurl/", "rasterio has no libgdal beside it")
    lib = ctypes.CDLL(found[0])
    lib.VSIReadDir.restype = ctypes.POINTER(ctypes.c_char_p)
    lib.VSIReadDir.argtypes = [ctypes.c_char_p]
    for folder in ["", "array", "array/c", "odd"]:
        url = base + quoted(folder)
        listed = lib.VSIReadDir(f"/vsicurl/{url.rstrip('/')}".encode())
        got = set()
        for at in range(10_000):
            if not listed or listed[at] is None:
                break
            got.add(listed[at].decode())
        names = {name.rstrip("/") for name in levels(files)[folder]}
        # GDAL keeps names as the page has them, encoded: it appends them to the address.
        tell(tally, f"GDAL /vsicurl/ /{folder}", got - {".", ".."}, {quoted_all(name) for name in names})


def zaro_itself(tally, zaro, base, files):
    done = run([zaro, "list", base.rstrip("/")])
    tell(tally, "zaro list of zaro serve", (done.returncode, b"array" in done.stdout), (0, True))


class Shim(http.server.BaseHTTPRequestHandler):
    """In front of the server for litmus, which wants to make a folder before anything else: says that it did, and sends
    the rest to a folder that is there."""

    protocol_version = "HTTP/1.1"
    target = None  # (port, path)

    def relay(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        if self.command == "MKCOL":
            return self.plain(201)
        if self.command == "DELETE":
            return self.plain(404)
        port, path = self.target
        there = re.sub(r"^/litmus/?", path, self.path) if self.path.startswith("/litmus") else self.path
        backend = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "expect", "te")}
        headers["Host"] = f"127.0.0.1:{port}"
        backend.request(self.command, there, body, headers)
        answer = backend.getresponse()
        data = answer.read().replace(path.encode(), b"/litmus/")
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def plain(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_OPTIONS = do_PROPFIND = do_PROPPATCH = do_MKCOL = do_DELETE = do_LOCK = relay
    do_UNLOCK = do_COPY = do_MOVE = do_POST = relay

    def log_message(self, *_):
        pass


# Those of a server that cannot be written to; the others fail at their first write.
LITMUS = {"basic": ["options"], "props": ["propfind_invalid", "propfind_invalid2", "propfind_d0", "propextended"],
          "http": ["expect100"]}


def litmus(tally, port, work):
    Shim.target = (port, "/data/tree/")
    shim = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shim)
    # litmus leaves in the middle of answers it does not like.
    shim.handle_error = lambda *_: None
    threading.Thread(target=shim.serve_forever, daemon=True).start()
    base = Path("/usr/libexec/litmus")
    if not base.exists():
        base = Path(shutil.which("litmus")).resolve().parent.parent / "libexec" / "litmus"
    share = base.parent.parent / "share" / "litmus" / "htdocs"
    for suite, tests in LITMUS.items():
        done = run([base / suite, "--htdocs", share, f"http://127.0.0.1:{shim.server_port}/"], cwd=work)
        out = done.stdout.decode("utf-8", "replace")
        for test in tests:
            # A test with warnings has a line for each, and its verdict on the last.
            verdict = re.search(rf"\b{test}\.+ (pass|FAIL|SKIPPED|(?:WARNING: .*\s+)+\.+ \w+)", out.replace("\r", "\n"))
            good = verdict and verdict[1].split()[-1] == "pass"
            tell(tally, f"litmus {suite} {test}", bool(good) or f"{verdict and verdict[0]!r} of {out[-300:]!r}", True)
    shim.shutdown()


def version(tally, zaro, root, files, work):
    """A version by its manifest: rclone compares MD5s that PROPFIND tells, and no byte is moved."""
    checksum = common.checksum_of({key: (len(data), common.md5(data)) for key, data in files.items()})
    name = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d"
    archive = work / "archive"
    shutil.copytree(root, archive / "zarr" / name)

    tree = {}
    for key, data in files.items():
        *folders, last = key.split("/")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = ["2024-05-01T12:00:00+00:00", len(data), common.md5(data)]
    # Files have no versions: sizes and digests tell.
    manifest = {"schemaVersion": 2, "fields": ["lastModified", "size", "ETag"], "statistics": {
        "entries": len(files), "depth": 3, "totalSize": sum(map(len, files.values())),
        "lastModified": "2024-05-01T12:00:00+00:00", "zarrChecksum": checksum}, "entries": tree}
    folder = archive / "zarr-manifest" / name[:3] / name[3:6] / name
    folder.mkdir(parents=True)
    (folder / f"{checksum}.json").write_text(json.dumps(manifest))
    with Server(zaro, f"brain={archive / 'zarr' / name}") as server:
        base = f"{server.url}/data/brain@{checksum}/"
        options = ["--webdav-url", base, "--webdav-vendor", "owncloud"]
        done = run(["rclone", "hashsum", "MD5", ":webdav:", *options])
        got = {line[34:]: line[:32] for line in done.stdout.decode().splitlines()}
        tell(tally, "rclone hashsum MD5 of a version", got, {key: common.md5(data) for key, data in files.items()})
        if not got:
            print(done.stderr.decode()[-600:])
        done = run(["rclone", "check", root, ":webdav:", "-v", *options])
        told = done.stderr.decode()
        tell(tally, "rclone check of a version by MD5", (done.returncode, "0 differences found" in told), (0, True))
        tell(tally, "rclone had every MD5", "could not be checked" in told, False)
        found = ET.fromstring(propfind(server.port, urllib.parse.urlsplit(base).path, "1"))
        dates = {date.text for date in found.iter("{DAV:}getlastmodified")}
        tell(tally, "dates of a version", dates, {"Wed, 01 May 2024 12:00:00 GMT"})


def propfind(port, path, depth):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("PROPFIND", path, headers={"Depth": depth})
    answer = connection.getresponse()
    return answer.read()


def many_rows(tally, zaro, rows, work):
    """A folder of many rows: quick to begin, short, complete, and no larger in memory than a small one."""
    root = work / "many.zarr"
    (root / "c").mkdir(parents=True)
    (root / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for at in range(rows):
        (root / "c" / f"{at // 1000}.{at % 1000}.0").touch()
    with Server(zaro, f"many={root}") as server:
        def fetch(path, method="GET", headers={}):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
            began = time.monotonic()
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            first = answer.read(1)
            waited = time.monotonic() - began
            size, data = 1, first
            while piece := answer.read(1 << 16):
                size += len(piece)
                data = data[-200:] + piece if method != "GET" else data + piece
            return answer.status, waited, size, data

        fetch("/data/many/")
        before = server.memory()
        status, _, size, data = fetch("/data/many/c/")
        # Others may be at work on this machine, too: the quickest of five tells what the server does, and beside it how
        # long a plain reading and sorting of the folder takes just then.
        times, plain = [], []
        for _ in range(5):
            times.append(fetch("/data/many/c/")[1])
            began = time.monotonic()
            sorted(entry.name for entry in os.scandir(root / "c"))
            plain.append(time.monotonic() - began)
        tell(tally, "many rows: all of them", (status, data.count(b"<a href=") - 1), (200, rows))
        tell(tally, "many rows: at most 120 bytes each", size / rows <= 120 or size / rows, True)
        # A folder on disk is read as a whole before its first name in order is known.
        allowed = max(0.1, 1.5 * min(plain))
        tell(tally, "many rows: first byte within 100 ms", min(times) < allowed or times, True)
        status, _, size, data = fetch("/data/many/", "PROPFIND", {"Depth": "infinity"})
        tell(tally, "many rows: PROPFIND of all", (status, data.endswith(b"</D:multistatus>\n")), (207, True))
        grown = server.memory() - before
        # The names of one folder are sorted in memory: some 60 bytes each.
        limit = (16 << 20) + rows * 200
        tell(tally, "many rows: flat memory", grown < limit or grown, True)
        print(f"      {rows} rows: first byte after {min(times) * 1000:.0f} ms (reading and sorting the folder alone: "
              f"{min(plain) * 1000:.0f} ms), {grown >> 20} MiB more memory")


def own_form(tally, port, files):
    """The rules of the page that programs rely on, and PROPFIND as a strict parser takes it."""
    for folder, names in levels(files).items():
        path = f"/data/tree/{quoted(folder)}{'/' if folder else ''}"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        connection.request("GET", path)
        page = connection.getresponse().read().decode()
        hrefs = re.findall(r'<a href="([^"]*)">', page)
        tell(tally, f"page of /{folder}", {urllib.parse.unquote(h) for h in hrefs} - {"../"}, names)
        good = (f"\n<title>Index of {path}</title>\n" in page and page.count("<table") == 1 and "://" not in page
                and all(line.count("<a ") <= 1 for line in page.splitlines()))
        tell(tally, f"form of the page of /{folder}", good, True)
        found = ET.fromstring(propfind(port, path, "1"))
        hrefs = {urllib.parse.unquote(r.find("{DAV:}href").text)[len(urllib.parse.unquote(path)):]
                 for r in found.findall("{DAV:}response")}
        tell(tally, f"PROPFIND of /{folder}", hrefs - {""}, names)
        each = [(len(r.findall("{DAV:}propstat")), len(r.findall(".//{DAV:}getlastmodified")))
                for r in found.findall("{DAV:}response")]
        tell(tally, f"one propstat and date each in /{folder}", set(each), {(1, 1)})


def main():
    p = common.parser(__doc__)
    p.add_argument("--rows", type=int, default=100_000, help="rows of the large folder")
    args = p.parse_args()
    zaro = common.find_zaro(args.zaro)
    tally = common.Tally("serve_listing", args.verbose)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        root = work / "tree.zarr"
        files = make_tree(root)

        def client(label, needs, check, *rest):
            missing = [tool for tool in needs if not shutil.which(tool)]
            if missing:
                return tally.fail(label, f"NOT RUN: {', '.join(missing)} is not installed")
            try:
                check(tally, *rest)
            except ImportError as e:
                tally.fail(label, f"NOT RUN: {e}")
            except Exception as e:  # one client's end is not the others'
                tally.fail(label, f"{type(e).__name__}: {e}"[:500])

        with Server(zaro, f"tree={root}") as server:
            base = f"{server.url}/data/tree/"
            client("the form", [], own_form, server.port, files)
            client("fsspec", [], fsspec_http, base, files)
            client("zarr-python", [], zarr_python, base)
            client("rclone", ["rclone"], rclone, base, files, root, work)
            client("cadaver", ["cadaver"], cadaver, base, files, work)
            client("GDAL", [], gdal, base, files)
            client("litmus", ["litmus"], litmus, server.port, work)
            client("zaro", [], lambda t: zaro_itself(t, zaro, base, files))
        with Server(zaro, f"tree={root}", "--bare") as server:
            client("obstore", [], obstore_http, server.url + "/", files)
        client("versions", ["rclone"], version, zaro, root, files, work)
        client("many rows", [], many_rows, zaro, args.rows, work)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

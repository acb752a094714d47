"""An archive in a real bucket, served: what its tags hide, and what signed redirects give away.

Zarrs are put into a versioned bucket, some of them with the tag `embargoed=true`, on their objects, their manifests or
both. `zaro serve` reads the bucket through a small proxy, which can refuse or fail requests for tags, and be slow.

    . target/servers/run/env && python conformance/serve_embargo.py [--server seaweed|ceph]

* Every route, with no, a bad and the right credential: what is hidden answers exactly as what does not exist, in no
  listing and no count, and takes as long.
* Tags that cannot be read hide everything; a bucket that fails is an error for every name alike.
* The end of an embargo, and a new one, are noticed.
* A signed address gives one version of one object, with one method, for a short time.
"""

import http.client
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import common
from s3 import S3
from serve_archive import NEW, OLD, Checks, Tree, Zaro, md5

BUCKET = "versioned"
TAG = {"x-amz-tagging": "embargoed=true"}
TTL = 1
RIGHT, WRONG = "right-right-right-right", "wrong-wrong-wrong-wrong"


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on to the bucket; those for tags as `mode` says, all of them after `delay` seconds."""

    protocol_version = "HTTP/1.1"
    to, mode, delay, asked = "", "pass", 0.0, 0

    def do_GET(self):
        Proxy.asked += 1
        time.sleep(Proxy.delay)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_tags = "tagging" in urllib.parse.urlparse(self.path).query
        if is_tags and Proxy.mode != "pass":
            return self.answer(403 if Proxy.mode == "refuse" else 500, {}, b"<Error><Code>AccessDenied</Code></Error>")
        connection = http.client.HTTPConnection(Proxy.to, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        data = answer.read()
        self.answer(answer.status, dict(answer.getheaders()), data)
        connection.close()

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET

    def answer(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


class Archive:
    """An archive below a prefix of the bucket."""

    def __init__(self, s3):
        self.s3, self.root = s3, f"embargo-{uuid.uuid4()}"

    @property
    def uri(self):
        return f"s3://{BUCKET}/{self.root}"

    def put_version(self, zarr, files, day, objects=None, manifest=None):
        """Puts objects and their manifest, with these headers; the checksum."""
        tree = Tree()
        for key, data in files.items():
            version, etag = self.s3.put(BUCKET, f"{self.root}/zarr/{zarr}/{key}", data, objects)
            tree.add(key, (version, f"{day}T12:00:00+00:00", len(data), etag))
        checksum, count, size = tree.digest()
        stated = {"entries": count, "depth": 2, "totalSize": size, "lastModified": f"{day}T12:00:00+00:00",
                  "zarrChecksum": checksum}
        document = {"fields": ["versionId", "lastModified", "size", "ETag"], "statistics": stated, "entries": tree.json()}
        key = f"{self.root}/zarr-manifest/{zarr[:3]}/{zarr[3:6]}/{zarr}/{checksum}.json"
        self.s3.put(BUCKET, key, json.dumps(document).encode(), manifest)
        return checksum

    def tag(self, key):
        body = b"<Tagging><TagSet><Tag><Key>embargoed</Key><Value>true</Value></Tag></TagSet></Tagging>"
        self.s3.ok("PUT", BUCKET, f"{self.root}/{key}", {"tagging": ""}, body)


def routes(zarr, old, new):
    """Every route that can name a Zarr."""
    tree = f"/zarrs/{zarr[:3]}/{zarr[3:6]}/{zarr}"
    api = f"/api/zarr/{zarr}"
    for name in (zarr, f"{zarr}@{old}", f"{zarr}@{new}", f"{zarr}@2024-03-01"):
        for key in (".zgroup", "x/0", "x/", "", "nothing"):
            yield f"/data/{name}/{key}"
        for view in ("consolidated/{}/.zmetadata", "v3/{}/zarr.json", "v3/{}/"):
            yield "/as/" + view.format(name)
        for tail in (f"meta/{name}/x", f"tile/{name}/x/0/0_0.bin", f"tile/{name}/x/0/0_0.png", f"region/{name}/x?format=npy",
                     f"thumb/{name}/x", f"value/{name}/x?isel=0:0", f"series/{name}/x", f"histogram/{name}/x",
                     f"iiif/{name}%2Fx/info.json", f"dzi/{name}%2Fx.dzi", f"xyz/{name}/x/tilejson.json",
                     f"xyz/{name}/x/0/0/0.png"):
            yield f"/{tail}"
    for checksum in (old, new):
        for key in ("", "/", "/x/", "/x", "/x/0", "/.zattrs", "/nothing"):
            yield f"{tree}/{checksum}.zarr{key}"
        yield f"{tree}/{checksum}.json"
        for tail in ("", "files/", "files/?prefix=x", "files/?prefix=x/0&download=true", f"diff/{new}/"):
            yield f"{api}/versions/{checksum}/{tail}"
    yield from (tree, f"{tree}/", f"{api}/", f"{api}/files/", f"{api}/versions/", f"{api}/at/2024-03-01/", f"/api/zarr/?name={zarr}")


def seen(server, target, method="GET", token=None, **headers):
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if method == "PROPFIND":
        headers["Depth"] = "1"
    return server.ask(target, method, headers)


def told(answer, zarr):
    """What an answer tells, apart from the name that was asked for and the time."""
    status, headers, body = answer
    headers = {k: v.replace(zarr, "ID") for k, v in headers.items() if k not in ("date", "server-timing")}
    return status, headers, re.sub(rb"\s+", b" ", body).replace(zarr.encode(), b"ID")


def check_matrix(check, server, open_zarr, hidden, versions):
    absent = hidden[0][:-4] + "ffff"
    for zarr in hidden:
        for target, other, public in zip(routes(zarr, *versions), routes(absent, *versions), routes(open_zarr, *versions), strict=True):
            methods = ["GET", "HEAD"] + (["PROPFIND"] if target.startswith(("/data/", "/zarrs/", "/as/")) else [])
            for method in methods:
                wanted = told(seen(server, other, method), absent)
                found = told(seen(server, target, method), zarr)
                check(f"{method} {target} without a credential", found, wanted)
                check(f"{method} {target} is not there", found[0], 200 if "?name=" in target else 404)
                check(f"{method} {target} with a bad one", seen(server, target, method, WRONG)[0], 401)
                status, headers, _ = seen(server, target, method, RIGHT)
                check(f"{method} {target} with the right one", status, seen(server, public, method)[0])
                kept = headers.get("cache-control", "private")
                check(f"{method} {target} is for one client", "public" not in kept and ("private" in kept or status >= 400 or "?name=" in target))
    names = {zarr for zarr in hidden} | {zarr[:3] for zarr in hidden} | {zarr[3:6] for zarr in hidden} | {"secret-name"}
    folders = ["/zarrs/"] + [f"/zarrs/{zarr[:3]}/" for zarr in hidden] + [f"/zarrs/{zarr[:3]}/{zarr[3:6]}/" for zarr in hidden]
    for target in ["/", "/data/", "/api/zarr/", "/metrics", "/robots.txt", "/api/openapi.json", *folders]:
        for method in ("GET", "PROPFIND") if target.startswith(("/data/", "/zarrs/")) else ("GET",):
            status, _, body = seen(server, target, method)
            # The answer to a folder may name the folder, which the client named first.
            text = body.decode().replace(target, "")
            check(f"{method} {target} names nothing hidden", [n for n in names if f"{n}/" in text or f'"{n}' in text], [])
            check(f"{method} {target}", status, 404 if target in folders[1:] else 207 if method == "PROPFIND" else 200)
    check("count", json.loads(seen(server, "/api/zarr/")[2])["count"], 1)
    check("count with the right credential", json.loads(seen(server, "/api/zarr/", token=RIGHT)[2])["count"], 1 + len(hidden))
    page = seen(server, "/zarrs/", token=RIGHT)[2].decode()
    check("folders with the right credential", all(f'"{zarr[:3]}/"' in page for zarr in hidden))
    check("a named source is hidden", (seen(server, "/data/secret-name/.zgroup")[0], seen(server, "/data/secret-name/.zgroup", token=RIGHT)[0]), (404, 200))


def check_timing(check, server, zarr):
    """With a slow bucket, a first look at what is hidden takes as long as one at what is not there."""
    Proxy.delay, times = 0.04, {"hidden": [], "absent": []}
    absent = zarr[:-4] + uuid.uuid4().hex[:4]
    for _ in range(3):
        # Until nothing is known of either: names of versions are known for two seconds.
        time.sleep(max(TTL, 2) + 0.3)
        for kind, name in (("hidden", zarr), ("absent", absent)):
            for target in (f"/data/{name}/.zgroup", f"/data/{name}/.zgroup"):
                began = time.perf_counter()
                check(f"{kind} is not there", seen(server, target)[0], 404)
                times[kind].append(time.perf_counter() - began)
    Proxy.delay = 0.0
    for number, what in ((0, "first"), (1, "next")):
        hidden, absent = (statistics.median(times[kind][number::2]) for kind in ("hidden", "absent"))
        print(f"figure  {what} request, each to the bucket 40 ms slower: hidden {hidden * 1e3:.0f} ms, absent {absent * 1e3:.0f} ms")
        check(f"the {what} request does not tell by its time", abs(hidden - absent) < 0.03)


def check_failures(check, server, open_zarr, zarr):
    absent = zarr[:-4] + "eeee"
    everyone = (open_zarr, zarr, absent)
    Proxy.mode = "refuse"
    time.sleep(TTL + 0.2)
    check("unreadable tags hide all", [seen(server, f"/data/{name}/.zgroup")[0] for name in everyone], [404] * 3)
    check("in lists, too", seen(server, f"/data/{open_zarr}/.zgroup", token=RIGHT)[0], 200)
    Proxy.mode = "fail"
    time.sleep(TTL + 0.2)
    answers = [told(seen(server, f"/data/{name}/.zgroup"), name) for name in everyone]
    check("a failure is the same for all names", answers[0][0] in (502, 503, 504) and answers[0] == answers[1] == answers[2])
    Proxy.mode = "pass"
    time.sleep(TTL + 0.2)
    check("and passes", [seen(server, f"/data/{name}/.zgroup")[0] for name in everyone], [200, 404, 404])


def fetch(url, method="GET"):
    parsed = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(parsed.netloc, timeout=60)
    connection.request(method, f"{parsed.path}?{parsed.query}")
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def check_signed(check, server, zarr, old, new, token, seconds):
    base = f"/zarrs/{zarr[:3]}/{zarr[3:6]}/{zarr}"
    for checksum, files in ((old, OLD), (new, NEW)):
        for key, data in files.items():
            target = f"{base}/{checksum}.zarr/{urllib.parse.quote(key)}"
            status, headers, body = seen(server, target, token=token)
            url = headers.get("location", "")
            check(f"307 {target}", (status, body, "X-Amz-Signature" in url, "versionId=" in url), (307, b"", True, True))
            check("nobody keeps it", (headers.get("cache-control"), headers.get("referrer-policy")), ("private, no-store", "no-referrer"))
            check(f"the address gives {key}", fetch(url), (200, data))
    target = f"{base}/{new}.zarr/.zattrs"
    for target, wanted in ((f"{base}/{new}.zarr/.zattrs", 307), (f"/api/zarr/{zarr}/versions/{new}/files/?prefix=.zattrs&download=true", 302)):
        status, headers, _ = seen(server, target, "HEAD", token=token)
        check(f"HEAD {target}", (status, fetch(headers["location"], "HEAD")[0]), (wanted, 200))
        check("a HEAD is not signed for GET", fetch(headers["location"])[0], 403)
        status, headers, _ = seen(server, target, token=token)
        check(f"GET {target}", (status, fetch(headers["location"])), (wanted, (200, NEW[".zattrs"])))
    url = headers["location"]
    check("no other method", fetch(url, "DELETE")[0], 403)
    check("no other key", fetch(url.replace("/.zattrs?", "/.zgroup?"))[0], 403)
    version = re.search(r"versionId=([^&]+)", url).group(1)
    before = re.search(r"versionId=([^&]+)", seen(server, f"{base}/{old}.zarr/.zattrs", token=token)[1]["location"]).group(1)
    check("no other version", (version != before, fetch(url.replace(version, before))[0]), (True, 403))
    check("not without the version", fetch(re.sub(r"versionId=[^&]+&", "", url))[0], 403)
    check("not for longer", fetch(url.replace(f"X-Amz-Expires={seconds}", "X-Amz-Expires=900"))[0], 403)
    for header in ({"Origin": "https://hms-dbmi.github.io"}, {"Sec-Fetch-Mode": "cors"}):
        status, _, body = seen(server, f"{base}/{new}.zarr/.zattrs", token=token, **header)
        check("a page gets the bytes", (status, body), (200, NEW[".zattrs"]))
    time.sleep(seconds + 2)
    check("it expires", fetch(url)[0], 403)


def run_server(check, endpoint, zaro):
    s3 = S3(endpoint, "zaro", "zaro-secret")
    archive = Archive(s3)
    public, both, objects_only, manifest_only = (f"{start}-0000-4000-8000-000000000000" for start in ("0a0aaaaa", "1b1bbbbb", "2c2ccccc", "3d3ddddd"))
    tags = {public: (None, None), both: (TAG, TAG), objects_only: (TAG, None), manifest_only: (None, TAG)}
    for zarr, (objects, manifest) in tags.items():
        old = archive.put_version(zarr, OLD, "2024-01-01", objects, manifest)
        new = archive.put_version(zarr, NEW, "2024-06-01", objects, manifest)
    hidden = [both, objects_only, manifest_only]
    Proxy.to = endpoint.removeprefix("http://")
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    through = f"http://127.0.0.1:{proxy.server_address[1]}"
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text(f"{RIGHT} *\n")
        log = open(Path(folder) / "log", "w+")
        common_args = ["--tokens", tokens, "--embargo-ttl", TTL, "--region", "us-east-1"]
        secret = f"secret-name={archive.uri}/zarr/{both}"
        server = Zaro(zaro, f"arch={archive.uri}", secret, "--endpoint", through, "--metrics", "--access-log", "plain", *common_args, stderr=log)
        try:
            check_matrix(check, server, public, hidden, (old, new))
            check_timing(check, server, both)
            check_failures(check, server, public, both)
            log.seek(0)
            check("no token in the log", RIGHT in log.read(), False)
            done = common.run([zaro, "manifest", "unembargo", f"{archive.uri}/zarr/{both}", "--endpoint", through, "--region", "us-east-1"])
            check("unembargo", done.code, 0)
            time.sleep(TTL + 0.2)
            target = f"/data/{both}@{old}/x/0"
            check("the end of an embargo is noticed", (seen(server, target)[0], seen(server, target)[1]["cache-control"]), (200, "public, max-age=31536000, immutable"))
            check("in the list, too", json.loads(seen(server, "/api/zarr/")[2])["count"], 2)
            archive.tag(f"zarr/{both}/.zgroup")
            time.sleep(TTL + 0.2)
            check("a new one is noticed", seen(server, target)[0], 404)
            check("for one client", seen(server, target, token=RIGHT)[1]["cache-control"], "private, max-age=31536000, immutable")
        finally:
            server.stop()
        server = Zaro(zaro, f"arch={archive.uri}", "--endpoint", endpoint, "--redirect", "--signed-ttl", 3, *common_args)
        try:
            check_signed(check, server, public, old, new, None, 3)
            check_signed(check, server, objects_only, old, new, RIGHT, 3)
            status, headers, _ = seen(server, f"/zarrs/{objects_only[:3]}/{objects_only[3:6]}/{objects_only}/{new}.zarr/x/0")
            check("no redirect without a credential", (status, "location" in headers), (404, False))
        finally:
            server.stop()
    proxy.shutdown()


def main():
    p = common.parser(__doc__)
    p.add_argument("--server", choices=["seaweed", "ceph"], help="only this one")
    options = p.parse_args()
    zaro, check, ran = common.find_zaro(options.zaro), Checks(options.verbose), 0
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    os.environ.update(AWS_ACCESS_KEY_ID="zaro", AWS_SECRET_ACCESS_KEY="zaro-secret")
    for name, variable in [("seaweed", "ZARO_TEST_S3"), ("ceph", "ZARO_TEST_CEPH")]:
        if options.server not in (None, name):
            continue
        if variable not in os.environ:
            print(f"skipped: no {name} ({variable} is not set)")
            continue
        began = time.monotonic()
        run_server(check, os.environ[variable], zaro)
        ran += 1
        print(f"{name}: {time.monotonic() - began:.0f} s")
    print(f"{check.passed} passed, {check.failed} failed")
    sys.exit("no server is running; see scripts/servers.sh" if not ran else bool(check.failed))


if __name__ == "__main__":
    main()

"""Raw bytes over HTTP: `zaro serve` beside nginx, and real clients on every kind of store.

    serve_raw.py [--requests N] [--seed N]

1. Random range and conditional requests for plain files: zaro's answers must equal nginx's (status, length,
   Content-Range, bytes), and the bytes those of the file.
2. zarr-python (fsspec and obstore) and tensorstore open V2, V3, sharded, reference, ZIP, Icechunk and manifest
   sources through the server; values must equal those of the source read directly.
3. Views: /as/consolidated and /as/v3 are read by clients that the source alone does not suit.
"""

import atexit
import concurrent.futures
import datetime
import email.utils
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import common

passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {name}: {detail}"[:600], flush=True)


class Server:
    """`zaro serve`, on a port that was free."""

    def __init__(self, zaro, *args):
        self.process = subprocess.Popen(
            [zaro, "serve", *map(str, args), "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        if not line.startswith("http"):
            raise SystemExit(f"the server did not start: {line!r}")
        self.url = "/".join(line.strip().split("/")[:3])
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nginx:
    """nginx over one folder."""

    def __init__(self, root, work, more=""):
        self.port = free_port()
        conf = work / "nginx.conf"
        conf.write_text(
            # Its workers could not look into a folder of root's.
            f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/error.log;\n"
            "events { worker_connections 1024; }\n"
            f"http {{ access_log off; default_type application/octet-stream; if_modified_since before;\n"
            f"client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work}; uwsgi_temp_path {work}; scgi_temp_path {work};\n"
            f"keepalive_requests 1000000; server {{ listen 127.0.0.1:{self.port}; root {root}; etag on; {more} }} }}\n"
        )
        binary = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin") or str(
            common.REPO / "target/servers/nginx/root/usr/sbin/nginx"
        )
        self.process = subprocess.Popen([binary, "-c", str(conf), "-e", str(work / "error.log")])
        atexit.register(self.process.terminate)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("nginx did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def ask(connection, method, path, headers):
    for attempt in (1, 2):
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            # A server may close a connection that is idle; not twice.
            connection.close()
            if attempt == 2:
                raise


def byteranges(answer_headers, body):
    """The parts of a multipart answer, as (Content-Range, bytes)."""
    kind = answer_headers["Content-Type"]
    boundary = kind.split("boundary=")[1].encode()
    parts = []
    for part in body.split(b"\r\n--" + boundary)[1:]:
        if part.startswith(b"--"):
            break
        head, data = part.split(b"\r\n\r\n", 1)
        lines = dict(l.split(b": ", 1) for l in head.strip().split(b"\r\n"))
        parts.append((lines[b"Content-Range"].decode(), data))
    return parts


def random_range(rng, size):
    def one():
        kind = rng.randrange(9)
        a, b = rng.randrange(size + 3), rng.randrange(size + 3)
        if kind <= 3:
            return f"{min(a, b)}-{max(a, b)}"
        if kind == 4:
            return f"{a}-"
        if kind == 5:
            return f"-{a}"
        if kind == 6:
            return f"{max(a, b) + 1}-{min(a, b)}"
        if kind == 7:
            return rng.choice(["", "-", "a-b", "1-2-3", "x", "5", " 3 - 7 ", "99999999999999999999-", "0-99999999999999999999"])
        return f"{size + a}-{size + a + b}"

    count = rng.choice([1, 1, 1, 1, 1, 1, 2, 3, 5])
    unit = rng.choice(["bytes="] * 12 + ["Bytes=", "items=", "bytes"])
    return unit + ",".join(one() for _ in range(count))


def compare(zaro_port, nginx_port, files, count, seed):
    """Asks both the same; the differences."""
    rng = random.Random(seed)
    ours = http.client.HTTPConnection("127.0.0.1", zaro_port, timeout=30)
    theirs = http.client.HTTPConnection("127.0.0.1", nginx_port, timeout=30)
    tags = {}
    for name in files:
        _, a, _ = ask(ours, "HEAD", f"/data/plain/{name}", {})
        _, b, _ = ask(theirs, "HEAD", f"/{name}", {})
        tags[name] = (a["ETag"], b["ETag"], a["Last-Modified"])
        if a["Last-Modified"] != b["Last-Modified"]:
            return [f"{name}: dates {a['Last-Modified']} and {b['Last-Modified']}"]
    faults = []
    for _ in range(count):
        name = rng.choice(list(files) + ["absent"])
        data = files.get(name)
        mine, other = {}, {}

        def both(header, a, b=None):
            mine[header], other[header] = a, a if b is None else b

        method = rng.choice(["GET"] * 5 + ["HEAD"])
        tag = tags.get(name, ('"x"', '"x"', email.utils.formatdate(0, usegmt=True)))
        when = email.utils.parsedate_to_datetime(tag[2]).timestamp()
        date = email.utils.formatdate(when + rng.choice([-3600, -1, 0, 0, 1, 3600]), usegmt=True)
        # HEAD with a range: the standard has it for GET alone, nginx for both.
        if method == "GET" and rng.random() < 0.8:
            both("Range", random_range(rng, len(data or b"")))
        choice = rng.randrange(12)
        if choice == 0:
            both("If-None-Match", *rng.choice([tag[:2], ('"x"', '"x"'), ("*", "*"), (f'"y", {tag[0]}', f'"y", {tag[1]}')]))
        elif choice == 1:
            both("If-Match", *rng.choice([tag[:2], ('"x"', '"x"'), ("*", "*")]))
        elif choice == 2:
            both("If-Modified-Since", date)
        elif choice == 3:
            both("If-Unmodified-Since", date)
        elif choice in (4, 5) and "Range" in mine:
            both("If-Range", *rng.choice([tag[:2], ('"x"', '"x"'), (date, date)]))
        a = ask(ours, method, f"/data/plain/{name}", mine)
        b = ask(theirs, method, f"/{name}", other)
        said = f"{method} {name} ({len(data) if data is not None else '-'} bytes) {mine}"
        if a[0] != b[0]:
            faults.append(f"{said}: status {a[0]}, nginx {b[0]}")
            continue
        if a[0] in (200, 206):
            if (a[1].get("Content-Range"), a[0]) != (b[1].get("Content-Range"), b[0]):
                faults.append(f"{said}: {a[1].get('Content-Range')}, nginx {b[1].get('Content-Range')}")
            elif a[1].get("Content-Type", "").startswith("multipart"):
                if byteranges(a[1], a[2]) != byteranges(b[1], b[2]):
                    faults.append(f"{said}: other parts than nginx")
                if int(a[1]["Content-Length"]) != len(a[2]):
                    faults.append(f"{said}: Content-Length of parts")
            elif a[2] != b[2] or (method == "GET" and a[1]["Content-Length"] != b[1]["Content-Length"]):
                faults.append(f"{said}: other bytes than nginx")
            elif a[0] == 200 and method == "GET" and a[2] != data:
                faults.append(f"{said}: other bytes than the file")
        elif a[0] == 416 and a[1].get("Content-Range") != f"bytes */{len(data)}":
            faults.append(f"{said}: 416 with {a[1].get('Content-Range')}")
        if "Access-Control-Allow-Origin" not in a[1]:
            faults.append(f"{said}: {a[0]} without CORS")
    return faults


def beside_nginx(zaro, work, requests, seed):
    plain = work / "plain"
    plain.mkdir()
    (plain / ".zgroup").write_text('{"zarr_format": 2}')
    rng = random.Random(seed)
    files = {}
    for size in (0, 1, 2, 10, 100, 1000, 4096, 70_000, 200_000, 700_000):
        files[f"f{size}"] = rng.randbytes(size)
        (plain / f"f{size}").write_bytes(files[f"f{size}"])
    server, nginx = Server(zaro, f"plain={plain}", "--cors", "*"), Nginx(plain, work)
    began = time.time()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(compare, server.port, nginx.port, files, requests // 4, seed * 10 + n) for n in range(4)]
        faults = [fault for job in jobs for fault in job.result()]
    check(f"{requests} requests beside nginx", not faults, "; ".join(faults[:4]) + f" ({len(faults)} in all)")
    print(f"{requests} requests beside nginx in {time.time() - began:.0f} s, {len(faults)} differ", flush=True)
    nginx.stop()
    check("ends on SIGTERM", server.stop() == 0)


def values(array):
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def make_sources(work):
    """Zarrs of every kind, by other people's programs; name -> (address, values of the array `a`)."""
    import numpy as np
    import zarr

    rng = np.random.default_rng(3)
    data = rng.integers(0, 1000, (60, 70), dtype="uint16")
    sources = {}

    def group(path, **how):
        root = zarr.create_group(store=str(path), zarr_format=how.pop("zarr_format", 3), overwrite=True)
        array = root.create_array("a", shape=data.shape, dtype=data.dtype, chunks=(16, 32), **how)
        array[:] = data
        # A chunk that was never written: fill values, asked for as a missing key.
        empty = root.create_array("empty", shape=(8, 8), chunks=(4, 4), dtype="float32", fill_value=7)
        empty.attrs["note"] = "nothing written"
        return path

    sources["v2"] = group(work / "v2.zarr", zarr_format=2)
    sources["v3"] = group(work / "v3.zarr")
    sharded = zarr.create_group(store=str(work / "sharded.zarr"), overwrite=True)
    array = sharded.create_array("a", shape=data.shape, dtype=data.dtype, chunks=(8, 8), shards=(32, 32))
    array[:] = data
    sharded.create_array("empty", shape=(8, 8), chunks=(4, 4), dtype="float32", fill_value=7)
    sources["sharded"] = work / "sharded.zarr"
    shutil.make_archive(str(work / "zipped"), "zip", work / "v3.zarr")
    sources["zip"] = work / "zipped.zip"
    refs = {"version": 1, "refs": {}}
    for file in (work / "v2.zarr").rglob("*"):
        if file.is_file():
            key = str(file.relative_to(work / "v2.zarr"))
            refs["refs"][key] = file.read_text() if file.name.startswith(".z") else [str(file), 0, file.stat().st_size]
    (work / "refs.json").write_text(json.dumps(refs))
    sources["references"] = work / "refs.json"
    try:
        import icechunk

        repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(work / "ice")))
        session = repo.writable_session("main")
        root = zarr.group(store=session.store, overwrite=True)
        array = root.create_array("a", shape=data.shape, dtype=data.dtype, chunks=(16, 32))
        array[:] = data
        root.create_array("empty", shape=(8, 8), chunks=(4, 4), dtype="float32", fill_value=7)
        session.commit("first")
        sources["icechunk"] = work / "ice"
    except ImportError:
        print("*** no icechunk library here: Icechunk sources are not tried ***", file=sys.stderr)
    return sources, data


def clients(zaro, work):
    import numpy as np
    import tensorstore
    import zarr
    from obstore.store import HTTPStore
    from zarr.storage import FsspecStore, ObjectStore

    sources, data = make_sources(work)
    # A manifest of the folder: a version of it.
    objects = work / "zarr" / "0b5a7c2e-0000-4000-8000-000000000001"
    shutil.copytree(work / "v3.zarr", objects)
    made = subprocess.run([zaro, "manifest", "create", str(objects), "--to", str(work), "--zarr", objects.name, "--json"], capture_output=True, text=True)
    manifest = next(iter(work.glob("zarr-manifest/*/*/*/*.json")), None)
    if manifest:
        sources["manifest"] = f"manifest+{manifest}"
    else:
        print("*** no manifest was made:", made.stdout[-300:], made.stderr[-300:], file=sys.stderr)
    server = Server(zaro, *(f"{name}={uri}" for name, uri in sources.items()))
    filled = np.full((8, 8), 7, "float32")
    for name in sources:
        url = f"{server.url}/data/{name}"
        try:
            root = zarr.open_group(FsspecStore.from_url(url), mode="r")
            check(f"zarr-python fsspec {name}", np.array_equal(root["a"][:], data) and np.array_equal(root["empty"][:], filled))
        except Exception as e:
            check(f"zarr-python fsspec {name}", False, repr(e))
        try:
            root = zarr.open_group(ObjectStore(HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True), mode="r")
            check(f"zarr-python obstore {name}", np.array_equal(root["a"][:], data) and np.array_equal(root["empty"][:], filled))
        except Exception as e:
            check(f"zarr-python obstore {name}", False, repr(e))
        try:
            driver = "zarr" if name in ("v2", "references") else "zarr3"
            array = tensorstore.open({"driver": driver, "kvstore": f"{url}/a/"}, read=True, open=True).result()
            check(f"tensorstore {name}", np.array_equal(array.read().result(), data))
        except Exception as e:
            check(f"tensorstore {name}", False, repr(e))
        try:
            view = FsspecStore.from_url(f"{server.url}/as/consolidated/{name}")
            opened = zarr.open_group(view, mode="r", use_consolidated=True)
            check(f"consolidated view {name}", np.array_equal(opened["a"][:], data) and sorted(k for k, _ in opened.members()) == ["a", "empty"])
        except Exception as e:
            check(f"consolidated view {name}", False, repr(e))
    try:
        root = zarr.open_group(FsspecStore.from_url(f"{server.url}/as/v3/v2"), mode="r", zarr_format=3)
        check("V2 as V3", np.array_equal(root["a"][:], data) and np.array_equal(root["empty"][:], filled))
    except Exception as e:
        check("V2 as V3", False, repr(e))
    server.stop()


def dates(zaro, work):
    """An Icechunk repository as it was, by the times that the icechunk library tells."""
    try:
        import icechunk
    except ImportError:
        return print("*** no icechunk library here: its dates are not tried ***", file=sys.stderr)
    import zarr
    from zarr.storage import FsspecStore

    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(work / "dated")))
    for number in range(4):
        session = repo.writable_session("main")
        root = zarr.group(store=session.store, overwrite=True)
        root.create_array("a", shape=(3,), chunks=(2,), dtype="int32")[:] = number
        session.commit(f"number {number}")
        time.sleep(0.01)
    server = Server(zaro, f"dated={work / 'dated'}")
    for commit in repo.ancestry(branch="main"):
        # A microsecond is all that lies between two states.
        for moment, later in ((commit.written_at, 0), (commit.written_at - datetime.timedelta(microseconds=1), 1)):
            number = int(commit.message.split()[-1]) - later if commit.message.startswith("number") else -1 - later
            text = moment.isoformat()
            done = subprocess.run([zaro, "read", str(work / "dated"), "a", "--at", text], capture_output=True, text=True)
            url = f"{server.url}/data/dated@{urllib.parse.quote(text)}"
            if number >= 0:
                check(f"--at {text}", done.stdout.strip() == f"[{number} {number} {number}]", done.stdout + done.stderr)
                values = zarr.open_group(FsspecStore.from_url(url), mode="r")["a"][:].tolist()
                check(f"dated@{text}", values == [number] * 3, values)
            else:
                # At first there was an empty root, and before it nothing.
                check(f"--at {text} has no array", done.returncode == 3, done.stderr)
                status = fetch_status(f"{url}/a/zarr.json")
                check(f"dated@{text} has no array", status == 404, status)
    server.stop()


def fetch_status(url):
    parsed = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(parsed.netloc, timeout=60)
    connection.request("GET", parsed.path)
    status = connection.getresponse().status
    connection.close()
    return status


def main():
    p = common.parser(__doc__)
    p.add_argument("--requests", type=int, default=20_000)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    zaro = common.find_zaro(args.zaro)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        beside_nginx(zaro, work, args.requests, args.seed)
        clients(zaro, work)
        dates(zaro, work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

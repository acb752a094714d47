"""Sources behind HTTP and S3 through `zaro serve`, what it says when they fail, and what strangers may have it open.

    [. target/servers/run/env &&] serve_behind.py

1. Zarrs behind nginx, and with the servers of scripts/servers.sh behind S3: clients read equal values through the
   server; tags, ranges and conditions; missing chunks are 404.
2. The back end dies: 502, 503 or 504 for what was never read, never 404; when it is back, everything is as before.
3. `/open?uri=`: what lies below the prefix is served, all else refused.
4. A token in a header, in a query, in a password and in a signed address behind the server is in no line of the log.
"""

import base64
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import common
import serve_raw
from s3 import S3
from serve_raw import Nginx, Server, ask, check, make_sources

TOKEN = "planted-0123456789abcdef"


class Gate:
    """Passes connections on to a port, or closes them."""

    def __init__(self, host, port):
        self.to, self.open = (host, port), True
        self.pairs = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.socket.accept()
            if not self.open:
                client.close()
                continue
            try:
                server = socket.create_connection(self.to)
            except OSError:
                client.close()
                continue
            self.pairs.append((client, server))
            threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()

    def pass_on(self, client, server):
        try:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    (server if ready is client else client).sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            client.close()
            server.close()

    def shut(self):
        self.open = False
        for pair in self.pairs:
            for one in pair:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs.clear()


def get(server, path, headers=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        return ask(connection, method, path, headers or {})
    finally:
        connection.close()


def reads_like_the_source(server, name, work, data):
    import numpy as np
    import tensorstore
    import zarr
    from zarr.storage import FsspecStore

    url = f"{server.url}/data/{name}"
    try:
        root = zarr.open_group(FsspecStore.from_url(url), mode="r")
        filled = np.full((8, 8), 7, "float32")
        check(f"{name}: zarr-python", np.array_equal(root["a"][:], data) and np.array_equal(root["empty"][:], filled))
    except Exception as e:
        check(f"{name}: zarr-python", False, repr(e))
    try:
        array = tensorstore.open({"driver": "zarr3", "kvstore": f"{url}/a/"}, read=True, open=True).result()
        check(f"{name}: tensorstore", np.array_equal(array.read().result(), data))
    except Exception as e:
        check(f"{name}: tensorstore", False, repr(e))
    chunk = "a/c/0/0"
    stored = (work / "v3.zarr" / chunk).read_bytes()
    status, headers, body = get(server, f"/data/{name}/{chunk}")
    check(f"{name}: bytes", status == 200 and body == stored, (status, len(body)))
    tag = headers["ETag"]
    check(f"{name}: a strong tag", bool(tag) and tag.startswith('"'), tag)
    check(f"{name}: the same tag again", get(server, f"/data/{name}/{chunk}", method="HEAD")[1]["ETag"] == tag)
    check(f"{name}: 304", get(server, f"/data/{name}/{chunk}", {"If-None-Match": tag})[0] == 304)
    check(f"{name}: 412", get(server, f"/data/{name}/{chunk}", {"If-Match": '"other"'})[0] == 412)
    size = len(stored)
    for text, part in [("3-9", stored[3:10]), ("5-", stored[5:]), ("-7", stored[-7:]), (f"-{size + 9}", stored)]:
        status, headers, body = get(server, f"/data/{name}/{chunk}", {"Range": f"bytes={text}"})
        check(f"{name}: range {text}", (status, body) == (206, part) and headers["Content-Range"].endswith(f"/{size}"), status)
    status, headers, _ = get(server, f"/data/{name}/{chunk}", {"Range": f"bytes={size}-"})
    check(f"{name}: 416", (status, headers["Content-Range"]) == (416, f"bytes */{size}"), status)
    check(f"{name}: a missing chunk", get(server, f"/data/{name}/empty/c/0/0")[0] == 404)
    # A plain web server cannot be listed, so that nothing tells a folder from a key that is not there.
    check(f"{name}: a folder", get(server, f"/data/{name}/a")[0] == (404 if name == "http" else 301))


def survives_its_back_end(server, name, work, stop, start):
    """`stop` ends what is behind the source, `start` brings it back."""
    fresh, missing = f"/data/{name}/a/c/1/0", f"/data/{name}/empty/c/1/1"
    stop()
    for what, path in [("a chunk", fresh), ("a missing chunk", missing), ("metadata", f"/data/{name}/a/zarr.json")]:
        status = get(server, path)[0]
        check(f"{name}: {what} without a back end", status in (502, 503, 504), status)
    start()
    stored = (work / "v3.zarr/a/c/1/0").read_bytes()
    status, _, body = get(server, fresh)
    check(f"{name}: back again", (status, body) == (200, stored), status)
    check(f"{name}: missing is missing again", get(server, missing)[0] == 404)


def behind_http(zaro, work, data):
    nginx = Nginx(work, work)
    gate = Gate("127.0.0.1", nginx.port)
    server = Server(zaro, f"http=http://127.0.0.1:{gate.port}/v3.zarr")
    reads_like_the_source(server, "http", work, data)

    def start():
        gate.open = True

    survives_its_back_end(server, "http", work, gate.shut, start)
    server.stop()
    layers_over_http(zaro, work, data, nginx)

    server = Server(zaro, "--open", f"http://127.0.0.1:{nginx.port}/v3.zarr")
    status, headers, _ = get(server, f"/open?uri=http://127.0.0.1:{nginx.port}/v3.zarr/a")
    place = headers.get("Location", "")
    check("/open sends to the source", status == 303 and place.startswith("/data/a~"), (status, place))
    stored = (work / "v3.zarr/a/c/0/0").read_bytes()
    check("what was opened is served", get(server, place + "c/0/0")[2] == stored)
    listed = get(server, "/?format=json")[2]
    check("it is listed to nobody", b"a~" not in listed, listed)
    status = get(server, f"/open?uri=http://127.0.0.1:{nginx.port}/v3.zarr/none")[0]
    check("what is not there is not found", status == 404, status)
    for uri in [f"http://127.0.0.1:{nginx.port}/v2.zarr", f"http://127.0.0.1:{server.port}/v3.zarr", f"http://localhost:{nginx.port}/v3.zarr"]:
        check(f"{uri} is refused", get(server, f"/open?uri={uri}")[0] == 403)
    for uri in [f"http://127.0.0.1:{nginx.port}/v3.zarr/../v2.zarr", str(work / "v3.zarr"), f"file://{work}/v3.zarr"]:
        check(f"{uri} is refused", get(server, f"/open?uri={uri}")[0] == 400)
    server.stop()
    nginx.stop()


def layers_over_http(zaro, work, data, nginx):
    """References and an Icechunk repository whose bytes are elsewhere."""
    import numpy as np
    import zarr
    from zarr.storage import FsspecStore

    refs = json.loads((work / "refs.json").read_text())
    for key, value in refs["refs"].items():
        if isinstance(value, list):
            value[0] = f"http://127.0.0.1:{nginx.port}/v2.zarr/{key}"
    (work / "far.json").write_text(json.dumps(refs))
    sources = {"refs": work / "far.json"}
    if (work / "ice").exists():
        sources["ice"] = f"http://127.0.0.1:{nginx.port}/ice"
    server = Server(zaro, *(f"{name}={uri}" for name, uri in sources.items()))
    for name in sources:
        try:
            root = zarr.open_group(FsspecStore.from_url(f"{server.url}/data/{name}"), mode="r")
            check(f"{name} over HTTP", np.array_equal(root["a"][:], data))
        except Exception as e:
            check(f"{name} over HTTP", False, repr(e))
    _, headers, body = get(server, "/data/refs/a/0.0")
    tag = headers["ETag"]
    check("a chunk of references: 304", get(server, "/data/refs/a/0.0", {"If-None-Match": tag})[0] == 304)
    status, _, part = get(server, "/data/refs/a/0.0", {"Range": "bytes=5-20", "If-Range": tag})
    check("a chunk of references: range", (status, part) == (206, body[5:21]), status)
    # The object behind the reference changes: another tag, and the new bytes.
    target = work / "v2.zarr/a/0.0"
    old = target.read_bytes()
    target.write_bytes(old[::-1])
    _, headers, body = get(server, "/data/refs/a/0.0")
    check("a changed object behind a reference", body == old[::-1] and headers["ETag"] != tag)
    target.write_bytes(old)
    server.stop()


def behind_s3(zaro, work, data):
    if "ZARO_TEST_S3" not in os.environ:
        print("*** no S3 here (scripts/servers.sh start): sources in buckets are not tried ***", file=sys.stderr)
        return
    endpoint = os.environ["ZARO_TEST_S3"]
    s3 = S3(endpoint, "zaro", "zaro-secret")
    bucket = f"behind-{os.getpid()}"
    s3.request("PUT", bucket)
    for file in (work / "v3.zarr").rglob("*"):
        if file.is_file():
            status = s3.request("PUT", bucket, str(file.relative_to(work)), body=file.read_bytes())[0]
            assert status == 200, status
    gate = Gate("127.0.0.1", int(endpoint.rsplit(":", 1)[1]))
    env = {"AWS_ACCESS_KEY_ID": "zaro", "AWS_SECRET_ACCESS_KEY": "zaro-secret", "AWS_REGION": "us-east-1"}
    os.environ.update(env, AWS_ENDPOINT_URL=f"http://127.0.0.1:{gate.port}")
    server = Server(zaro, f"s3=s3://{bucket}/v3.zarr")
    reads_like_the_source(server, "s3", work, data)

    def start():
        gate.open = True

    survives_its_back_end(server, "s3", work, gate.shut, start)
    server.stop()
    for name in [*env, "AWS_ENDPOINT_URL"]:
        os.environ.pop(name, None)


def planted(zaro, work):
    """No line of a log, and no counter, has a token."""
    (work / "tokens").write_text(f"{TOKEN} *\n")
    nginx = Nginx(work, work)
    signed = f"http://127.0.0.1:{nginx.port}/v3.zarr?X-Amz-Signature={TOKEN}"
    for kind in ("plain", "json"):
        process = subprocess.Popen(
            [zaro, "serve", f"local={work / 'v3.zarr'}", f"signed={signed}", "--hide", "local", "--tokens", str(work / "tokens"),
             "--access-log", kind, "--metrics", "--bind", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        line = process.stdout.readline()

        class At:
            port = int(line.strip().rstrip("/").rsplit(":", 1)[1])

        basic = base64.b64encode(f"user:{TOKEN}".encode()).decode()
        seen = []
        for path, headers in [
            ("/data/local/zarr.json", {"Authorization": f"Bearer {TOKEN}"}),
            ("/data/local/zarr.json", {"Authorization": f"token {TOKEN}"}),
            ("/data/local/zarr.json", {"Authorization": f"Basic {basic}"}),
            (f"/data/local/zarr.json?token={TOKEN}", {}),
            (f"/data/local/none?token={TOKEN}", {}),
            (f"/data/local/?token={TOKEN}x", {}),
            ("/data/signed/zarr.json", {}),
            ("/data/signed/a/c/0/0", {}),
            ("/data/signed/none", {"Cookie": f"token={TOKEN}", "Referer": f"http://x/?token={TOKEN}"}),
            (f"/tile/local/a/0/0_0.bin?token={TOKEN}", {}),
            ("/metrics", {"Authorization": f"Bearer {TOKEN}"}),
        ]:
            status, got, body = get(At, path, headers)
            seen.append(status)
            check(f"{kind} {path.split('?')[0]}: no token in the answer", TOKEN not in str(got) and TOKEN.encode() not in body)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=30)[1]
        check(f"{kind}: a line per request", log.count("/data/local/zarr.json") == 4, log[:300])
        check(f"{kind}: seen with each form", seen[:4] == [200] * 4 and seen[5] == 401, seen)
        secret = [text for text in (TOKEN, basic) if text in log]
        check(f"{kind}: no token in the log", not secret, log[:500])
    nginx.stop()


def main():
    args = common.parser(__doc__).parse_args()
    zaro = common.find_zaro(args.zaro)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        work.chmod(0o755)
        _, data = make_sources(work)
        behind_http(zaro, work, data)
        behind_s3(zaro, work, data)
        planted(zaro, work)
    print(f"{serve_raw.passed} passed, {serve_raw.failed} failed")
    sys.exit(bool(serve_raw.failed))


main()

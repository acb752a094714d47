"""Faults between zaro and an object store: a proxy in front of a real S3 server refuses, loses, cuts, or kills.

    . target/servers/run/env && python conformance/faults/bucket.py
    … --all                                  every request of every command
    … --only copy --at 7 --fault LOST        one fault again

The rules are those of files.py. Requests are counted from 1; a fault is one of
  503, 500      the server is busy: the request is not done
  RESET         the connection ends before the request is done
  LOST          the request is done, and its answer lost
  CUT           half of the answer's body arrives
  REFUSED       this and all later requests are not permitted
  KILL, KILL-AFTER  zaro is killed before, or after the request is done
"""

import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
import files  # noqa: E402
from s3 import S3  # noqa: E402

FAULTS = ["503", "500", "RESET", "LOST", "CUT", "REFUSED", "KILL", "KILL-AFTER"]
# Faults that pass: a client that tries again sees nothing of them.
PASSING = {"503", "500", "RESET", "CUT"}
BUCKET = "faults"
KEY, SECRET = "zaro", "zaro-secret"


class Proxy(ThreadingHTTPServer):
    """Hands requests on to one server, and spoils one of them."""

    daemon_threads = True

    def __init__(self, upstream):
        self.upstream = urllib.parse.urlparse(upstream).netloc
        self.lock = threading.Lock()
        self.arm(0, None)
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def arm(self, at, fault):
        with self.lock:
            self.count, self.at, self.fault, self.child = 0, at, fault, None

    def next_fault(self):
        with self.lock:
            self.count += 1
            hit = self.count == self.at or (self.fault == "REFUSED" and self.at and self.count > self.at)
            return self.fault if hit else None

    def handle_error(self, request, client_address):
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def spoilt(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def drop(self):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.next_fault()
        if fault == "503":
            return self.spoilt(503, "SlowDown")
        if fault == "500":
            return self.spoilt(500, "InternalError")
        if fault == "REFUSED":
            return self.spoilt(403, "AccessDenied")
        if fault == "RESET":
            return self.drop()
        if fault == "KILL":
            self.server.child.send_signal(signal.SIGKILL)
            return self.drop()
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        # The signature covers the host the client asked, so the header stays as it was.
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        if fault == "KILL-AFTER":
            self.server.child.send_signal(signal.SIGKILL)
            return self.drop()
        if fault == "LOST":
            return self.drop()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "server", "date"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if fault == "CUT" and data:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            return self.drop()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any


# `@` is the place of this run in the bucket. What a setup makes in the work folder as *.zarr is put there.
CASES = [
    files.Case("create-array", files.v3, "create @/v3.zarr new --shape 4,4 --dtype int16 --chunks 2,2", again=False),
    files.Case("create-group", files.v3, "create @/v3.zarr new/deep --group", again=False, unlisted={"v3.zarr": ("new",)}),
    files.Case("write-create", files.array, "write @/v3.zarr new --from new.npy --create --chunks 1,4"),
    files.Case("write-part", files.array, "write @/v3.zarr a --from new.npy --start 1,0", parts=("v3.zarr", "a")),
    files.Case("append", files.array, "write @/v3.zarr a --from new.npy --append y", again=False, adds=True),
    files.Case("attrs", files.v3, "attrs @/v3.zarr a --set units=km"),
    files.Case("grow", files.v3, "resize @/v3.zarr a --shape 9,9"),
    files.Case("shrink", files.v3, "resize @/v3.zarr a --shape 3,5"),
    files.Case("consolidate", files.v3, "consolidate @/v3.zarr"),
    files.Case("delete", files.v3, "delete @/v3.zarr sub --yes", again=False),
    files.Case("copy", files.v3, "copy @/v3.zarr @/d.zarr"),
    files.Case("copy-up", files.v3, "copy v3.zarr @/d.zarr --chunks y=1,x=8 --shards none"),
    files.Case("copy-down", files.v3, "copy @/v3.zarr d.zarr"),
    files.Case("copy-v2", files.v3, "copy @/v3.zarr @/d.zarr --zarr-format 2 --shards none --verify"),
    files.Case("copy-overwrite", files.v3_and_old, "copy @/v3.zarr @/d.zarr --overwrite", gone=True),
    files.Case("write-overwrite", files.array, "write @/v3.zarr a --from new.npy --create --chunks 1,4 --overwrite", gone="v3.zarr:a"),
    files.Case("labels-overwrite", files.image_with_two_labels, "image add-labels @/i.zarr cells --from l.npy --axes cyx --overwrite", gone="i.zarr:labels/cells"),
    files.Case("in-place", files.v2, "copy @/v2.zarr --in-place --zarr-format 3"),
    files.Case("pyramid", files.image, "image pyramid @/i.zarr --levels 3", unlisted={"i.zarr": ("1", "2")}),
    files.Case("image-convert", files.pixels, "image convert p.npy @/i.zarr --axes cyx --chunks 1,16,16"),
    files.Case("pyramid-to", files.image, "image pyramid @/i.zarr --to @/j.zarr --levels 3"),
    files.Case("add-labels", files.image_with_labels, "image add-labels @/i.zarr cells --from l.npy --axes cyx", unlisted={"i.zarr": ("labels",)}),
    files.Case("upgrade", files.image, "image upgrade @/i.zarr @/j.zarr --to 0.4"),
    files.Case("edit", files.image, "image edit @/i.zarr --channel 0:label=DNA,color=FF0000"),
    files.Case("fetch", files.manifest, "manifest fetch m.json copy.zarr --from @/v3.zarr"),
]


class Bench(files.Bench):
    """As with files, but the Zarrs are in a bucket: they are brought there, and back to be looked at."""

    unit = "requests"

    def __init__(self, case, zaro, proxy, s3, where):
        self.proxy, self.s3, self.runs = proxy, s3, 0
        super().__init__(case, zaro, None, where)

    def fresh(self, name):
        folder = super().fresh(name)
        self.runs += 1
        self.prefix = f"{os.getpid()}/{self.case.name}/{self.runs}"
        for path in sorted(folder.glob("*.zarr/**/*")):
            if path.is_file():
                status, _, body = self.s3.request("PUT", BUCKET, f"{self.prefix}/{path.relative_to(folder)}", body=path.read_bytes())
                if status != 200:
                    raise RuntimeError(f"the server answers a put with {status}: {body}")
        return folder

    def command(self, folder, **faults):
        at, fault = int(faults.get("at", 0)), faults.get("fault")
        self.proxy.arm(at, fault)
        argv = [x.replace("@", f"s3://{BUCKET}/{self.prefix}") for x in self.case.argv]
        endpoint = f"http://127.0.0.1:{self.proxy.server_port}"
        env = files.environment(folder, AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1")
        return [self.zaro, *argv, "--endpoint", endpoint], dict(cwd=folder, env=env)

    def run(self, folder, **faults):
        argv, how = self.command(folder, **{k: v for k, v in faults.items() if k in ("at", "fault")})
        with subprocess.Popen(argv, **how, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
            self.proxy.child = child
            out, err = child.communicate(timeout=120)
        if "ZARO_FAULT_REPORT" in faults:
            Path(faults["ZARO_FAULT_REPORT"]).write_text(f"request {self.proxy.count}\n")
        self.bring_back(folder)
        return subprocess.CompletedProcess(argv, child.returncode, out, err)

    def bring_back(self, folder):
        """What is in the bucket, beside what was made in the work folder."""
        for old in folder.glob("*.zarr"):
            if any("@/" + old.name in x for x in self.case.argv):
                shutil.rmtree(old)
        for key in self.keys():
            if not any("@/" + key[len(self.prefix) + 1 :].split("/")[0] in x for x in self.case.argv):
                continue
            path = folder / key[len(self.prefix) + 1 :]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.s3.request("GET", BUCKET, key)[2])

    def keys(self):
        after, out = None, []
        while True:
            query = {"list-type": "2", "prefix": self.prefix + "/", **({"start-after": after} if after else {})}
            page = self.s3.request("GET", BUCKET, query=query)[2].decode()
            found = [urllib.parse.unquote(x.split("</Key>")[0]) for x in page.split("<Key>")[1:]]
            out += found
            if "<IsTruncated>true" not in page or not found:
                return out
            after = found[-1]

    def inject_request(self, at, fault):
        what = f"{self.case.name} --at {at} --fault {fault}"
        folder = self.fresh("fault")
        try:
            done = self.run(folder, at=at, fault=fault)
        except subprocess.TimeoutExpired:
            return f"{what}: hangs"
        code = done.returncode
        if code < 0 and not (fault.startswith("KILL") and code == -signal.SIGKILL):
            return f"{what}: died by signal {-code}"
        if fault in PASSING and code != 0:
            return f"{what}: exit {code} after a fault that passes: {files.last(done)}"
        return self.judge(folder, code, what) or self.finish(folder, what)


def main():
    p = files.options(__doc__, sample=6)
    p.add_argument("--fault", choices=FAULTS)
    args = p.parse_args()
    if "ZARO_TEST_S3" not in os.environ:
        sys.exit("no S3 server: run scripts/servers.sh start, then `. target/servers/run/env`")
    rng = random.Random(args.seed)
    s3 = S3(os.environ["ZARO_TEST_S3"], KEY, SECRET)
    status = s3.request("PUT", BUCKET)[0]
    if status not in (200, 409):
        sys.exit(f"the server does not make a bucket: {status}")
    proxy = Proxy(os.environ["ZARO_TEST_S3"])

    def faults_of(bench):
        plan = [(at, f) for at in range(1, bench.calls["request"] + 1) for f in FAULTS]
        if args.at:
            plan = [(args.at, args.fault or "KILL")]
        elif not args.all:
            plan = rng.sample(plan, min(args.sample, len(plan)))
        return [bench.inject_request(*x) for x in plan]

    files.try_all(args, CASES, lambda case, zaro, where: Bench(case, zaro, proxy, s3, where), faults_of)


if __name__ == "__main__":
    main()

"""Load, faults and rude clients at once: `zaro serve` must neither fall, nor grow, nor lie.

    serve_load.py [--minutes M] [--seed N]

Served are a folder, an archive, an image, and a web server (ours, in a process of its own) that fails, stalls, cuts
answers short, drips and lies about ranges in one request of ten. For M minutes at the same time

* good clients ask for random keys, ranges, conditions, absent keys, listings, tiles and versions, and check every byte;
* slowhttptest sends slow headers and slow bodies, reads slowly, and asks for absurd ranges (where it is installed);
* others hold connections half open, send malformed requests (the answer each must have is stated here), or leave in
  the middle of an answer; the server is told to reload (SIGHUP).

It fails when the server ends, panics, or grows after it has warmed up; when a byte is wrong or an answer is whole but short;
when a failure behind the server is answered with 404, or an absent key with 200; when a malformed request is not refused.
Clients that behave come from 127.0.0.2, the others from 127.0.0.1, so that limits per client hit the right ones.
"""

import atexit
import collections
import hashlib
import http.client
import json
import multiprocessing
import os
import queue
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import common
from serve_raw import Server

GOOD, RUDE = "127.0.0.2", "127.0.0.1"
SIZES = [0, 1, 17, 300, 4096, 70_000, 400_000, 3_000_000]


# ------------------------------------------------------------------------------------------------ behind the server
class Faulty(BaseHTTPRequestHandler):
    """Files with ranges and tags, and in one request of ten something goes wrong."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root, rng = None, random.Random(7)

    def do_GET(self):
        place = self.root / urllib.parse.unquote(self.path).lstrip("/")
        fault = self.rng.choice(["500", "503", "reset", "stall", "cut", "drip", "lie"]) if self.rng.random() < 0.1 else None
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close()
        if fault == "stall":
            time.sleep(self.rng.choice([0.5, 2, 8]))
        if fault in ("500", "503"):
            return self.answer(int(fault), b"no\n", {})
        if not place.is_file():
            return self.answer(404, b"absent\n", {})
        body = place.read_bytes()
        headers = {"ETag": f'"{hashlib.md5(body).hexdigest()}"', "Accept-Ranges": "bytes"}
        status, wanted = 200, re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted and body:
            first, last = wanted.groups()
            size = len(body)
            first, last = (int(first), min(int(last or size - 1), size - 1)) if first else (max(size - int(last), 0), size - 1)
            if first >= size:
                return self.answer(416, b"", {"Content-Range": f"bytes */{size}"})
            if fault == "lie" and first + 1 < last:
                # Other bytes than asked for, and said so: to be noticed.
                first += 1
            status, body = 206, body[first : last + 1]
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.answer(status, body, headers, fault)

    do_HEAD = do_GET

    def answer(self, status, body, headers, fault=None):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault == "drip":
            for at in range(0, len(body), max(len(body) // 10, 1)):
                self.wfile.write(body[at : at + max(len(body) // 10, 1)])
                time.sleep(0.05)
        else:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def back_end(root, pipe):
    Faulty.root = Path(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    pipe.send(server.server_address[1])
    server.serve_forever()


# ------------------------------------------------------------------------------------------------ good clients
def expected(data, wanted):
    """Status and bytes of one range of `data`, by RFC 9110."""
    first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()
    size = len(data)
    if not first:
        return (206, data[max(size - int(last), 0) :]) if int(last) else (416, None)
    if int(first) >= size:
        return 416, None
    return 206, data[int(first) : int(last) + 1 if last else None]


def good_client(number, port, files, pictures, until, seed, out):
    """Asks and checks until the time is over; tells counts, times and faults."""
    rng = random.Random(seed)
    counts, times, faults = collections.Counter(), collections.defaultdict(list), []
    tags, seen = {}, {}
    connection = None
    keys = sorted(files)
    while time.time() < until:
        source = rng.choice(["near", "near", "far", "zip"])
        key = rng.choice(keys)
        data = files[key]
        target, headers, kind = f"/data/{source}/{urllib.parse.quote(key)}", {}, "whole"
        method = rng.choice(["GET"] * 6 + ["HEAD"])
        draw = rng.random()
        if draw < 0.10:
            target, data, kind = f"{target}-absent", None, "absent"
        elif draw < 0.15 and pictures:
            target, kind, method = rng.choice(pictures), "picture", "GET"
        elif draw < 0.19:
            target, kind, method = "/data/near/", "listing", "GET"
        elif draw < 0.65 and method == "GET":
            a, b = sorted(rng.randrange(len(data) + 2) for _ in range(2))
            headers["Range"] = rng.choice([f"bytes={a}-{b}", f"bytes={a}-", f"bytes=-{a}"])
            kind = "range"
        elif draw < 0.72 and (source, key) in tags:
            headers["If-None-Match"] = tags[source, key]
            kind = "condition"
        group = f"{'far' if source == 'far' and kind in ('whole', 'range', 'absent', 'condition') else 'near'} {'picture' if kind == 'picture' else 'key'}"
        said = f"{method} {target} {headers}"
        began = time.perf_counter()
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90, source_address=(GOOD, 0))
            connection.request(method, target, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except http.client.IncompleteRead:
            # Cut off loudly: what a failure in the middle of an answer has to look like.
            counts[f"{group} cut off"] += 1
            if group.startswith("near"):
                faults.append(f"{said}: cut off")
            connection.close()
            connection = None
            continue
        except (http.client.HTTPException, OSError) as e:
            counts[f"{group} {type(e).__name__}"] += 1
            # An idle connection may be closed under a request; a new one may not fail.
            if group.startswith("near") and not isinstance(e, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
                faults.append(f"{said}: {e!r}")
            connection.close()
            connection = None
            continue
        times[group].append(((time.perf_counter() - began) * 1e3, time.time(), said))
        status = answer.status
        counts[f"{group} {status}"] += 1
        if "Access-Control-Allow-Origin" not in answer.headers:
            faults.append(f"{said}: {status} without CORS")
        if status in (502, 503, 504):
            if group.startswith("near"):
                faults.append(f"{said}: {status} {body[:200]}")
            continue
        if kind == "listing" or kind == "picture":
            if status != 200:
                faults.append(f"{said}: {status} {body[:100]}")
            elif seen.setdefault(target, hashlib.md5(body).digest()) != hashlib.md5(body).digest():
                faults.append(f"{said}: other bytes than before")
            continue
        if data is None:
            wanted = 404, None
        elif kind == "range":
            wanted = expected(data, headers["Range"])
        elif kind == "condition":
            wanted = 304, b""
        else:
            wanted = 200, b"" if method == "HEAD" else data
        if kind == "whole" and status == 200 and "ETag" in answer.headers:
            tags[source, key] = answer.headers["ETag"]
        if kind == "range" and data == b"" and status in (200, 416) and not body:
            # The standard leaves it open for what is empty.
            continue
        if status != wanted[0] or (wanted[1] is not None and body != wanted[1]):
            faults.append(f"{said}: {status} with {len(body)} bytes, wanted {wanted[0]} with {len(wanted[1] or b'')}; {body[:80] if status >= 400 else ''}")
        if len(faults) > 50:
            break
    out.put((number, counts, dict(times), faults))


# ------------------------------------------------------------------------------------------------ rude clients
def malformed():
    """Requests that are wrong, and the statuses that may answer them; 0 is a closed connection."""
    host = b"Host: 127.0.0.1\r\n"
    get = b"GET /data/near/.zgroup HTTP/1.1\r\n"
    hidden = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    refused = {400, 0}
    return {
        "no Host": (get + b"\r\n", refused),
        "two Hosts": (get + host + b"Host: other\r\n\r\n", refused),
        "foreign Host": (get + b"Host: evil.example\r\n\r\n", {400, 403, 421}),
        "foreign absolute target": (b"GET http://evil.example/data/near/.zgroup HTTP/1.1\r\n" + host + b"\r\n", {400, 403, 421}),
        "space before the colon": (get + b"Host : 127.0.0.1\r\n\r\n", refused),
        "folded header": (get + host + b"X: a\r\n b\r\n\r\n", refused),
        "NUL in a header": (get + host + b"X: a\0b\r\n\r\n", refused),
        "bare CR in a header": (get + host + b"X: a\rb\r\n\r\n", refused),
        "no version": (b"GET /\r\n\r\n", refused),
        "unknown version": (b"GET / HTTP/9.9\r\n" + host + b"\r\n", {400, 505, 0}),
        "garbage": (bytes(range(256)) * 4 + b"\r\n\r\n", refused),
        "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), refused),
        "a huge header": (get + host + b"X: " + b"a" * 300_000 + b"\r\n\r\n", {400, 431, 0}),
        "many headers": (get + host + b"".join(b"X-%d: 1\r\n" % n for n in range(2000)) + b"\r\n", {400, 431, 0}),
        "a huge target": (b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n" + host + b"\r\n", {400, 414, 431, 0}),
        "a huge query": (b"GET /?" + b"a" * 300_000 + b" HTTP/1.1\r\n" + host + b"\r\n", {400, 414, 431, 0}),
        "two lengths": (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", refused),
        "negative length": (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n", refused),
        "length with a sign": (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: +3\r\n\r\nabc", refused),
        "huge length": (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 99999999999999999999999\r\n\r\n", {400, 413, 0}),
        "bad chunk size": (b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", {400, 405, 0}),
        "chunk size that overflows": (b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc", {400, 405, 0}),
        "unknown transfer coding": (b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: xchunked\r\n\r\n" + hidden, {400, 405, 501, 0}),
        "smuggled by length and chunks": (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, {400, 405, 0}),
        "smuggled by chunked twice": (b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden, {400, 405, 0}),
        "smuggled by HTTP/1.0 chunks": (b"POST / HTTP/1.0\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, {400, 405, 0}),
        "chunked GET": (get + host + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", {200, 400, 408, 0}),
        "dots": (b"GET /data/near/../../etc/passwd HTTP/1.1\r\n" + host + b"\r\n", {400, 404}),
        "encoded dots": (b"GET /data/near/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + host + b"\r\n", {400, 404}),
        "NUL in the target": (b"GET /data/near/%00 HTTP/1.1\r\n" + host + b"\r\n", {400, 404}),
        "half an escape": (b"GET /data/near/%e HTTP/1.1\r\n" + host + b"\r\n", {400, 404}),
        "bytes that are no UTF-8": (b"GET /data/near/%ff%fe HTTP/1.1\r\n" + host + b"\r\n", {400, 404}),
        "CONNECT": (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", {400, 403, 405, 421, 501, 0}),
        "TRACE": (b"TRACE / HTTP/1.1\r\n" + host + b"\r\n", {405, 501}),
        "Expect of something else": (get + host + b"Expect: 200-maybe\r\n\r\n", {200, 417, 400}),
        "many ranges": (get + host + b"Range: bytes=" + b",".join(b"%d-" % n for n in range(1000)) + b"\r\n\r\n", {200, 206, 416, 400, 431}),
        "XML that explodes": (b'PROPFIND /data/near/ HTTP/1.1\r\nDepth: 1\r\n' + host + b"Content-Length: %d\r\n\r\n%s" % (len(BOMB), BOMB), {400, 403, 413}),
        "deep XML": (b'PROPFIND /data/near/ HTTP/1.1\r\nDepth: 1\r\n' + host + b"Content-Length: 60000\r\n\r\n" + b"<a>" * 20_000, {400, 413}),
        "a large body": (b'PROPFIND /data/near/ HTTP/1.1\r\nDepth: 1\r\n' + host + b"Content-Length: 9000000\r\n\r\n" + b"x" * 200_000, {400, 413, 0}),
    }


BOMB = b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]><propfind xmlns="DAV:"><prop><a>&c;</a></prop></propfind>'


def raw_answer(port, data, wait=14):
    """Statuses of all answers on one connection, until it is closed or nothing comes for a second after one."""
    received, statuses = b"", []
    try:
        with socket.create_connection(("127.0.0.1", port), 5, source_address=(RUDE, 0)) as s:
            s.settimeout(wait)
            try:
                s.sendall(data)
            except (ConnectionError, TimeoutError):
                pass
            try:
                while more := s.recv(65536):
                    received += more
                    # The first answer may take its time; after it, wait only for a second one.
                    s.settimeout(1)
            except TimeoutError:
                if not received:
                    return [-1]
            except ConnectionError:
                pass
    except OSError as e:
        return [f"{e!r}"]
    statuses = [int(m) for m in re.findall(rb"(?:^|(?<=\n)|(?<=[^\r\n]))HTTP/1\.[01] (\d{3}) ", received)]
    return statuses or [0]


def send_malformed(port, until, state):
    cases = malformed()
    while time.time() < until:
        for name, (data, allowed) in cases.items():
            got = raw_answer(port, data)
            state.counts["malformed requests"] += 1
            if not set(got) <= allowed or len(got) > 1:
                state.fault(f"malformed, {name}: {got}, allowed {sorted(allowed)} once")
            if time.time() > until and state.counts["malformed requests"] >= len(cases):
                return


def leave_early(port, until, seed, state):
    """Asks for something large, and goes."""
    rng = random.Random(seed)
    while time.time() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), 5, source_address=(RUDE, 0)) as s:
                target = rng.choice(["/data/near/big", "/data/far/big", "/data/zip/big", "/data/near/", "/thumb/image?size=512", "/region/image?format=tif&size=1024"])
                text = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
                s.sendall(text[: rng.randrange(1, len(text))] if rng.random() < 0.3 else text * rng.choice([1, 1, 5]))
                if rng.random() < 0.6:
                    s.settimeout(0.5)
                    s.recv(rng.choice([1, 1000, 100_000]))
                if rng.random() < 0.5:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        state.counts["clients that left"] += 1
        time.sleep(0.03)


def half_open(port, until, state):
    """Connections on which nothing comes: the server ends them."""
    while time.time() < until:
        held = []
        for n in range(40):
            try:
                s = socket.create_connection(("127.0.0.1", port), 5, source_address=(RUDE, 0))
                s.sendall([b"", b"G", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"POST /api/zarr/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nab"][n % 4])
                held.append(s)
            except OSError:
                pass
        state.counts["half-open connections"] += len(held)
        began = time.time()
        for n, s in enumerate(held):
            s.settimeout(max(25 - (time.time() - began), 0.1))
            try:
                while s.recv(65536):
                    pass
            except TimeoutError:
                state.fault(f"a half-open connection was held for 25 s after {['nothing', 'a byte', 'half a header', 'half a body'][n % 4]}")
            except OSError:
                pass
            s.close()
        state.longest = max(getattr(state, "longest", 0), time.time() - began)


def slow_clients(port, until, work, state):
    """slowhttptest, its four kinds one after the other."""
    tool = shutil.which("slowhttptest")
    if not tool:
        print("left out: slowhttptest is not installed")
        return
    base = f"http://127.0.0.1:{port}"
    kinds = {"slow headers": ["-H", "-i", "3", "-u", f"{base}/"], "slow bodies": ["-B", "-i", "3", "-t", "POST", "-s", "8192", "-u", f"{base}/data/near/"],
             "slow readers": ["-X", "-n", "1", "-z", "10", "-w", "10", "-y", "60", "-k", "3", "-u", f"{base}/data/near/big"], "ranges": ["-R", "-a", "1", "-b", "3000", "-t", "GET", "-u", f"{base}/data/near/big"]}
    while time.time() < until:
        for name, how in kinds.items():
            left = min(int(until - time.time()), 40)
            if left < 5:
                return
            subprocess.run([tool, "-c", "150", "-r", "50", "-p", "5", "-x", "16", "-v", "0", "-l", str(left // 2 or 1), *how], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work, timeout=left + 60)
            state.counts[f"slowhttptest, {name}"] += 1


# ------------------------------------------------------------------------------------------------ the whole
class State:
    def __init__(self):
        self.counts, self.faults, self.lock = collections.Counter(), collections.Counter(), threading.Lock()

    def fault(self, text):
        with self.lock:
            self.faults[text] += 1


def usage(pid):
    """Resident megabytes, file descriptors and threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    number = lambda name: int(re.search(rf"{name}:\s+(\d+)", status)[1])  # noqa: E731
    return number("VmRSS") / 1024, len(os.listdir(f"/proc/{pid}/fd")), number("Threads")


def make_files(work, rng):
    """The same keys as a folder, a ZIP and behind the web server; and an image."""
    files = {".zgroup": b'{"zarr_format": 2}', "big": rng.randbytes(20_000_000)}
    for n in range(160):
        folder = rng.choice(["", "a/", "a/b/", "odd name/", "é/"])
        files[f"{folder}k{n}"] = rng.randbytes(rng.choice(SIZES))
    for key, data in files.items():
        (work / "near" / key).parent.mkdir(parents=True, exist_ok=True)
        (work / "near" / key).write_bytes(data)
    shutil.make_archive(str(work / "zip"), "zip", work / "near")
    return files


def make_image(path):
    """An image of two levels, and addresses of pictures of it; nothing where zarr is not here."""
    try:
        import numpy as np
        import zarr
    except ImportError:
        return []
    root = zarr.create_group(store=str(path), zarr_format=2)
    full = np.random.default_rng(1).integers(0, 4000, (2, 1024, 1024), dtype="uint16")
    for level in range(2):
        root.create_array(str(level), shape=full.shape, dtype="uint16", chunks=(1, 256, 256), chunk_key_encoding={"name": "v2", "separator": "/"})[:] = full
        full = full[:, ::2, ::2]
    axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    datasets = [{"path": str(n), "coordinateTransformations": [{"type": "scale", "scale": [1, 2**n, 2**n]}]} for n in range(2)]
    root.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    tiles = [f"/tile/image/0/{r}_{c}.{kind}" for r in range(2) for c in range(2) for kind in ("bin", "png", "jpg")]
    return [*tiles, "/thumb/image?size=128", "/thumb/image?size=300&format=jpg", "/histogram/image?c=0"]


def percentile(values, q):
    values = sorted(values)
    return values[min(int(len(values) * q), len(values) - 1)] if values else float("nan")


def main():
    p = common.parser(__doc__)
    p.add_argument("--minutes", type=float, default=0.7)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--clients", type=int, default=3)
    args = p.parse_args()
    zaro, rng, state = common.find_zaro(args.zaro), random.Random(args.seed), State()
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = make_files(work, rng)
        pictures = make_image(work / "image.zarr")
        mine, theirs = multiprocessing.Pipe()
        behind = multiprocessing.Process(target=back_end, args=(work / "near", theirs), daemon=True)
        behind.start()
        sources = work / "sources.txt"
        lines = [f"near={work / 'near'}", f"zip={work / 'zip.zip'}", f"far=http://127.0.0.1:{mine.recv()}/"]
        sources.write_text("\n".join(lines + ([f"image={work / 'image.zarr'}"] if pictures else [])) + "\n")
        log = open(work / "stderr", "w+")
        saved = os.dup(2)
        os.dup2(log.fileno(), 2)
        server = Server(zaro, "--sources", sources, "--cors", "*", "--host", "127.0.0.1", "--metrics")
        os.dup2(saved, 2)
        pid = server.process.pid
        idle = usage(pid)
        until = time.time() + args.minutes * 60
        out = multiprocessing.Queue()
        workers = [multiprocessing.Process(target=good_client, args=(n, server.port, files, pictures, until, args.seed * 100 + n, out), daemon=True) for n in range(args.clients)]
        rude = [threading.Thread(target=t, daemon=True, args=a) for t, a in (
            (send_malformed, (server.port, until, state)), (leave_early, (server.port, until, args.seed, state)),
            (half_open, (server.port, until - 26, state)), (slow_clients, (server.port, until, work, state)))]
        for one in workers + rude:
            one.start()
        atexit.register(lambda: [w.kill() for w in workers])
        began, samples, hangups = time.time(), [], 0
        while time.time() < until + 60 and (any(t.is_alive() for t in rude) or time.time() < until):
            if server.process.poll() is not None:
                state.fault(f"the server ended with {server.process.returncode}")
                break
            samples.append((time.time() - began, *usage(pid)))
            if len(samples) % 11 == 10 and time.time() < until:
                os.kill(pid, signal.SIGHUP)
                hangups += 1
            time.sleep(1)
        counts, times, answered = collections.Counter(), collections.defaultdict(list), 0
        for _ in workers:
            try:
                _, some, took, faults = out.get(timeout=100)
            except queue.Empty:
                state.fault("a good client waits without end")
                continue
            counts.update(some)
            answered += sum(map(len, took.values()))
            for group, values in took.items():
                times[group] += values
            for text in faults:
                state.fault(text)
        alive = server.process.poll() is None
        if alive:
            # What clients left behind is cleared away within the time-outs.
            end = time.time() + 40
            while time.time() < end and usage(pid)[1] > idle[1] + 12:
                time.sleep(0.5)
            last = usage(pid)
            if last[1] > idle[1] + 12:
                state.fault(f"{last[1]} file descriptors after all have gone, {idle[1]} at the start")
            warm = [s for s in samples if s[0] > args.minutes * 60 * 0.3]
            early, late = warm[: max(len(warm) // 4, 1)], warm[-max(len(warm) // 4, 1) :]
            a, b = (percentile([s[1] for s in part], 0.5) for part in (early, late))
            # A short run still fills the caches; a long one must not grow.
            if args.minutes >= 3 and b > a * 1.15 + 16:
                state.fault(f"resident grew from {a:.0f} to {b:.0f} MB")
            if max(s[1] for s in samples) > 256 * 2 + 100:
                state.fault(f"resident reached {max(s[1] for s in samples):.0f} MB with a budget of 256")
            print(f"resident: {idle[0]:.0f} MB at the start, {a:.0f} after warming up, {b:.0f} in the last quarter, {max(s[1] for s in samples):.0f} at most, {last[0]:.0f} at the end")
            print(f"file descriptors: {idle[1]} at the start, {max(s[2] for s in samples)} at most, {last[1]} at the end; threads {max(s[3] for s in samples)} at most")
            code = server.stop()
            if code != 0:
                state.fault(f"exit {code} on SIGTERM")
        log.seek(0)
        text = log.read()
        if "panicked" in text:
            state.fault("panic: " + text[text.index("panicked") :][:400])
        behind.kill()
    print(f"{answered} answers to good clients in {args.minutes:g} minutes, {hangups} reloads; " + ", ".join(f"{v} {k}" for k, v in sorted(state.counts.items())) + f"; half-open connections ended within {getattr(state, 'longest', 0):.0f} s")
    print("answers: " + ", ".join(f"{k}: {v}" for k, v in sorted(counts.items())))
    for group, values in sorted(times.items()):
        if args.verbose:
            print("".join(f"{took:.0f} ms at {at - began:.1f} s: {said}\n" for took, at, said in sorted(values)[-5:]))
        values = [took for took, _, _ in values]
        print(f"good clients, {group}: p50 {percentile(values, 0.5):.1f} ms, p99 {percentile(values, 0.99):.1f} ms, at most {max(values):.0f} ms of {len(values)}")
    for text, n in state.faults.most_common(40):
        print(f"FAILED ({n} times) {text}"[:700])
    print("held" if not state.faults else f"{sum(state.faults.values())} failures of {len(state.faults)} kinds")
    sys.exit(bool(state.faults))


if __name__ == "__main__":
    main()

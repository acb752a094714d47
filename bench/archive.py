"""An archive of versions: `zaro serve` beside another server of the same manifests.

    archive.py [--zaro PATH] [--peer URL --peer-pid PID --peer-name NAME] [--paths N] [--seconds N]

Makes an archive in memory-backed files: small Zarrs with several versions and odd names, one version of 1,000,000 entries,
and one folder of 100,000. Its manifest tree is also served over HTTP (--tree PORT: a folder answers
`{"files": [...], "directories": [...]}`, a manifest its JSON), and versions lie below --objects URL: this is what a peer
needs. The peer is started by whoever runs this, for example dandidav built with this tree and these objects as its two
addresses and without a rate limit; with no --peer only zaro is measured.

1. Random paths, the same to both: status, Location, and what PROPFIND says must agree. A difference that is meant has a
   name here, and is counted; any other is a failure.
2. Redirects a second for random entries of the 1,000,000 (wrk, one server after the other, best round), the time to the first byte of a folder
   of 100,000, and resident memory.

Writes bench/results-archive.md.
"""

import argparse
import collections
import datetime
import http.client
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import common  # noqa: E402
from serve_archive import BIG, FLAT, ROWS, Zaro, md5, write_manifest  # noqa: E402

NAMES = ["0", "1", "12", "a b", "é", "日本", "a#b", "a?b", "50%", "%41", "a&b", "<x>", "it's", "x+y", "a;b=c", "~t", "(1)", "a:b", "@", "$", "!", "*", "a,b", "[0]", "q\"q", ".zarray", "zarr.json", "A", "a"]


class Tree(BaseHTTPRequestHandler):
    """The manifest tree, as an index that programs read."""

    protocol_version = "HTTP/1.1"
    root = None

    def do_GET(self):
        place = self.root / urllib.parse.unquote(self.path).removeprefix("/manifests").strip("/")
        if place.is_dir():
            names = sorted(place.iterdir())
            body = json.dumps({"files": [n.name for n in names if n.is_file()], "directories": [n.name for n in names if n.is_dir()]}).encode()
        elif place.is_file():
            body = place.read_bytes()
        else:
            body = None
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


def make_archive(root, rng, entries):
    """Small Zarrs with known files, the large one and the wide one. Versions: address -> (path -> (version, size, tag))."""
    known = {}
    for n in range(12):
        zarr = f"{rng.randrange(16**8):08x}-{rng.randrange(16**4):04x}-4{rng.randrange(16**3):03x}-8{rng.randrange(16**3):03x}-{rng.randrange(16**12):012x}"
        files = {}
        for version in range(rng.choice([1, 2, 3])):
            for _ in range(rng.randrange(5, 25)):
                path = "/".join(rng.choice(NAMES) for _ in range(rng.randrange(1, 5)))
                # No file where there is a folder, nor the other way round.
                if any(f == path or f.startswith(path + "/") or path.startswith(f + "/") for f in files):
                    continue
                mark = md5(f"{zarr} {version} {path}".encode())
                files[path] = (mark, rng.randrange(10**6), mark)
            checksum = write_manifest(root, zarr, [(p, *e) for p, e in files.items()], f"2024-0{version + 1}-01")
            known[f"/zarrs/{zarr[:3]}/{zarr[3:6]}/{zarr}/{checksum}.zarr"] = dict(files)
    big = write_manifest(root, BIG, ((f"0/{i // 10000}/{i // 100 % 100}/{i % 100}", md5(b"%d" % i), i % 1000, md5(b"%d" % i)) for i in range(entries)), "2024-01-01")
    flat = write_manifest(root, FLAT, ((f"d/{i}", md5(b"%d" % i), i, md5(b"%d" % i)) for i in range(ROWS)), "2024-01-01")
    return known, f"/zarrs/{BIG[:3]}/{BIG[3:6]}/{BIG}/{big}.zarr", f"/zarrs/{FLAT[:3]}/{FLAT[3:6]}/{FLAT}/{flat}.zarr"


def random_request(rng, known, big, entries):
    """Method, target, headers, and what kind of request it is."""
    quote = urllib.parse.quote
    base, files = rng.choice(sorted(known.items()))
    path = rng.choice(sorted(files))
    folders = sorted({"/".join(path.split("/")[:n]) for path in files for n in range(path.count("/") + 1)} - {""})
    folder = rng.choice(folders) if folders else ""
    above = base.split("/")
    i = rng.randrange(entries)
    deep = f"{big}/0/{i // 10000}/{i // 100 % 100}/{i % 100}"
    # As encoded as clients have it: all but unreserved, or only what must be.
    loose = quote(path, safe="/!$&'()*+,;=:@~")
    kind, target = rng.choice([
        ("entry", f"{base}/{quote(path)}"), ("entry", f"{base}/{loose}"), ("entry", deep), ("entry", f"{base}/{quote(path)}"),
        ("entry with a slash", f"{base}/{quote(path)}/"),
        ("folder", f"{base}/{quote(folder)}/" if folder else f"{base}/"),
        ("folder without a slash", f"{base}/{quote(folder)}" if folder else base),
        ("folder", "/".join(above[: rng.randrange(2, 5)]) + "/"), ("folder without a slash", "/".join(above[: rng.randrange(2, 5)])),
        ("versions", "/".join(above[:5]) + "/"),
        ("absent", f"{base}/{quote(path)}x"), ("absent", f"{base}/{quote(path)}/x"), ("absent", f"{big}/0/0/0/{entries + i}"),
        ("absent", f"{base[:-10]}00000.zarr/{quote(path)}"), ("absent", f"/zarrs/000/{i % 1000:03d}/"), ("absent", f"{base}x/0"), ("absent", base.replace(".zarr", "") + "/0"),
        ("absent", f"{base}/.git/config"), ("absent", f"/nothing/{i}"),
        ("manifest", base.replace(".zarr", ".json")),
        ("top in capitals", "/ZARRS/" + "/".join(above[2:]) + "/" + quote(path)),
        ("dots", f"{base}/./{quote(path)}"), ("dots", f"{base}/x/../{quote(path)}"), ("double slash", f"{base}//{quote(path)}"),
    ])
    method = rng.choice(["GET", "GET", "GET", "HEAD", "PROPFIND", "OPTIONS", "DELETE"])
    headers = {}
    if method == "PROPFIND":
        depth = rng.choice(["0", "1", "1", "2", None])
        if depth is not None:
            headers["Depth"] = depth
        kind += f", depth {depth}"
    return method, target, headers, kind


def ask(host, method, target, headers):
    connection = http.client.HTTPConnection(host, timeout=120)
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def properties(body):
    """What a multistatus says: (address, is a folder) -> (size, tag without quotes, date of a file)."""
    found = {}
    for response in ET.fromstring(body).iter("{DAV:}response"):
        text = {e.tag.removeprefix("{DAV:}"): e.text for e in response.iter()}
        folder = response.find(".//{DAV:}collection") is not None
        key = (urllib.parse.unquote(text["href"]).rstrip("/"), folder)
        found[key] = None if folder else (text.get("getcontentlength"), (text.get("getetag") or "").strip('"'), text.get("getlastmodified"))
    return found


def difference(method, target, kind, ours, theirs):
    """None if both said the same; else (whether it is meant, what)."""
    a, b = ours[0], theirs[0]
    if method in ("OPTIONS", "DELETE") and (a // 100 == b // 100):
        return None
    if a == b == 307:
        if ours[1]["Location"] == theirs[1]["Location"]:
            return None
        if urllib.parse.unquote(ours[1]["Location"]) == urllib.parse.unquote(theirs[1]["Location"]):
            return True, "the same Location, with all but unreserved characters encoded (a bare + is a space to some stores)"
        return False, "other Location"
    if a == b == 207:
        mine, other = properties(ours[2]), properties(theirs[2])
        if mine == other:
            return None
        # The manifests themselves are files here.
        extra = {key for key in mine if key[0].endswith(".json")}
        if {k: v for k, v in mine.items() if k not in extra} == other:
            return True, "PROPFIND lists manifests, too"
        return False, f"PROPFIND: {list(set(mine.items()) ^ set(other.items()))[:2]}"
    if a == b:
        return None
    if kind.startswith("folder without a slash") and (a, b) == (301, 200):
        return True, "a folder without its slash is redirected to the slash, not shown"
    if kind.startswith("manifest") and b == 404:
        return True, "manifests can be fetched"
    if kind.startswith(("dots", "double slash")) and a == 400:
        return True, "a path with dots or a double slash is refused, not made simple"
    if kind.startswith("absent") and a == 404 and b in (400, 403):
        return True, "what is absent is 404 whatever the depth"
    if "depth None" in kind and (a, b) == (207, 403):
        return True, "PROPFIND without a depth is answered where that is bounded, not refused"
    return False, f"{a}, peer {b}"


def compare(rng, server, peer, known, big, entries, count):
    counts, meant, faults = collections.Counter(), collections.Counter(), []
    for _ in range(count):
        method, target, headers, kind = random_request(rng, known, big, entries)
        ours, theirs = ask(server, method, target, headers), ask(peer, method, target, headers)
        what = difference(method, target, kind, ours, theirs)
        if what is None:
            counts["same"] += 1
        elif what[0]:
            counts["meant"] += 1
            meant[what[1]] += 1
        else:
            counts["different"] += 1
            faults.append(f"{method} {target} {headers} ({kind}): {what[1]}; Location {ours[1]['Location']} | {theirs[1]['Location']}")
    return counts, meant, faults


def wrk(url, prefix, work, seconds, connections, entries):
    script = work / "wrk.lua"
    script.write_text(
        f"local function path() local i = math.random(0, {entries - 1})\n"
        f'  return string.format("{prefix}/0/%d/%d/%d", math.floor(i / 10000), math.floor(i / 100) % 100, i % 100) end\n'
        'request = function() return wrk.format("GET", path()) end\n'
        "local bad = 0\nresponse = function(status) if status ~= 307 then wrk.thread:stop() end end\n"
    )
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", str(script), url]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx or 3xx" in out:
        sys.exit(f"{url}: {out}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), re.search(r"50%\s+(\S+)", out)[1], re.search(r"99%\s+(\S+)", out)[1]


def first_byte(host, method, target, headers):
    connection = http.client.HTTPConnection(host, timeout=120)
    began = time.perf_counter()
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    answer.read(1)
    first = time.perf_counter() - began
    size = 1 + len(answer.read())
    return first * 1e3, (time.perf_counter() - began) * 1e3, size


def memory(pid):
    if not pid:
        return None
    values = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def measure(name, host, pid, big, flat, work, args):
    """The figures of one server, in a dict."""
    figures = {"start": memory(pid)}
    began = time.perf_counter()
    status, _, _ = ask(host, "GET", f"{big}/0/0/0/0", {})
    if status != 307:
        sys.exit(f"{name}: the first entry is answered with {status}")
    figures["cold"] = (time.perf_counter() - began) * 1e3
    best = (0, "", "")
    for _ in range(args.rounds):
        best = max(best, wrk(f"http://{host}", big, work, args.seconds, args.connections, args.entries))
    figures["rate"] = best
    figures["hits"] = memory(pid)
    ask(host, "GET", f"{flat}/d/0", {})
    figures["page"] = min(first_byte(host, "GET", f"{flat}/d/", {"Accept": "text/html"}) for _ in range(3))
    figures["propfind"] = min(first_byte(host, "PROPFIND", f"{flat}/d/", {"Depth": "1"}) for _ in range(3))
    figures["end"] = memory(pid)
    print(name, figures, flush=True)
    return figures


def report(args, measured, counts, meant):
    lines = [
        f"# Archives, {datetime.date.today()}", "",
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}; wrk with 2 threads and {args.connections} connections on the same machine, best of {args.rounds} rounds of {args.seconds} s. A manifest of {args.entries:,} entries, random entries of it, answered by a redirect; a folder of {ROWS:,}. Written by `bench/archive.py`.",
        "", "| | " + " | ".join(measured) + " |", "|---|" + "---|" * len(measured),
    ]

    def row(title, text):
        lines.append(f"| {title} | " + " | ".join(text(f) for f in measured.values()) + " |")

    megabytes = lambda pair: f"{pair[0]:.0f} MB (at most {pair[1]:.0f})" if pair else "not measured"  # noqa: E731
    row("first request to the manifest", lambda f: f"{f['cold']:,.0f} ms")
    row("warm hits", lambda f: f"{f['rate'][0]:,.0f}/s, p50 {f['rate'][1]}, p99 {f['rate'][2]}")
    row("folder as a page: first byte", lambda f: f"{f['page'][0]:,.0f} ms")
    row("folder as a page: all", lambda f: f"{f['page'][1]:,.0f} ms, {f['page'][2] / 1e6:.1f} MB")
    row("PROPFIND of the folder: first byte", lambda f: f"{f['propfind'][0]:,.0f} ms")
    row("PROPFIND of the folder: all", lambda f: f"{f['propfind'][1]:,.0f} ms, {f['propfind'][2] / 1e6:.1f} MB")
    row("resident after the hits", lambda f: megabytes(f["hits"]))
    row("resident after the folders", lambda f: megabytes(f["end"]))
    if counts:
        lines += ["", f"{sum(counts.values()):,} random requests to both: {counts['same']:,} answered alike, {counts['meant']:,} differ as meant, {counts['different']:,} otherwise.", ""]
        lines += [f"- {what}: {n}" for what, n in meant.most_common()]
    Path(args.out).write_text("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zaro")
    p.add_argument("--peer", help="address of a running peer, http://127.0.0.1:PORT")
    p.add_argument("--peer-pid", type=int, help="its process, for its memory")
    p.add_argument("--peer-name", default="peer")
    p.add_argument("--tree", type=int, default=18950, help="port of the manifest tree, at /manifests/")
    p.add_argument("--objects", default="http://127.0.0.1:18951/zarr", help="where versions are said to be; nothing is fetched from there")
    p.add_argument("--entries", type=int, default=1_000_000)
    p.add_argument("--paths", type=int, default=1000)
    p.add_argument("--seconds", type=int, default=6)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--connections", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=str(HERE / "results-archive.md"))
    args = p.parse_args()
    zaro, rng = common.find_zaro(args.zaro), random.Random(args.seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        work = Path(folder)
        known, big, flat = make_archive(work / "archive", rng, args.entries)
        Tree.root = work / "archive" / "zarr-manifest"
        tree = ThreadingHTTPServer(("127.0.0.1", args.tree), Tree)
        threading.Thread(target=tree.serve_forever, daemon=True).start()
        server = Zaro(zaro, f"arch={work / 'archive'}", "--objects", args.objects, "--redirect")
        counts, meant, faults = collections.Counter(), collections.Counter(), []
        try:
            measured = {"zaro": measure("zaro", server.host, server.process.pid, big, flat, work, args)}
            if args.peer:
                peer = args.peer.removeprefix("http://")
                measured[args.peer_name] = measure(args.peer_name, peer, args.peer_pid, big, flat, work, args)
                counts, meant, faults = compare(rng, server.host, peer, known, big, args.entries, args.paths)
        finally:
            server.stop()
    report(args, measured, counts, meant)
    print(Path(args.out).read_text())
    for fault in faults:
        print("DIFFERENT", fault)
    sys.exit(bool(faults))


main()

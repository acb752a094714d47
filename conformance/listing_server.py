"""A bucket of as many objects as one likes, which exists only as listings.

Answers ListObjectVersions and ListObjectsV2 (by path, unsigned or signed, prefix and delimiter as S3 has them) of objects
that are computed from their numbers, so that the memory of whoever lists a million of them can be measured:

    python conformance/listing_server.py --objects 1000000 --run target/release/zaro

With --run it starts `zaro manifest create` on itself, says how much memory that took, and ends.
"""

import argparse
import bisect
import functools
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ID = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d"
PREFIX = f"zarr/{ID}/"
WIDTH = 100


def make_keys(count):
    """Keys of a Zarr whose chunks lie in folders of a hundred, sorted."""
    names = (f"{PREFIX}0/{i // WIDTH // WIDTH}/{i // WIDTH % WIDTH}/{i % WIDTH}" for i in range(count))
    return sorted([*names, PREFIX + ".zattrs", PREFIX + "0/.zarray"])


def entry(key, versions):
    etag = hashlib.md5(key.encode()).hexdigest()
    tag = "Version" if versions else "Contents"
    more = f"<VersionId>{etag}</VersionId><IsLatest>true</IsLatest>" if versions else ""
    return (
        f"<{tag}><Key>{urllib.parse.quote(key)}</Key>{more}<LastModified>2026-11-15T20:02:14.000Z</LastModified>"
        f"<ETag>&quot;{etag}&quot;</ETag><Size>{len(key)}</Size><StorageClass>STANDARD</StorageClass></{tag}>"
    )


@functools.lru_cache(maxsize=500)
def rows(versions, at, end):
    return "".join(entry(key, versions) for key in Handler.keys[at:end])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keys = []
    requests = 0
    delay = 0.0

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query, keep_blank_values=True))
        versions = "versions" in query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("key-marker") or query.get("continuation-token") or query.get("start-after") or ""
        at = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, after) if after else 0)
        body, folders, last, count = [], [], "", 0
        if not delimiter:
            # Rows that follow each other, which is most of the work.
            end = min(at + 1000, bisect.bisect_left(self.keys, prefix + "\U0010ffff"))
            if end > at:
                body, last, count, at = [rows(versions, at, end)], self.keys[end - 1], 1000, end
        while at < len(self.keys) and count < 1000 and self.keys[at].startswith(prefix):
            key = self.keys[at]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            count += 1
            if cut < 0:
                body.append(entry(key, versions))
                last, at = key, at + 1
            else:
                last = key[: cut + 1]
                if last != after:
                    folders.append(last)
                at = bisect.bisect_left(self.keys, last + "\U0010ffff")
        more = at < len(self.keys) and self.keys[at].startswith(prefix)
        if delimiter and folders and last == folders[-1]:
            # Whoever goes on after a folder goes on after all that is in it.
            last += "\U0010ffff"
        root = "ListVersionsResult" if versions else "ListBucketResult"
        marker = urllib.parse.quote(last)
        next_ = (
            f"<NextKeyMarker>{marker}</NextKeyMarker><NextVersionIdMarker>x</NextVersionIdMarker>"
            if versions
            else f"<NextContinuationToken>{last}</NextContinuationToken>"
        )
        text = (
            f"<?xml version='1.0'?><{root}><EncodingType>url</EncodingType>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{next_ if more else ''}{''.join(body)}"
            + "".join(f"<CommonPrefixes><Prefix>{urllib.parse.quote(f)}</Prefix></CommonPrefixes>" for f in folders)
            + f"</{root}>"
        ).encode()
        Handler.requests += 1
        time.sleep(self.delay)
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--objects", type=int, default=100_000)
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--run", metavar="ZARO", help="make a manifest with this binary and say what it took")
    p.add_argument("--limit", type=int, metavar="MB", help="with --run: fail if it took more memory")
    p.add_argument("--delay", type=float, default=0, metavar="SECONDS", help="how long a page takes")
    p.add_argument("--times", type=float, metavar="N", help="with --run: fail if it is not so many times as fast as one page after another")
    options = p.parse_args()
    Handler.keys, Handler.delay = make_keys(options.objects), options.delay
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    if not options.run:
        print(address, flush=True)
        server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if options.delay:
        # Made before, so that the time is that of the pages and not of this script.
        for folder in {k.rsplit("/", 3)[0] for k in Handler.keys if k.count("/") > 4}:
            at, stop = (bisect.bisect_left(Handler.keys, folder + e) for e in ("/", "/\U0010ffff"))
            for page in range(at, stop, 1000):
                rows(True, page, min(page + 1000, stop))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "m.json")
        started = time.monotonic()
        command = [options.run, "manifest", "create", f"s3://b/zarr/{ID}", "-o", out]
        command += ["--endpoint", address, "--anonymous", "--listings", "1"]
        done = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # By the process itself: the peak of a child counts the memory of this script, from before it became zaro.
        peak = 0
        while done.poll() is None:
            try:
                with open(f"/proc/{done.pid}/status") as status:
                    peak = max([peak, *(int(l.split()[1]) / 1024 for l in status if l.startswith("VmHWM"))])
            except OSError:
                pass
            time.sleep(0.01)
        seconds = time.monotonic() - started
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"exit {done.returncode}")
        print(
            f"{options.objects} objects, {Handler.requests} requests: {os.path.getsize(out)} bytes of manifest, "
            f"peak {peak:.0f} MB, {usage.ru_utime + usage.ru_stime:.1f} CPU-s, {seconds:.1f} s (the server took most)"
        )
        if options.limit and peak > options.limit:
            sys.exit(f"more than {options.limit} MB")
        serial = (options.objects / 1000) * options.delay
        if options.times and seconds * options.times > serial:
            sys.exit(f"one page after another would take {serial:.1f} s, this took {seconds:.1f} s")


if __name__ == "__main__":
    main()

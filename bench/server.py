"""A web server for the benchmarks: serves a folder, each answer late, and counts.

As good servers do, it sends `ETag`, `Last-Modified` and `Accept-Ranges`, answers a range with 206 (416 if there is nothing there),
and holds to `If-Match` (412), `If-None-Match` (304) and `If-Range` (all of the object if it is another one by now). Bodies go out with
sendfile, and several processes share the port, so that what is measured is the client. One range per request; of several, all is sent.
"""

import asyncio
import email.utils
import multiprocessing
import os
import re
import socket
import urllib.parse

# Bodies up to this size are sent together with their head.
SMALL = 64 << 10
FIELD = re.compile(rb"\r\n(range|if-range|if-match|if-none-match): *([^\r\n]*)", re.I)
RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


def tags(text):
    return [t.strip() for t in text.split(",")]


def span(wanted, size):
    """The first byte and the one after the last of a `Range`; None if all is to be sent, () if there is nothing there."""
    match = RANGE.match(wanted or "")
    if not match or wanted == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else ()
    end = min(int(last) + 1, size) if last else size
    return (int(first), end) if int(first) < end else ()


class Client(asyncio.Protocol):
    """One connection: requests are answered in turn, each `delay` seconds after it came."""

    def __init__(self, folder, delay, counts):
        self.folder, self.delay, self.counts = folder, delay, counts
        self.waiting, self.busy = b"", False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.waiting += data
        self.next()

    def next(self):
        if self.busy or b"\r\n\r\n" not in self.waiting:
            return
        head, self.waiting = self.waiting.split(b"\r\n\r\n", 1)
        self.busy = True
        self.counts[0] += 1
        asyncio.get_running_loop().call_later(self.delay, self.answer, head)

    def done(self, _=None):
        self.busy = False
        self.next()

    def say(self, status, fields=(), body=b"", length=None):
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *fields, "", ""]
        self.transport.write("\r\n".join(lines).encode() + body)

    def answer(self, head):
        method, target = head.split(None, 2)[:2]
        name = urllib.parse.unquote(target.decode().split("?")[0]).lstrip("/")
        asked = {k.decode().lower(): v.decode().strip() for k, v in FIELD.findall(head)}
        path = os.path.join(self.folder, name)
        try:
            file = open(path, "rb", buffering=0) if os.path.isfile(path) else None
        except OSError:
            file = None
        if file is None or ".." in name.split("/"):
            self.say("404 Not Found")
            return self.done()
        about = os.fstat(file.fileno())
        tag, date = f'"{about.st_mtime_ns:x}-{about.st_size:x}"', email.utils.formatdate(about.st_mtime, usegmt=True)
        fields = [f"ETag: {tag}", f"Last-Modified: {date}", "Accept-Ranges: bytes", "Content-Type: application/octet-stream"]
        first, end, status = 0, about.st_size, "200 OK"
        if "if-match" in asked and not {"*", tag} & set(tags(asked["if-match"])):
            status = "412 Precondition Failed"
        elif "if-none-match" in asked and {"*", tag} & set(tags(asked["if-none-match"])):
            status = "304 Not Modified"
        elif asked.get("if-range", tag) in (tag, date):
            part = span(asked.get("range"), end)
            if part == ():
                status = "416 Range Not Satisfiable"
                fields.append(f"Content-Range: bytes */{end}")
            elif part:
                status = "206 Partial Content"
                fields.append(f"Content-Range: bytes {part[0]}-{part[1] - 1}/{end}")
                first, end = part
        length = end - first
        if method == b"HEAD" or status[:2] != "20":
            file.close()
            self.say(status, fields, length=length if status[0] != "4" else 0)
            return self.done()
        self.counts[1] += length
        if length <= SMALL:
            self.say(status, fields, os.pread(file.fileno(), length, first))
            file.close()
            return self.done()
        self.say(status, fields, length=length)
        asyncio.ensure_future(self.send(file, first, length))

    async def send(self, file, first, length):
        try:
            await asyncio.get_running_loop().sendfile(self.transport, file, first, length)
            self.done()
        except (OSError, RuntimeError):
            self.transport.close()
        finally:
            file.close()


def serve(listening, folder, delay, counts):
    parent = os.getppid()

    async def main():
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: Client(folder, delay, counts), sock=listening, backlog=1024)
        # A server that outlived its parent would go on to take connections, and nobody would count them.
        while os.getppid() == parent:
            await asyncio.sleep(0.2)

    asyncio.run(main())


class Server:
    """Serves `folder` at `port` of this machine while it is open."""

    def __init__(self, folder, port, delay, processes=2):
        self.counts, self.children = [], []
        self.base = f"http://127.0.0.1:{port}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise SystemExit(f"somebody serves at port {port} already")
        for _ in range(processes):
            # Each has a queue of its own at the same port, and the kernel shares the connections out.
            listening = socket.socket()
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen(1024)
            counts = multiprocessing.RawArray("Q", 2)
            child = multiprocessing.Process(target=serve, args=(listening, str(folder), delay, counts), daemon=True)
            child.start()
            listening.close()
            self.counts.append(counts)
            self.children.append(child)

    def take(self):
        """The requests and the bytes of bodies since the last time this was asked."""
        got = [sum(c[i] for c in self.counts) for i in (0, 1)]
        for counts in self.counts:
            counts[0] = counts[1] = 0
        return got

    def cpu(self):
        """CPU seconds of each process so far."""
        used = []
        for child in self.children:
            fields = open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()
            used.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        return used

    def close(self):
        for child in self.children:
            child.terminate()

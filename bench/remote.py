"""Reading from a server that takes 30 ms to answer: zaro beside tensorstore and zarr-python.

    target/venv/bin/python bench/remote.py [--data FOLDER] [--zaro BIN] [--delay MS] [--reps N]

A small HTTP server in this process's child serves the benchmark data (see gen.py), waits before each answer, and
counts. Each program reads whole arrays in a fresh process. What is compared is wall time and the number of requests;
on a busy machine only the order of magnitude counts.
"""
import argparse, asyncio, multiprocessing, os, re, subprocess, sys, tempfile, time, urllib.request

PEER = r"""
import sys, time
name, url = sys.argv[1:]
started = time.time()
if name == "tensorstore":
    import tensorstore as ts
    ts.open({"driver": "zarr3", "kvstore": url + "/"}, open=True, read=True).result().read().result()
else:
    import zarr
    zarr.open_array(url, mode="r")[...]
print(time.time() - started)
"""


def serve(folder, delay, pipe):
    """Serves `folder`, each answer `delay` seconds late; /count tells the requests so far and starts again."""
    seen = 0

    async def client(reader, writer):
        nonlocal seen
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, target = head.split(None, 2)[:2]
                target = target.decode()
                if target == "/count":
                    body, seen = str(seen).encode(), 0
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    await writer.drain()
                    continue
                seen += 1
                await asyncio.sleep(delay)
                path = os.path.join(folder, target.lstrip("/"))
                if not os.path.isfile(path):
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    await writer.drain()
                    continue
                size = os.path.getsize(path)
                first, last, status = 0, size - 1, b"200 OK"
                wanted = re.search(rb"\r\n[Rr]ange: *bytes=(\d*)-(\d*)", head)
                if wanted:
                    a, b = wanted.groups()
                    first = int(a) if a else max(0, size - int(b))
                    last = min(int(b), size - 1) if a and b else size - 1
                    status = b"206 Partial Content"
                with open(path, "rb") as f:
                    f.seek(first)
                    body = b"" if method == b"HEAD" else f.read(last - first + 1)
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Length: %d\r\nAccept-Ranges: bytes\r\n"
                    b"Content-Range: bytes %d-%d/%d\r\n\r\n" % (status, last - first + 1, first, last, size))
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main():
        server = await asyncio.start_server(client, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def run(name, url, zaro):
    """Wall seconds of one whole read, or None if the program cannot."""
    started = time.time()
    if name == "zaro":
        done = subprocess.run([zaro, "read", url, "--format", "raw", "-o", os.devnull], capture_output=True, text=True)
        return time.time() - started if done.returncode == 0 else None
    done = subprocess.run([sys.executable, "-c", PEER, name, url], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("ZARO_BENCH_DATA", os.path.join(tempfile.gettempdir(), "zbench")))
    parser.add_argument("--zaro", default="target/release/zaro")
    parser.add_argument("--delay", type=float, default=30)
    parser.add_argument("--reps", type=int, default=2)
    args = parser.parse_args()
    here, there = multiprocessing.Pipe()
    child = multiprocessing.Process(target=serve, args=(args.data, args.delay / 1000, there), daemon=True)
    child.start()
    base = f"http://127.0.0.1:{here.recv()}"
    print(f"| array | program | wall s | requests |\n|---|---|---|---|")
    for array in ["v3_zstd_64", "v3_shard256_32"]:
        for name in ["zaro", "tensorstore", "zarr-python"]:
            best, requests = None, 0
            for _ in range(args.reps):
                urllib.request.urlopen(base + "/count").read()
                wall = run(name, f"{base}/{array}.zarr", args.zaro)
                requests = int(urllib.request.urlopen(base + "/count").read())
                if wall is not None and (best is None or wall < best):
                    best = wall
            print(f"| {array} | {name} | {'-' if best is None else f'{best:.2f}'} | {requests} |", flush=True)
    child.terminate()


if __name__ == "__main__":
    main()

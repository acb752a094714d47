"""Requests per second of `zaro serve` beside nginx, on the same files.

    serve.py [--zaro PATH] [--seconds N] [--connections N]      writes bench/results-serve.md

wrk, the server and nginx share this machine. Both serve a folder of 1,000 files of one size, asked for at random over
keep-alive connections; rounds alternate, and the best of each counts. nginx has sendfile, open_file_cache, two workers
and no access log. Memory is the peak of resident memory, of nginx that of its processes together.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import common  # noqa: E402
from serve_raw import Server, free_port  # noqa: E402

LUA = """
local n = 0
request = function()
  n = n + 1
  return wrk.format("GET", string.format("{prefix}f%d", math.random(0, 999)))
end
"""


def nginx(root, work):
    port = free_port()
    (work / "nginx.conf").write_text(
        f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; worker_processes 2; pid {work}/pid; error_log {work}/error.log;\n"
        "events { worker_connections 1024; }\n"
        "http { access_log off; sendfile on; tcp_nopush on; open_file_cache max=2000; default_type application/octet-stream;\n"
        f"keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
    )
    binary = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    return port, subprocess.Popen([binary, "-c", str(work / "nginx.conf"), "-e", str(work / "error.log")])


def wrk(url, prefix, work, seconds, connections):
    script = work / "wrk.lua"
    script.write_text(LUA.replace("{prefix}", prefix))
    out = subprocess.run(
        ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script), url], capture_output=True, text=True, check=True
    ).stdout
    bad = re.search(r"Non-2xx.*?(\d+)", out)
    if bad:
        sys.exit(f"{url}: {bad[0]}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    p99 = re.search(r"99%\s+(\S+)", out)[1]
    return rate, p99


def peak(pid):
    """The most memory that a process and its children held, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 + sum(peak(child) for child in children)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zaro")
    p.add_argument("--seconds", type=int, default=8)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--connections", type=int, default=64)
    p.add_argument("--before", help="another zaro, measured in the same rounds")
    p.add_argument("--out", default=str(HERE / "results-serve.md"))
    args = p.parse_args()
    programs = {"zaro": common.find_zaro(args.zaro)}
    if args.before:
        programs["zaro before"] = args.before
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        work = Path(folder)
        work.chmod(0o755)
        for size in (4 << 10, 64 << 10):
            root = work / str(size)
            root.mkdir()
            (root / ".zgroup").write_text('{"zarr_format": 2}')
            for n in range(1000):
                (root / f"f{n}").write_bytes(os.urandom(size))
            port, process = nginx(root, work)
            servers = {name: Server(program, f"x={root}") for name, program in programs.items()}
            asked = {name: (server.url, "/data/x/", server.process.pid) for name, server in servers.items()}
            asked["nginx"] = (f"http://127.0.0.1:{port}", "/", process.pid)
            # Files that were written just now may still change: the server does not keep them in memory.
            time.sleep(3)
            best = {name: (0, "") for name in asked}
            for _ in range(args.rounds):
                for name, (url, prefix, _) in asked.items():
                    best[name] = max(best[name], wrk(url, prefix, work, args.seconds, args.connections))
            for name, (rate, p99) in best.items():
                rows.append((size, name, rate, p99, peak(asked[name][2]), rate / best["nginx"][0]))
                print(*rows[-1], flush=True)
            for server in servers.values():
                server.stop()
            process.terminate()
            process.wait()
    lines = [
        f"# Serving, {datetime.date.today()}",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}; wrk with 2 threads and {args.connections} connections on the same machine, best of {args.rounds} rounds of {args.seconds} s. Written by `bench/serve.py`.",
        "",
        "| objects | server | requests/s | p99 | peak memory | of nginx |",
        "|---|---|---|---|---|---|",
    ]
    for size, name, rate, p99, memory, ratio in rows:
        lines.append(f"| {size >> 10} KiB | {name} | {rate:,.0f} | {p99} | {memory / 2**20:.0f} MiB | {ratio:.2f} |")
    Path(args.out).write_text("\n".join(lines) + "\n")


main()

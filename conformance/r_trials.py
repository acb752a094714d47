"""The R package against a web server that works, fails and stalls; Ctrl-C; memory.

    r_trials.py [--library FOLDER]

Each trial is a real R process. The server is in this process.
"""

import http.server
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import common

try:
    import numpy as np
    import zarr
except ImportError as e:
    sys.exit(f"{e}: run scripts/python-env.sh and use target/venv/bin/python")

FAILING, STALLING = set(), set()


class Handler(http.server.SimpleHTTPRequestHandler):
    def answer(self, method):
        path = self.path.split("?")[0]
        if any(part in path for part in STALLING):
            time.sleep(20)
        if any(part in path for part in FAILING):
            return self.send_error(503)
        return method(self)

    def do_GET(self):
        self.answer(http.server.SimpleHTTPRequestHandler.do_GET)

    def do_HEAD(self):
        self.answer(http.server.SimpleHTTPRequestHandler.do_HEAD)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def r(code, library, timeout=120):
    env = {**os.environ, "R_LIBS": str(Path(library).resolve())} if library else dict(os.environ)
    code = "library(zaro); options(zaro.verbose = FALSE, zaro.progress = FALSE)\n" + code
    return subprocess.run(["Rscript", "--vanilla", "-e", code], env=env, capture_output=True, text=True, timeout=timeout)


def main():
    p = common.parser(__doc__)
    p.add_argument("--library", help="where the package is installed")
    args = p.parse_args()
    tally = common.Tally("r trials", args.verbose)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        values = np.arange(24 * 32, dtype="i4").reshape(24, 32)
        group = zarr.open_group(str(folder / "a.zarr"), mode="w", zarr_format=3)
        group.create_array("x", data=values, chunks=(6, 8), dimension_names=["t", "x"])
        big = zarr.open_group(str(folder / "big.zarr"), mode="w", zarr_format=3)
        array = big.create_array("x", shape=(64, 1024, 1024), dtype="f4", chunks=(4, 256, 256))
        for i in range(0, 64, 16):
            array[i : i + 16] = np.random.default_rng(i).normal(size=(16, 1024, 1024)).astype("f4")
        server = Server(("127.0.0.1", 0), partial(Handler, directory=scratch))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"

        def trial(name, code, wanted):
            done = r(code, args.library)
            ok = done.returncode == 0 and wanted in done.stdout
            tally.ok(name) if ok else tally.fail(name, f"exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}")

        total = int(values.sum())
        trial("values over HTTP", f"cat(sum(as.numeric(zaro_read('{base}/a.zarr', 'x'))))", str(total))
        trial("requests are shown", f"zaro('{base}/a.zarr', verbose = TRUE) -> s; sink(stdout(), type = 'message'); zaro_read(s, 'x', verbose = TRUE) -> x", "[zaro] ")
        FAILING.add("/x/c/1/1")
        trial(
            "a failing server is an error, not fill values",
            f"r <- tryCatch(zaro_read(zaro('{base}/a.zarr', retries = 1, retry_time = 1), 'x'), zaro_error = function(e) class(e)[1]); cat(r)",
            "zaro_error_io",
        )
        FAILING.clear()
        trial("a missing node is not found", f"r <- tryCatch(zaro_read('{base}/a.zarr', 'y'), zaro_error_not_found = function(e) e$node); cat('<', r, '>')", "y")
        trial("an unreachable server", "r <- tryCatch(zaro('http://127.0.0.1:1/a.zarr', retries = 0, retry_time = 0), zaro_error = function(e) class(e)[1]); cat(r)", "zaro_error_io")
        trial(
            "remote arrays in forked children",
            f"s <- zaro('{base}/a.zarr'); a <- sum(as.numeric(zaro_read(s, 'x'))); b <- parallel::mclapply(1:3, function(i) sum(as.numeric(zaro_read(s, 'x'))), mc.cores = 2); cat(all(unlist(b) == a))",
            "TRUE",
        )

        # Ctrl-C while a server stalls.
        STALLING.add("/x/c/0/0")
        env = {**os.environ, "R_LIBS": str(Path(args.library).resolve())} if args.library else dict(os.environ)
        code = (
            "library(zaro); options(zaro.verbose = FALSE, zaro.progress = FALSE)\n"
            f"s <- zaro('{base}/a.zarr'); cat('ready\\n'); flush(stdout())\n"
            "r <- tryCatch({ zaro_read(s, 'x'); 'finished' }, interrupt = function(i) 'interrupted')\n"
            f"cat(r, format(as.numeric(Sys.time()), digits = 16), sum(zaro_read(s, 'x', c(12, 0), c(1, 2))), '\\n')"
        )
        process = subprocess.Popen(["Rscript", "--vanilla", "-e", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(1)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        fields = out.split()
        took = float(fields[1]) - sent if len(fields) == 3 else 99
        ok = len(fields) == 3 and fields[0] == "interrupted" and took < 0.3 and int(fields[2]) == int(values[12, :2].sum())
        label = "Ctrl-C while a server stalls"
        tally.ok(f"{label}: {took:.2f} s") if ok else tally.fail(label, f"{out} {err} {took:.2f} s")
        STALLING.clear()

        # Peak memory: R's vector of doubles, and 256 MiB.
        for name, store in (("files", str(folder / "big.zarr")), ("HTTP", f"{base}/big.zarr")):
            code = (
                "peak <- function() as.numeric(sub('\\\\D*(\\\\d+).*', '\\\\1', grep('VmHWM', readLines('/proc/self/status'), value = TRUE)))\n"
                f"s <- zaro('{store}'); invisible(zaro_read(s, 'x', c(0, 0, 0), c(1, 1, 1))); a <- peak()\n"
                "x <- zaro_read(s, 'x'); cat((peak() - a) * 1024 - 8 * length(x))"
            )
            done = r(code, args.library)
            over = float(done.stdout) if done.returncode == 0 and done.stdout else float("inf")
            label = f"memory beyond R's vector, {name}"
            tally.ok(f"{label}: {over / 2**20:.0f} MiB") if over < 256 * 2**20 else tally.fail(label, f"{over / 2**20:.0f} MiB {done.stderr[-200:]}")
        server.shutdown()
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())

"""More clients of `zaro serve`: zarrita, GDAL, gio, and neuroglancer, on every kind of source, near and far.

    serve_clients.py                     # about a minute
    serve_clients.py --neuroglancer      # neuroglancer itself, in Chromium, too (fetches it, needs Chromium)

Zarrs are made by zarr-python, and served from this machine, from a web server (nginx), and from a bucket if
ZARO_TEST_S3 names one (scripts/servers.sh). What each client reads must be what zarr-python wrote:

* zarrita, from npm, in Node: all values, with HEAD and with suffix ranges;
* GDAL: every key byte for byte through /vsicurl/; values through its Zarr driver, where that knows the format (the
  GDAL of rasterio for Python 3.11 has no codecs of V3);
* gio, over WebDAV: listings and bytes, where gvfs is installed;
* requests of the form that neuroglancer sends: HEAD, ranges from another origin, links of the listing.
"""

import ctypes
import glob
import hashlib
import html.parser
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

import common
import serve_raw
from serve_raw import Nginx, Server, check

ZARRITA = "0.7.5"
NEUROGLANCER = "2.41.2"
VIEWER = "https://neuroglancer-demo.appspot.com"
BUCKET = "s3://versioned-public/clients"
WRITER = "0b5a7c2e-0000-4000-8000-00000000000"


def sha256(array):
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(Path(folder).rglob("*")) if f.is_file()}


def make_manifest(zaro, work, n, folder):
    """A version of the Zarr in `folder`, in an archive of its own; the address of its manifest."""
    root = work / f"archive{n}"
    objects = root / "zarr" / f"{WRITER}{n}"
    shutil.copytree(folder, objects)
    subprocess.run([zaro, "manifest", "create", objects, "--to", root, "--zarr", objects.name], check=True, capture_output=True)
    return next(root.glob("zarr-manifest/*/*/*/*.json")).relative_to(work)


def make_references(folder, base):
    """Kerchunk references to the chunks of the V2 Zarr in `folder`, which clients find at `base`."""
    refs = {}
    for key, data in files_of(folder).items():
        refs[key] = data.decode() if key.rsplit("/", 1)[-1].startswith(".z") else [f"{base}/{key}", 0, len(data)]
    return json.dumps({"version": 1, "refs": refs})


def make_sources(zaro, work):
    """Name -> (path below `work`, prefix of the address, the same keys as files or None)."""
    found, data = serve_raw.make_sources(work)
    (work / "refs.json").unlink()
    shutil.make_archive(str(work / "zipped2"), "zip", work / "v2.zarr")
    sources = {name: (path.relative_to(work), "", None) for name, path in found.items() if name != "references"}
    sources["zip-v2"] = (Path("zipped2.zip"), "", None)
    sources["manifest"] = (make_manifest(zaro, work, 1, work / "v3.zarr"), "manifest+", None)
    sources["manifest-v2"] = (make_manifest(zaro, work, 2, work / "v2.zarr"), "manifest+", None)
    same = {"v2": "v2", "v3": "v3", "sharded": "sharded", "zip": "v3", "zip-v2": "v2", "manifest": "v3", "manifest-v2": "v2"}
    for name, kind in same.items():
        path, prefix, _ = sources[name]
        sources[name] = path, prefix, files_of(work / f"{kind}.zarr")
    return sources, data


def make_bucket(zaro, work):
    """Everything below `work` in a bucket with versions, and manifests of two Zarrs in it; name -> address of a manifest."""
    import s3

    endpoint = os.environ["ZARO_TEST_S3"]
    client = s3.S3(endpoint, "zaro", "zaro-secret")
    os.environ.update(AWS_ENDPOINT_URL=endpoint, AWS_ALLOW_HTTP="true", AWS_PROFILE="zaro-test")

    def put(key, body):
        status, _, answer = client.request("PUT", "versioned-public", f"clients/{key}", body=body)
        if status != 200:
            sys.exit(f"PUT {key}: {status} {answer[:200]}")

    for key, body in files_of(work).items():
        if not key.startswith("archive"):
            put(key, body)
    manifests = {}
    for n, (name, kind) in enumerate({"manifest": "v3", "manifest-v2": "v2"}.items(), 3):
        for key, body in files_of(work / f"{kind}.zarr").items():
            put(f"zarr/{WRITER}{n}/{key}", body)
        with tempfile.TemporaryDirectory() as folder:
            command = [zaro, "manifest", "create", f"{BUCKET}/zarr/{WRITER}{n}", "--to", folder, "--zarr", f"{WRITER}{n}"]
            made = subprocess.run(command, capture_output=True, text=True)
            if made.returncode:
                sys.exit(f"no manifest of the bucket: {made.stdout} {made.stderr}")
            for key, body in files_of(folder).items():
                put(key, body)
                manifests[name] = f"{BUCKET}/{key}"
        # The version stays what it was.
        put(f"zarr/{WRITER}{n}/{'.zattrs' if kind == 'v2' else 'zarr.json'}", b"changed since")
    return manifests


def zarrita(library, urls, data):
    """Values as zarrita reads them."""
    import numpy as np

    filled = np.full((8, 8), 7, "float32")
    wanted = {"a": ["uint16", [60, 70], sha256(data)], "empty": ["float32", [8, 8], sha256(filled)], "part": data[30:34, 40].tolist()}
    script = Path(__file__).with_name("serve_zarrita.mjs")
    done = subprocess.run(["node", script, library, *urls.values()], capture_output=True, text=True, timeout=300)
    said = {line["url"]: line for line in map(json.loads, done.stdout.splitlines())}
    for name, url in urls.items():
        line = said.get(url, {"error": done.stderr[-400:]})
        check(f"zarrita {name}", all(line.get(key) == value for key, value in wanted.items()), str(line))


def install_zarrita():
    """The library's module, installed once."""
    place = common.REPO / "target" / "clients"
    module = place / "node_modules" / "zarrita"
    if not module.exists() or json.loads((module / "package.json").read_text())["version"] != ZARRITA:
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, f"zarrita@{ZARRITA}"], check=True)
    entry = json.loads((module / "package.json").read_text())["exports"]["."]
    return str(module / (entry["import"] if isinstance(entry, dict) else entry))


class Gdal:
    """The library that rasterio brings."""

    def __init__(self):
        import rasterio

        found = glob.glob(str(Path(rasterio.__file__).parent.parent / "rasterio.libs" / "libgdal-*"))
        self.library = ctypes.CDLL(found[0])
        self.library.VSIFOpenL.restype = ctypes.c_void_p
        self.library.VSIFReadL.restype = ctypes.c_size_t
        self.library.VSIFReadL.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
        self.library.VSIFSeekL.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
        self.library.VSIFCloseL.argtypes = [ctypes.c_void_p]
        self.library.VSIStatL.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        for key, value in {"CPL_VSIL_CURL_USE_HEAD": "YES", "GDAL_HTTP_TIMEOUT": "30"}.items():
            self.library.CPLSetConfigOption(key.encode(), value.encode())

    def read(self, url, first=0, size=1 << 20):
        """Bytes of a file, or None if there is none."""
        if self.library.VSIStatL(f"/vsicurl/{url}".encode(), ctypes.create_string_buffer(256)):
            return None
        handle = self.library.VSIFOpenL(f"/vsicurl/{url}".encode(), b"rb")
        if not handle:
            return None
        buffer = ctypes.create_string_buffer(size)
        self.library.VSIFSeekL(handle, first, 0)
        count = self.library.VSIFReadL(buffer, 1, size, handle)
        self.library.VSIFCloseL(handle)
        return buffer.raw[:count]


def gdal(library, name, url, files, data):
    """Every key of the source through /vsicurl/, and the array through the Zarr driver."""
    import numpy as np
    import rasterio

    if files is not None:
        wrong = [key for key, body in files.items() if library.read(f"{url}/{urllib.parse.quote(key)}") != body]
        part = [key for key, body in files.items() if library.read(f"{url}/{urllib.parse.quote(key)}", 5, 17) != body[5:22]]
        absent = library.read(f"{url}/a/no/such/key")
        check(f"GDAL /vsicurl/ {name}", not wrong and not part and absent is None, f"{wrong[:3]} {part[:3]} {absent}")
    if name.endswith("v2") or name.endswith("references"):
        try:
            with rasterio.open(f'ZARR:"/vsicurl/{url}/a"') as opened:
                check(f"GDAL Zarr {name}", np.array_equal(opened.read(1), data), "other values")
        except Exception as e:
            check(f"GDAL Zarr {name}", False, repr(e))


def gio(urls, files):
    """Listings and bytes over WebDAV, as a desktop has them."""
    if not shutil.which("gio") or not shutil.which("dbus-run-session") or not glob.glob("/usr/lib/gvfs/gvfsd-dav") + glob.glob("/usr/libexec/gvfsd-dav"):
        print("left out: gio (needs gvfs, gvfs-backends and dbus)")
        return
    for name, url in urls.items():
        if files[name] is None:
            continue
        place = url.replace("http://", "dav://")
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"gio mount -a {place}/ </dev/null >&2 || exit 3", f"echo LIST; gio list --hidden {place}/ || exit 4"]
            keys = list(files[name])[:6]
            lines += [f"gio cat '{place}/{key}' >{folder}/{n} || exit 5" for n, key in enumerate(keys)]
            lines += [f"gio info -a standard::size '{place}/{keys[0]}' | grep -q 'size: {len(files[name][keys[0]])}$' || exit 6"]
            environment = {**os.environ, "HOME": folder, "XDG_RUNTIME_DIR": folder}
            try:
                done = subprocess.run(["dbus-run-session", "--", "sh", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=90, env=environment)
                detail = f"exit {done.returncode} {done.stderr[-300:]}"
            except subprocess.TimeoutExpired as e:
                check(f"gio {name}", False, f"no end: {e.stderr}")
                continue
            listed = set(done.stdout.split("LIST\n")[-1].split())
            same = [Path(folder, str(n)).read_bytes() == files[name][key] for n, key in enumerate(keys)] if done.returncode == 0 else []
            wanted = {key.split("/")[0] for key in files[name]}
            check(f"gio {name}", listed == wanted and same and all(same), f"{detail} {listed ^ wanted} {same}")


class Links(html.parser.HTMLParser):
    """What a page links to, as a DOM has it: resolved, entities undone."""

    def __init__(self, base):
        super().__init__()
        self.base, self.found = base, set()

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            target = urllib.parse.urljoin(self.base, dict(attributes).get("href") or "")
            rest = target.removeprefix(self.base)
            # Children only: below the folder, one level, without a query.
            if target.startswith(self.base) and rest and "?" not in rest and "/" not in rest.rstrip("/"):
                self.found.add(urllib.parse.unquote(rest))


def neuroglancer_requests(name, url, files):
    """HEAD for the size, ranges, absent keys and a listing, as a page of another origin asks for them."""
    parsed = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(parsed.netloc, timeout=30)

    def ask(method, path, **headers):
        connection.request(method, f"{parsed.path}/{path}", headers={"Origin": VIEWER, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site", **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    faults = []
    for key, body in files.items():
        path = urllib.parse.quote(key)
        status, headers, _ = ask("HEAD", path)
        if (status, headers["Content-Length"], headers["Content-Encoding"]) != (200, str(len(body)), None):
            faults.append(f"HEAD {key}: {status} {headers['Content-Length']} {headers['Content-Encoding']}")
        last = min(len(body), 40)
        if last < 4:
            continue
        status, headers, got = ask("GET", path, Range=f"bytes=3-{last - 1}")
        if (status, got, headers["Content-Range"]) != (206, body[3:last], f"bytes 3-{last - 1}/{len(body)}"):
            faults.append(f"range of {key}: {status} {headers['Content-Range']}")
        if headers["Access-Control-Allow-Origin"] not in ("*", VIEWER) or "content-range" not in (headers["Access-Control-Expose-Headers"] or "").lower():
            faults.append(f"CORS of {key}")
    status, headers, _ = ask("GET", "a/no-such-key")
    if status != 404 or headers["Access-Control-Allow-Origin"] not in ("*", VIEWER):
        faults.append(f"absent: {status}")
    status, headers, page = ask("GET", "", Accept="text/html")
    links = Links(url + "/")
    links.feed(page.decode())
    wanted = {key.split("/")[0] + ("/" if "/" in key else "") for key in files}
    if status != 200 or not headers["Content-Type"].startswith("text/html") or links.found != wanted:
        faults.append(f"listing: {status} {headers['Content-Type']} {links.found ^ wanted}")
    check(f"requests of neuroglancer {name}", not faults, "; ".join(faults[:3]))


def neuroglancer(urls, data, work):
    """The viewer itself, in Chromium: the pixels on the screen are the values of the array."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        return check("neuroglancer", False, "no Chromium: install it, or do not ask for --neuroglancer")
    place = common.REPO / "target" / "neuroglancer"
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"neuroglancer=={NEUROGLANCER}"], check=True)
    (work / "sources.json").write_text(json.dumps({"urls": urls, "data": data.tolist()}))
    script = Path(__file__).with_name("serve_neuroglancer.py")
    done = subprocess.run([python, script, chromium, work / "sources.json"], capture_output=True, text=True, timeout=600)
    said = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    for name in urls:
        check(f"neuroglancer {name}", said.get(name) == "equal", f"{said.get(name)} {done.stderr[-300:] if name not in said else ''}")


def main():
    p = common.parser(__doc__)
    p.add_argument("--neuroglancer", action="store_true", help="the viewer itself, too")
    args = p.parse_args()
    zaro = common.find_zaro(args.zaro)
    os.environ["NO_PROXY"] = "127.0.0.1,localhost"
    library, vsicurl = install_zarrita(), Gdal()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "made"
        work.mkdir()
        # The workers of nginx look into it.
        Path(folder).chmod(0o755)
        sources, data = make_sources(zaro, work)
        nginx = Nginx(work, Path(folder), "autoindex on;")
        web = f"http://127.0.0.1:{nginx.port}"
        (work / "near.json").write_text(make_references(work / "v2.zarr", str(work / "v2.zarr")))
        (work / "web.json").write_text(make_references(work / "v2.zarr", f"{web}/v2.zarr"))
        held = files_of(work / "v2.zarr")
        places = {"": str(work), "web-": web}
        if os.environ.get("ZARO_TEST_S3"):
            manifests = make_bucket(zaro, work)
            places["s3-"] = BUCKET
        else:
            print("left out: sources in a bucket (ZARO_TEST_S3 is not set; see scripts/servers.sh)")
        arguments, files = [], {}
        for mark, base in places.items():
            for name, (path, prefix, keys) in sources.items():
                # Versions of objects are in buckets, or beside their manifests; a web server has none.
                if mark == "web-" and prefix:
                    continue
                place = f"{prefix}{base}/{path}" if mark != "s3-" or not prefix else prefix + manifests[name]
                arguments.append(f"{mark}{name}={place}")
                files[mark + name] = keys
            arguments.append(f"{mark}references={base}/{'near' if mark == '' else 'web'}.json")
            files[mark + "references"] = held
        server = Server(zaro, *arguments, "--cors", VIEWER, *(["--cors", "*"] if args.neuroglancer else []))
        urls = {name: f"{server.url}/data/{name}" for name in files}
        zarrita(library, urls, data)
        for name, url in urls.items():
            gdal(vsicurl, name, url, files[name], data)
            if files[name] is not None:
                neuroglancer_requests(name, url, files[name])
        gio({name: url for name, url in urls.items() if not name.startswith(("web-", "s3-"))}, files)
        if args.neuroglancer:
            neuroglancer(urls, data, work)
        check("ends on SIGTERM", server.stop() == 0)
        nginx.stop()
    print(f"{serve_raw.passed} passed, {serve_raw.failed} failed")
    sys.exit(bool(serve_raw.failed))


if __name__ == "__main__":
    main()

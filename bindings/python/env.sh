#!/usr/bin/env bash
# Makes, or reuses, the virtualenv of the package's tests: target/venv-package, in which the package is the one in
# python/, with the module that build.sh makes.
#
#   $PYTHON chooses the interpreter (default: python3; 3.11 or newer).
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
venv=target/venv-package
here=bindings/python

if ! "$venv/bin/python" -c '' 2>/dev/null; then
  rm -rf "$venv"
  mkdir -p target
  "$python" -m venv "$venv"
fi
wanted=$(grep -hE '^(numpy|zarr|numcodecs|xarray|cftime|pandas|fsspec|ml_dtypes|aiohttp|tensorstore|zarrs|kerchunk|h5py|icechunk)==' scripts/requirements.txt; cat "$here/requirements.txt")
if [[ "$(cat "$venv/installed.txt" 2>/dev/null)" != "$wanted" ]]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r <(echo "$wanted")
  echo "$wanted" >"$venv/installed.txt"
fi
# What `pip install` would note: where the package is, and its entry points.
"$venv/bin/python" - "$PWD/$here" <<'PYTHON'
import pathlib, sys, sysconfig, tomllib

here = pathlib.Path(sys.argv[1])
site = pathlib.Path(sysconfig.get_paths()["purelib"])
project = tomllib.loads((here / "pyproject.toml").read_text())["project"]
(site / "zaro.pth").write_text(f"{here / 'python'}\n")
info = site / "zaro-0.1.0.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text("Metadata-Version: 2.1\nName: zaro\nVersion: 0.1.0\n")
(info / "RECORD").write_text("")
groups = {"console_scripts": project.get("scripts", {}), **project["entry-points"]}
lines = []
for group, entries in groups.items():
    lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
(info / "entry_points.txt").write_text("\n".join(lines))
PYTHON

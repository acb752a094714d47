#!/usr/bin/env bash
# Makes, or reuses, the virtualenv of the conformance and benchmark scripts: target/venv.
#
#   scripts/python-env.sh            the libraries of scripts/requirements.txt
#   scripts/python-env.sh --bench    also those only the benchmarks use (left out when they do not install)
#
# $PYTHON chooses the interpreter (default: python3; 3.11 or newer). Nothing outside target/ is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=target/venv
say() { echo "python-env: $*"; }

command -v "$python" >/dev/null || { say "no $python here; on Debian: apt-get install python3 python3-venv" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { say "$python is $("$python" -V), need 3.11 or newer" >&2; exit 1; }

if ! "$venv/bin/python" -c '' 2>/dev/null; then
  say "making $venv with $("$python" -V)"
  rm -rf "$venv"
  mkdir -p target
  "$python" -m venv "$venv" || { say "cannot make a virtualenv; on Debian: apt-get install python3-venv" >&2; exit 1; }
fi

# A copy of the pinned list inside the virtualenv says what was installed there.
if cmp -s scripts/requirements.txt "$venv/installed.txt"; then
  say "reusing $venv"
else
  say "installing the versions pinned in scripts/requirements.txt"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements.txt
  cp scripts/requirements.txt "$venv/installed.txt"
fi

if [[ ${1:-} == --bench ]]; then
  say "installing what only the benchmarks use"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-bench.txt \
    || say "did not install; the benchmarks go on without it"
fi
"$venv/bin/python" -c 'import numpy, zarr, numcodecs, tensorstore as t; print("python-env: numpy", numpy.__version__, "zarr", zarr.__version__, "numcodecs", numcodecs.__version__)'

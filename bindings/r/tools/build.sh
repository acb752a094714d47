#!/bin/sh
# Builds the source package: build.sh FOLDER puts zaro_VERSION.tar.gz there. The checkout stays as it is.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
to=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What git knows, or would: nothing that was built.
(cd "$here" && git ls-files -z --cached --others --exclude-standard | xargs -0 -I{} cp --parents {} "$work")
cd "$work"
ZARO_ROOT="$here/../.." sh tools/bundle.sh --vendor
cd "$to"
R CMD build ${ZARO_R_BUILD:-} "$work"

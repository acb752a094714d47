#!/bin/sh
# Installs the package from a checkout into target/r-library, compiled like the tests of the workspace: nothing that is
# compiled already is compiled again.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$root/target/r-library"
ZARO_R_PROFILE=${ZARO_R_PROFILE:-dev} ZARO_R_TARGET="$root/target" \
  ZARO_R_CARGO="--lib --bins --tests -p zaro -p zaro-serve -p zaro-cli -p zaro-python --all-features" \
  R CMD INSTALL --no-docs --no-test-load --library="$root/target/r-library" "$root/bindings/r"

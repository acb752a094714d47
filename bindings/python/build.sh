#!/usr/bin/env bash
# Builds the compiled module for the tests and puts it into python/zaro: with the packages and features of `./test`, so
# that the library is not compiled again (those of tests, too: they decide the features of what everything depends on). For use, `pip install bindings/python` makes an optimised one.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --lib --bins --tests -p zaro -p zaro-serve -p zaro-cli -p zaro-python -p zaro-r --all-features
# Replaced, not overwritten: a Python that has it loaded keeps the old one.
cp target/debug/lib_zaro.so bindings/python/python/zaro/.new.so
mv bindings/python/python/zaro/.new.so bindings/python/python/zaro/_zaro.abi3.so

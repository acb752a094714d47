#!/bin/sh
# Makes src/rust/bundle: a Cargo workspace of its own with the library's sources, because a source package must have
# everything below its folder. With --vendor, all other crates as well, in one archive: then nothing is downloaded when
# the package is installed. Run in the folder of the package, in a checkout.
set -eu
root=${ZARO_ROOT:-../..}
bundle=src/rust/bundle
PATH="$HOME/.cargo/bin:$PATH"
[ -f "$root/zaro/Cargo.toml" ] || { echo "no checkout around this folder; set ZARO_ROOT" >&2; exit 1; }

rm -rf "$bundle"
mkdir -p "$bundle/zaro"
cp -r "$root/zaro/src" "$bundle/zaro/src"

# The library's manifest without what only its own tests need.
awk '/^\[/ { skip = /^\[dev-dependencies\]/ || /^\[\[/ } !skip' "$root/zaro/Cargo.toml" >"$bundle/zaro/Cargo.toml"

# The manifest of the native half, as the root of the workspace.
{
  awk '/^\[lib\]/ { print; print "path = \"../src/lib.rs\""; next } { print }' src/rust/Cargo.toml
  printf '\n[workspace]\nresolver = "3"\nmembers = ["zaro"]\n\n'
  awk '/^\[/ { keep = /^\[workspace\.(package|dependencies|lints)/ || /^\[profile\.(dev|release)\]/ }
       keep && !/^(zaro-serve|#)/' "$root/Cargo.toml"
} >"$bundle/Cargo.toml"
# The versions that the checkout was tested with; cargo drops those that are not needed.
cp "$root/Cargo.lock" "$bundle/Cargo.lock"
(cd "$bundle" && cargo metadata --format-version 1 ${ZARO_OFFLINE:+--offline} >/dev/null)
[ "${1:-}" = --vendor ] || exit 0

(cd "$bundle" && cargo vendor --locked --quiet ${ZARO_OFFLINE:+--offline} vendor >/dev/null)
cd "$bundle/vendor"
# Crates for other systems are never compiled: of those, and of tests and documents, nothing is kept.
for crate in *; do
  case $crate in
    windows* | winapi* | wasm* | wasip* | wasi* | js-sys* | web-sys* | web-time* | wit-* | r-efi* | redox* | hermit* | schannel*)
      lib=$(awk '/^\[lib\]/ { in_lib = 1 } in_lib && /^path/ { gsub(/.*= "|"/, ""); print; exit }' "$crate/Cargo.toml")
      find "$crate" -type f ! -name Cargo.toml ! -name .cargo-checksum.json ! -name build.rs ! -name 'LICENSE*' -delete
      mkdir -p "$crate/$(dirname "${lib:-src/lib.rs}")"
      : >"$crate/${lib:-src/lib.rs}"
      ;;
    *)
      rm -rf "$crate/tests" "$crate/benches" "$crate/examples" "$crate/.github" "$crate/fuzz" "$crate/ci"
      ;;
  esac
  sed -i 's/"files":{.*},"package"/"files":{},"package"/' "$crate/.cargo-checksum.json"
done
cd ..
tar -cf - vendor | xz -6 -T 2 >vendor.tar.xz
rm -rf vendor

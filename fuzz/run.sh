#!/usr/bin/env bash
# Fuzzes everything that reads what others wrote.
#
#   fuzz/run.sh [SECONDS] [TARGET...]     default: 60 seconds of each target
#   fuzz/run.sh 0 [TARGET...]             only the seeds and past findings, no new inputs
#
# Each input may take 10 seconds and 2 GiB; a panic, an overflow, a bad memory access or one of these limits is a
# finding: the exit code is 1, and the input lies in target/fuzz/artifacts/TARGET/ (run it again with
# `target/fuzz/bin/TARGET FILE`). Once mended, put it into fuzz/seeds/TARGET/: it is tried first from then on.
#
# Stable Rust is enough: RUSTC_BOOTSTRAP=1 lets it use AddressSanitizer. SANITIZER=none does without (faster, and sees
# less); the build has a target folder of its own because of these flags. Inputs that reached new code are kept in
# target/fuzz/corpus/TARGET between runs; JOBS=2 fuzzes with two processes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=(json meta_v3 meta_v2 shard_index codec read_array zip references icechunk parquet_refs)
seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
(($#)) && targets=("$@")
sanitizer=${SANITIZER:-address}
out=$PWD/target/fuzz
triple=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$out/bin"

if ! command -v cargo-fuzz >/dev/null; then
  echo "installing cargo-fuzz"
  cargo install --quiet --locked cargo-fuzz --target-dir "$out/install" || exit 1
fi
export RUSTC_BOOTSTRAP=1
echo "building (sanitizer: $sanitizer)"
cargo fuzz build --fuzz-dir fuzz --sanitizer "$sanitizer" --target-dir "$out/$sanitizer" || exit 1
for target in "${targets[@]}"; do cp "$out/$sanitizer/$triple/release/$target" "$out/bin/$target" || exit 1; done

# The limit on one allocation must not end a program that asks first whether there is memory; the limit on all does.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0:detect_odr_violation=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
failed=()
for target in "${targets[@]}"; do
  corpus=$out/corpus/$target seeds=$out/seeds/$target found=$out/artifacts/$target
  mkdir -p "$corpus" "$found" "fuzz/seeds/$target"
  rm -rf "$seeds"
  ZARO_SEEDS=$seeds "$out/bin/$target" >"$out/$target.seeds.log" 2>&1 ||
    { cat "$out/$target.seeds.log"; failed+=("$target"); continue; }
  dict=()
  case $target in json | meta_* | read_array) dict=(-dict=fuzz/words.dict) ;; esac
  limits=(-rss_limit_mb=2048 -malloc_limit_mb=2048 -timeout=10 -max_len=8192 "-artifact_prefix=$found/")
  echo "== $target, $seconds s"
  if ((seconds)); then
    # shellcheck disable=SC2206
    jobs=(${JOBS:+-fork=$JOBS -ignore_crashes=0})
    "$out/bin/$target" "${limits[@]}" "${dict[@]}" "${jobs[@]}" "-max_total_time=$seconds" -print_final_stats=1 \
      "$corpus" "$seeds" "fuzz/seeds/$target" >"$out/$target.log" 2>&1
  else
    find "$seeds" "fuzz/seeds/$target" -type f -print0 |
      xargs -0 -n 200 "$out/bin/$target" "${limits[@]}" >"$out/$target.log" 2>&1
  fi
  code=$?
  if ((code)); then
    failed+=("$target")
    grep -v '^#' "$out/$target.log" | tail -n 40
    echo "$target: a finding (log: $out/$target.log). The input:"
    grep -o "Test unit written to .*" "$out/$target.log" | sed 's/Test unit written to /  /'
  else
    grep -E "stat::number_of_executed_units|stat::peak_rss_mb" "$out/$target.log" | tr '\n' ' '
    grep -E '^#[0-9]+' "$out/$target.log" | tail -n 1
  fi
done
if ((${#failed[@]})); then
  echo "findings in: ${failed[*]}"
  exit 1
fi
echo "no findings in ${#targets[@]} targets"

#!/usr/bin/env bash
# Coverage-guided fuzzing with libFuzzer, on the stable toolchain.
#
#   fuzz/run.sh [SECONDS [TARGET...]]      default: 60 seconds for each target
#
# The corpus that grows is in target/fuzz/corpus/; findings go to fuzz/findings/
# and end the run with status 1. A coverage report of the parsers
# follows (coverage.sh). README.md explains what this does and does not find.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
shift || true
directory=${CARGO_TARGET_DIR:-target}/fuzz
binary=$(fuzz/build.sh)

targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(find fuzz/seeds -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
mkdir -p fuzz/findings
failed=()
for target in "${targets[@]}"; do
  corpus="$directory/corpus/$target"
  mkdir -p "$corpus" "fuzz/regressions/$target"
  printf '\n== %s, %s s\n' "$target" "$seconds"
  log="$directory/$target.log"
  status=0
  SEALANE_FUZZ_TARGET="$target" "$binary" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -use_value_profile=1 -dict="fuzz/dictionaries/$target.dict" -artifact_prefix="fuzz/findings/$target-" \
    "$corpus" "fuzz/seeds/$target" "fuzz/regressions/$target" >"$log" 2>&1 || status=$?
  grep -E '^(Done|stat::number_of_executed_units|stat::slowest_unit_time_sec)|INITED' "$log" || true
  grep -E 'cov: [0-9]+' "$log" | tail -n 1 || true
  if ((status)); then
    failed+=("$target")
    tail -n 40 "$log" >&2
  fi
  # An empty directory is not kept.
  rmdir --ignore-fail-on-non-empty "fuzz/regressions/$target"
done
if ((${#failed[@]})); then
  printf '\nfindings in: %s (inputs in fuzz/findings/)\n' "${failed[*]}" >&2
  exit 1
fi
printf '\nno findings\n'
fuzz/coverage.sh "${targets[@]}"

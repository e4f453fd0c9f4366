#!/usr/bin/env bash
# Runs every test of the workspace and prints the totals at the end.
#
#   scripts/run-tests.sh [arguments of the test programs, such as a part of a test's name]
#
# Two test programs run at a time: most tests wait, and cargo would begin a program only when the
# last test of the one before has ended. What a program prints is shown when it has ended.
#
# SEALANE_TEST_LONG=1 raises the counts that sealane_tests::scale returns, runs tests that cannot do
# with bounded counts, and adds the guest tests (tests/vm) that are not in the core part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO=${CARGO:-cargo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
started=$SECONDS

target=$("$CARGO" metadata --format-version 1 --no-deps --offline | grep -o '"target_directory":"[^"]*"' | cut -d'"' -f4)
# Everything is built first, in tests/clients what takes minutes: no test has to wait for it.
"$CARGO" build --release --locked --quiet --manifest-path tests/clients/quic/quinn/Cargo.toml \
  --target-dir "$target/debug/quinn-client" &
clients=$!
# Always for the whole workspace: another selection of packages has other features, and would be
# built anew.
"$CARGO" test --workspace --locked --no-run --message-format=json-render-diagnostics >"$work/built"
# Of each program: the directory that cargo would run it in, the program, and what it is made of.
python3 - "$work/built" >"$work/programs" <<'PYTHON'
import json, os, sys

for line in open(sys.argv[1]):
    made = json.loads(line)
    if made["reason"] == "compiler-artifact" and made["profile"]["test"] and made["executable"]:
        directory = os.path.dirname(made["manifest_path"])
        source = os.path.relpath(made["target"]["src_path"])
        print(directory, made["executable"], source, sep="\t")
PYTHON
wait "$clients"
# The end-to-end tests use the binary that the tests of package sealane were built with, instead of
# asking cargo for it again.
export SEALANE_BINARY="$target/debug/sealane"
[[ -x $SEALANE_BINARY ]] || { echo "run-tests: $SEALANE_BINARY was not built" >&2; exit 1; }
built=$((SECONDS - started))

# One program.
run() {
  local directory program source status=0
  IFS=$'\t' read -r directory program source <<<"$1"
  shift
  local output
  output=$(mktemp "$work/output.XXXXXX")
  printf '     Running %s\n' "$source" >"$output"
  (cd "$directory" && exec "$program" "$@") >>"$output" 2>&1 || status=$?
  # Some die without a word of a test.
  ((status == 0)) || printf 'error: %s has ended with status %d\n' "$source" "$status" >>"$output"
  flock "$work" cat "$output"
  ((status == 0))
}
export -f run
export work

# Runs those whose lines are in standard input, so many at a time.
run_all() {
  local programs=$1
  shift
  tr '\n' '\0' | xargs -0 -r -P "$programs" -I PROGRAM bash -c 'run "$@"' run PROGRAM "$@"
}

status=0
# Virtual machines compute, and are left to themselves.
is_guests=$'\ttests/vm/tests/'
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(nproc)} run_all 2 "$@" < <(grep -v "$is_guests" "$work/programs") || status=1
if [[ ${SEALANE_TEST_LONG:-} == 1 ]]; then
  RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(nproc)} run_all 2 "$@" --ignored < <(grep -v "$is_guests" "$work/programs") || status=1
fi
run_all 1 "$@" < <(grep "$is_guests" "$work/programs") || status=1
"$CARGO" test --workspace --locked --doc -- "$@" >"$work/output.documentation" 2>&1 || status=1
cat "$work/output.documentation"

cat "$work"/output.* | awk -v built="$built" -v total="$((SECONDS - started))" '
  /^test result: / { passed += $4; failed += $6; ignored += $8 }
  # The messages of sealane_needs::leave_out, even in the middle of a line.
  match($0, /left out: [a-z_:0-9]+: .*/) { lacking[++left_out] = substr($0, RSTART, RLENGTH) }
  /^error: .* has ended with status / { broken[++ended] = $0 }
  END {
    for (number = 1; number <= left_out; number++) { print lacking[number] }
    if (left_out) { printf "%d tests have passed without having tried everything\n", left_out }
    for (number = 1; number <= ended; number++) { print broken[number] }
    printf "\ntests: %d passed, %d failed, %d ignored; %d s to build, %d s to run\n",
      passed, failed, ignored, built, total - built
    if (passed == 0) { print "no test ran" > "/dev/stderr"; exit 1 }
  }'
exit "$status"

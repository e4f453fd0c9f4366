#!/usr/bin/env bash
# Runs every test of the workspace and prints the totals at the end.
#
#   scripts/run-tests.sh [arguments of cargo test]
#
# SEALANE_TEST_LONG=1 raises the counts that sealane_tests::scale returns, and adds
# the guest tests (tests/vm) that are not in the core part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
started=$SECONDS

# Everything is built first. The end-to-end tests then use the binary that the
# tests of package sealane were built with, instead of asking cargo for it again.
# In the same two parts as it runs below: another selection of packages has other features, and
# would be built anew.
"$cargo" test --workspace --exclude sealane-vm --locked --no-run
"$cargo" test -p sealane-vm --locked --no-run
target=$("$cargo" metadata --format-version 1 --no-deps --offline | grep -o '"target_directory":"[^"]*"' | cut -d'"' -f4)
export SEALANE_BINARY="$target/debug/sealane"
[[ -x $SEALANE_BINARY ]] || { echo "run-tests: $SEALANE_BINARY was not built" >&2; exit 1; }
built=$((SECONDS - started))

# Most tests wait more than they compute: for time-outs, renewals, other processes. Those of virtual
# machines compute.
threads=${RUST_TEST_THREADS:-$((2 * $(nproc)))}

status=0
RUST_TEST_THREADS=$threads "$cargo" test --workspace --exclude sealane-vm --locked --no-fail-fast "$@" 2>&1 | tee "$output" || status=$?
if [[ ${SEALANE_TEST_LONG:-} == 1 ]]; then
  # Tests that cannot run with bounded counts.
  RUST_TEST_THREADS=$threads "$cargo" test --workspace --exclude sealane-vm --locked --no-fail-fast --lib --bins --tests -- --ignored 2>&1 |
    tee -a "$output" || status=$?
fi
"$cargo" test -p sealane-vm --locked --no-fail-fast "$@" 2>&1 |
  tee -a "$output" || status=$?

awk -v built="$built" -v total="$((SECONDS - started))" '
  /^test result: / { passed += $4; failed += $6; ignored += $8 }
  # The messages of sealane_needs::leave_out, even in the middle of a line.
  match($0, /left out: [a-z_:0-9]+: .*/) { lacking[++left_out] = substr($0, RSTART, RLENGTH) }
  /^error: test failed/ { broken = 1 }
  END {
    for (number = 1; number <= left_out; number++) { print lacking[number] }
    if (left_out) { printf "%d tests have passed without having tried everything\n", left_out }
    printf "\ntests: %d passed, %d failed, %d ignored; %d s to build, %d s to run\n",
      passed, failed, ignored, built, total - built
    if (passed == 0) { print "no test ran" > "/dev/stderr"; exit 1 }
  }' "$output"
exit "$status"

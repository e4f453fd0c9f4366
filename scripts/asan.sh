#!/usr/bin/env bash
# Builds the server, AWS-LC and the tests with AddressSanitizer and LeakSanitizer, on the stable
# toolchain, and runs tests with them. A report of either ends the run with status 1.
#
#   scripts/asan.sh [arguments of cargo test]
#
# Without arguments: the tests of sealane-awslc and sealane-tls, and the end-to-end
# tests of handshakes. The compiler instruments by itself; the runtime is clang's, as Debian's Rust comes
# without one. What is not instrumented: the standard library, and code in assembly language
# (its memory is guarded all the same, its accesses are not watched).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
directory=${CARGO_TARGET_DIR:-target}/asan
mkdir -p "$directory"
directory=$(realpath "$directory")
command -v clang >/dev/null || { echo "asan: clang is needed (Debian: clang, libclang-rt-dev)" >&2; exit 1; }

# The sanitizer is an unstable option of the compiler; --target keeps it away from build scripts.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Zexternal-clangrt -Clinker=clang -Clink-arg=-fsanitize=address -Cforce-frame-pointers"
variable=${host//-/_}
# AWS-LC's build script knows the sanitizer by name, and takes clang for it.
export "AWS_LC_SYS_SANITIZER_$variable=asan" "CC_$variable=clang" "CXX_$variable=clang++"
export "CFLAGS_$variable=-fsanitize=address -fno-omit-frame-pointer"
build=(--target "$host" --target-dir "$directory")

# Workers run as nobody when the master is root, and write their reports themselves.
reports=$(mktemp -d)
trap 'rm -rf -- "$reports"' EXIT
chmod 1777 "$reports"
# A small quarantine, as some tests watch the memory of workers.
options=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:quarantine_size_mb=16
export ASAN_OPTIONS="$options:log_path=$reports/report${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

"$cargo" build --locked -p sealane --bin sealane "${build[@]}"
export SEALANE_BINARY="$directory/$host/debug/sealane"

status=0
run() {
  "$cargo" test --locked --no-fail-fast "${build[@]}" "$@" || status=1
}
if (($#)); then
  run "$@"
else
  run -p sealane-awslc -p sealane-tls --lib
  run -p sealane-tls --test interleavings
  run -p sealane-tests --test handshake_cuts
  # Its bound for memory is too tight for a sanitizer's; handshake_cuts does the same.
  run -p sealane-tests --test handshakes -- --skip connections_cut_off_in_the_handshake_leave_nothing_behind
fi

for report in "$reports"/report.*; do
  [[ -e $report ]] || continue
  status=1
  printf '\n== %s\n' "${report##*/}"
  cat "$report"
done >&2
((status == 0)) && printf '\nno reports\n'
exit "$status"

#!/usr/bin/env bash
# Builds the server, AWS-LC and the tests with AddressSanitizer and LeakSanitizer, on the stable
# toolchain, and runs tests with them. A report of either ends the run with status 1.
#
#   scripts/asan.sh [arguments of cargo test]
#
# Without arguments: the tests of sealane-awslc and sealane-tls, and the end-to-end handshake
# tests. The compiler instruments the code; the runtime is clang's, because Debian's Rust has none.
# Not instrumented are the standard library and assembly code (the memory it uses is guarded all
# the same, but its accesses are not checked).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
directory=${CARGO_TARGET_DIR:-target}/asan
mkdir -p "$directory"
directory=$(realpath "$directory")
command -v clang >/dev/null || { echo "asan: clang is needed (Debian: clang, libclang-rt-dev)" >&2; exit 1; }

# The sanitizer is an unstable compiler option; --target keeps it away from build scripts.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Zexternal-clangrt -Clinker=clang -Clink-arg=-fsanitize=address -Cforce-frame-pointers"
variable=${host//-/_}
# AWS-LC's build script knows the sanitizer by name, and uses clang for it.
export "AWS_LC_SYS_SANITIZER_$variable=asan" "CC_$variable=clang" "CXX_$variable=clang++"
export "CFLAGS_$variable=-fsanitize=address -fno-omit-frame-pointer"
build=(--target "$host" --target-dir "$directory")

# Workers run as nobody when the master is root, and write their reports themselves.
reports=$(mktemp -d)
trap 'rm -rf -- "$reports"' EXIT
chmod 1777 "$reports"
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:log_path=$reports/report${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

# The threads of a worker refer to each other through their process, a reference cycle that
# lives as long as the process: it and what it reaches are not leaks.
echo 'leak:sealane_server::worker::run' >"$reports/suppressions"
chmod a+r "$reports/suppressions"
export LSAN_OPTIONS="suppressions=$reports/suppressions:print_suppressions=0"

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
  # This test measures the memory of workers, which the sanitizer holds for a while after it is freed.
  ASAN_OPTIONS+=:quarantine_size_mb=4
  run -p sealane-tests --test handshake_cuts --test handshakes
fi

for report in "$reports"/report.*; do
  [[ -e $report ]] || continue
  status=1
  printf '\n== %s\n' "${report##*/}"
  cat "$report"
done >&2
((status == 0)) && printf '\nno reports\n'
exit "$status"

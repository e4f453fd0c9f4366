#!/usr/bin/env bash
# Builds the coverage-guided driver and prints where it is.
#
#   fuzz/build.sh             for fuzzing
#   fuzz/build.sh coverage    the same, which also records which code of our crates is reached
#
# The directory is target/fuzz; both share the other crates in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
directory=${CARGO_TARGET_DIR:-target}/fuzz
name=fuzz

# LLVM's coverage instrumentation through stable codegen options; `cargo fuzz`
# sets the same, plus a sanitizer, which only a nightly compiler offers.
flags="-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
  flags+=" -Cllvm-args=-sanitizer-coverage-$option"
done

# Cargo gives its wrapper the members of the workspace and nothing else.
if [[ ${1:-} == coverage ]]; then
  export RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/rustc-with-coverage.sh
  name=fuzz-coverage
fi

# --target keeps the flags away from build scripts. Without link-time
# optimisation, which would move the code between the counters.
RUSTFLAGS="$flags" CARGO_PROFILE_RELEASE_LTO=false \
  "$cargo" build --release --locked -p sealane-fuzz --features libfuzzer --bin fuzz --target "$host" --target-dir "$directory" >&2
# Either build leaves its program under the same name.
cp -f "$directory/$host/release/fuzz" "$directory/$name"
printf '%s\n' "$directory/$name"

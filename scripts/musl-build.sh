#!/usr/bin/env bash
# Builds static binaries with musl, below target-musl: they run on any Linux of this processor.
#
#   scripts/musl-build.sh [PROFILE]
#
# PROFILE is release by default. Needs Debian's musl-tools, and the compiler's standard library for
# the target (rustup target add x86_64-unknown-linux-musl).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

machine=$(uname -m)
target=$machine-unknown-linux-musl
require_packages "static build" musl-tools
sysroot=$(rustc --print sysroot)
if [[ ! -d $sysroot/lib/rustlib/$target ]]; then
  command -v rustup >/dev/null || {
    echo "musl-build: the compiler has no standard library for $target" >&2
    exit 1
  }
  rustup target add --toolchain "${RUSTUP_TOOLCHAIN:-stable}" "$target"
fi
variable=${target//-/_}
# AWS-LC is C and C++; bindgen reads its headers as the compilers do. The linker is the compiler's
# own choice: musl-gcc would ask for an interpreter in a program that is to be static.
export "CC_$variable=musl-gcc" "CXX_$variable=$PWD/scripts/musl/g++"
export "BINDGEN_EXTRA_CLANG_ARGS_$variable=-isystem /usr/include/$machine-linux-musl -isystem $(gcc -print-file-name=include)"
for package in sealane sealane-bench; do
  CARGO_TARGET_DIR=$PWD/target-musl scripts/cargo-anywhere.sh -- \
    build --profile "${1:-release}" --locked --target "$target" -p "$package" --bin "$package"
  program=target-musl/$target/${1:-release}/$package
  if readelf --wide --program-headers "$program" | grep --quiet INTERP; then
    echo "musl-build: $program asks for an interpreter" >&2
    exit 1
  fi
done

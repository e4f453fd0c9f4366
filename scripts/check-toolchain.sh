#!/usr/bin/env bash
# Prints the compiler's version, and fails unless it is a stable release that is
# not older than `rust-version` in Cargo.toml. The Makefile and .ci/run call it,
# so that no result comes from a compiler that a newcomer does not have.
#
#   scripts/check-toolchain.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
advice="install Rust $least or newer from https://rustup.rs, or with rustup: rustup toolchain install stable"

fail() {
  printf 'toolchain: %s; %s\n' "$1" "$advice" >&2
  exit 1
}

command -v cargo >/dev/null || fail "cargo is not on the PATH"
command -v rustc >/dev/null || fail "rustc is not on the PATH"
version=$(rustc --version) || fail "rustc does not run"
printf 'toolchain: %s\n' "$version" >&2

# "rustc 1.95.0 (hash date)"; others say 1.97.0-nightly, -beta.3 or -dev.
release=${version#rustc }
release=${release%% *}
[[ $release =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] ||
  fail "rustc $release is not a stable release (RUSTUP_TOOLCHAIN is ${RUSTUP_TOOLCHAIN:-not set})"
[[ $(printf '%s\n' "$least" "$release" | sort -V | head -n 1) == "$least" ]] ||
  fail "rustc $release is older than $least, the oldest version that the tests were run with"

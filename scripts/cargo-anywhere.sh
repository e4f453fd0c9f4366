#!/usr/bin/env bash
# cargo, with flags that keep this machine out of what is built: the paths of the checkout, of the
# target directory, of cargo's own directory and of the compiler; the time; and the machine's PCRE2,
# instead of which cargo's is used. Binaries that are published are built with it, so that the same
# source gives the same bytes anywhere, and needs nothing but the C library where it runs.
#
#   scripts/cargo-anywhere.sh [RUSTFLAG...] -- ARGUMENT...
#
# Give --target, so that the flags are for the binary alone and not for what runs during the build.
set -euo pipefail
flags=()
while [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cargo=${CARGO:-cargo}
home=${CARGO_HOME:-$HOME/.cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
# Until sources are there, nobody knows how cargo names their directory.
"$cargo" fetch --quiet --locked --target "$host" --manifest-path "$checkout/Cargo.toml"

# From the general to the special: of the prefixes that fit, the last one holds.
maps=("$checkout=/sealane")
if [[ -n ${CARGO_TARGET_DIR:-} ]]; then maps+=("$(realpath -m "$CARGO_TARGET_DIR")=/sealane/target"); fi
maps+=("$home=/cargo")
for sources in "$home"/registry/src/*/; do maps+=("${sources%/}=/cargo/registry"); done
# As the standard library names its own files where its source is not installed.
maps+=("$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')")

prefixes=()
for map in "${maps[@]}"; do
  flags+=("--remap-path-prefix=$map")
  # CFLAGS are words without spaces: with such a path, debug information of C names it.
  [[ $map != *[[:space:]]* ]] || continue
  # The second one is what GCC passes on to the assembler.
  prefixes+=("-ffile-prefix-map=$map" "-fdebug-prefix-map=$map")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="${CFLAGS:-} ${prefixes[*]}" CXXFLAGS="${CXXFLAGS:-} ${prefixes[*]}"
export PCRE2_SYS_STATIC=1
# What C's __DATE__ and __TIME__ say, which mimalloc uses. Not the commit's time, for each of which
# cargo would compile all C again.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
exec "$cargo" "$@"

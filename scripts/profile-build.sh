#!/usr/bin/env bash
# Builds the release binaries, target/release/sealane and others, with the profile of a running server: the
# compiler lays out and inlines what requests really use. That saves 5 to 10 % of a request's CPU.
#
#   scripts/profile-build.sh [PROGRAM...]
#                                       build with release/sealane.profdata; PROGRAM is sealane
#                                       unless it is given: sealane-bench, sealane-entrypoint
#   scripts/profile-build.sh --train    make release/sealane.profdata anew: build with counters,
#                                       run the benchmark's cases once, merge what was counted
#
# The profile is part of the repository, so that the same source gives the same binary. The compiler
# ignores it for functions that have changed since, and for all of them if it is another version
# than the one that made the profile. Train again before a release. Training needs llvm-profdata of
# the compiler's LLVM.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
profile=$PWD/release/sealane.profdata
target=$PWD/target
training=$target/training
triple=$(rustc -vV | sed -n 's/^host: //p')
build() {
  local flag=$1 directory=$2
  shift 2
  CARGO_TARGET_DIR=$directory scripts/cargo-anywhere.sh "$flag" -- \
    build --release --locked --target "$triple" "$@"
}

if [[ ${1:-} != --train ]]; then
  [[ -s $profile ]] || { echo "profile-build: $profile is missing; run: $0 --train" >&2; exit 1; }
  mkdir -p "$target/release"
  (($#)) || set -- sealane
  for program in "$@"; do
    package=sealane
    [[ $program != sealane-bench ]] || package=sealane-bench
    build "-Cprofile-use=$profile" "$target" -p "$package" --bin "$program"
    # Not a copy: cargo's own file of that name is a link to what it keeps.
    ln -f "$target/$triple/release/$program" "$target/release/$program"
  done
  exit
fi

llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
merge=$(find "$(rustc --print sysroot)" -name llvm-profdata -type f -print -quit)
merge=${merge:-$(command -v "llvm-profdata-$llvm" || true)}
[[ -n $merge ]] || {
  echo "profile-build: llvm-profdata is missing. Run one of these, then try again:" >&2
  echo "    rustup component add llvm-tools" >&2
  echo "    apt-get install -y --no-install-recommends llvm-$llvm" >&2
  exit 1
}
counts=$training/counts
rm -rf "$counts"
mkdir -p "$counts" "$(dirname "$profile")"
build "-Cprofile-generate=$counts" "$training" -p sealane --bin sealane
"$cargo" build --release --locked -p sealane-bench
bench/make-certificates.sh "$training/certificates"
cases=(tls13-1k tls13-1k-uncached tls13-100k plain-1k h2-1k h2-1m proxied-1k browser-full-p256
  browser-ticket tls12-full-rsa tls12-ticket tls13-early-data stream-plain-1k stream-plain-connection
  stream-tls13-1k stream-tls13-1g stream-tls13-connection stream-tls13-both-1g stream-tls13-both-connection
  http3-1k http3-100m http3-handshakes)
# Whoever writes counts at the end must be allowed to open files then.
LLVM_PROFILE_FILE="$counts/%p-%m.profraw" target/release/sealane-bench compare \
  --server "sealane=$training/$triple/release/sealane" \
  --main 'sealane=worker_seccomp off; worker_landlock off;' \
  --certificates "$training/certificates" --work "$training/run" --quick "${cases[@]/#/--case=}"
"$merge" merge -sparse -o "$profile" "$counts"/*.profraw
rm -rf "$counts"
ls -l "$profile"

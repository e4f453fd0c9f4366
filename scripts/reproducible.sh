#!/usr/bin/env bash
# Builds what `make dist deb rpm` makes twice, from the last commit, in two directories with two
# homes of cargo, time zones and umasks, and compares the bytes. Takes two release builds' time.
#
#   scripts/reproducible.sh [FIRST SECOND CARGO-HOME]
#
# FIRST and SECOND are the directories of the builds, CARGO-HOME is the second one's home of cargo.
# They are below .cache/reproducible unless they are given, and stay: a second run builds what has
# changed since. The tools that make packages are those in .cache/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'reproducible: %s\n' "$*" >&2; }
work=$PWD/.cache/reproducible
first=${1:-$work/first} second=${2:-$work/a/longer/path/to/the/second} home=${3:-$work/cargo}
commit=$(git rev-parse HEAD)
[[ -z $(git status --porcelain --untracked-files=no) ]] || say "changes that are not committed are not built"

prepare() {
  local directory=$1
  mkdir -p "$(dirname "$directory")"
  [[ -d $directory ]] || git clone --quiet --no-checkout . "$directory"
  git -C "$directory" fetch --quiet "$PWD" HEAD
  git -C "$directory" -c advice.detachedHead=false checkout --quiet "$commit"
  mkdir -p "$directory/.cache"
  [[ -e $directory/.cache/tools ]] || ln -s "$PWD/.cache/tools" "$directory/.cache/tools"
  rm -rf "$directory/dist"
}
# In a subshell: the directory and the environment are its own.
build() (
  cd "$1"
  scripts/profile-build.sh sealane sealane-bench
  scripts/dist.sh
  scripts/package.sh deb
  scripts/package.sh rpm
)

# What cargo needs besides the names of crates, so that it asks nobody: downloads, not sources,
# which it unpacks again.
own=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$home/registry"
for part in registry/index registry/cache config.toml; do
  if [[ -e $own/$part && ! -e $home/$part ]]; then cp -a "$own/$part" "$home/$part"; fi
done

prepare "$first"
prepare "$second"
say "commit $commit in $first"
build "$first"
say "commit $commit in $second"
(umask 077 && export CARGO_HOME=$home TZ=Pacific/Auckland LC_ALL=C && build "$second")

sums() { (cd "$1" && sha256sum target/release/sealane target/release/sealane-bench dist/*); }
sums "$first"
diff <(sums "$first") <(sums "$second") || { say "FAILED: the second build's bytes are others (>)"; exit 1; }
say "both builds have given the same bytes"

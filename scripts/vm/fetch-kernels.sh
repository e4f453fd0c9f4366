#!/usr/bin/env bash
# Downloads the kernels that the guests of tests/vm boot, and unpacks them below
# <cache>/vm/kernels. Nothing is installed and the machine's apt state is not
# touched: a private apt configuration in the cache directory takes its mirror
# from the machine's own configuration.
#
#   scripts/vm/fetch-kernels.sh           what is missing
#   scripts/vm/fetch-kernels.sh --force   all again, for newer builds of the same kernels
#
#   bookworm    linux-image-cloud-amd64 of Debian 12, Linux 6.1: kernel TLS that
#               cannot change keys. Required: without it this script fails.
#   backports   the newest linux-image-cloud-amd64 of trixie-backports, Linux 6.14 or
#               later: kernel TLS that can. A mirror without it leaves a note
#               (<cache>/vm/kernels/backports.missing) and the tests say what they skip.
#
# Environment: SEALANE_CACHE (default: <repository>/.cache)
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
vm="${SEALANE_CACHE:-$repository/.cache}/vm"
kernels="$vm/kernels"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
force=${1:-}

say() { printf 'fetch-kernels: %s\n' "$*" >&2; }

# The first repository of the machine that is not a security archive has every suite.
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
    grep -v -e security -e '^file:' | sort -u | grep -m1 '/debian/*$'
}

# Sets the array `options`: apt with its state below $1 and with suite $2 only.
configure_apt() {
  local apt=$1 suite=$2
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/sources.d,etc/preferences.d}
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$apt/etc/sources.list"
  options=(
    -o "Dir::Etc::SourceList=$apt/etc/sources.list" -o "Dir::Etc::SourceParts=$apt/etc/sources.d"
    -o "Dir::Etc::Preferences=$apt/etc/preferences" -o "Dir::Etc::PreferencesParts=$apt/etc/preferences.d"
    -o "Dir::State=$apt/state" -o "Dir::State::Lists=$apt/state/lists" -o "Dir::Cache=$apt/cache"
    -o "Dir::State::Status=$apt/state/status"
    # The sandbox user could not write below a private directory.
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2
    -o APT::Architecture=amd64
  )
  : >"$apt/state/status"
}

# The packages with the kernel that the metapackage linux-image-cloud-amd64
# names. Newer releases of Debian split it: image, modules and the lists of modules
# are packages of their own, which the first one depends on.
kernel_packages() {
  local image
  image=$(apt-cache "${options[@]}" show linux-image-cloud-amd64 |
    grep -o 'linux-image-[0-9][^ ,]*' | sort -uV | tail -n1)
  [[ -n $image ]] || return 1
  printf '%s\n' "$image"
  apt-cache "${options[@]}" show "$image" | sed -n 's/^Depends: //p' |
    grep -o 'linux-[a-z]*-[0-9][^ ,]*' | grep -F -e "-${image#linux-image-}" || true
}

# Leaves suite $2's kernel in $kernels/$1: vmlinuz, release (its version as
# `uname -r` prints it) and lib/modules. Every step is checked by hand, since a
# caller that tests the result switches `set -e` off.
fetch_kernel() {
  local label=$1 suite=$2 apt="$vm/apt-$1" log="$vm/apt-$1.log" target="$kernels/$1" packages work package image
  configure_apt "$apt" "$suite"
  apt-get "${options[@]}" update -qq >"$log" 2>&1 || return 1
  packages=$(kernel_packages) || { echo "no linux-image-cloud-amd64 in $suite" >>"$log"; return 1; }
  work=$(mktemp -d "$vm/unpack.XXXXXX") || return 1
  # shellcheck disable=SC2086 # a list of words
  if (cd "$work" && apt-get "${options[@]}" download -qq $packages &&
    for package in ./*.deb; do dpkg-deb -x "$package" files || exit; done) >>"$log" 2>&1 &&
    image=$(find "$work/files" -name 'vmlinuz*' -type f | head -n1) && [[ -n $image ]]; then
    install_kernel "$work/files" "$image" "$target" >>"$log" 2>&1 && say "$label: $(<"$target/release") from $suite"
  else
    echo "no kernel in" $packages >>"$log"
  fi
  rm -r "$work"
  [[ -f $target/release ]]
}

# $1: the unpacked package, $2: its vmlinuz, $3: where to.
install_kernel() {
  local files=$1 image=$2 target=$3 release modules
  modules="$files/lib/modules"
  [[ -d $modules ]] || modules="$files/usr/lib/modules"
  # In /boot the version is part of the name; elsewhere the directory says it.
  release=${image##*/vmlinuz-}
  [[ $release != "$image" ]] || release=$(basename "$(dirname "$image")")
  [[ -d $modules/$release ]] || { echo "no modules of $release in the package"; return 1; }
  [[ ! -e $target ]] || rm -r "$target"
  mkdir -p "$target/lib/modules" &&
    mv "$image" "$target/vmlinuz" &&
    mv "$modules/$release" "$target/lib/modules/" &&
    # Not every build of kmod can read compressed modules.
    find "$target/lib/modules" -name '*.ko.xz' -exec xz -d {} + &&
    find "$target/lib/modules" -name '*.ko.zst' -exec zstd -q -d --rm {} + &&
    # Debian writes modules.dep when the package is installed.
    depmod -b "$target" "$release" &&
    printf '%s\n' "$release" >"$target/release"
}

have() { [[ $force != --force && -f $kernels/$1/release ]]; }

mkdir -p "$kernels"
# Two runs in one directory would spoil each other.
exec 9>"$vm/.lock"
flock 9
have bookworm && have backports && exit 0

mirror=$(debian_mirror) || {
  say "no Debian mirror found in this machine's apt configuration (apt-get indextargets)"
  say "unpack the kernels yourself: $kernels/{bookworm,backports}/{vmlinuz,release,lib/modules/VERSION}"
  exit 1
}
have bookworm || fetch_kernel bookworm bookworm || {
  say "Linux 6.1 cannot be had from this machine's mirror; the last lines of $vm/apt-bookworm.log:"
  tail -n 5 "$vm/apt-bookworm.log" >&2
  exit 1
}
if ! have backports; then
  rm -f "$kernels/backports.missing"
  fetch_kernel backports trixie-backports || {
    printf 'trixie-backports has no kernel for this machine: %s\n' "$(tail -n 1 "$vm/apt-backports.log")" >"$kernels/backports.missing"
    say "WARNING: $(<"$kernels/backports.missing")"
  }
fi

#!/usr/bin/env bash
# Makes dist/sealane_VERSION_ARCH.deb or dist/sealane-VERSION.ARCH.rpm from binaries that are built
# already, and beside it a file with their debug symbols.
#
#   scripts/package.sh deb|rpm [VERSION]
#
# VERSION is that of Cargo.toml, followed by -1, unless it is given. SEALANE_BINARY names another
# binary than target/release/sealane; sealane-bench is the one beside it. Packages are reproducible:
# the same binaries and the same commit give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'package: %s\n' "$*" >&2; exit 1; }
kind=${1:-}
[[ $kind == deb || $kind == rpm ]] || die "deb or rpm?"
crate_version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
version=${2:-$crate_version-1}
binary=${SEALANE_BINARY:-target/release/sealane}
bench=$(dirname "$binary")/sealane-bench
for program in "$binary" "$bench"; do
  [[ -x $program ]] || die "$program is missing; run: make build, and cargo build --release -p sealane-bench"
done
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# What is generated. The names are in crates/sealane/Cargo.toml.
stage=target/packaging
rm -rf "$stage"
mkdir -p "$stage/bin" dist
for program in "$binary" "$bench"; do
  name=$(basename "$program")
  objcopy --only-keep-debug "$program" "$stage/$name.debug"
  # The section is that of the libraries' build, and lintian's.
  objcopy --strip-unneeded --remove-section=.comment --remove-section=.note.rustc "$program" "$stage/bin/$name"
  chmod 0755 "$stage/bin/$name"
done
date=$(date --utc --date="@$SOURCE_DATE_EPOCH" +'%a, %d %b %Y %H:%M:%S +0000')
cat >"$stage/changelog" <<END
sealane ($version) unstable; urgency=medium

  * See README.md and docs/ for what is in this version.

 -- Sealane maintainers <maintainers@sealane.example>  $date
END
{
  cat <<'END'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sealane

Files: *
Copyright: the authors of Sealane
License: MIT or Apache-2.0
Comment: The programs contain the packages that THIRD-PARTY in this directory lists, with their
 licences.

License: MIT
END
  sed 's/^$/./; s/^/ /' LICENSE-MIT
  cat <<'END'

License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text.
END
} >"$stage/copyright"
scripts/third-party-notices.sh >"$stage/THIRD-PARTY"
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

export PATH="$PWD/.cache/tools/bin:$PATH"
case $kind in
  deb)
    architecture=$(dpkg --print-architecture)
    file=dist/sealane_${version}_$architecture.deb
    cargo-deb --no-build --no-strip --quiet --package sealane --deb-version "$version" --output "$file"
    ;;
  rpm)
    architecture=$(uname -m)
    file=dist/sealane-$version.$architecture.rpm
    cargo-generate-rpm --package crates/sealane --payload-compress zstd --output "$file" \
      --set-metadata "version = \"${version%-*}\"" --set-metadata "release = \"${version##*-}\""
    ;;
esac
# For the addresses in crash reports: addr2line finds them there by build id.
debug=dist/sealane-$version-$architecture-debug
rm -rf "$debug"
for program in sealane sealane-bench; do
  id=$(readelf --notes "$stage/bin/$program" | sed -n 's/.*Build ID: //p')
  [[ -n $id ]] || die "$program has no build id"
  install -D -m 0644 "$stage/$program.debug" "$debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
done
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$debug" -c usr |
  gzip -9n >"$debug.tar.gz"
rm -rf "$debug"
ls -l "$file" "$debug.tar.gz"

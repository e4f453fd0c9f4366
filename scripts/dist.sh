#!/usr/bin/env bash
# Packs the release binary with its licences, documentation and examples.
#
#   scripts/dist.sh [SUFFIX]
#
# SUFFIX is added to the name: the static build is "musl".
# Archives are reproducible: names are sorted, times are the commit's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binary=${SEALANE_BINARY:-target/release/sealane}
version=$("$binary" -v 2>&1 | sed -n 's|.*sealane/||p')
[[ -n $version ]] || { echo "dist: cannot read the version from $binary -v" >&2; exit 1; }
# Nothing that another distribution may not have, or have in another version.
others=$(readelf --dynamic "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libgcc_s|ld-linux-[a-z0-9-]*)\.so\.' || true)
[[ -z $others ]] || { echo "dist: $binary needs $others; build it with scripts/profile-build.sh" >&2; exit 1; }
name="sealane-$version-$(uname -m)-linux${1:+-$1}"
epoch=$(git log -1 --format=%ct 2>/dev/null || date +%s)

rm -rf "dist/$name"
mkdir -p "dist/$name/bin"
install -m 0755 "$binary" "dist/$name/bin/sealane"
install -m 0755 "$(dirname "$binary")/sealane-bench" "dist/$name/bin/sealane-bench"
for file in README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE; do
  install -m 0644 "$file" "dist/$name/"
done
scripts/third-party-notices.sh >"dist/$name/THIRD-PARTY"
# Only committed files: never the certificates and logs that a quickstart leaves behind.
git archive HEAD docs examples | tar -x -C "dist/$name"
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C dist -c "$name" | gzip -9n >"dist/$name.tar.gz"
rm -rf "dist/$name"
(cd dist && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")

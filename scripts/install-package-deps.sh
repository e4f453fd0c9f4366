#!/usr/bin/env bash
# Installs what `make deb`, `make rpm` and the tests of packages use on top of the build.
#
#   scripts/install-package-deps.sh [test|image]
#
#   dpkg-dev binutils   the libraries that a package depends on; debug symbols apart
#   rpm                 reads the RPM that was made
# for `make package-test` and `make rpm-test`:
#   debootstrap         a clean Debian
#   systemd-container   the same with systemd
#   lintian shellcheck  Debian's rules for packages; shell scripts
#   iproute2 procps     the loopback of a namespace; its processes
#   wrk curl openssl    load, clients and certificates
# for `make image-test`:
#   buildah umoci crun  make, unpack and run a container image
#   jq                  what "docker run" has options for
#
# cargo-deb and cargo-generate-rpm are built by cargo, in a pinned version, below .cache/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

packages=(dpkg-dev binutils rpm)
case ${1:-} in
  test) packages+=(debootstrap systemd-container lintian shellcheck iproute2 procps wrk curl openssl) ;;
  image) packages+=(buildah umoci crun jq iproute2 procps curl openssl) ;;
esac
require_packages packages "${packages[@]}"
[[ ${1:-} != image ]] || exit 0

# The version is part of the result: another one may write other bytes.
tools=(cargo-deb=3.8.0 cargo-generate-rpm=0.21.1)
for tool in "${tools[@]}"; do
  name=${tool%=*} version=${tool#*=}
  installed=$(".cache/tools/bin/$name" --version 2>/dev/null || true)
  [[ $installed == *"$version"* ]] && continue
  printf 'packages: building %s %s\n' "$name" "$version" >&2
  # From elsewhere, so that the tool is not built with this workspace's settings.
  root=$PWD/.cache/tools
  (cd / && "${CARGO:-cargo}" install --quiet --locked --root "$root" "$name@$version")
done

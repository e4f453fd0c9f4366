#!/usr/bin/env bash
# Installs what the guests of tests/vm need, on top of the other tests' packages: an emulator,
# the programs inside a guest, and two kernels, which are only unpacked below .cache/vm.
# Without root, prints the command for the packages and stops.
#
#   qemu-system-x86     the machine
#   busybox-static      the guest's init and mount
#   kmod xz-utils zstd  kernel modules, here and in the guest
#   e2fsprogs           the guest's disk in memory
#   tcpdump             packet captures in the guest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./install-test-deps.sh
source ./packages.sh

if [[ $(uname -m) != x86_64 ]]; then
  echo "tests/vm: the guests are made for x86_64 and are left out on $(uname -m)" >&2
  exit 0
fi
require_packages tests/vm qemu-system-x86 busybox-static kmod xz-utils zstd e2fsprogs tcpdump debian-archive-keyring
vm/fetch-kernels.sh

#!/usr/bin/env bash
# Installs what `make bench` uses on top of the build: Debian's nginx as a second
# peer (its service held back), openssl for certificates, taskset. The reference
# nginx brings its own list (scripts/peers/build-nginx.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./packages.sh
require_packages bench nginx-light openssl util-linux

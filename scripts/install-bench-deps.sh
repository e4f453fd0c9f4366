#!/usr/bin/env bash
# Installs what `make bench` uses on top of the build: Debian's nginx as a second
# peer (its service held back), openssl for certificates, taskset. The reference
# nginx brings its own list (scripts/peers/build-nginx.sh).
#
#   scripts/install-bench-deps.sh [h2o] [haproxy]
#
# The named peers are installed, too, with their services held back.
set -euo pipefail
for peer in "$@"; do
  case $peer in
    h2o | haproxy) ;;
    *)
      printf 'install-bench-deps: unknown peer "%s": h2o or haproxy\n' "$peer" >&2
      exit 2
      ;;
  esac
done
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./packages.sh
require_packages bench nginx-light openssl util-linux "$@"

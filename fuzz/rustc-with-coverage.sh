#!/usr/bin/env bash
# Cargo's RUSTC_WORKSPACE_WRAPPER in build.sh: the compiler and its arguments follow.
set -euo pipefail
exec "$@" -Cinstrument-coverage

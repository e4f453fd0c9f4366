#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER in build.sh: the compiler and its arguments follow.
exec "$@" -Cinstrument-coverage

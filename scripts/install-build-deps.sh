#!/usr/bin/env bash
# Installs the Debian packages that `make run` and `cargo build` need besides the
# Rust toolchain. Without root, prints the command and stops.
#
#   gcc g++ libc6-dev   AWS-LC is C and C++ (its libssl is C++), PCRE2 is C
#   cmake make          AWS-LC's libssl is built by cmake
#   libclang-dev        bindgen reads AWS-LC's headers
#   ca-certificates     cargo fetches crates over HTTPS
#   openssl, curl       certificates for the quickstart, and the command to try it
#
# PCRE2 needs no package: the crate builds its own copy where the system has none.
set -euo pipefail
directory=$(dirname "${BASH_SOURCE[0]}")
source "$directory/packages.sh"

"$directory/check-toolchain.sh"
require_packages build gcc g++ libc6-dev cmake make libclang-dev ca-certificates openssl curl

#!/usr/bin/env bash
# Creates the self-signed test certificates of the benchmarks, if they are not there.
#
#   bench/make-certificates.sh DIRECTORY
#
# P-256, P-384, RSA-2048 and RSA-4096, valid for ten years, for localhost and the loopback addresses.
set -euo pipefail

directory=${1:?usage: make-certificates.sh DIRECTORY}
command -v openssl >/dev/null || { echo "make-certificates: openssl is missing; run: apt-get install -y openssl" >&2; exit 1; }
mkdir -p "$directory"

make_certificate() {
  local name=$1
  shift
  [[ -s $directory/$name.crt && -s $directory/$name.key ]] && return
  openssl req -x509 -nodes -days 3650 -subj /CN=localhost \
    -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1' \
    "$@" -keyout "$directory/$name.key" -out "$directory/$name.crt" 2>/dev/null ||
    { echo "make-certificates: openssl could not create $directory/$name.crt" >&2; exit 1; }
}

make_certificate p256 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
make_certificate p384 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1
make_certificate rsa2048 -newkey rsa:2048
make_certificate rsa4096 -newkey rsa:4096

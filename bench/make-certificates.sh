#!/usr/bin/env bash
# Creates the self-signed test certificates of the benchmarks, and OCSP responses about two of them, if they
# are not there.
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

# What the issuer, who is the owner as well, says about the certificate: NAME.ocsp.
make_staple() {
  local name=$1 certificate=$directory/$1.crt
  [[ -s $directory/$name.ocsp && $directory/$name.ocsp -nt $certificate ]] && return
  local serial
  serial=$(openssl x509 -noout -serial -in "$certificate")
  # The columns of index.txt: status, end, revocation, serial, file, subject.
  printf 'V\t99991231235959Z\t\t%s\tunknown\t/CN=localhost\n' "${serial#serial=}" >"$directory/$name.index"
  openssl ocsp -index "$directory/$name.index" -CA "$certificate" -issuer "$certificate" -cert "$certificate" \
    -rsigner "$certificate" -rkey "$directory/$name.key" -resp_no_certs -no_nonce -ndays 3650 -noverify \
    -respout "$directory/$name.ocsp" >/dev/null 2>&1 ||
    { echo "make-certificates: openssl could not create $directory/$name.ocsp" >&2; exit 1; }
}

make_staple p256
make_staple rsa2048

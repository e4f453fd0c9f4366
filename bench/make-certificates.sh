#!/usr/bin/env bash
# Creates the test certificates of the benchmarks and OCSP responses about two of them, if they are not
# there.
#
#   bench/make-certificates.sh DIRECTORY
#
# P-256, P-384, RSA-2048 and RSA-4096, valid for ten years, for localhost and the loopback addresses. Those
# with an OCSP response are issued by a root with a key of the same kind: OpenSSL 4 sends no response with a
# self-signed certificate. The others are self-signed.
set -euo pipefail

directory=${1:?usage: make-certificates.sh DIRECTORY}
command -v openssl >/dev/null || { echo "make-certificates: openssl is missing; run: apt-get install -y openssl" >&2; exit 1; }
mkdir -p "$directory"

die() { echo "make-certificates: openssl could not create $1" >&2; exit 1; }

make_certificate() {
  local name=$1
  shift
  [[ -s $directory/$name.crt && -s $directory/$name.key ]] && return
  openssl req -x509 -nodes -days 3650 -subj /CN=localhost \
    -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1' \
    "$@" -keyout "$directory/$name.key" -out "$directory/$name.crt" 2>/dev/null ||
    die "$directory/$name.crt"
}

# NAME.crt issued by NAME-root.crt, and NAME.ocsp: what the issuer says about it.
make_stapled() {
  local name=$1 files=$directory/$1
  [[ -s $files.crt && -s $files.key && -s $files.ocsp ]] && return
  rm -f "$files.crt"
  openssl req -x509 -nodes -days 3650 -subj "/CN=$name root" "${@:2}" \
    -keyout "$files-root.key" -out "$files-root.crt" 2>/dev/null || die "$files-root.crt"
  make_certificate "$@" -CA "$files-root.crt" -CAkey "$files-root.key"
  local serial
  serial=$(openssl x509 -noout -serial -in "$files.crt")
  # The columns of openssl's index: status, end, revocation, serial, file, subject.
  printf 'V\t99991231235959Z\t\t%s\tunknown\t/CN=localhost\n' "${serial#serial=}" >"$files.index"
  openssl ocsp -index "$files.index" -CA "$files-root.crt" -issuer "$files-root.crt" -cert "$files.crt" \
    -rsigner "$files-root.crt" -rkey "$files-root.key" -resp_no_certs -no_nonce -ndays 3650 -noverify \
    -respout "$files.ocsp" >/dev/null 2>&1 || die "$files.ocsp"
}

make_stapled p256 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1
make_stapled rsa2048 -newkey rsa:2048
make_certificate p384 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1
make_certificate rsa4096 -newkey rsa:4096

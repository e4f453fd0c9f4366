#!/usr/bin/env bash
# Creates a throw-away certificate authority and two server certificates signed
# by it, RSA-2048 and P-256, for localhost, 127.0.0.1 and ::1. Existing files are kept.
#
#   scripts/make-certificates.sh DIRECTORY
#
# The files are authority.pem (what clients trust), rsa.pem, rsa.key, ecdsa.pem
# and ecdsa.key. Keys are readable only by their owner. The authority's own key
# is deleted at the end: nothing more can be signed with it, so trusting
# authority.pem for a test trusts these two certificates and no other.
set -euo pipefail
umask 077

directory=${1:?usage: make-certificates.sh DIRECTORY}
days=825 # the longest life that browsers accept for a certificate of a private authority
wanted=(authority.pem rsa.pem rsa.key ecdsa.pem ecdsa.key)

complete=1
for file in "${wanted[@]}"; do [[ -s $directory/$file ]] || complete=0; done
if ((complete)) && openssl x509 -checkend 86400 -noout -in "$directory/rsa.pem" >/dev/null; then
  exit 0
fi

mkdir -p "$directory"
work=$(mktemp -d "$directory/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "$days" -sha256 \
  -subj "/CN=Sealane quickstart authority" -addext "keyUsage=critical,keyCertSign,cRLSign" \
  -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
  -keyout "$work/authority.key" -out "$work/authority.pem" 2>/dev/null

cat >"$work/server.ext" <<EXTENSIONS
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
EXTENSIONS

sign() { # NAME KEY-OPTIONS...
  local name=$1
  shift
  openssl req -new -newkey "$@" -nodes -sha256 -subj "/CN=localhost" -keyout "$work/$name.key" -out "$work/$name.csr" 2>/dev/null
  openssl x509 -req -in "$work/$name.csr" -CA "$work/authority.pem" -CAkey "$work/authority.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$days" -sha256 -extfile "$work/server.ext" -out "$work/$name.pem" 2>/dev/null
}
sign rsa rsa:2048
sign ecdsa ec -pkeyopt ec_paramgen_curve:prime256v1

chmod 0644 "$work"/{authority,rsa,ecdsa}.pem
for file in "${wanted[@]}"; do mv "$work/$file" "$directory/$file"; done
printf 'created RSA-2048 and P-256 certificates for localhost in %s\n' "$directory" >&2

#!/usr/bin/env bash
# Installs the clients and servers that the tests use, on top of what the build
# needs. Without root, prints the command and stops. Nothing is started: Debian's
# nginx package is installed with its service held back.
#
#   curl wget openssl   clients; openssl also makes the certificates of each test
#   chromium            the browser, run headless
#   nodejs npm          drive the browser (tests/clients/pages; a Node 18 or newer on the PATH will do)
#   golang-go           builds tests/clients/go and tests/clients/mail (a Go already on the PATH will do; with one older than 1.24
#                       the tests of ACME, of traces and of Encrypted Client Hello are left out, and with one older than 1.26 those with quic-go)
#   nginx-light         the server that differential tests compare with
#   procps util-linux   prlimit, kill, ps
#   gnutls-bin          gnutls-cli, a client that looks at staples itself
#   nghttp2-client      nghttp and h2load, an independent HTTP/2 client
#   wrk                 load while the server is reloaded and upgraded
#   binutils gdb        resolve the frames of a crash
#   strace              counts system calls per request
#   bind9-dnsutils      dig, an independent DNS client
#   dnsmasq-base unbound  name servers behind UDP
#   redis-server        the session store of all nodes (with redis-cli)
#   memcached           values behind memcached_pass
#   mosquitto mosquitto-clients postgresql   a broker and a database behind proxy_pass of stream, and their clients
#   softhsm2            tokens with private keys, behind PKCS #11
#   iproute2            networks of their own, in which a client is gone without a word
#   faketime            nodes whose clocks differ
#   tmux                a terminal for sealane top
#   systemd             systemd-analyze looks at the unit of the packages
#   php-fpm             tests fastcgi_pass
#   uwsgi-core uwsgi-plugin-python3   tests uwsgi_pass
#   python3             a small SCGI server for scgi_pass; makes calls inside a worker
#   python3-pip         installs clients for HTTP/3 at their first use (tests/clients/quic/python: aioquic, and a curl with HTTP/3)
#   gunicorn            an application server behind proxy_pass
#   python3-websockets  a WebSocket server behind proxy_pass, and its clients
#   python3-prometheus-client, prometheus  parsers of metrics, and promtool
#   python3-grpcio      a gRPC service, and its client, for grpc_pass
#   dovecot-imapd dovecot-pop3d postfix   mail servers behind mail {}
#   libssl-dev          compiles a provider of OpenSSL that misbehaves
#   swtpm swtpm-tools tpm2-openssl tpm2-tools  a TPM without hardware, and its provider
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./install-build-deps.sh
source ./packages.sh

packages=(binutils gdb curl wget openssl chromium gnutls-bin nginx-light procps util-linux nghttp2-client wrk strace redis-server memcached mosquitto mosquitto-clients postgresql softhsm2 iproute2 faketime
  php-fpm uwsgi-core uwsgi-plugin-python3 python3 python3-pip gunicorn python3-grpcio python3-prometheus-client prometheus python3-websockets bind9-dnsutils dnsmasq-base unbound systemd tmux dovecot-imapd dovecot-pop3d postfix
  libssl-dev swtpm swtpm-tools tpm2-openssl tpm2-tools)
command -v go >/dev/null || packages+=(golang-go)
command -v npm >/dev/null || packages+=(nodejs npm)
require_packages tests "${packages[@]}"

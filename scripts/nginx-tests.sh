#!/usr/bin/env bash
# Runs nginx's own test suite (public repository nginx/nginx-tests, a checkout of which is given)
# against Sealane, and prints its files by group: passed, failed, skipped with the reason.
#
#   scripts/nginx-tests.sh DIRECTORY [FILE...]
#
# FILE is a test's name, with or without .t; all of them by default. Needs Perl with
# libio-socket-ssl-perl and libcryptx-perl, and root for what changes the user.
#
# Environment:
#   SEALANE_BINARY       the binary to test (default: target/debug/sealane); an nginx shows what
#                        the suite says of itself on this machine
#   SEALANE_TEST_JOBS    files that run at the same time (default: twice the processors)
#   SEALANE_TEST_OUTPUT  directory for the output of every file (default: a new one)
#   SEALANE_TEST_HPACK   "mended": in a copy, the suite's encoders pad Huffman codes with fewer than
#                        eight bits, as RFC 7541 section 5.2 demands; nginx takes more
#   SEALANE_TEST_QUIC    "mended": in a copy, the suite's client takes a session ticket that is sent
#                        again, as RFC 9000 section 13.3 demands
#
# The suite asks `-V` which modules there are, by nginx's names of configure options. Sealane has no
# such options, so the suite is shown a list of those whose directives Sealane has.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { printf 'nginx-tests: %s\n' "$*" >&2; exit 1; }
(($#)) || die "the directory of a checkout of nginx/nginx-tests is missing"
suite=$(cd "$1" && pwd)
shift
[[ -f $suite/lib/Test/Nginx.pm ]] || die "$suite is no checkout of nginx/nginx-tests"
for module in IO::Socket::SSL CryptX; do
  perl -M"$module" -e1 2>/dev/null ||
    die "Perl's $module is missing; run: apt-get install -y --no-install-recommends libio-socket-ssl-perl libcryptx-perl"
done
binary=$(realpath "${SEALANE_BINARY:-$repository/target/debug/sealane}")
[[ -x $binary ]] || die "$binary is missing; run: cargo build -p sealane"
jobs=${SEALANE_TEST_JOBS:-$((2 * $(nproc)))}
output=${SEALANE_TEST_OUTPUT:-$(mktemp -d)}
mkdir -p "$output"

modules=(debug http_ssl_module http_v2_module http_v3_module http_realip_module http_addition_module http_sub_module
  http_dav_module http_flv_module http_mp4_module http_gunzip_module http_gzip_static_module
  http_auth_request_module http_random_index_module http_secure_link_module http_slice_module
  http_stub_status_module mail mail_ssl_module stream stream_ssl_module stream_ssl_preread_module stream_realip_module threads)
# memcached refuses to run as root unless it is told whom to become.
if ((EUID == 0)) && memcached=$(command -v memcached); then
  mkdir -p "$output/bin"
  printf '#!/bin/sh\nexec %s -u nobody "$@"\n' "$memcached" >"$output/bin/memcached"
  chmod 755 "$output/bin/memcached"
  PATH=$output/bin:$PATH
fi
server=$output/server
if "$binary" -v 2>&1 | grep -q sealane; then
  # The version is that of the nginx whose directives are known.
  cat >"$server" <<EOF
#!/usr/bin/env bash
for argument; do
  if [[ \$argument == -V ]]; then
    echo "nginx version: nginx/1.31.5"
    echo "built with OpenSSL 4.0.0 (AWS-LC)"
    echo "TLS SNI support enabled"
    echo "configure arguments: $(printf -- '--with-%s ' "${modules[@]}")"
    exit
  fi
done
exec "$binary" "\$@"
EOF
  chmod 755 "$server"
  # The suite's tunnels lead to this machine.
  allow="tunnel_allow_ports all; tunnel_allow_addresses all;"
  export TEST_NGINX_GLOBALS_HTTP="$allow ${TEST_NGINX_GLOBALS_HTTP:-}"
else
  ln -sfn "$binary" "$server"
fi

for name in SEALANE_TEST_HPACK SEALANE_TEST_QUIC; do
  [[ ${!name:-mended} == mended ]] || die "$name must be \"mended\" or nothing"
done
if [[ -n ${SEALANE_TEST_HPACK:-}${SEALANE_TEST_QUIC:-} ]]; then
  rm -rf "$output/suite"
  cp -R "$suite" "$output/suite"
  suite=$output/suite
fi
if [[ -n ${SEALANE_TEST_HPACK:-} ]]; then
  for encoder in "$suite"/lib/Test/Nginx/HTTP{2,3}.pm; do
    sed -i 's/(8 - length(\$ret) % 8)/(-length($ret) % 8)/' "$encoder"
    grep -q '(-length($ret) % 8)' "$encoder" || die "the suite's encoder is not the known one"
  done
fi
if [[ -n ${SEALANE_TEST_QUIC:-} ]]; then
  client=$suite/lib/Test/Nginx/HTTP3.pm
  # What it has read of CRYPTO frames is gone, and is not read again.
  sed -i 's/^\t*die "bad inner" if/\t\t\treturn if @$this[2] eq "";\n&/' "$client"
  grep -q 'return if @$this\[2\] eq "";' "$client" || die "the suite's client is not the known one"
fi

cd "$suite"
files=()
for name in "$@"; do files+=("${name%.t}"); done
if ((${#files[@]} == 0)); then
  for file in *.t; do files+=("${file%.t}"); done
fi
export TEST_NGINX_BINARY=$server
if ((EUID == 0)); then export TEST_NGINX_GLOBALS="user root; ${TEST_NGINX_GLOBALS:-}"; fi

run() {
  local status=0
  timeout 300 perl -Ilib "$2.t" >"$1/$2.out" 2>&1 || status=$?
  echo "$status" >"$1/$2.status"
}
export -f run
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} bash -c 'run "$1" "$2"' run "$output" {}

passed=() failed=() skipped=()
for file in "${files[@]}"; do
  out=$output/$file.out
  status=$(cat "$output/$file.status")
  planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | head -1)
  # The suite marks what is known to fail.
  wrong=$(grep '^not ok' "$out" | grep -vc '# TO[D]O' || true)
  reason=$(sed -n 's/^1\.\.0 # SKIP *//Ip' "$out" | head -1)
  if [[ -n $reason || ($planned == 0 && $status == 0) ]]; then
    skipped+=("$file (${reason:-no reason given})")
  elif ((status == 0)); then
    passed+=("$file")
  else
    failed+=("$file $wrong/${planned:-0}")
  fi
done
show() {
  printf '\n%s: %d\n' "$1" "$(($# - 1))"
  shift
  if (($#)); then printf '  %s\n' "$@"; fi
}
show passed "${passed[@]}"
show skipped "${skipped[@]}"
show failed "${failed[@]}"
printf '\nnginx-tests: %d passed, %d failed, %d skipped; the output of each is in %s\n' \
  "${#passed[@]}" "${#failed[@]}" "${#skipped[@]}" "$output"
((${#failed[@]} == 0))

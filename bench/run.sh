#!/usr/bin/env bash
# Sealane against nginx, in alternating rounds on pinned cores; see bench/README.md.
#
#   bench/run.sh [--peer reference|debian|h2o|haproxy]... [arguments of `sealane bench compare`]
#   bench/run.sh s2|scale|upstreams|stream|http3 [arguments of `sealane bench compare`]
#   bench/run.sh storm [arguments of `sealane bench storm`]
#   bench/run.sh datagrams [arguments of `sealane bench datagrams`]
#   bench/run.sh report [arguments of `sealane bench report`]
#
# Without --peer: the newest nginx with OpenSSL 4.0 (built on first use, which takes
# minutes) and, in comparisons other than s2, Debian's nginx. The peers h2o and haproxy are
# those of Debian, which scripts/install-bench-deps.sh installs if it is told to. Further arguments
# are passed on, such as --quick, --case tls13-1k, --rounds 9, --json FILE, --markdown FILE.
#
#   s2        the table of an asynchronous TLS study: full handshakes by suite on one
#             core and on two; Sealane with defaults, with ssl_async off, on, and in batches
#   scale     what a small request costs with 1 to 10,000 open connections, with one
#             worker and, where a core is left for the clients, with two
#   upstreams requests to an origin, with and without a health check, sticky sessions and a zone
#   stream    connections that are passed on to an origin, plain and over TLS
#   http3     HTTP/3 beside HTTP/2, also over a way that takes a millisecond
#   storm     how an established connection fares while others handshake; nginx
#             with multi_accept off and on
#   datagrams what datagrams cost that are passed on (UDP), with sessions that last and with one for each
#   report    a page with published tables beside what is measured here, in sealane-report.html; all of
#             it, or the chapters that are named
#   --variant NAME=DIRECTIVES
#             Sealane a second time, as sealane-NAME, with these directives in http {}
#
# Environment:
#   SEALANE          the binary to measure (default: target/release/sealane)
#   SEALANE_BENCH    the command that runs the comparison (default: "$SEALANE bench")
#   H2O              the binary of the peer h2o (default: Debian's 2.2.5, which has no HTTP/3)
#   SEALANE_CACHE    where peers, certificates and files are kept (default: <repository>/.cache)
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export SEALANE_CACHE="${SEALANE_CACHE:-$repository/.cache}"
sealane="${SEALANE:-${CARGO_TARGET_DIR:-$repository/target}/release/sealane}"
read -r -a bench <<<"${SEALANE_BENCH:-$sealane bench}"

die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

known_peers='reference, reference-multi-accept, debian, h2o or haproxy'

# The path of a program of the Debian package $2, which may be in /usr/sbin.
find_packaged() {
  PATH=$PATH:/usr/sbin command -v "$1" ||
    die "Debian's $1 is missing; run: apt-get install -y --no-install-recommends $2"
}

command=compare
peers=()
default_peers=(reference debian)
variants=()
more=()
arguments=()
case ${1:-} in
  compare) shift ;;
  storm)
    command=storm
    default_peers=(reference reference-multi-accept)
    shift
    ;;
  report)
    command=report
    default_peers=(reference)
    shift
    ;;
  s2)
    default_peers=(reference)
    variants=(
      'off=ssl_async off; ssl_accelerator cpu;'
      'on=ssl_async on; ssl_accelerator cpu;'
      'batch=ssl_async on;'
    )
    # `batch` is for RSA keys; Sealane refuses it for others.
    arguments=(--case s2 --rsa-directives 'sealane-batch=ssl_accelerator batch;')
    # Two cores for the servers if that leaves one for the clients.
    if [[ " $* " != *" --server-c"* ]]; then
      if (($(nproc) > 2)); then arguments+=(--server-cores 1,2); else arguments+=(--server-cores 1); fi
    fi
    shift
    ;;
  upstreams)
    default_peers=(reference)
    # The same binary with what a group can have besides its servers: for a client that comes again,
    # and for one that gets its cookie with every response.
    checked='zone origin 64k; check interval=1000 type=tcp default_down=false;'
    more=(--server "sealane-checked=$sealane" --server "sealane-cookie=$sealane"
      --upstream-directives "sealane-checked=$checked sticky route \$cookie_route;"
      --upstream-directives "sealane-cookie=$checked sticky cookie route;")
    arguments=(--case proxied-1k)
    shift
    ;;
  datagrams)
    command=datagrams
    default_peers=(reference)
    shift
    ;;
  stream)
    # Debian's nginx has it as a module that is not loaded.
    default_peers=(reference)
    arguments=(--case stream)
    shift
    ;;
  http3)
    # Debian's nginx does not have it.
    default_peers=(reference)
    arguments=(--case http3)
    shift
    ;;
  scale)
    default_peers=(reference)
    arguments=(--case scale)
    if (($(nproc) > 2)) && [[ " $* " != *" --server-c"* ]]; then arguments+=(--server-cores 1,2); fi
    shift
    ;;
esac
while (($#)); do
  case $1 in
    --peer) peers+=("${2:?--peer needs a name: $known_peers}"); shift ;;
    --peer=*) peers+=("${1#--peer=}") ;;
    --variant) variants+=("${2:?--variant needs NAME=DIRECTIVES}"); shift ;;
    --variant=*) variants+=("${1#--variant=}") ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
((${#peers[@]})) || peers=("${default_peers[@]}")

[[ -x $sealane ]] || die "$sealane is missing; run: make build"
if [[ $command == report ]]; then
  ((${#variants[@]} == 0)) || die "a report has variants of its own: --variant is for comparisons"
  server=--peer
  servers=(--sealane "$sealane")
  # Everything, unless a chapter is named.
  chapters='(^| )(s1|s2|s3|storm|memory|scale|all)( |$)'
  [[ ${arguments[*]-} =~ $chapters ]] || arguments+=(all)
else
  server=--server
  servers=(--server "sealane=$sealane" "${more[@]}")
fi
for variant in "${variants[@]}"; do
  [[ $variant == ?*=?* ]] || die "--variant needs NAME=DIRECTIVES, not '$variant'"
  servers+=(--server "sealane-${variant%%=*}=$sealane" --directives "sealane-$variant")
done
for peer in "${peers[@]}"; do
  [[ $command != report || $peer != *-multi-accept ]] || die "a report has servers as they come, not $peer"
  case $peer in
    reference | reference-multi-accept) binary=$("$repository/scripts/peers/build-nginx.sh") ;;
    debian) binary=$(find_packaged nginx nginx-light) ;;
    h2o | haproxy)
      if [[ $peer == h2o && -n ${H2O:-} ]]; then binary=$H2O; else binary=$(find_packaged "$peer" "$peer"); fi
      servers+=(--kind "$peer=$peer")
      ;;
    *) die "unknown peer '$peer': $known_peers" ;;
  esac
  servers+=("$server" "$peer=$binary")
  [[ $peer != *-multi-accept ]] || servers+=(--events "$peer=multi_accept on;")
done

[[ $command != datagrams ]] || exec "${bench[@]}" datagrams "${servers[@]}" --work "$SEALANE_CACHE/bench/run" "${arguments[@]}"
"$repository/bench/make-certificates.sh" "$SEALANE_CACHE/bench/certificates"
exec "${bench[@]}" "$command" "${servers[@]}" \
  --certificates "$SEALANE_CACHE/bench/certificates" --work "$SEALANE_CACHE/bench/run" "${arguments[@]}"

#!/usr/bin/env bash
# Sealane against nginx, by turns on one pinned core; see bench/README.md.
#
#   bench/run.sh [--peer reference|debian]... [arguments of `sealane bench compare`]
#
# Without --peer both: the newest nginx with OpenSSL 4.0 (built on first use,
# which takes minutes) and Debian's nginx. Further arguments go through, such as
# --quick, --case tls13-1k, --rounds 9, --json FILE, --markdown FILE.
#
# Environment:
#   SEALANE          the binary to measure (default: target/release/sealane)
#   SEALANE_BENCH    the command that runs the comparison (default: "$SEALANE bench")
#   SEALANE_CACHE    where peers, certificates and files are kept (default: <repository>/.cache)
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export SEALANE_CACHE="${SEALANE_CACHE:-$repository/.cache}"
sealane="${SEALANE:-${CARGO_TARGET_DIR:-$repository/target}/release/sealane}"
read -r -a bench <<<"${SEALANE_BENCH:-$sealane bench}"

die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

peers=()
arguments=()
while (($#)); do
  case $1 in
    --peer) peers+=("${2:?--peer needs a name: reference or debian}"); shift ;;
    --peer=*) peers+=("${1#--peer=}") ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
((${#peers[@]})) || peers=(reference debian)

[[ -x $sealane ]] || die "$sealane is missing; run: make build"
servers=(--server "sealane=$sealane")
for peer in "${peers[@]}"; do
  case $peer in
    reference) binary=$("$repository/scripts/peers/build-nginx.sh") ;;
    debian)
      binary=$(PATH=$PATH:/usr/sbin command -v nginx) || die "Debian's nginx is missing; run: apt-get install -y --no-install-recommends nginx-light"
      ;;
    *) die "unknown peer '$peer': reference or debian" ;;
  esac
  servers+=(--server "$peer=$binary")
done

"$repository/bench/make-certificates.sh" "$SEALANE_CACHE/bench/certificates"
exec "${bench[@]}" compare "${servers[@]}" \
  --certificates "$SEALANE_CACHE/bench/certificates" --work "$SEALANE_CACHE/bench/run" "${arguments[@]}"

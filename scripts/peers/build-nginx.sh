#!/usr/bin/env bash
# Builds the nginx that benchmark ratios refer to, linked statically against
# OpenSSL 4.0 from the crate openssl-src.
#
#   scripts/peers/build-nginx.sh          build if needed, print the binary's path
#   scripts/peers/build-nginx.sh --force  build again
#
# The source is Debian sid's package nginx. Nothing is installed from sid and the
# machine's apt state is not touched: the source package comes through a private
# apt configuration that lives in the cache directory and takes its mirror from
# the machine's own configuration. A mirror whose sid index is older than its
# pool cannot deliver it; then the crate nginx-src (nginx's stable branch) is used.
#
# Environment:
#   SEALANE_CACHE          where to build and keep the result (default: <repository>/.cache)
#   SEALANE_PEER_OPENSSL   400 (OpenSSL 4.0) or 300 (OpenSSL 3.6): the series of the crate
#                          openssl-src; without it 400, and 300 if nginx does not build with 400
#   SEALANE_PEER_NGINX     sid, crate, or the directory of a checkout of nginx: where nginx's
#                          source comes from; without it sid, then crate
#
# The result is <cache>/peers/nginx-reference/sbin/nginx; `nginx -V` prints both
# versions, and the benchmark carries them into every ratio it prints.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peers="${SEALANE_CACHE:-$repository/.cache}/peers"
nginx_from="${SEALANE_PEER_NGINX:-auto}"
openssl_series="${SEALANE_PEER_OPENSSL:-auto}"
prefix="$peers/nginx-reference"
work="$peers/build"
# The first release that was made for OpenSSL 4.0; an older one is used with a warning.
wanted_nginx=1.29.8
started=$SECONDS

# Debian packages that the build needs. This is the only list.
build_packages=(gcc make perl patch dpkg-dev debian-archive-keyring libpcre2-dev zlib1g-dev ca-certificates)

# The modules of the kernel-TLS article's build that a benchmark or a
# comparison of behaviour can use; the image, geo and Perl modules are left out.
modules=(
  --with-http_addition_module --with-http_auth_request_module --with-http_dav_module
  --with-http_flv_module --with-http_gunzip_module --with-http_gzip_static_module
  --with-http_mp4_module --with-http_random_index_module --with-http_realip_module
  --with-http_secure_link_module --with-http_slice_module --with-http_ssl_module
  --with-http_stub_status_module --with-http_sub_module --with-http_v2_module --with-http_v3_module
  --with-mail --with-mail_ssl_module
  --with-stream --with-stream_realip_module --with-stream_ssl_module
  --with-stream_ssl_preread_module --with-threads --with-file-aio --with-pcre-jit
)
# The crate carries neither tests and manual pages nor what loadable providers need.
openssl_options="enable-ktls enable-ec_nistp_64_gcc_128 no-shared no-module no-tests no-docs"

say() { printf 'build-nginx: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[[ $openssl_series =~ ^(auto|400|300)$ ]] || die "SEALANE_PEER_OPENSSL must be 400 (OpenSSL 4.0) or 300 (OpenSSL 3.6), not '$openssl_series'"
[[ $nginx_from =~ ^(auto|sid|crate)$ || -f $nginx_from/src/core/nginx.h ]] ||
  die "SEALANE_PEER_NGINX must be sid, crate or the directory of a checkout of nginx, not '$nginx_from'"

# The stamp names everything that decides what comes out, so that an edit of
# this script or another choice of sources leads to a new build.
stamp="$prefix/.stamp"
wanted="$(sha256sum "${BASH_SOURCE[0]}" | cut -d' ' -f1) nginx=$nginx_from openssl-src=$openssl_series"
if [[ ${1:-} != --force && -x $prefix/sbin/nginx && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  say "up to date: $("$prefix/sbin/nginx" -v 2>&1 | sed 's/^nginx version: //')"
  printf '%s\n' "$prefix/sbin/nginx"
  exit 0
fi

mkdir -p "$work"
# Two builds in one directory would spoil each other.
exec 9>"$work/.lock"
flock 9

install_build_packages() {
  local missing=() package
  for package in "${build_packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    die "packages are missing; run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# The first repository of the machine that is not a security archive holds sid too.
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
    grep -v -e security -e '^file:' | sort -u | grep -m1 '/debian/*$' ||
    die "no Debian mirror found in this machine's apt configuration (apt-get indextargets)"
}

# Leaves sid's nginx, with Debian's patches applied, in $work/nginx/source.
fetch_nginx_from_sid() {
  local apt="$work/apt" keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror
  mirror=$(debian_mirror)
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/sources.d,etc/preferences.d}
  printf 'deb-src [signed-by=%s] %s sid main\n' "$keyring" "$mirror" >"$apt/etc/sources.list"
  local options=(
    -o "Dir::Etc::SourceList=$apt/etc/sources.list" -o "Dir::Etc::SourceParts=$apt/etc/sources.d"
    -o "Dir::Etc::Preferences=$apt/etc/preferences" -o "Dir::Etc::PreferencesParts=$apt/etc/preferences.d"
    -o "Dir::State=$apt/state" -o "Dir::State::Lists=$apt/state/lists" -o "Dir::Cache=$apt/cache"
    # The sandbox user could not write below a private directory.
    -o APT::Sandbox::User=root -o Acquire::Languages=none
  )
  apt-get "${options[@]}" update -qq >"$work/apt.log" 2>&1 || return 1
  mkdir -p "$work/nginx"
  (cd "$work/nginx" && apt-get "${options[@]}" source --download-only -qq nginx &&
    dpkg-source --no-check -x ./*.dsc source) >>"$work/apt.log" 2>&1
}

# Leaves the unpacked crate $1 (requirement $2) in the variable crate_directory.
# cargo verifies its checksum.
fetch_crate() {
  local name=$1 requirement=$2 project="$work/crate-$1" manifest
  mkdir -p "$project/src"
  : >"$project/src/lib.rs"
  rm -f "$project/Cargo.lock"
  cat >"$project/Cargo.toml" <<MANIFEST
[package]
name = "peer-source-$name"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
$name = "$requirement"
MANIFEST
  cargo fetch --quiet --manifest-path "$project/Cargo.toml" >&2 || die "crate $name $requirement could not be fetched"
  manifest=$(cargo metadata --format-version 1 --offline --manifest-path "$project/Cargo.toml" |
    grep -o "\"manifest_path\":\"[^\"]*/$name-[^\"]*/Cargo.toml\"" | head -n1 | cut -d'"' -f4)
  [[ -n $manifest ]] || die "cargo metadata does not show where $name was unpacked"
  crate_directory=$(dirname "$manifest")
  say "crate $(basename "$crate_directory")"
}

fetch_nginx() {
  local version
  rm -rf "$work/nginx"
  if [[ -d $nginx_from ]]; then
    mkdir -p "$work/nginx"
    cp -r "$nginx_from" "$work/nginx/source"
    say "nginx from $nginx_from"
  elif [[ $nginx_from != crate ]] && fetch_nginx_from_sid; then
    say "nginx from sid's source package"
  elif [[ $nginx_from != sid ]]; then
    [[ $nginx_from == crate ]] || say "sid's source package cannot be had from this machine's mirror (see $work/apt.log); using the crate nginx-src"
    rm -rf "$work/nginx"
    mkdir -p "$work/nginx"
    fetch_crate nginx-src 1
    cp -r "$crate_directory/nginx" "$work/nginx/source"
  else
    die "sid's source package cannot be had from this machine's mirror; see $work/apt.log"
  fi
  version=$(sed -n 's/^#define NGINX_VERSION *"\(.*\)"/\1/p' "$work/nginx/source/src/core/nginx.h")
  dpkg --compare-versions "$version" ge "$wanted_nginx" && return
  say "WARNING: nginx $version is older than the reference asks for ($wanted_nginx)"
  # OpenSSL 4.0 made ASN1_INTEGER opaque. An older nginx looks into it in one
  # function, where it forms the key of its OCSP cache; no benchmark gets there.
  sed -i -e 's/serial->length/ASN1_STRING_length(serial)/g' -e 's/serial->data/ASN1_STRING_get0_data(serial)/g' \
    "$work/nginx/source/src/event/ngx_event_openssl_stapling.c"
}

# Builds nginx with series $1 of openssl-src.
build() {
  local requirement=$1 log="$work/build-openssl-$1.log" configure=./configure
  # The crate numbers OpenSSL 3.6 as 300.6.
  [[ $requirement == 300 ]] && requirement=">=300.6.0, <301"
  fetch_crate openssl-src "$requirement"
  rm -rf "$work/openssl" "$prefix"
  cp -r "$crate_directory/openssl" "$work/openssl"
  say "building with $(nproc) jobs (log: $log)"
  # `set -e` is off in a command list, hence the explicit chain.
  (
    cd "$work/nginx/source" || exit
    # A checkout has its configure script in auto/, a release in both places.
    [[ -x $configure ]] || configure=auto/configure
    rm -rf objs
    # -Wno-error: an nginx older than its OpenSSL meets deprecations.
    bash "$configure" --prefix="$prefix" --sbin-path="$prefix/sbin/nginx" --modules-path="$prefix/modules" \
      --conf-path="$prefix/nginx.conf" --pid-path=nginx.pid --error-log-path=stderr --http-log-path=access.log \
      --with-cc-opt="-O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -Wno-error" \
      --with-ld-opt="-Wl,-z,relro -Wl,-z,now -pie" \
      --with-openssl="$work/openssl" --with-openssl-opt="$openssl_options" \
      "${modules[@]}" --with-debug &&
      make -j"$(nproc)" &&
      make install
  ) >"$log" 2>&1 && "$prefix/sbin/nginx" -V >/dev/null 2>&1
}

install_build_packages
fetch_nginx
if [[ $openssl_series != 300 ]] && build 400; then
  :
elif [[ $openssl_series == 400 ]]; then
  grep -n -m5 'error:' "$work/build-openssl-400.log" >&2 || tail -n 20 "$work/build-openssl-400.log" >&2
  die "this nginx does not build with OpenSSL 4.0; with 3.6: SEALANE_PEER_OPENSSL=300 $0"
else
  if [[ $openssl_series == auto ]]; then
    grep -n -m5 'error:' "$work/build-openssl-400.log" >&2 || true
    say "this nginx does not build with OpenSSL 4.0; using OpenSSL 3.6"
  fi
  build 300 || { tail -n 30 "$work/build-openssl-300.log" >&2; die "the build failed"; }
fi
printf '%s' "$wanted" >"$stamp"
"$prefix/sbin/nginx" -V 2>&1 | sed -n '1,/^built with/p' >&2
say "took $((SECONDS - started)) s"
printf '%s\n' "$prefix/sbin/nginx"

# Sourced by package-test.sh and rpm-test.sh, from the top of the repository: a clean Debian in a
# directory of its own, and what is asked of a server in it. They set `test_name`, and `root`, the
# directory of that Debian.
# shellcheck shell=bash disable=SC2154,SC2034 # names of those who source this file

say() { printf '%s: %s\n' "$test_name" "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }

suite=${SEALANE_TEST_SUITE:-bookworm}
first=0.1.0-1 second=0.1.0-2

# A Debian with these packages, below .cache/debian/NAME.
make_base() {
  local directory=$PWD/.cache/debian/$1 packages=$2 mirror
  if [[ -e $directory.ready ]]; then return; fi
  # Where this machine gets its packages from.
  # shellcheck disable=SC2016 # a name of apt
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
  rm -rf "$directory"
  mkdir -p "$PWD/.cache/debian"
  say "installing Debian $suite below $directory"
  debootstrap --variant=minbase --include="$packages" "$suite" "$directory" "${mirror:-http://deb.debian.org/debian}" >"$directory.log"
  touch "$directory.ready"
}

# A copy of such a Debian with these files in /packages.
copy_base() {
  local name=$1 run
  shift
  run=$(dirname "$root")
  rm -rf "$run"
  mkdir -p "$run"
  cp -a --reflink=auto "$PWD/.cache/debian/$name" "$root"
  mkdir -p "$root"/{packages,etc/ssl/private,etc/ssl/certs}
  cp "$@" "$root/packages/"
}

# In new namespaces: what programs in that Debian expect, and a loopback interface.
enter_namespaces() {
  mount --make-rprivate /
  mount -t proc proc /proc
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  ip link set lo up 2>/dev/null || die "the loopback interface cannot be switched on"
}

within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
master() { cat "$root/run/sealane.pid"; }
source scripts/waiting.sh

# How long each step of a new user takes: "0.42 s  what was done".
steps_begin() { began=${EPOCHREALTIME/./} step=$began; }
step_done() {
  local now=${EPOCHREALTIME/./}
  say "$(printf '%6d ms, %6d ms in all: %s' $(((now - step) / 1000)) $(((now - began) / 1000)) "$*")"
  step=$now
}

# A self-signed certificate for example.com, where sites-available/example-tls looks for it.
make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example.com -addext subjectAltName=DNS:example.com \
    -keyout "$root/etc/ssl/private/example.com.key" -out "$root/etc/ssl/certs/example.com.pem" 2>/dev/null
  authority=(--cacert "$root/etc/ssl/certs/example.com.pem" --resolve example.com:443:127.0.0.1)
}

# From here to the first page over HTTPS of an own configuration, after the package is installed.
first_minutes() {
  within sealane -t
  within sealane -V 2>&1 | grep --quiet -- '--conf-path=/etc/sealane/nginx.conf' || die "the package's paths do not hold"
  within sealane
  wait_until "HTTP is not answered" answers "Sealane works" http://127.0.0.1/
  step_done "sealane -t, sealane: http://localhost/ shows the page of the package"
  [[ $(ps -o user= -p "$(pgrep -P "$(master)" | head -n 1)") != root ]] || die "the worker is root"

  make_certificate
  step_done "a certificate"
  # One's own nginx.conf, as it was for nginx: other directories, another user, all in one file.
  mkdir -p "$root/srv/www"
  echo "a site of one's own" >"$root/srv/www/index.html"
  cp -a "$root/etc/sealane/nginx.conf" "$run/nginx.conf"
  cat >"$root/etc/sealane/nginx.conf" <<'NGINX'
user www-data;
worker_processes auto;
pid /run/sealane.pid;
error_log /var/log/sealane/error.log;
events { worker_connections 1024; }
http {
    include mime.types;
    access_log /var/log/sealane/access.log combined;
    sendfile on;
    ssl_session_cache shared:SSL:10m;
    server {
        listen 80 default_server;
        server_name example.com;
        return 301 https://$host$request_uri;
    }
    server {
        listen 443 ssl;
        http2 on;
        server_name example.com;
        ssl_certificate /etc/ssl/certs/example.com.pem;
        ssl_certificate_key /etc/ssl/private/example.com.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        root /srv/www;
    }
}
NGINX
  within sealane -t
  within sealane -s reload
  wait_until "HTTPS is not answered" answers "a site of one's own" "${authority[@]}" https://example.com/
  answers "301 Moved" http://127.0.0.1/ || die "HTTP does not lead to HTTPS"
  step_done "an own nginx.conf, sealane -t, sealane -s reload: https://example.com/ shows one's own page"
  # The package's again, with the site of sites-available: both answer from here on.
  cp -a "$run/nginx.conf" "$root/etc/sealane/nginx.conf"
  mkdir -p "$root/var/www/example.com"
  echo "a site of sites-available" >"$root/var/www/example.com/index.html"
  within ln -s ../sites-available/example-tls /etc/sealane/sites-enabled/
  within sealane -t
  within sealane -s reload
  wait_until "the site is not answered" answers "a site of sites-available" "${authority[@]}" https://example.com/
  step_done "the package's nginx.conf with sites-enabled/example-tls instead"
}

# An upgrade by a function while both ports are loaded: the master changes, and no request fails.
upgrade_under_load() {
  local old new kind plain tls
  load() { wrk --threads 1 --connections 20 --duration 12s "${@:2}" >"$run/$1"; }
  load plain http://127.0.0.1/ & plain=$!
  load tls --header 'Host: example.com' https://127.0.0.1/ & tls=$!
  sleep 3
  old=$(master)
  "$@"
  new=$(master)
  [[ $new != "$old" ]] || die "the same master runs after the upgrade"
  [[ $(readlink "/proc/$new/exe") == */usr/sbin/sealane ]] || die "the new master is not the installed binary"
  wait "$plain" "$tls"
  wait_until "the old master has not ended" test ! -d "/proc/$old"
  for kind in plain tls; do
    cat "$run/$kind" >&2
    grep --quiet 'requests in' "$run/$kind" || die "wrk has counted nothing"
    if grep -E 'Socket errors|Non-2xx' "$run/$kind"; then die "requests have failed during the upgrade"; fi
  done
  say "upgraded under load, from process $old to $new: no failed request"
}

# A package is installed, by a function, while the configuration is one that its version refuses.
refused_upgrade() {
  local before
  before=$(master)
  echo 'no_such_directive on;' >"$root/etc/sealane/conf.d/wrong.conf"
  "$@" 2>"$run/refused" || die "the package is not installed"
  cat "$run/refused" >&2
  grep --quiet 'unknown directive "no_such_directive"' "$run/refused" || die "nobody was told why"
  grep --quiet 'the old version goes on serving' "$run/refused" || die "nobody was told what happens"
  [[ $(master) == "$before" ]] || die "the old version does not go on"
  answers "Sealane works" http://127.0.0.1/ || die "HTTP is not answered"
  rm "$root/etc/sealane/conf.d/wrong.conf"
  within /usr/libexec/sealane/upgrade
  [[ $(master) != "$before" ]] || die "the upgrade was not made up for"
  say "a configuration that is refused keeps the old version serving"
}

check_rotation() {
  answers "Sealane works" "http://127.0.0.1/?before"
  wait_until "no line in the access log" grep --quiet '?before' "$root/var/log/sealane/access.log"
  within logrotate --force /etc/logrotate.d/sealane
  curl --silent --output /dev/null "http://127.0.0.1/?after"
  wait_until "the new log has no lines" grep --quiet '?after' "$root/var/log/sealane/access.log"
  grep --quiet '?before' "$root/var/log/sealane/access.log.1" || die "the old log was not kept"
  [[ $(stat -c %a "$root/var/log/sealane/access.log") == 640 ]] || die "the mode of the log"
  say "logs are rotated"
}

# Files, users and what is in the files of accounts; without what the tools themselves keep.
listing() {
  (cd "$root" && find . -xdev \( -path ./packages -o -path ./proc -o -path ./dev -o -path ./sys -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root/.rpmdb \
    -o -path ./var/cache/apt -o -path ./var/cache/ldconfig -o -path ./var/cache/debconf -o -path ./var/log/apt -o -path ./etc/.pwd.lock \) -prune \
    -o ! -name '*-' ! -path ./var/log/dpkg.log ! -path ./var/log/alternatives.log -printf '%p %m %u %g %l\n' | sort)
  cat "$root"/etc/{passwd,group}
}

# What a test itself has added to that Debian.
remove_own_files() {
  rm -rf "$root/etc/ssl/private/example.com.key" "$root/etc/ssl/certs/example.com.pem" "$root/var/www" "$root/srv/www"
  rm -f "$root/var/lib/logrotate/status"
}

#!/usr/bin/env bash
# Tests the Debian package in a clean Debian: lintian, installation, a start without systemd, HTTP
# and HTTPS, an upgrade under load, an upgrade with a configuration that the new version refuses,
# log rotation, removal, and that purging leaves nothing. Then with systemd, in a container: "sealane
# takeover" of Debian's nginx, the unit, its sandbox, an upgrade under load, the socket unit.
#
#   scripts/package-test.sh
#
# As root: it makes namespaces, in which nothing but this Debian and its loopback exists. SEALANE_BINARY
# names another binary than target/release/sealane, for a quick run. Each Debian is made once, by
# debootstrap, in .cache/debian; SEALANE_TEST_SUITE names another release than bookworm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'package-test: %s\n' "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }
((EUID == 0)) || die "only root can make namespaces"
suite=${SEALANE_TEST_SUITE:-bookworm}
run=$PWD/.cache/debian/run
first=0.1.0-1 second=0.1.0-2
architecture=$(dpkg --print-architecture)

# A Debian with these packages, below .cache/debian/NAME.
make_base() {
  local directory=$PWD/.cache/debian/$1 packages=$2 mirror
  if [[ -e $directory.ready ]]; then return; fi
  # Where this machine gets its packages from.
  # shellcheck disable=SC2016 # a name of apt
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
  rm -rf "$directory"
  say "installing Debian $suite below $directory"
  debootstrap --variant=minbase --include="$packages" "$suite" "$directory" "${mirror:-http://deb.debian.org/debian}" >"$directory.log"
  touch "$directory.ready"
}

# The same with systemd, in a container of its own, beside an nginx that is replaced.
test_with_systemd() {
  rm -rf "$run"
  mkdir -p "$run"
  cp -a --reflink=auto "$PWD/.cache/debian/$suite-systemd" "$run/root"
  mkdir "$run/root/packages"
  cp dist/sealane_{"$first","$second"}_"$architecture".deb scripts/package-test-inside.sh "$run/root/packages/"
  cat >"$run/root/etc/systemd/system/package-test.service" <<END
[Unit]
After=nginx.service multi-user.target
[Service]
Type=oneshot
Environment=DEBIAN_FRONTEND=noninteractive
ExecStart=/packages/package-test-inside.sh $first $second $architecture
ExecStopPost=/usr/bin/systemctl poweroff --no-block
TimeoutStartSec=300
StandardOutput=file:/packages/output
StandardError=inherit
[Install]
WantedBy=default.target
END
  ln -s ../package-test.service "$run/root/etc/systemd/system/multi-user.target.wants/"
  if ! timeout 600 systemd-nspawn --quiet --directory="$run/root" --machine="package-test-$$" --register=no --keep-unit \
    --private-network --system-call-filter=pidfd_getfd --boot --console=pipe </dev/null >"$run/console" 2>&1; then
    tail -n 20 "$run/console" >&2
    die "the container has failed"
  fi
  grep -v '^(Reading' "$run/root/packages/output" >&2
  [[ $(cat "$run/root/packages/result") == passed ]] || die "with systemd, see above"
}

# Outside of the namespaces: what needs the network, and the packages.
if [[ ${1:-} != inside ]]; then
  make_base "$suite" adduser,init-system-helpers,logrotate
  make_base "$suite-systemd" adduser,init-system-helpers,logrotate,systemd-sysv,dbus,kmod,curl,wrk,nginx-light
  for version in "$first" "$second"; do scripts/package.sh deb "$version"; done
  lintian --fail-on error --allow-root "dist/sealane_${first}_$architecture.deb" || die "lintian has errors"
  say "lintian: no errors"
  rm -rf "$run"
  mkdir -p "$run"
  cp -a --reflink=auto "$PWD/.cache/debian/$suite" "$run/root"
  mkdir "$run/root/packages"
  cp dist/sealane_{"$first","$second"}_"$architecture".deb "$run/root/packages/"
  status=0
  unshare --mount --net --pid --uts --ipc --fork --kill-child "$0" inside || status=$?
  ((status == 0)) || exit "$status"
  test_with_systemd
  rm -rf "$run"
  rm -f dist/sealane?"$second"*
  exit
fi

root=$run/root
mount --make-rprivate /
mount -t proc proc /proc
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
ip link set lo up 2>/dev/null || die "the loopback interface cannot be switched on"

within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
install_version() { within dpkg --install "/packages/sealane_$1_$architecture.deb"; }
master() { cat "$root/run/sealane.pid"; }
wait_until() {
  local what=$1
  shift
  for _ in {1..300}; do
    if "$@"; then return; fi
    sleep 0.1
  done
  die "$what"
}
answers() { [[ $(curl --silent --show-error --max-time 10 "${@:2}") == *"$1"* ]]; }

# Files, users and what is in the files of accounts; without what the tools themselves keep.
listing() {
  (cd "$root" && find . -xdev \( -path ./packages -o -path ./proc -o -path ./dev -o -path ./sys -o -path ./var/lib/dpkg \
    -o -path ./var/cache/apt -o -path ./var/cache/ldconfig -o -path ./var/cache/debconf -o -path ./var/log/apt -o -path ./etc/.pwd.lock \) -prune \
    -o ! -name '*-' ! -path ./var/log/dpkg.log ! -path ./var/log/alternatives.log -printf '%p %m %u %g %l\n' | sort)
  cat "$root"/etc/{passwd,group}
}

# --- a new user's first minutes
listing >"$run/before"
started=$SECONDS
within apt-get install --yes --quiet --no-install-recommends "/packages/sealane_${first}_$architecture.deb"
within sealane -t
within sealane -V 2>&1 | grep --quiet -- '--conf-path=/etc/sealane/nginx.conf' || die "the package's paths do not hold"
within sealane
wait_until "HTTP is not answered" answers "Sealane works" http://127.0.0.1/
say "installed, started and answering over HTTP after $((SECONDS - started)) s"
[[ $(ps -o user= -p "$(pgrep -P "$(master)" | head -n 1)") != root ]] || die "the worker is root"

mkdir -p "$root/var/www/example.com"
echo "a site of one's own" >"$root/var/www/example.com/index.html"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example.com -addext subjectAltName=DNS:example.com \
  -keyout "$root/etc/ssl/private/example.com.key" -out "$root/etc/ssl/certs/example.com.pem" 2>/dev/null
within ln -s ../sites-available/example-tls /etc/sealane/sites-enabled/
within sealane -t
within sealane -s reload
authority=(--cacert "$root/etc/ssl/certs/example.com.pem" --resolve example.com:443:127.0.0.1)
wait_until "HTTPS is not answered" answers "a site of one's own" "${authority[@]}" https://example.com/
say "the first HTTPS page of an own configuration after $((SECONDS - started)) s"

# --- an upgrade under load
load() { wrk --threads 1 --connections 20 --duration 12s "${@:2}" >"$run/$1"; }
load plain http://127.0.0.1/ & plain=$!
load tls --header 'Host: example.com' https://127.0.0.1/ & tls=$!
sleep 3
old=$(master)
install_version "$second"
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

# --- an upgrade with a configuration that the new version refuses
echo 'no_such_directive on;' >"$root/etc/sealane/conf.d/wrong.conf"
install_version "$first" 2>"$run/refused" || die "the package is not installed"
cat "$run/refused" >&2
grep --quiet 'unknown directive "no_such_directive"' "$run/refused" || die "nobody was told why"
grep --quiet 'the old version goes on serving' "$run/refused" || die "nobody was told what happens"
[[ $(master) == "$new" ]] || die "the old version does not go on"
answers "Sealane works" http://127.0.0.1/ || die "HTTP is not answered"
rm "$root/etc/sealane/conf.d/wrong.conf"
within /usr/libexec/sealane/upgrade
[[ $(master) != "$new" ]] || die "the upgrade was not made up for"
say "a configuration that is refused keeps the old version serving"

# --- logs
answers "Sealane works" "http://127.0.0.1/?before"
wait_until "no line in the access log" grep --quiet '?before' "$root/var/log/sealane/access.log"
within logrotate --force /etc/logrotate.d/sealane
curl --silent --output /dev/null "http://127.0.0.1/?after"
wait_until "the new log has no lines" grep --quiet '?after' "$root/var/log/sealane/access.log"
grep --quiet '?before' "$root/var/log/sealane/access.log.1" || die "the old log was not kept"
[[ $(stat -c %a "$root/var/log/sealane/access.log") == 640 ]] || die "the mode of the log"
say "logs are rotated"

# --- the end
last=$(master)
within apt-get remove --yes --quiet sealane
[[ ! -d /proc/$last ]] || die "the server runs without its package"
[[ -e $root/etc/sealane/nginx.conf ]] || die "removing the package has removed the configuration"
within apt-get purge --yes --quiet sealane
rm -rf "$root/etc/ssl/private/example.com.key" "$root/etc/ssl/certs/example.com.pem" "$root/var/www"
rm -f "$root/var/lib/logrotate/status"
listing >"$run/after"
diff "$run/before" "$run/after" || die "purging has left something (>) or taken something away (<)"
say "purged: nothing is left"

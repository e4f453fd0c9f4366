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

# shellcheck disable=SC2034 # for clean-debian.sh
test_name=package-test
source scripts/clean-debian.sh
((EUID == 0)) || die "only root can make namespaces"
run=$PWD/.cache/debian/run
root=$run/root
architecture=$(dpkg --print-architecture)

# The same with systemd, in a container of its own, beside an nginx that is replaced.
test_with_systemd() {
  copy_base "$suite-systemd" dist/sealane_{"$first","$second"}_"$architecture".deb scripts/{package-test-inside,waiting}.sh
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
  copy_base "$suite" dist/sealane_{"$first","$second"}_"$architecture".deb
  status=0
  unshare --mount --net --pid --uts --ipc --fork --kill-child "$0" inside || status=$?
  ((status == 0)) || exit "$status"
  test_with_systemd
  rm -rf "$run"
  rm -f dist/sealane?"$second"*
  exit
fi

enter_namespaces
install_version() { within dpkg --install "/packages/sealane_$1_$architecture.deb"; }

# --- a new user's first minutes
listing >"$run/before"
steps_begin
within apt-get install --yes --quiet --no-install-recommends "/packages/sealane_${first}_$architecture.deb"
step_done "apt-get install"
first_minutes

upgrade_under_load install_version "$second"
refused_upgrade install_version "$first"
check_rotation

# --- the end
last=$(master)
within apt-get remove --yes --quiet sealane
[[ ! -d /proc/$last ]] || die "the server runs without its package"
[[ -e $root/etc/sealane/nginx.conf ]] || die "removing the package has removed the configuration"
[[ -z $(find "$root/run" -name 'sealane*') ]] || die "the server has left something in /run"
within apt-get purge --yes --quiet sealane
remove_own_files
listing >"$run/after"
diff "$run/before" "$run/after" || die "purging has left something (>) or taken something away (<)"
say "purged: nothing is left"

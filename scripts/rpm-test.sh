#!/usr/bin/env bash
# Tests the RPM by rpm itself, in a clean root: installation, a start without systemd, HTTP and
# HTTPS, an upgrade under load, an upgrade with a configuration that the new version refuses, log
# rotation, and what removal leaves.
#
#   scripts/rpm-test.sh
#
# The root is a Debian with rpm, as for scripts/package-test.sh, because a machine that builds on
# Debian has packages of no other distribution. So what the RPM requires is printed and not looked
# up (--nodeps); everything else is what rpm does anywhere. SEALANE_BINARY names another binary than
# target/release/sealane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck disable=SC2034 # for clean-debian.sh
test_name=rpm-test
source scripts/clean-debian.sh
((EUID == 0)) || die "only root can make namespaces"
run=$PWD/.cache/debian/run-rpm
root=$run/root
machine=$(uname -m)

# Outside of the namespaces: what needs the network, and the packages.
if [[ ${1:-} != inside ]]; then
  make_base "$suite-rpm" rpm,logrotate
  for version in "$first" "$second"; do scripts/package.sh rpm "$version"; done
  copy_base "$suite-rpm" dist/sealane-{"$first","$second"}."$machine".rpm
  status=0
  unshare --mount --net --pid --uts --ipc --fork --kill-child "$0" inside || status=$?
  ((status == 0)) || exit "$status"
  rm -rf "$run"
  rm -f dist/sealane?"$second"*
  exit
fi

enter_namespaces
file_of() { echo "/packages/sealane-$1.$machine.rpm"; }
upgrade_to() { within rpm --upgrade --nodeps "$(file_of "$1")"; }
# A lower version, as "dnf downgrade" has it.
return_to() { within rpm --upgrade --oldpackage --nodeps "$(file_of "$1")"; }
installed() { within rpm --query --queryformat '%{VERSION}-%{RELEASE}' sealane; }

# --- a new user's first minutes
within rpm --query --requires --package "$(file_of "$first")" | sort -u | tr '\n' ' ' >"$run/requires"
say "the RPM requires: $(cat "$run/requires")"
grep --quiet 'libc.so.6(GLIBC_' "$run/requires" || die "the C library is not required"
listing >"$run/before"
steps_begin
within rpm --install --nodeps "$(file_of "$first")"
step_done "rpm --install"
[[ $(installed) == "$first" ]] || die "rpm knows of no package"
within rpm --verify --nodeps sealane || die "files are not as they were packed"
within getent passwd sealane >/dev/null || die "the user is missing"
first_minutes

# --- upgrades; changed configuration stays
echo '# changed by hand' >>"$root/etc/sealane/nginx.conf"
upgrade_under_load upgrade_to "$second"
[[ $(installed) == "$second" ]] || die "rpm does not know of the new version"
tail -n 1 "$root/etc/sealane/nginx.conf" | grep --quiet 'changed by hand' || die "the configuration was replaced"
refused_upgrade return_to "$first"
[[ $(installed) == "$first" ]] || die "rpm does not know of the version"
check_rotation

# --- the end: logs, the user, and what was changed by hand are left
rm "$root/etc/sealane/sites-enabled/example-tls"
last=$(master)
within rpm --erase --nodeps sealane
[[ ! -d /proc/$last ]] || die "the server runs without its package"
remove_own_files
listing >"$run/after"
diff "$run/before" "$run/after" | sed -n 's/^[<>] //p' >"$run/changes" || true
say "what removal leaves:"
cat "$run/changes" >&2
while read -r path _; do
  case $path in
    ./var/log/sealane | ./var/log/sealane/*.log | ./var/log/sealane/*.log.1) ;;
    ./etc/sealane | ./etc/sealane/nginx.conf.rpmsave) ;;
    # Directories that every RPM distribution has.
    ./usr/lib/sysusers.d | ./usr/share/licenses | ./usr/share/zsh* | ./usr/share/fish*) ;;
    sealane:x:*) ;;
    *) die "removal has left or taken away $path" ;;
  esac
done <"$run/changes"
[[ $(stat -c %a "$root/var/log/sealane/access.log.1") == 640 ]] || die "the mode of the old log"
grep --quiet '^\./etc/sealane/nginx.conf.rpmsave ' "$run/changes" || die "the changed configuration was not saved"
say "removed: logs, the user and the changed configuration are left, and nothing else"

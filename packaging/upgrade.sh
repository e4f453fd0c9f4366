#!/bin/sh
# Puts the installed binary in the place of the one that runs, without losing a connection: USR2
# and QUIT, as in "Upgrading the binary" of sealane(8). The packages call it after an upgrade.
#
#   /usr/libexec/sealane/upgrade
#
# Ends with 0 when the new binary serves, or when none was running, and with 1 when the old one
# goes on, which it does whenever the new one does not serve.
set -eu
program=/usr/sbin/sealane
patience=600 # tenths of a second

say() { printf 'sealane: %s\n' "$*" >&2; }
die() {
  say "$1"
  say "the old version goes on serving. When that is solved: /usr/libexec/sealane/upgrade"
  exit 1
}

# The file that a process was started from, "... (deleted)" when there is another in its place.
file_of() { readlink "/proc/$1/exe" 2>/dev/null || true; }

children_of() { cat "/proc/$1/task/$1/children" 2>/dev/null || true; }

# Whether one of its children is a worker.
serves() {
  for child in $(children_of "$1"); do
    case $(cat "/proc/$child/comm" 2>/dev/null) in "sealane: worker"*) return 0 ;; esac
  done
  return 1
}

# A child that is the installed binary's master: the old one's workers have the old file.
new_master_of() {
  for child in $(children_of "$1"); do
    if [ "$(file_of "$child")" = "$program" ]; then
      echo "$child"
      return
    fi
  done
}

old=
if [ -d /run/systemd/system ]; then
  old=$(systemctl show --property MainPID --value sealane.service 2>/dev/null || true)
fi
case $old in '' | 0) old=$(cat /run/sealane.pid 2>/dev/null || true) ;; esac
case $old in '' | *[!0-9]*) exit 0 ;; esac
case $(file_of "$old") in
  "$program (deleted)") ;;
  *) exit 0 ;; # it is this binary already, or not this package's
esac

# With the arguments of the running one, as USR2 will start it.
# shellcheck disable=SC2016 # the inner shell is to expand them
problem=$(xargs -0 sh -c 'shift; exec "$0" "$@" -t -q' "$program" <"/proc/$old/cmdline" 2>&1) || {
  [ -z "$problem" ] || printf '%s\n' "$problem" >&2
  die "the new version refuses the configuration, for the reason above"
}

kill -USR2 "$old" 2>/dev/null || die "process $old cannot be signalled"
new=
while [ "$patience" -gt 0 ]; do
  patience=$((patience - 1))
  [ -d "/proc/$old" ] || die "process $old has ended meanwhile; start the server"
  found=$(new_master_of "$old")
  if [ -n "$new" ] && [ -z "$found" ]; then
    die "the new version has ended while it was starting; its error log tells why"
  fi
  new=$found
  if [ -n "$new" ] && serves "$new"; then break; fi
  sleep 0.1
done
if [ -z "$new" ] || ! serves "$new"; then
  # It might serve in the end, beside the old one.
  [ -z "$new" ] || kill -TERM "$new" 2>/dev/null || true
  die "the new version does not serve, see the error log"
fi
kill -QUIT "$old" 2>/dev/null || true # it has ended by itself
say "the new version serves (process $new); process $old finishes what it has begun"

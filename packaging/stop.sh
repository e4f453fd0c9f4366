#!/bin/sh
# Ends a server that was started by hand or in a container, where no systemd ends it: the packages
# call it before they are removed. It finishes what it has begun, for half a minute at most.
#
#   /usr/libexec/sealane/stop
set -eu
pid=$(cat /run/sealane.pid 2>/dev/null || true)
case $pid in '' | *[!0-9]*) exit 0 ;; esac
# After an upgrade that was refused, the file of the running process is no longer there.
case $(readlink "/proc/$pid/exe" 2>/dev/null || true) in
  /usr/sbin/sealane | "/usr/sbin/sealane (deleted)") ;;
  *) exit 0 ;;
esac
kill -QUIT "$pid" 2>/dev/null || exit 0 # it has ended by itself
patience=300 # tenths of a second
while [ -d "/proc/$pid" ] && [ "$patience" -gt 0 ]; do
  sleep 0.1
  patience=$((patience - 1))
done
kill -TERM "$pid" 2>/dev/null || true

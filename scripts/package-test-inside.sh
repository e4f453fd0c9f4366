#!/usr/bin/env bash
# The part of scripts/package-test.sh that runs inside of a container with systemd, as a service.
#
#   package-test-inside.sh FIRST-VERSION SECOND-VERSION ARCHITECTURE
#
# Writes "passed" to /packages/result.
set -euo pipefail
first=$1 second=$2 architecture=$3
echo failed >/packages/result

say() { printf 'package-test: with systemd: %s\n' "$*"; }
die() {
  say "FAILED: $*"
  journalctl --unit sealane --unit nginx --no-pager --lines 40
  tail -n 40 /var/log/sealane/error.log /var/log/nginx/error.log || true
  exit 1
}
# shellcheck source=scripts/waiting.sh
source /packages/waiting.sh
server() { curl --silent --show-error --max-time 10 --output /dev/null --dump-header - http://127.0.0.1/ | tr -d '\r' | sed -n 's/^[Ss]erver: \([a-z]*\).*/\1/p'; }
is_served_by() { [[ $(server) == "$1" ]]; }
is_active() { systemctl --quiet is-active "$1"; }
main_pid() { systemctl show --property MainPID --value sealane; }
load() { wrk --threads 1 --connections 8 --duration "$1" "${@:2}" http://127.0.0.1:80/ >/packages/load; }
check_load() {
  cat /packages/load
  grep --quiet 'requests in' /packages/load || die "wrk has counted nothing"
  if grep -E 'Socket errors|Non-2xx' /packages/load; then die "requests have failed"; fi
}

# --- beside nginx, and in its place
wait_until "nginx does not serve" is_served_by nginx
apt-get install --yes --quiet "/packages/sealane_${first}_$architecture.deb" | tee /packages/installed
grep --quiet 'sealane takeover' /packages/installed || die "nobody was told of the takeover"
is_served_by nginx || die "the installation has disturbed nginx"
load 8s --header 'Connection: close' & loading=$!
sleep 1
sealane takeover || die "the takeover"
wait "$loading"
check_load
is_served_by sealane || die "Sealane does not serve after the takeover"
! is_active nginx || die "nginx is active"
# Had the commands at the end of nginx's service found this process in the pid file, it would be gone.
sleep 1
pid=$(cat /run/nginx.pid)
[[ $(readlink "/proc/$pid/exe") == /usr/sbin/sealane ]] || die "the pid file is not Sealane's"
say "Debian's nginx was replaced under load, and its service has ended"
kill -QUIT "$pid"
wait_until "Sealane does not end" test ! -d "/proc/$pid"
systemctl disable nginx

# --- the unit
systemctl start sealane || die "the unit does not start"
is_served_by sealane || die "the unit does not serve"
[[ $(cat /run/sealane.pid) == "$(main_pid)" ]] || die "the main process"
worker=$(cat "/proc/$(main_pid)/task/$(main_pid)/children")
grep --quiet '^Seccomp:[[:space:]]*2' "/proc/${worker%% *}/status" || die "the worker has no filter of system calls"
systemd-analyze security --no-pager --threshold=25 sealane >/packages/security || die "the unit is exposed more than 2.5"
# What a configuration may ask of the master, within the sandbox of the unit.
mkdir -p /var/www/data
cat >/etc/sealane/conf.d/more.conf <<'END'
proxy_cache_path /var/cache/sealane/one keys_zone=one:1m;
server {
    listen 127.0.0.1:8080;
    listen unix:/run/sealane-test.sock;
    access_log /var/log/sealane/other.log;
    client_max_body_size 10m;
    location / { proxy_pass http://127.0.0.1:80; proxy_cache one; proxy_cache_valid 1m; }
    location /put/ { alias /var/www/data/; dav_methods PUT; client_body_temp_path /var/lib/sealane/put; }
}
END
chown sealane /var/www/data
before=$(main_pid)
systemctl reload sealane
wait_until "the reload" curl --silent --fail --output /dev/null http://127.0.0.1:8080/
[[ $(main_pid) == "$before" ]] || die "a reload has changed the process"
head -c 3000000 /dev/zero | curl --silent --show-error --fail --upload-file - http://127.0.0.1:8080/put/file || die "an upload"
[[ $(stat -c %s /var/www/data/file) == 3000000 ]] || die "the uploaded file"
curl --silent --fail --output /dev/null --unix-socket /run/sealane-test.sock http://localhost/ || die "the Unix socket"
wait_until "a file of the cache" test -n "$(find /var/cache/sealane/one -type f)"
if grep -E '\[(warn|error|crit|alert|emerg)\]' /var/log/sealane/error.log; then die "there are complaints"; fi
say "the unit serves within its sandbox"

# --- the journal: lines with the fields that docs/tracing.md lists
cat >/etc/sealane/conf.d/journal.conf <<'END'
server {
    listen 127.0.0.1:8081;
    error_log stderr;
    root /var/www/data;
}
END
systemctl reload sealane
wait_until "the reload" curl --silent --output /dev/null http://127.0.0.1:8081/missing
in_journal() {
  journalctl --unit sealane --output json --no-pager SEALANE_CLIENT=127.0.0.1 PRIORITY=3 |
    grep --fixed-strings '"SEALANE_REQUEST":"GET /missing HTTP/1.1"' >/packages/journal
}
wait_until "a line of the journal with its fields" in_journal
for field in '"SYSLOG_IDENTIFIER":"sealane"' '"SEALANE_HOST":"127.0.0.1:8081"' '"TID":"' '"SEALANE_CONNECTION":"'; do
  grep --quiet --fixed-strings "$field" /packages/journal || die "the journal lacks $field: $(cat /packages/journal)"
done
say "the journal has the error log with its fields"

# --- an upgrade under load: the unit stays active
load 10s & loading=$!
sleep 2
before=$(main_pid) started=$(systemctl show --property ActiveEnterTimestampMonotonic --value sealane)
dpkg --install "/packages/sealane_${second}_$architecture.deb"
wait "$loading"
check_load
wait_until "systemd knows no other main process" test "$(main_pid)" != "$before"
is_active sealane || die "the unit is not active"
[[ $(systemctl show --property ActiveEnterTimestampMonotonic --value sealane) == "$started" ]] || die "the unit was restarted"
say "upgraded under load, from process $before to $(main_pid): no failed request, the unit stays active"

# --- the socket unit
systemctl stop sealane
systemctl enable --now sealane.socket
is_served_by sealane || die "a connection does not start the service"
systemctl restart sealane
is_served_by sealane || die "the sockets of systemd"
say "the socket unit starts the service"

apt-get purge --yes --quiet sealane
! is_active sealane || die "the service is active without its package"
! is_active sealane.socket || die "the service is active without its package"
[[ -z $(find /etc/systemd /usr/lib/systemd /var/lib/systemd -name '*sealane*') ]] || die "purging has left parts of the service"
[[ ! -e /etc/sealane && ! -e /var/log/sealane && ! -e /var/lib/sealane && ! -e /var/cache/sealane ]] || die "purging has left something"
[[ -z $(find /run -maxdepth 1 -name 'sealane*') ]] || die "purging has left something in /run"
say "purged"
echo passed >/packages/result

#!/usr/bin/env bash
# Makes the container image and runs it, with Debian's tools: buildah makes the last stage of
# packaging/image/Dockerfile, umoci unpacks the result, crun runs it. Tests what is promised of
# nginx's image: pages, logs as output, templates, /docker-entrypoint.d, SIGQUIT.
#
#   scripts/image-test.sh
#
# The binaries are those of this machine (SEALANE_BINARY, and sealane-entrypoint beside it), so the
# stage that compiles is skipped. No registry of images is asked: the base is made of the Debian
# packages that distroless's is made of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'image-test: %s\n' "$*" >&2; }
die() {
  say "FAILED: $*"
  tail -n 20 "$run"/*.out "$run"/*.err >&2 2>/dev/null || true
  exit 1
}
run=$PWD/.cache/image
((EUID == 0)) || die "only root can run containers here"
binary=${SEALANE_BINARY:-target/release/sealane}
entrypoint=$(dirname "$binary")/sealane-entrypoint
archive=dist/sealane-image-$(uname -m).tar

# What distroless's cc-debian12 has, without what nothing here needs (libssl3, libstdc++6).
make_base() {
  local package
  mkdir -p "$run/packages" "$run/base"
  say "the base from Debian's packages"
  (cd "$run/packages" && apt-get download -qq -o APT::Sandbox::User=root base-files netbase tzdata libc6 libgcc-s1 ca-certificates)
  for package in "$run"/packages/*.deb; do dpkg-deb --extract "$package" "$run/base"; done
  mkdir -p "$run/base/etc/ssl/certs" "$run"/base/{proc,sys,dev,tmp}
  find "$run/base/usr/share/ca-certificates" -name '*.crt' | sort | xargs cat >"$run/base/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n' >"$run/base/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$run/base/etc/group"
}

# Nothing of it is kept in the machine's own storage.
image() { buildah --root "$run/storage" --runroot "$run/runroot" --storage-driver vfs "$@"; }

make_image() {
  local container
  container=$(image from scratch)
  image copy --quiet "$container" "$run/base" / >/dev/null
  image commit --quiet "$container" localhost/base >/dev/null
  # As the Dockerfile does in its first stage.
  mkdir -p "$run/build/image/etc"
  cp "$run/base/etc/passwd" "$run/base/etc/group" "$run/build/image/etc/"
  objcopy --strip-debug "$binary" "$run/build/sealane"
  objcopy --strip-debug "$entrypoint" "$run/build/sealane-entrypoint"
  packaging/image/assemble.sh "$run/build/image" "$run/build/sealane" "$run/build/sealane-entrypoint"
  image build --quiet --isolation chroot --timestamp "$(git log -1 --format=%ct)" --file packaging/image/Dockerfile \
    --build-context "build=$run/build" --build-context gcr.io/distroless/cc-debian12=container-image://localhost/base \
    --tag localhost/sealane packaging >/dev/null
  mkdir -p dist
  rm -f "$archive"
  image push --quiet localhost/sealane "oci-archive:$PWD/$archive:sealane"
  image push --quiet localhost/sealane "oci:$run/layout:sealane"
  [[ ! -e $run/base/bin/sh ]] || die "the base has a shell"
  say "$archive: $(du -h "$archive" | cut -f 1)"
}

# Outside of the namespaces: what needs the network.
if [[ ${1:-} != inside ]]; then
  for program in "$binary" "$entrypoint"; do
    [[ -x $program ]] || die "$program is missing; run: scripts/profile-build.sh sealane sealane-entrypoint"
  done
  rm -rf "$run"
  make_base
  make_image
  status=0
  unshare --mount --net --pid --fork --kill-child "$0" inside || status=$?
  ((status == 0)) || exit "$status"
  rm -rf "$run"
  exit
fi

mount --make-rprivate /
mount -t proc proc /proc
# crun knows no mixture of both versions of control groups, and needs none here.
umount --recursive --lazy /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up 2>/dev/null || die "the loopback interface cannot be switched on"
source scripts/waiting.sh

# What engines leave to a container's root, and umoci does not.
capabilities='["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
  "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"]'
# A container of the image below $run/NAME; a filter of jq adds to its configuration what
# "docker run" has options for: variables, volumes, the command.
container() {
  local name=$1 filter=$2
  umoci unpack --image "$run/layout:sealane" "$run/$name" >/dev/null
  # The network is that of this script, which has nothing but a loopback.
  jq ".process.terminal = false | del(.linux.namespaces[] | select(.type == \"network\")) | del(.linux.resources) |
    del(.mounts[] | select(.type == \"cgroup\")) | del(.process.rlimits) |
    .process.capabilities = ({bounding: $capabilities} | .effective = .bounding | .permitted = .bounding) | $filter" \
    "$run/$name/config.json" >"$run/config.json"
  mv "$run/config.json" "$run/$name/config.json"
}
start() {
  local name=$1
  exec crun --root "$run/crun" --cgroup-manager disabled run --bundle "$run/$name" "$name" >"$run/$name.out" 2>"$run/$name.err" </dev/null
}
crun_kill() { crun --root "$run/crun" kill "$1" "$2"; }
volume() { printf '.mounts += [{"type": "bind", "source": "%s", "destination": "%s", "options": ["rbind", "ro"]}]' "$1" "$2"; }
# Ends it as an engine does, by the signal that the image names.
stop() {
  local name=$1 pid=$2 status=0
  crun_kill "$name" "$signal"
  wait "$pid" || status=$?
  ((status == 0)) || die "$name has ended with status $status"
}
# --- as it is
container plain .
signal=$(jq --raw-output '.annotations["org.opencontainers.image.stopSignal"]' "$run/plain/config.json")
[[ $signal == SIGQUIT ]] || die "the image's signal is $signal"
start plain & pid=$!
wait_until "no page" answers "Sealane works" http://127.0.0.1/
wait_until "no line of the access log" grep --quiet '"GET / HTTP/1.1" 200' "$run/plain.out"
grep --quiet 'start worker process' "$run/plain.err" || die "the error log is not the container's"
worker=$(pgrep --newest 'sealane: worker') || die "there is no worker"
[[ $(stat -c %u "/proc/$worker") == 101 ]] || die "the worker is not nginx's user"
stop plain "$pid"
say "the image serves, its logs are the container's output, $signal ends it"

# --- with the habits of nginx's image
mkdir -p "$run"/{templates,html,certificates}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example.com -addext subjectAltName=DNS:example.com \
  -keyout "$run/certificates/key.pem" -out "$run/certificates/cert.pem" 2>/dev/null
echo "a page of a volume" >"$run/html/index.html"
cat >"$run/templates/site.conf.template" <<'NGINX'
server {
    listen ${HTTPS_PORT} ssl;
    server_name ${SERVER_NAME};
    ssl_certificate /certificates/cert.pem;
    ssl_certificate_key /certificates/key.pem;
    root /usr/share/nginx/html;
    location = /host { return 200 "$host of ${SERVER_NAME}\n"; }
}
NGINX
container habits "$(volume "$run/templates" /etc/nginx/templates) | $(volume "$run/html" /usr/share/nginx/html) |
  $(volume "$run/certificates" /certificates) | $(volume /usr/bin/env /docker-entrypoint.d/40-env) |
  .process.env += [\"HTTPS_PORT=8443\", \"SERVER_NAME=example.com\"] | .process.args[1:] = [\"nginx\", \"-g\", \"daemon off;\"]"
start habits & pid=$!
authority=(--cacert "$run/certificates/cert.pem" --resolve example.com:8443:127.0.0.1)
wait_until "no page over HTTPS" answers "a page of a volume" "${authority[@]}" https://example.com:8443/
answers "example.com of example.com" "${authority[@]}" https://example.com:8443/host || die "variables of the template"
answers "a page of a volume" http://127.0.0.1/ || die "the default site is gone"
grep --quiet 'site.conf.template becomes' "$run/habits.out" || die "nothing is said of the template"
grep --quiet '^SERVER_NAME=example.com$' "$run/habits.out" || die "the program of /docker-entrypoint.d has not run"
wait_until "no line of the access log" grep --quiet '"GET /host HTTP/2.0" 200\|"GET /host HTTP/1.1" 200' "$run/habits.out"
stop habits "$pid"
say "templates, volumes, /docker-entrypoint.d and nginx's command work"

# --- what needs a shell is refused
printf '#!/bin/sh\n' >"$run/30-step.sh"
chmod 0755 "$run/30-step.sh"
container refused "$(volume "$run/30-step.sh" /docker-entrypoint.d/30-step.sh)"
if (start refused); then die "a step that needs a shell was skipped"; fi
grep --quiet '30-step.sh needs a program that this image does not have' "$run/refused.err" || die "nothing is said of the step that needs a shell"
say "a step that needs a shell ends the container, with the reason"

#!/bin/sh
# Puts what the container image adds to its base into a directory.
#
#   packaging/image/assemble.sh DIRECTORY SEALANE SEALANE-ENTRYPOINT
#
# The paths are those of nginx's image, so that volumes, templates and commands that were made for
# it fit.
set -eu
cd "$(dirname "$0")/.."
root=$1 sealane=$2 entrypoint=$3

for directory in etc/nginx/conf.d etc/nginx/templates etc/ssl/certs docker-entrypoint.d usr/sbin usr/bin usr/share/nginx/html \
  usr/local/sealane var/log/nginx var/cache/nginx var/lib/sealane run; do
  mkdir -p "$root/$directory"
done
install -m 0755 "$sealane" "$root/usr/sbin/sealane"
install -m 0755 "$entrypoint" "$root/usr/bin/sealane-entrypoint"
ln -sf sealane "$root/usr/sbin/nginx"
for file in mime.types fastcgi.conf fastcgi_params scgi_params uwsgi_params koi-utf koi-win win-utf; do
  install -m 0644 "config/$file" "$root/etc/nginx/$file"
done
install -m 0644 image/nginx.conf "$root/etc/nginx/nginx.conf"
install -m 0644 image/default.conf "$root/etc/nginx/conf.d/default.conf"
install -m 0644 html/index.html "$root/usr/share/nginx/html/index.html"
ln -sf /dev/stdout "$root/var/log/nginx/access.log"
ln -sf /dev/stderr "$root/var/log/nginx/error.log"
# The users of the base, and nginx's as in its image.
if [ ! -e "$root/etc/passwd" ]; then
  printf 'root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
fi
grep -q '^nginx:' "$root/etc/passwd" || echo 'nginx:x:101:101:nginx:/nonexistent:/sbin/nologin' >>"$root/etc/passwd"
grep -q '^nginx:' "$root/etc/group" || echo 'nginx:x:101:' >>"$root/etc/group"

#!/bin/sh
# Serves a directory of pages as they are, trimmed, with a footer and concatenated, and compares by
# parsers of HTML, JavaScript and CSS what clients get: scripts/compare-pages.sh DIRECTORY
#
# DIRECTORY has one directory for each application. The parsers (parse5, acorn, css-tree) are
# installed from npm below .cache. The binary is $SEALANE_BINARY or the debug build.
set -eu
cd "$(dirname "$0")/.."
pages=$(cd "${1:?usage: scripts/compare-pages.sh DIRECTORY}" && pwd)
binary=${SEALANE_BINARY:-target/debug/sealane}
port=${PORT:-18480}
tools=.cache/compare-pages
mkdir -p "$tools"
[ -d "$tools/node_modules/css-tree" ] ||
  npm install --silent --no-audit --no-fund --prefix "$tools" parse5@7 acorn@8 css-tree@3
prefix=$(mktemp -d)
mkdir "$prefix/logs"
cat > "$prefix/nginx.conf" <<CONF
error_log logs/error.log;
pid sealane.pid;
events { }
http {
    types { text/html html htm; application/javascript js; text/css css; }
    access_log off;
    server {
        listen 127.0.0.1:$port;
        location /plain/ { alias $pages/; }
        location /trim/ { alias $pages/; trim on; trim_js on; trim_css on; }
        location /markup/ { alias $pages/; trim on; }
        location /footer/ { alias $pages/; footer "<!-- \$uri -->"; }
        location /concat/ { alias $pages/; concat on; concat_types *; concat_unique off; }
    }
}
CONF
chmod -R a+rX "$prefix"
"$binary" -p "$prefix/" -c "$prefix/nginx.conf" -e logs/error.log -g 'daemon off;' &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$prefix"' EXIT
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  curl -s -o /dev/null "http://127.0.0.1:$port/" && break
  [ "$attempt" = 10 ] && cat "$prefix/logs/error.log" && exit 1
  sleep 0.5
done
cp scripts/compare-pages.mjs "$tools/"
node "$tools/compare-pages.mjs" "$pages" "http://127.0.0.1:$port"

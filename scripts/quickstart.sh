#!/usr/bin/env bash
# Serves examples/quickstart/ on https://localhost:8443 until Ctrl-C. `make run` calls this
# after it has built the binary; SEALANE_BINARY names another one.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix="$repository/examples/quickstart"
binary=${SEALANE_BINARY:-$repository/target/quick/sealane}

"$repository/scripts/make-certificates.sh" "$prefix/certificates"
mkdir -p "$prefix/logs"

directives="daemon off;"
if ((EUID == 0)) && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$prefix/html/index.html"; then
  # The worker would drop to user "nobody", which cannot read this directory.
  printf 'note: "nobody" cannot read %s, so the worker keeps running as root; do not do this in production\n' "$prefix" >&2
  directives+=" user root;"
fi

authority="$prefix/certificates/authority.pem"
[[ $PWD/ == "$repository"/* ]] && authority=$(realpath --relative-to="$PWD" "$authority")
cat <<NOTE

  Serving examples/quickstart/ on https://localhost:8443 (Ctrl-C stops). In another terminal:

    curl --cacert $authority https://localhost:8443/

NOTE
exec "$binary" -p "$prefix" -c nginx.conf -g "$directives"

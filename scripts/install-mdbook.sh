#!/usr/bin/env bash
# Installs mdBook, which makes the documentation's site, into .cache/tools and prints its path. Only the
# version below: the site's style depends on what it generates.
set -euo pipefail
version=0.5.4

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=${SEALANE_CACHE:-$repository/.cache}/tools
mdbook=$tools/bin/mdbook
if [[ ! -x $mdbook || $("$mdbook" --version) != "mdbook v$version" ]]; then
  # Without what serves and watches a book.
  ${CARGO:-cargo} install --locked --quiet --root "$tools" --no-default-features --features search \
    --version "$version" mdbook >&2
fi
echo "$mdbook"

#!/usr/bin/env bash
# Takes the pictures of the page of `console` in docs/pictures/, with a server at work.
#
#   scripts/console-pictures.sh
#
# It needs what the tests need (scripts/install-test-deps.sh), pngquant, and a typeface that the
# page names, such as Roboto; with others the pictures look different. Takes about 3 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
require_packages pictures pngquant fonts-roboto-unhinted

pictures=docs/pictures
mkdir -p "$pictures"
cargo run --locked -p sealane-tests --example console_pictures -- "$PWD/$pictures"
for picture in light dark phone; do
  file="$pictures/console-$picture.png"
  pngquant --force --strip --speed 1 --output "$file" 128 "$file"
  bytes=$(stat --format=%s "$file")
  ((bytes <= 150000)) || { echo "console-pictures: $file has $bytes bytes, more than 150000" >&2; exit 1; }
  printf '%s: %d bytes\n' "$file" "$bytes"
done

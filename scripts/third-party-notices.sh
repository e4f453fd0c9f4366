#!/usr/bin/env bash
# Prints the licences of everything that is linked into the binaries: the crates, and the C
# libraries that some of them bundle (AWS-LC, zstd, mimalloc). A shared text is printed once.
#
#   scripts/third-party-notices.sh >THIRD-PARTY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C # the order of names

cargo=${CARGO:-cargo}
# Package directories are named by name and version.
manifests=$("$cargo" metadata --format-version 1 --locked | grep -o '"manifest_path":"[^"]*"' | cut -d'"' -f4)
# name version|licence|repository of everything linked that is not from this repository
linked=$("$cargo" tree -p sealane -p sealane-bench -e normal --prefix none --no-dedupe --locked --format '{p}|{l}|{r}' |
  grep -v -e ' (/' -e '^$' | sed 's/ v\([0-9]\)/ \1/; s/ (\*)//; s/ (proc-macro)//' | sort -u)

declare -A shown texts_of
echo "Sealane contains the following packages. Where there is a choice of licences, it is not the GPL."
while IFS='|' read -r package licence repository; do
  read -r name version _ <<<"$package"
  manifest=$(grep -F "/$name-$version/Cargo.toml" <<<"$manifests" || true)
  [[ -f $manifest ]] || { echo "third-party-notices: no sources of $name $version" >&2; exit 1; }
  directory=${manifest%/Cargo.toml}
  printf '\n%s\n%s %s\nLicence: %s\n%s\n' "$(printf '=%.0s' {1..78})" "$name" "$version" "$licence" "$repository"
  found=
  while IFS= read -r file; do
    found=yes
    sum=$(sha256sum <"$file")
    part=${file#"$directory"/}
    if [[ -n ${shown[$sum]:-} ]]; then
      printf '\n%s: as %s\n' "$part" "${shown[$sum]}"
    else
      shown[$sum]="$part of $name $version"
      printf '\n%s:\n\n' "$part"
      cat "$file"
    fi
  done < <(find "$directory" -maxdepth 5 -type f \
    \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'copyright*' \) \
    ! -name '*.rs' ! -name '*.toml' ! -path '*/tests/*' ! -path '*/googletest/*' | sort)
  if [[ -n $found ]]; then
    texts_of[$repository]="$name $version"
  elif [[ -n ${texts_of[$repository]:-} ]]; then
    printf '\nIts texts are those of %s, with which it is made.\n' "${texts_of[$repository]}"
  else
    echo "third-party-notices: no text of a licence in $directory" >&2
    exit 1
  fi
done <<<"$linked"

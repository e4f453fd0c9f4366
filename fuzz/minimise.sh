#!/usr/bin/env bash
# Adds to the seeds a minimal set of inputs from the grown corpora that reach more code.
#
#   fuzz/minimise.sh [TARGET...]      default: all
#
# libFuzzer chooses inputs that cover everything that the corpus covers; the
# longest of these are taken first, up to FILES and BYTES for each target. Seeds with a name stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

FILES=${FILES:-40}
BYTES=${BYTES:-100000}
directory=${CARGO_TARGET_DIR:-target}/fuzz
binary=$directory/fuzz
[[ -x $binary ]] || binary=$(fuzz/build.sh)
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(find fuzz/seeds -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
for target in "${targets[@]}"; do
  corpus=$directory/corpus/$target seeds=fuzz/seeds/$target
  [[ -d $corpus ]] || continue
  chosen=$(mktemp -d)
  # Named seeds go first, so that nothing is chosen that they already reach.
  find "$seeds" -regextype posix-extended -type f ! -regex '.*/[0-9a-f]{16,}' -exec cp -t "$chosen" {} +
  SEALANE_FUZZ_TARGET="$target" "$binary" -set_cover_merge=1 "$chosen" "$corpus" "$seeds" >"$directory/$target.merge.log" 2>&1 || {
    tail -n 20 "$directory/$target.merge.log" >&2
    exit 1
  }
  find "$seeds" -regextype posix-extended -type f -regex '.*/[0-9a-f]{16,}' -delete
  find "$chosen" -regextype posix-extended -type f -regex '.*/[0-9a-f]{16,}' -printf '%s %p\n' | sort -rn |
    awk -v files="$FILES" -v limit="$BYTES" 'NR <= files && bytes + $1 <= limit { bytes += $1; print $2 }' | while read -r file; do
    # Sixteen digits are enough to tell them apart.
    name=$(basename "$file")
    cp "$file" "$seeds/${name:0:16}"
  done
  rm -rf "$chosen"
  printf '%-16s %4d files, %6d bytes\n' "$target" "$(find "$seeds" -type f | wc -l)" "$(cat "$seeds"/* | wc -c)"
done

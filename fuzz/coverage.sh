#!/usr/bin/env bash
# Prints how much of each parser's file the corpora reach, and every function that
# none of them reaches.
#
#   fuzz/coverage.sh [TARGET...]      default: all
#
# Seeds, earlier findings and what run.sh has grown in target/fuzz/corpus/ run
# once each. The numbers come from LLVM's source-based coverage; its tools
# must be those of the compiler's LLVM version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

directory=${CARGO_TARGET_DIR:-target}/fuzz
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
if ! command -v "llvm-cov-$version" >/dev/null && ! require_packages "coverage of the fuzzers" "llvm-$version"; then
  printf 'coverage: not printed, llvm-cov-%s is missing\n' "$version" >&2
  exit 0
fi

# Files that read untrusted input, without tests and the targets themselves.
parsers='crates/(conf/src|http/src|tls/src/(client_hello|packed|ciphers|sessions)|server/src/(connection|exchange_task|h2|filters|handlers|proxying|access|client_link|framing|prologue|variables))'
others='(/|_)(tests|fuzz|sample|differential)([_/.]|$)'

binary=$(fuzz/build.sh coverage)
profiles=$directory/profiles
rm -rf "$profiles"
mkdir -p "$profiles"
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(find fuzz/seeds -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
for target in "${targets[@]}"; do
  inputs=("fuzz/seeds/$target")
  for more in "fuzz/regressions/$target" "$directory/corpus/$target"; do
    [[ -d $more ]] && inputs+=("$more")
  done
  LLVM_PROFILE_FILE="$profiles/$target.profraw" SEALANE_FUZZ_TARGET="$target" \
    "$binary" -runs=0 "${inputs[@]}" >"$profiles/$target.log" 2>&1 || {
    tail -n 20 "$profiles/$target.log" >&2
    exit 1
  }
done
"llvm-profdata-$version" merge -sparse "$profiles"/*.profraw -o "$profiles/all.profdata"

cov() {
  "llvm-cov-$version" report "$binary" -instr-profile="$profiles/all.profdata" -Xdemangler="llvm-cxxfilt-$version" "$@" 2>/dev/null
}

printf '\n== lines and functions reached, by file\n'
cov | awk -v parsers="$parsers" -v others="$others" '
  { file = $1; sub(/^.*crates\//, "crates/", file); path = "crates/" $1 }
  NF == 13 && $1 != "TOTAL" && $1 != "Filename" {
    if (file !~ /^crates\//) file = path
    if (file !~ parsers || file ~ others) next
    lines += $8; missed += $9
    printf "%6.1f%% of %5d lines, %4d of %4d functions  %s\n", $8 ? 100 * ($8 - $9) / $8 : 100, $8, $5 - $6, $5, file
  }
  END { if (lines) printf "%6.1f%% of %5d lines\n", 100 * (lines - missed) / lines, lines }' |
  tee "$directory/coverage.txt"

printf '\n== never reached (the whole list: %s)\n' "$directory/unreached.txt"
mapfile -t sources < <(git ls-files 'crates/*.rs' | grep -E "$parsers" | grep -Ev "$others")
cov -show-functions "${sources[@]}" | awk '
  /^File / { file = $2; sub(/^.*crates\//, "crates/", file); sub(/\x27:$/, "", file); next }
  # Name, then regions, missed, cover, lines, missed, cover and the same of branches.
  NF >= 10 && $(NF - 3) == "0.00%" { name = $0; sub(/ +[0-9]+ +[0-9]+ +[0-9.]+%.*$/, "", name); print file ": " name }' |
  sort -u >"$directory/unreached.txt"
cut -d: -f1 "$directory/unreached.txt" | uniq -c | sort -rn | head -n 40

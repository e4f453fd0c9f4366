#!/usr/bin/env bash
# Builds a provider with Apache Dubbo's own library, for tests/tests/dubbo.rs.
#
#   scripts/peers/build-dubbo.sh          build if needed, print the directory
#   scripts/peers/build-dubbo.sh --force  build again
#
# It needs a JDK (javac, java) and Maven (mvn), which fetches the library as it is
# configured on this machine. Nothing is installed.
#
# Environment:
#   SEALANE_CACHE   where to build and keep the result (default: <repository>/.cache)
#
# The result is <cache>/peers/dubbo-provider with classes/ and lib/. Without it the
# test with Apache Dubbo is left out, and says so; a provider in Python is always tested.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source="$repository/tests/applications/dubbo-java"
result="${SEALANE_CACHE:-$repository/.cache}/peers/dubbo-provider"

say() { printf 'build-dubbo: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[[ $# -eq 0 || ($# -eq 1 && $1 == --force) ]] || die "usage: build-dubbo.sh [--force]"
for program in javac java mvn; do
  command -v "$program" > /dev/null || die "$program is not installed (a JDK, and Maven)"
done

# What decides what comes out: an edit of the sources leads to a new build.
stamp=$(cat "$source/pom.xml" "$source"/example/*.java | sha256sum)
if [[ ${1:-} != --force && -f $result/stamp && $(< "$result/stamp") == "$stamp" ]]; then
  say "already built"
else
  rm -rf "$result"
  mkdir -p "$result/classes"
  say "fetching Apache Dubbo"
  mvn --quiet --batch-mode --file "$source/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$result/lib" >&2 || die "Maven failed"
  javac -cp "$result/lib/*" -d "$result/classes" "$source"/example/*.java || die "javac failed"
  printf '%s' "$stamp" > "$result/stamp"
fi
printf '%s\n' "$result"

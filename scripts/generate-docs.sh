#!/usr/bin/env bash
# Writes docs/directives.md and the manual page of sealane.conf from the directive table, and the
# manual pages and completions of the programs from their command lines. `make test` fails while
# they differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
UPDATE_DOCS=1 "${CARGO:-cargo}" test --quiet --locked -p sealane-conf --lib manual
UPDATE_DOCS=1 "${CARGO:-cargo}" test --quiet --locked -p sealane --bin sealane manual
UPDATE_DOCS=1 "${CARGO:-cargo}" test --quiet --locked -p sealane-bench --bin sealane-bench manual
git --no-pager diff --stat -- docs/directives.md packaging

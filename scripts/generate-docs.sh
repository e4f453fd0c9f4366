#!/usr/bin/env bash
# Writes docs/directives.md from the directive table. `make test` fails while
# the file and the table differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
UPDATE_DOCS=1 "${CARGO:-cargo}" test --quiet --locked -p sealane-conf --lib manual
git --no-pager diff --stat -- docs/directives.md

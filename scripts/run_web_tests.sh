#!/usr/bin/env bash
# The report page: its types, and its figures with node's test runner. (CTest drives the page itself in a browser.)
set -euo pipefail
cd "$(dirname "$0")/../web"
[ -d node_modules ] || npm ci --ignore-scripts --silent
npm run --silent check
npm test --silent

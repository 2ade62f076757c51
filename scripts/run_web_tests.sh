#!/usr/bin/env bash
# Checks the types of the report page, and tests its figures with node's test runner. (CTest tests
# the page in a browser.)
set -euo pipefail
cd "$(dirname "$0")/../web"
[ -d node_modules ] || npm ci --ignore-scripts --silent
npm run --silent check
npm test --silent

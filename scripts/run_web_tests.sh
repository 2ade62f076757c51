#!/usr/bin/env bash
# The report page's own tests: its figures with node's test runner, the page itself in headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/../web"
[ -d node_modules ] || npm ci --ignore-scripts --silent
npm test

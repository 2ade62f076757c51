#!/usr/bin/env bash
# Fails if clang-format would change a source; fix it with `make format`.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
echo "all sources are formatted"

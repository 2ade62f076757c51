#!/usr/bin/env bash
# Fails if a source is not as clang-format writes it; `make format` mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
echo "all sources are formatted"

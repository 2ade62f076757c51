#!/usr/bin/env bash
# Fails if a tracked file contains a path of one machine, the host of a package registry, or a
# download address in a lock file.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
git rev-parse --is-inside-work-tree >/dev/null  # a failing git must not look like a clean tree
if git grep -nIE '(^|[^a-zA-Z0-9._/])/(work|root|home/[a-z]+)/|registry\.npm|deb\.debian\.org|/tmp/[a-z]+_?[0-9a-f]{6}' -- . ':!scripts/check_no_local_paths.sh' ':!LICENSE'; then
  echo "check_no_local_paths: the lines above name one machine's paths or a registry; remove them" >&2
  bad=1
fi
if git ls-files '*package-lock.json' | xargs -r grep -n '"resolved": "http'; then
  echo "check_no_local_paths: lock files must not contain download addresses (npm: omit-lockfile-registry-resolved=true)" >&2
  bad=1
fi
[ "$bad" = 0 ] && echo "no local paths"
exit "$bad"

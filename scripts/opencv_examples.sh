#!/usr/bin/env bash
# Prints the folder with the photos and the video of Debian's opencv-doc, which the demo, tests and benchmarks use.
# In containers, dpkg is often set up to omit /usr/share/doc (path-exclude): the package is then installed without its
# files. In that case they are unpacked once from the package's archive into .deps/, which needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

needed=(data/messi5.jpg data/building.jpg data/vtest.avi text/scenetext01.jpg text/scenetext02.jpg)
packaged=usr/share/doc/opencv-doc/examples
unpacked=.deps/opencv-doc/examples

has_all() {
  local file
  for file in "${needed[@]}"; do
    [ -s "$1/$file" ] || return 1
  done
}

if has_all "/$packaged"; then
  echo "/$packaged"
  exit
fi
if ! has_all "$unpacked"; then
  echo "opencv-doc's pictures are not in /$packaged: fetching its archive (91 MiB) for them" >&2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if ! (cd "$work" && apt-get download -qq opencv-doc) >&2; then
    echo "opencv_examples: cannot fetch opencv-doc; run apt-get update and try again" >&2
    exit 1
  fi
  mkdir -p "$unpacked"
  dpkg-deb --fsys-tarfile "$work"/opencv-doc_*.deb |
    tar -x -C "$unpacked" --strip-components=6 "${needed[@]/#/./$packaged/}"
  if ! has_all "$unpacked"; then
    echo "opencv_examples: this release's opencv-doc lacks some of ${needed[*]}" >&2
    exit 1
  fi
fi
echo "$unpacked"

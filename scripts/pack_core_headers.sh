#!/usr/bin/env bash
# pack_core_headers.sh FOLDER: copies the header files and GoogleTest's sources for a core-only build (6 MB) into a folder,
# for machines on which Debian's packages cannot be installed, such as a rented machine with a GPU.
# On that machine: HEADROOM_CORE_HEADERS=FOLDER make test-gpu
set -euo pipefail
folder=${1:?usage: pack_core_headers.sh FOLDER}
mkdir -p "$folder/include"
for library in fmt spdlog nlohmann tl; do
  cp -r "/usr/include/$library" "$folder/include/"
done
mkdir -p "$folder/googletest"
cp -r /usr/src/googletest/CMakeLists.txt "$folder/googletest/"
for part in googletest googlemock; do
  mkdir -p "$folder/googletest/$part"
  cp -r /usr/src/googletest/$part/{CMakeLists.txt,cmake,include,src} "$folder/googletest/$part/"
done
echo "the headers are in $folder"

#!/usr/bin/env bash
# pack_core_headers.sh FOLDER: copies the header files and GoogleTest's sources that a core-only build needs (6 MB) to a
# folder that can be carried to a machine where Debian's packages cannot be installed, as one with a GPU.
# There: HEADROOM_CORE_HEADERS=FOLDER make test-gpu
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

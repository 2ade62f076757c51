#!/usr/bin/env bash
# build_for_gpu.sh TARGET…: builds the tests (gpu_tests) or benchmarks (gpu_benchmarks) that need a GPU, in build/gpu, and where
# HEADROOM_LIBTORCH names a LibTorch's folder what links it (headroom_backend_libtorch, headroom_memory_tracer). Needs
# g++ 12 or newer and cmake 3.25 or newer; the header files come from Debian's packages (scripts/install_dependencies.sh
# test) or, where those cannot be installed, from the folder HEADROOM_CORE_HEADERS that scripts/pack_core_headers.sh filled
# elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
headers=${HEADROOM_CORE_HEADERS:-}
if [ -z "$headers" ] && ! [ -f /usr/include/fmt/format.h -a -d /usr/src/googletest ]; then
  echo "build_for_gpu: fmt's headers and GoogleTest's sources are not installed; run scripts/install_dependencies.sh test," >&2
  echo "or scripts/pack_core_headers.sh FOLDER on a machine that has them and set HEADROOM_CORE_HEADERS to that folder" >&2
  exit 1
fi
generator=(-G "Unix Makefiles")
command -v ninja >/dev/null && generator=(-G Ninja)
cmake --preset gpu "${generator[@]}" ${CMAKE_LAUNCHER:-} -DHEADROOM_CORE_HEADERS="${headers:+$(realpath "$headers")}" \
  ${HEADROOM_LIBTORCH:+"-DHEADROOM_LIBTORCH=$HEADROOM_LIBTORCH"}
cmake --build --preset gpu --target "$@" --parallel "${JOBS:-$(nproc)}"

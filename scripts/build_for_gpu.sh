#!/usr/bin/env bash
# build_for_gpu.sh TARGET…: builds the tests (gpu_tests) or benchmarks (gpu_benchmarks) for a machine with a GPU, in build/gpu. If
# HEADROOM_LIBTORCH_DIR names the folder of a LibTorch, it can also build the targets that link it (headroom_backend_libtorch,
# headroom_memory_tracer). Needs g++ 12 and cmake 3.25 or newer. The header files come from Debian's packages
# (scripts/install_dependencies.sh test), or from the folder HEADROOM_CORE_HEADERS, which scripts/pack_core_headers.sh fills on
# another machine.
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
  ${HEADROOM_LIBTORCH_DIR:+"-DHEADROOM_LIBTORCH_DIR=$HEADROOM_LIBTORCH_DIR"}
cmake --build --preset gpu --target "$@" --parallel "${JOBS:-$(nproc)}"

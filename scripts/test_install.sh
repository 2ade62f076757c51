#!/usr/bin/env bash
# test_install.sh BUILD_DIR: installs a build into a folder, moves the folder, and uses it there: program, plug-ins, preload
# library, example, man page, and a project that finds Headroom by CMake and by pkg-config.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "test_install: $*" >&2
  failed=1
}
# expect PATTERN COMMAND …: the command succeeds, and its output contains the pattern.
expect() {
  local pattern=$1 output
  shift
  if ! output=$("$@" 2>&1) || ! grep -qE -- "$pattern" <<<"$output"; then
    fail "'$*' failed or printed no '$pattern':"$'\n'"$(tail -n 30 <<<"$output")"
  fi
}

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved"
prefix=$work/moved
examples=$prefix/share/headroom/examples
export HOME=$work/home PATH=$prefix/bin:$PATH
unset HEADROOM_BACKEND_PATH LD_LIBRARY_PATH
mkdir "$HOME"

# No file may contain a path of the build: neither in a search path of a library nor in a CMake file.
while IFS= read -r -d '' file; do
  if readelf -d "$file" 2>/dev/null | grep -E 'R(UN)?PATH' | grep -F "$build"; then
    fail "$file searches libraries in the build folder"
  fi
done < <(find "$prefix" -type f -print0)
if grep -rlF -e "$build" -e "$work/first" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"; then
  fail "these files name the folder of the build or of the first installation"
fi

expect "^onnxruntime +[0-9.]+ +$prefix/lib/headroom/" headroom --version --verbose
expect "^trace +found +$prefix/lib/headroom/" headroom --version --verbose
expect "face +ok +2 " headroom bench --source "$examples/pictures" --model "face=$examples/face_detection.onnx" \
  --output-dir "$work/outputs" --prepared-dir "$work/prepared"
if command -v man >/dev/null; then
  warnings=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$prefix/share/man/man1/headroom.1" 2>&1 >/dev/null)
  [ -z "$warnings" ] || fail "the man page: $warnings"
fi
bash -n "$prefix/share/bash-completion/completions/headroom" || fail "the completion of bash"
for file in LICENSE CHANGELOG.md licences/onnxruntime docs/install.md; do
  [ -s "$prefix/share/doc/headroom/$file" ] || fail "$file is not installed"
done
grep -qx "ExecStart=$work/first/bin/headroom serve" "$prefix/lib/systemd/system/headroom-serve.service" ||
  fail "the service does not start the installed program"

cmake -S tests/packages/consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$work/consumer.log" 2>&1 &&
  cmake --build "$work/consumer" >>"$work/consumer.log" 2>&1 || fail "the project: $(tail -n 30 "$work/consumer.log")"
expect "^1 loads$" "$work/consumer/pool" "$examples/face_detection.onnx"
expect "load the map" headroom trace --out "$work/scopes.hrec" -- "$work/consumer/scopes"
if [ -e "$prefix/include/headroom/memory_tracer.h" ]; then
  expect "^0 bytes$" "$work/consumer/layers"
fi
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  c++ -std=c++20 tests/packages/consumer/pool.cpp -o "$work/pool" $(pkg-config --cflags --libs headroom) -Wl,-rpath,"$prefix/lib" ||
    fail "pkg-config's flags"
  expect "^1 loads$" "$work/pool" "$examples/face_detection.onnx"
fi
[ "$failed" = 0 ] && echo "the installation works"
exit "$failed"

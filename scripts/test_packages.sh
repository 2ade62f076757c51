#!/usr/bin/env bash
# test_packages.sh [amd64|arm64|all]: tests the files of build/packages (`make package`). The Debian packages are installed and used in
# minimal Debian 11, 12 and 13 root file systems without a network; those of arm64 run under qemu-user. Then lintian, the ELF
# files, the wheel and a program that uses the libraries. Ends with the line `N passed, N failed, N skipped`.
# A test that this machine can't run is skipped with the reason. The root file systems stay in build/roots.
set -uo pipefail
cd "$(dirname "$0")/.."
case ${1:-all} in
  all) architectures=(amd64 arm64) ;;
  amd64 | arm64) architectures=("$1") ;;
  *) echo "usage: test_packages.sh [amd64|arm64|all]" >&2 && exit 2 ;;
esac
packages=build/packages
releases=(bullseye bookworm trixie)
verbs=(install bench trace doctor plan watch top serve purge)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$work/results

machine_of() { [ "$1" = amd64 ] && echo x86_64 || echo aarch64; }
runs_here() { [ "$(machine_of "$1")" = "$(uname -m)" ]; }
result() { echo "$*" | tee -a "$results"; }

# check NAME COMMAND …: one test.
check() {
  local name=$1
  shift
  if ("$@") >"$work/log" 2>&1; then
    result "passed: $name"
  else
    tail -n 20 "$work/log" | sed 's/^/  | /'
    result "failed: $name"
  fi
}

# Why roots can't be used on this machine; nothing if they can.
obstacle() {
  if [ "$(id -u)" != 0 ]; then
    echo "only root can install packages in a root file system"
  elif ! command -v debootstrap >/dev/null; then
    echo "debootstrap is absent: scripts/install_dependencies.sh packages"
  elif ! unshare --mount --net --pid --fork true 2>/dev/null; then
    echo "this machine does not allow namespaces"
  elif ! scripts/fetch_debian_roots.sh "$1" "${releases[@]}" >"$work/fetch" 2>&1; then
    tail -n 1 "$work/fetch"
  fi
}

# in_root RELEASE ARCHITECTURE KIND STEP …: the steps of tests/packages/in_root.sh; appends their results.
in_root() {
  local release=$1 architecture=$2 kind=$3 folder=$work/tests
  shift 3
  mkdir -p "$folder"
  cp tests/packages/in_root.sh "$folder/"
  ln -f "$packages"/headroom_*_"$architecture".deb "$folder/headroom.deb" 2>/dev/null ||
    cp "$packages"/headroom_*_"$architecture".deb "$folder/headroom.deb"
  unshare --mount --net --pid --fork --kill-child tests/packages/enter_root.sh "build/roots/$release-$architecture" "$kind" "$folder" \
    bash /tests/in_root.sh "$release $architecture $kind" "$@" >"$work/steps" 2>&1
  cat "$work/steps"
  grep -E '^(passed|failed): ' "$work/steps" >>"$results"
  grep -c -E '^(passed|failed): ' "$work/steps" | grep -qx $# || result "failed: $release $architecture $kind ended before its last step"
}

# test_roots ARCHITECTURE: the package in each root, then as in a container. Sets peak[RELEASE ARCHITECTURE], live bytes of a recording.
declare -A peak
test_roots() {
  local architecture=$1 why release
  why=$(obstacle "$architecture")
  for release in "${releases[@]}"; do
    if [ -n "$why" ]; then
      result "skipped: $release $architecture ($why)"
      continue
    fi
    in_root "$release" "$architecture" machine "${verbs[@]}"
    peak[$release $architecture]=$(sed -n 's/^live: //p' "$work/steps")
    in_root "$release" "$architecture" container install soft
  done
}

# qemu-user changes times and resident memory, but not what a program allocates: perl of the same version must have the same live bytes.
# Paths, locales and structures of the C library differ, so 0.5 % is allowed.
agree() {
  echo "amd64: ${1:-no} bytes, arm64: ${2:-no} bytes"
  [ -n "$1" ] && [ -n "$2" ] && [ $(($1 - $2)) -le $(($1 / 200)) ] && [ $(($2 - $1)) -le $(($1 / 200)) ]
}

compare_architectures() {
  local release
  for release in "${releases[@]}"; do
    [ -n "${peak[$release arm64]+set}" ] || continue
    if [ -z "${peak[$release amd64]+set}" ] && [ -e "$packages"/headroom_*_amd64.deb ] && [ -z "$(obstacle amd64)" ]; then
      in_root "$release" amd64 machine install trace
      peak[$release amd64]=$(sed -n 's/^live: //p' "$work/steps")
    fi
    if [ -z "${peak[$release amd64]+set}" ]; then
      result "skipped: $release live bytes of amd64 and arm64 (no package or root of amd64)"
    else
      check "$release live bytes of amd64 and arm64" agree "${peak[$release amd64]}" "${peak[$release arm64]}"
    fi
  done
}

unpack() { mkdir -p "$2" && tar -xf "$1" -C "$2"; }

# The archive's program works from another folder, also after that was moved.
tar_moved() {
  unpack "$1" "$work/first" && mv "$work/first" "$work/second" &&
    "$work"/second/*/bin/headroom trace --force --out "$work/tar.hrec" -- true &&
    "$work"/second/*/bin/headroom report "$work/tar.hrec"
}

wheel() {
  local environment=$work/venv file=$PWD/$1
  python3 -m venv "$environment" || return 1
  (cd "$environment" && find . -not -path '*/__pycache__*' | sort) >"$work/before"
  cd "$work" || return 1
  env -u PYTHONPATH "$environment/bin/python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check "$file" &&
    "$environment/bin/headroom" trace --force --out "$work/wheel.hrec" -- "$environment/bin/python" -c 'data = bytearray(40 << 20)' &&
    "$environment/bin/headroom" report "$work/wheel.hrec" &&
    "$environment/bin/python" - <<'PY' &&
import headroom_memory
try:
    headroom_memory.MemoryTracer
except ImportError as error:  # neither PyTorch nor the library is there
    print(error)
else:
    raise SystemExit("MemoryTracer is there without PyTorch")
PY
    "$environment/bin/python" -m pip uninstall --quiet --yes headroom-memory &&
    (cd "$environment" && find . -not -path '*/__pycache__*' | sort) | diff "$work/before" -
}

# consumer PREFIX: a project that finds the package's headers and libraries, built by this machine's compiler.
consumer() {
  cmake -S tests/packages/consumer -B "$work/consumer" -DCMAKE_PREFIX_PATH="$1" && cmake --build "$work/consumer" &&
    "$work/consumer/pool" "$1/share/headroom/examples/face_detection.onnx" | grep -x '1 loads' &&
    "$1/bin/headroom" trace --force --out "$work/scopes.hrec" -- "$work/consumer/scopes" 2>&1 | grep 'load the map'
}

# No step of a build from the source archive needs npm or Node.js. (find_program looks for them in PATH.)
source_without_npm() {
  local folder=$work/source tools=$work/tools tool
  unpack "$1" "$folder" && mkdir -p "$tools" || return 1
  for tool in /usr/bin/* /bin/*; do
    case ${tool##*/} in node | nodejs | npm | npx) ;; *) ln -sf "$tool" "$tools/" ;; esac
  done
  cd "$folder"/* || return 1
  PATH=$tools cmake -S . -B build -G Ninja -DHEADROOM_TESTS=OFF && ninja -C build -t commands headroom >"$work/commands" || return 1
  if grep -E '(node|npm) ' "$work/commands"; then
    echo "the build calls these" && return 1
  fi
}

# For the architectures that were packed.
packed_again() {
  local archive machines=()
  for archive in "$packages"/headroom-*-linux-*.tar.xz; do
    archive=${archive%.tar.xz}
    machines+=("${archive##*-linux-}")
  done
  scripts/make_packages.py --out "$work/again" "${machines[@]}" && diff "$packages/SHA256SUMS" "$work/again/SHA256SUMS"
}

# test_files ARCHITECTURE: what needs no root file system.
test_files() {
  local architecture=$1 machine file
  machine=$(machine_of "$1")
  if command -v lintian >/dev/null; then
    check "lintian $architecture" lintian --allow-root --fail-on error "$packages"/headroom_*_"$architecture".deb
  else
    result "skipped: lintian $architecture (lintian is absent: scripts/install_dependencies.sh packages)"
  fi
  for file in "$packages"/headroom_*_"$architecture".deb "$packages"/headroom-*-linux-"$machine".tar.xz "$packages"/*_"$machine".whl; do
    check "ELF files of ${file##*/}" scripts/check_elf.py "$file" --machine "$machine"
  done
  if ! runs_here "$architecture"; then
    result "skipped: wheel, archive and consumer of $architecture (this machine is not $machine)"
    return
  fi
  check "archive $machine" tar_moved "$packages"/headroom-*-linux-"$machine".tar.xz
  check "wheel $machine" wheel "$packages"/*_"$machine".whl
  dpkg-deb -x "$packages"/headroom_*_"$architecture".deb "$work/unpacked"
  check "consumer $architecture" consumer "$work/unpacked/usr"
}

for architecture in "${architectures[@]}"; do
  if ! compgen -G "$packages/headroom_*_$architecture.deb" >/dev/null; then
    result "failed: there is no package of $architecture in $packages: run make package"
    continue
  fi
  test_files "$architecture"
  test_roots "$architecture"
done
compare_architectures
check "SHA256SUMS" bash -c "cd $packages && sha256sum --check --strict SHA256SUMS"
check "same bytes twice" packed_again
if compgen -G "$packages/*-source.tar.xz" >/dev/null; then
  check "source archive needs no npm" source_without_npm "$packages"/*-source.tar.xz
else
  result "skipped: source archive (not packed)"
fi

failed=$(grep -c '^failed: ' "$results")
echo "$(grep -c '^passed: ' "$results") passed, $failed failed, $(grep -c '^skipped: ' "$results") skipped"
[ "$failed" = 0 ]

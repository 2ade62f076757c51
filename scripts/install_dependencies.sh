#!/usr/bin/env bash
# Installs Headroom's dependencies on Debian 12: `build` for the build and the demo, `test` also for tests and checks,
# `portable` also for `make portable`, `packages` also for `make package` and `make test-packages`.
# Missing packages are installed in exactly Debian 12's upstream versions (security updates change only the Debian
# revision). Installed packages are not changed: a different version is reported in one line and used. If everything
# is installed, this takes less than a second.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-build}

# package=upstream version; purpose
build_packages=(
  g++=4:12.2 cmake=3.25 ninja-build=1.11 make=4.3 git=1:2.39 ca-certificates= xz-utils=5.4 openssl=3.0    # tools
  ccache=4.8                                                                                              # keeps compiled objects
  libfmt-dev=9.1 libspdlog-dev=1:1.10 nlohmann-json3-dev=3.11 libexpected-dev=1.0                         # base
  libcli11-dev=2.1 libtomlplusplus-dev=3.3                                                                # command line
  libncurses-dev=6.4                                                                                      # screen
  libjpeg62-turbo-dev=1:2.1 libpng-dev=1.6 libwebp-dev=1.2 libtiff-dev=4.5                                # pictures
  libagg-dev=1:2.6                                                                                        # annotated pictures
  ffmpeg=7:5.1                                                                                            # videos and streams
  libdw-dev=0.188 libelf-dev=0.188 libiberty-dev=20230104                                                 # symbol names
  libcpp-httplib-dev=0.11                                                                                 # headroom serve
  cyclonedds-dev=0.10 cyclonedds-tools=0.10                                                               # headroom serve --ros2
  libsqlite3-dev=3.40                                                                                     # headroom history
  zlib1g-dev=1:1.2                                                                                        # exports
  opencv-doc=4.6                                                                                          # the demo's images
)
test_packages=(
  libgtest-dev=1.12 libgmock-dev=1.12 googletest=1.12 libbenchmark-dev=1.7 python3-jsonschema=4.10
  clang=1:14.0 clang-format=1:14.0 clang-tidy-22=1:22.1 libclang-rt-14-dev=1:14.0 lld=1:14.0  # lint and fuzzers
  g++-aarch64-linux-gnu=4:12.2 qemu-user=1:7.2                                                # Jetson's architecture
  chromium=                                                                                   # tests of the report page
  gstreamer1.0-tools=1.22 gstreamer1.0-plugins-base=1.22 gstreamer1.0-plugins-good=1.22 gstreamer1.0-libav=1.22  # sources
  libtorch-dev=1.13 python3-torch=1.13                                                        # the LibTorch plug-in and its tests' modules
  curl=7.88 mosquitto=2.0 mosquitto-clients=2.0                                               # senders of alerts
  prometheus=2.42                                                                             # scrapes headroom serve (includes promtool)
  postgresql=15 libpq5=15                                                                     # a team's run history
  libfastrtps-dev=2.9                                                                         # another subscriber for --ros2
  libopencv-core-dev=4.6 libopencv-imgproc-dev=4.6 libopencv-imgcodecs-dev=4.6                # results to compare with
  heaptrack=1.4 zstd=1.5                                                                      # a recorder to compare with
  libjemalloc2=5.3 libtcmalloc-minimal4=2.10 libmimalloc2.0=2.0                               # allocators that the tracer can hook
)

portable_packages=(clang-22=1:22.1 lld-22=1:22.1)
package_packages=(
  "${portable_packages[@]}"
  lintian=2.116 debootstrap=1.0 binfmt-support=2.2 qemu-user-static=1:7.2 debian-archive-keyring=2023.3  # the packages' tests
  python3-venv=3.11 python3-pip=23.0
)

wanted=("${build_packages[@]}")
[ "$level" = portable ] && wanted+=("${portable_packages[@]}")
[ "$level" = packages ] && wanted+=("${package_packages[@]}")
[ "$level" = test ] && wanted+=("${test_packages[@]}")
# Any Node.js from version 18 on is accepted, whatever its source. The source archive of a release has the pages that need it.
if [ ! -e web/prebuilt/report.html ] &&
  { ! node --version 2>/dev/null | grep -qE '^v(1[89]|[2-9][0-9])\.' || ! command -v npm >/dev/null; }; then
  wanted+=(nodejs=18. npm=9.2)
fi

declare -A installed
while read -r name version status; do
  [ "${status:0:2}" = ii ] && installed[$name]=$version
done < <(dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' "${wanted[@]%%=*}" 2>/dev/null || true)

missing=() other=()
for package in "${wanted[@]}"; do
  name=${package%%=*}
  version=${package#*=}
  found=${installed[$name]:-}
  if [ -z "$found" ]; then
    missing+=("$name${version:+=$version*}")
  elif [[ $found != "$version"* ]]; then
    other+=("$name $found (not $version)")
  fi
done
if [ ${#other[@]} -gt 0 ]; then
  echo "install_dependencies: versions that Headroom is not tested with: $(IFS=,; echo "${other[*]}")" >&2
  [ -z "${HEADROOM_EXACT_VERSIONS:-}" ] || exit 1  # .ci/run: a pin that Debian 12 does not have would stop a fresh machine
fi

if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "install_dependencies: these Debian packages are missing and only root can install them: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "installing Debian packages: ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  # The tests start these programs themselves. Without this, the packages would start system
  # services.
  for service in mosquitto prometheus postgresql; do
    if [[ " ${missing[*]}" == *" $service="* ]] && command -v systemctl >/dev/null; then
      "${as_root[@]}" systemctl disable --now "$service" >/dev/null 2>&1 || true
    fi
  done
fi
scripts/fetch_npm_packages.sh
scripts/opencv_examples.sh >/dev/null

# The page's tests need a browser driver. The build only needs esbuild, preact and uplot, and
# installs them itself.
if [ "$level" = test ] && ! cmp -s web/package-lock.json web/node_modules/.headroom-lock; then
  echo "installing the report page's test packages (npm ci, web/package-lock.json)" >&2
  (cd web && npm ci --ignore-scripts --silent)
  cp web/package-lock.json web/node_modules/.headroom-lock
fi

#!/usr/bin/env bash
# fetch_portable_sysroot.sh x86_64|aarch64: unpacks what the portable build (cmake/portable.cmake) compiles and links
# against into .deps/portable/: Debian 11's headers and static libraries, libc++ and compiler-rt of clang 22, and the
# headers of the C++ libraries that are used without their binaries. Does nothing if it has done so before.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
  x86_64) debian=amd64 triplet=x86_64-linux-gnu ;;
  aarch64) debian=arm64 triplet=aarch64-linux-gnu ;;
  *) echo "unknown architecture '${1:-}': use ARCHITECTURE=x86_64 or ARCHITECTURE=aarch64" >&2 && exit 2 ;;
esac
machine=$1
folder=$PWD/.deps/portable
sysroot=$folder/$machine

# From Debian 11 (glibc 2.31). The libraries are linked statically, except libdw and libelf, which the package brings.
bullseye=(
  libc6-dev libc6 linux-libc-dev libcrypt-dev libnsl-dev libtirpc-dev
  libdw-dev libdw1 libelf-dev libelf1 libbz2-dev libbz2-1.0 liblzma-dev liblzma5 zlib1g-dev zlib1g
  libiberty-dev libncurses-dev
  libjpeg62-turbo-dev libpng-dev libwebp-dev libtiff-dev libzstd-dev libdeflate-dev libagg-dev
)
sqlite=(libsqlite3-dev)  # Debian 12's static library: Debian 11's SQLite has no RETURNING
clang=(libc++-22-dev libc++abi-22-dev libunwind-22-dev libclang-rt-22-dev)  # Debian 12
headers=(libfmt-dev libspdlog-dev nlohmann-json3-dev libexpected-dev libcli11-dev libtomlplusplus-dev)  # Debian 12

stamp="$(cksum <scripts/fetch_portable_sysroot.sh)"
if [ "$(cat "$sysroot/.fetched" 2>/dev/null)" = "$stamp" ]; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$sysroot"
mkdir -p "$sysroot" "$folder/include" "$work"/{state/lists/partial,cache/archives/partial,packages}

# apt with lists of its own, from the mirrors that this machine uses. apt verifies Debian's signatures.
mirror() { apt-get indextargets --format '$(SITE) $(RELEASE)' | awk -v name="$1" '$2 == name { print $1; exit }'; }
main=$(mirror bookworm) security=$(mirror bookworm-security)
if [ -z "$main" ] || [ -z "$security" ]; then
  echo "fetch_portable_sysroot: apt has no source for bookworm and bookworm-security; run apt-get update on Debian 12" >&2
  exit 1
fi
keys="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=$debian]"
printf 'deb %s %s %s main\n' "$keys" "$main" bullseye "$keys" "$main" bookworm "$keys" "$security" bookworm-security >"$work/sources.list"
echo "deb-src ${keys/ arch=*]/]} $main bookworm main" >>"$work/sources.list"
options=(-qq -o "Dir::State=$work/state" -o "Dir::State::status=/dev/null" -o "Dir::Cache=$work/cache"
  -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
  -o "APT::Architecture=$debian" -o "APT::Architectures=$debian" -o APT::Sandbox::User=root)
echo "fetching Debian 11's libraries and libc++ 22 for $machine" >&2
apt-get "${options[@]}" update
(cd "$work/packages" && apt-get "${options[@]}" download "${bullseye[@]/%//bullseye}" "${sqlite[@]/%//bookworm}" \
  "${clang[@]/%//bookworm-security}")
for package in "$work"/packages/*.deb; do
  dpkg -x "$package" "$sysroot"
done

# Absolute links point out of the sysroot, and the linker would then take the static libpthread.
find "$sysroot" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfr "$sysroot$(readlink "$link")" "$link"
done
# The same path in each Debian: clang's runtime library.
ln -sfn "usr/lib/llvm-22" "$sysroot/llvm"

mkdir -p "$work/headers"
(cd "$work/headers" && apt-get "${options[@]}" download "${headers[@]/%//bookworm}")
for package in "$work"/headers/*.deb; do
  dpkg -x "$package" "$work/unpacked"
done
cp -r "$work/unpacked/usr/include/." "$folder/include/"
if [ -d "$folder/include/$triplet" ]; then
  cp -r "$folder/include/$triplet/." "$folder/include/"
fi
# Debian's package has httplib.h without its functions, which are in a library for libstdc++. The source has all.
(cd "$work" && apt-get "${options[@]}" source --download-only cpp-httplib/bookworm)
tar -xf "$work"/cpp-httplib_*.orig.tar.* -C "$folder/include" --wildcards --strip-components=1 '*/httplib.h'
echo "$stamp" >"$sysroot/.fetched"

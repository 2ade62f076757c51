#!/usr/bin/env bash
# fetch_debian_roots.sh amd64|arm64 RELEASE …: minimal Debian root file systems in build/roots/RELEASE-ARCHITECTURE, for
# scripts/test_packages.sh. Needs root, debootstrap and a network, and for arm64 qemu-user-static with binfmt_misc. Does nothing for
# a root that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=$1
shift

# The mirror that this machine's apt uses. debootstrap verifies Debian's signatures.
mirror=$(apt-get indextargets --format '$(SITE)' "Codename: bookworm" | head -n 1)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The kernel starts arm64 programs by qemu-user, also in a root without it (flag F of binfmt_misc).
enable_arm64() {
  [ "$(uname -m)" != aarch64 ] || return 0
  [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  grep -qs '^flags:.*F' /proc/sys/fs/binfmt_misc/qemu-aarch64 || update-binfmts --enable qemu-aarch64
}

if [ "$architecture" = arm64 ]; then
  enable_arm64
fi
mkdir -p build/roots
for release in "$@"; do
  root=build/roots/$release-$architecture
  if [ -e "$root/.complete" ]; then
    continue
  fi
  echo "fetching a minimal Debian $release for $architecture" >&2
  rm -rf "$root"
  log=$root.log
  # In a mount namespace: debootstrap mounts /proc and /sys in the root.
  if ! { debootstrap --foreign --arch="$architecture" --variant=minbase --keyring="$keyring" "$release" "$root" "$mirror" &&
    unshare --mount chroot "$root" /debootstrap/debootstrap --second-stage; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "fetch_debian_roots: debootstrap failed for $release; its log is $log" >&2
    exit 1
  fi
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  touch "$root/.complete"
done

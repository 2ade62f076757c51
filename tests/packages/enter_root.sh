#!/usr/bin/env bash
# enter_root.sh ROOT container|machine FOLDER COMMAND …: runs a command in a throw-away copy of a root file system, in own mount, PID and
# network namespaces; FOLDER is at /tests there. Only scripts/test_packages.sh calls it, by
#   unshare --mount --net --pid --fork --kill-child enter_root.sh …
# so that every mount and process ends with it. `container`: control groups are read-only, as in a container of an ordinary user.
set -euo pipefail
root=$1 kind=$2 folder=$3
shift 3
ip link set lo up
work=$(mktemp -d)  # becomes a tmpfs, which holds all that the command writes
trap 'rmdir "$work" 2>/dev/null || true' EXIT
mount -t tmpfs none "$work"
mkdir "$work"/{written,work,root}
mount -t overlay -o "lowerdir=$root,upperdir=$work/written,workdir=$work/work" none "$work/root"
cd "$work/root"
mount -t proc proc proc
if [ -e lib/ld-linux-aarch64.so.1 ] && [ "$(uname -m)" != aarch64 ]; then
  # qemu-user shows this machine's /proc/cpuinfo. ONNX Runtime crashes if it finds no ARM processor there.
  for ((number = 0; number < $(nproc); ++number)); do
    printf 'processor\t: %s\nFeatures\t: fp asimd crc32 cpuid\nCPU implementer\t: 0x41\nCPU architecture: 8\n' "$number"
    printf 'CPU variant\t: 0x0\nCPU part\t: 0xd08\nCPU revision\t: 3\n\n'
  done >"$work/cpuinfo"
  mount --bind "$work/cpuinfo" proc/cpuinfo
fi
mount --rbind /sys sys
mount --rbind /dev dev
if [ "$kind" = container ]; then
  # Each hierarchy is a separate mount.
  while read -r mounted; do
    mount -o remount,bind,ro "$mounted"
  done < <(awk -v at="$work/root/sys/fs/cgroup" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo)
fi
mkdir tests
mount --bind "$folder" tests
mount -o remount,bind,ro tests
status=0
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
  chroot . "$@" || status=$?
cd /
umount --recursive "$work" 2>/dev/null || umount --lazy "$work"
exit "$status"

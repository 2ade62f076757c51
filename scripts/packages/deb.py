"""The Debian package."""
import hashlib
import pathlib
import re
import time

from . import archive

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "Headroom developers <headroom@headroom.invalid>"
CONTROL = """\
Package: headroom
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kibibytes}
Depends: libc6 (>= 2.28), libstdc++6, libgcc-s1
Recommends: ffmpeg | gstreamer1.0-tools
Suggests: g++, python3
Section: science
Priority: optional
Description: memory benchmark, tracer, monitor and planner for neural networks
 Headroom measures, explains and limits the memory of neural networks on
 Jetson boards and PCs. It benchmarks models under an enforced memory limit,
 records every allocation of an unmodified program, plans what fits a board,
 and names the cause of an out-of-memory failure.
"""


def changelog(version, epoch):
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(epoch))
    entry = f"  * Release {version}; CHANGELOG.md.gz has the changes."
    return f"headroom ({version}) unstable; urgency=medium\n\n{entry}\n\n -- {MAINTAINER}  {date}\n"


def shlibs(tree, version):
    """The libraries that other programs link, libNAME.so.MAJOR, and the package that has them."""
    found = (re.fullmatch(r"usr/lib/(lib\w+)\.so\.(\d+)", name) for name in sorted(tree))
    return "".join(f"{one.group(1)} {one.group(2)} headroom (>= {version})\n" for one in found if one)


def data_tree(stage, source, version, epoch):
    """What the package installs: the stage below usr/, and what Debian's policy asks for."""
    packaging = pathlib.Path(source) / "packaging/debian"
    documents = "usr/share/doc/headroom/"
    tree = {}
    for name, entry in stage.items():
        if name.startswith("share/man/") or name.endswith("/CHANGELOG.md"):
            entry, name = archive.Entry(archive.gz(entry.content)), name + ".gz"
        tree["usr/" + name] = entry
    for name in [*tree]:  # Debian has one copy of these texts for all packages
        if name == documents + "LICENSE" or name.startswith(documents + "licences/common-licenses/"):
            del tree[name]
    tree[documents + "changelog.gz"] = archive.Entry(archive.gz(changelog(version, epoch).encode()))
    tree[documents + "copyright"] = archive.Entry((packaging / "copyright").read_bytes())
    tree["usr/share/lintian/overrides/headroom"] = archive.Entry((packaging / "lintian-overrides").read_bytes())
    return tree


def make(stage, source, version, machine, epoch):
    """(file name, content) of the package."""
    tree = data_tree(stage, source, version, epoch)
    size = sum(-(-len(entry.content) // 1024) for entry in tree.values()) + 4 * len(archive.folders_of(tree))
    control = CONTROL.format(version=version, architecture=DEBIAN[machine], maintainer=MAINTAINER, kibibytes=size)
    sums = "".join(f"{hashlib.md5(entry.content).hexdigest()}  {name}\n" for name, entry in sorted(tree.items()) if not entry.target)
    metadata = {
        "control": archive.Entry(control.encode()),
        "md5sums": archive.Entry(sums.encode()),
    }
    for script in ("prerm", "postrm"):
        metadata[script] = archive.Entry((pathlib.Path(source) / "packaging/debian" / script).read_bytes(), True)
    libraries = shlibs(tree, version)
    if libraries:
        metadata["shlibs"] = archive.Entry(libraries.encode())
        metadata["triggers"] = archive.Entry(b"activate-noawait ldconfig\n")
    content = archive.ar([
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", archive.xz(archive.tar(metadata, epoch, "./"))),
        ("data.tar.xz", archive.xz(archive.tar(tree, epoch, "./"))),
    ], epoch)
    return f"headroom_{version}_{DEBIAN[machine]}.deb", content

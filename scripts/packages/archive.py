"""Trees of files in memory, and archives whose bytes depend only on them: sorted names, owner root, one time, fixed modes."""
import gzip
import hashlib
import io
import lzma
import os
import pathlib
import tarfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file, or a symbolic link if `target` is set."""
    content: bytes = b""
    is_executable: bool = False
    target: str = ""


def read_tree(folder):
    """{path relative to folder: Entry}. Only programs are executable: shared libraries need not be."""
    tree = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            tree[name] = Entry(target=os.readlink(path))
        elif path.is_file():
            executable = bool(path.stat().st_mode & 0o100) and ".so" not in path.name
            tree[name] = Entry(path.read_bytes(), executable)
    return tree


def without_links(tree):
    """For formats without links: a link becomes a copy of its file; a file that only links point to is left out."""
    resolved, linked = {}, set()
    for name, entry in tree.items():
        if entry.target:
            source = os.path.normpath(os.path.join(os.path.dirname(name), entry.target))
            linked.add(source)
            entry = tree[source]
        resolved[name] = entry
    return {name: entry for name, entry in resolved.items() if name not in linked}


def folders_of(tree):
    folders = set()
    for name in tree:
        parts = name.split("/")[:-1]
        folders.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return folders


def tar(tree, epoch, prefix=""):
    """An uncompressed tar archive of the tree."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted([*tree, *folders_of(tree)]):
            entry = tree.get(name)
            info = tarfile.TarInfo(prefix + name)
            info.mtime, info.uname, info.gname = epoch, "root", "root"
            if entry is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif entry.target:
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, entry.target
            else:
                info.mode, info.size = 0o755 if entry.is_executable else 0o644, len(entry.content)
            archive.addfile(info, io.BytesIO(entry.content) if entry else None)
    return buffer.getvalue()


def xz(content):
    return lzma.compress(content, preset=6)


def gz(content):
    """As gzip -9n: without name and time."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def ar(members, epoch):
    """An ar archive of (name, content), as dpkg-deb writes it."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        header = f"{name:<16}{epoch:<12}{0:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n"
        parts += [header.encode("ascii"), content, b"\n" if len(content) % 2 else b""]
    return b"".join(parts)


def sha256(content):
    return hashlib.sha256(content)

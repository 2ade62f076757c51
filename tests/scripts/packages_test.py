#!/usr/bin/env python3
"""Tests scripts/packages: what the package formats hold, from a small installation. scripts/test_packages.sh tests real packages."""
import base64
import hashlib
import io
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from packages import archive, deb, wheel  # noqa: E402

EPOCH = 1_700_000_000
FILES = {
    "bin/headroom": b"#!/bin/sh\n",
    "lib/headroom/libheadroom_trace.so": b"library",
    "lib/libheadroom_model_pool.so.0.2.0": b"pool",
    "share/man/man1/headroom.1": b".TH HEADROOM 1\n",
    "share/doc/headroom/CHANGELOG.md": b"# Changelog\n",
    "share/doc/headroom/LICENSE": b"Apache License\n",
    "share/doc/headroom/docs/limits.md": b"# Limits\n",
    "share/doc/headroom/licences/libdw1": b"LGPL-3+ or GPL-2+\n",
    "share/doc/headroom/licences/common-licenses/LGPL-3": b"GNU LESSER GENERAL PUBLIC LICENSE\n",
    "share/headroom/examples/a.toml": b"a = 1\n",
}


def installation(folder):
    for name, content in FILES.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o700 if name.startswith("bin/") or ".so" in name else 0o600)
    (pathlib.Path(folder) / "lib/libheadroom_model_pool.so.0").symlink_to("libheadroom_model_pool.so.0.2.0")
    return archive.read_tree(folder)


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.stage = installation(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def test_same_installation_gives_the_same_bytes(self):
        for path in pathlib.Path(self.folder.name).rglob("*"):
            if not path.is_symlink():
                os.utime(path, (1, 1))
        with tempfile.TemporaryDirectory() as other:
            again = installation(other)
        for make in (deb.make, wheel.make):
            self.assertEqual(make(self.stage, ROOT, "0.2.0", "aarch64", EPOCH), make(again, ROOT, "0.2.0", "aarch64", EPOCH))

    def test_debian_package(self):
        name, content = deb.make(self.stage, ROOT, "0.2.0", "aarch64", EPOCH)
        self.assertEqual(name, "headroom_0.2.0_arm64.deb")
        members = dict(ar_members(content))
        self.assertEqual(members["debian-binary"], b"2.0\n")
        with tarfile.open(fileobj=io.BytesIO(members["data.tar.xz"])) as data:
            found = {member.name: member for member in data}
        self.assertEqual({(one.uname, one.gname, one.uid, one.mtime) for one in found.values()}, {("root", "root", 0, EPOCH)})
        self.assertEqual(found["./usr/bin/headroom"].mode, 0o755)
        self.assertEqual(found["./usr/lib/headroom/libheadroom_trace.so"].mode, 0o644)
        self.assertEqual(found["./usr/lib/libheadroom_model_pool.so.0"].linkname, "libheadroom_model_pool.so.0.2.0")
        for path in ("man/man1/headroom.1.gz", "doc/headroom/changelog.gz", "doc/headroom/CHANGELOG.md.gz", "doc/headroom/copyright"):
            self.assertIn("./usr/share/" + path, found)
        for path in ("docs/limits.md", "licences/libdw1"):
            self.assertIn("./usr/share/doc/headroom/" + path, found)
        for path in ("LICENSE", "licences/common-licenses/LGPL-3"):
            self.assertNotIn("./usr/share/doc/headroom/" + path, found)
        with tarfile.open(fileobj=io.BytesIO(members["control.tar.xz"])) as control:
            texts = {member.name: control.extractfile(member).read().decode() for member in control}
            self.assertEqual({name for name in texts if control.getmember(name).mode == 0o755}, {"./prerm", "./postrm"})
        self.assertIn("\nArchitecture: arm64\n", texts["./control"])
        self.assertEqual(texts["./shlibs"], "libheadroom_model_pool 0 headroom (>= 0.2.0)\n")
        self.assertIn(f"{hashlib.md5(FILES['bin/headroom']).hexdigest()}  usr/bin/headroom\n", texts["./md5sums"])

    def test_wheel(self):
        name, content = wheel.make(self.stage, ROOT, "0.2.0", "x86_64", EPOCH)
        self.assertEqual(name, "headroom_memory-0.2.0-py3-none-manylinux_2_28_x86_64.whl")
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            modes = {one.filename: stat.S_IMODE(one.external_attr >> 16) for one in package.infolist()}
            contents = {one: package.read(one) for one in package.namelist()}
        self.assertEqual(modes["headroom_memory/bin/headroom"], 0o755)
        self.assertEqual(modes["headroom_memory/lib/headroom/libheadroom_trace.so"], 0o644)
        self.assertIn("headroom_memory/__main__.py", contents)
        self.assertNotIn("headroom_memory/share/man/man1/headroom.1", contents)
        information = "headroom_memory-0.2.0.dist-info/"
        self.assertIn("headroom_memory/share/doc/headroom/docs/limits.md", contents)
        for path in ("libdw1", "common-licenses/LGPL-3"):
            self.assertEqual(contents[information + "licences/" + path], FILES["share/doc/headroom/licences/" + path])
        self.assertNotIn("headroom_memory/share/doc/headroom/licences/libdw1", contents)
        self.assertNotIn(b"/usr/share/doc", contents[information + "COPYRIGHT"])
        self.assertIn(b"licences/common-licenses", contents[information + "COPYRIGHT"])
        rows = [row.rsplit(",", 2) for row in contents[information + "RECORD"].decode().splitlines()]
        self.assertEqual(sorted(row[0] for row in rows), sorted(contents))
        for path, digest, size in rows[:-1]:
            wanted = base64.urlsafe_b64encode(hashlib.sha256(contents[path]).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, int(size)), ("sha256=" + wanted, len(contents[path])), path)

    def test_links_become_files_where_a_format_has_none(self):
        tree = archive.without_links(self.stage)
        self.assertEqual(tree["lib/libheadroom_model_pool.so.0"].content, b"pool")
        self.assertNotIn("lib/libheadroom_model_pool.so.0.2.0", tree)

    def test_an_unknown_architecture_is_refused(self):
        result = subprocess.run([sys.executable, ROOT / "scripts/make_packages.py", "riscv64"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("riscv64: an architecture is x86_64 or aarch64", result.stderr)


def ar_members(content):
    at = 8
    while at < len(content):
        size = int(content[at + 48:at + 58])
        yield content[at:at + 16].decode().strip(), content[at + 60:at + 60 + size]
        at += 60 + size + size % 2


if __name__ == "__main__":
    unittest.main()

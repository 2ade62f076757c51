#!/usr/bin/env python3
"""Checks the ELF files of a portable build: its install tree, or one of its packages (.deb, .whl, .tar.xz).

    scripts/check_elf.py FOLDER_OR_PACKAGE [--machine x86_64|aarch64] [--glibc 2.27]

- A file needs only the C library's files and files of the same tree. ONNX Runtime may also need the C++ library of GCC.
- No function is from a glibc after --glibc (ONNX Runtime: 2.28).
- Headroom's libraries export only their entry points. A symbol of the C++ library in a preload library or a plug-in
  would replace the one of the program that loads it.
- An RPATH starts with $ORIGIN, because the tree must work from any folder.
- All files are for one machine.

Prints one line for each violation and a count; the exit status is 1 if there are violations.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

C_LIBRARY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
             "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GCC_LIBRARY = {"libstdc++.so.6", "libgcc_s.so.1"}
ONNXRUNTIME, ONNXRUNTIME_GLIBC = "libonnxruntime.so", (2, 28)
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}

ENTRY_POINT = re.compile(r"headroom_\w+")
# The preload libraries replace C functions and the global operators new and delete.
HOOK = re.compile(r"(?!_Unwind_|__|unw_|_Z)\w+|_Z(n[wa]|d[la])\w+")


def readelf(path, *options):
    result = subprocess.run(["readelf", "--wide", *options, path], capture_output=True, text=True, check=True)
    return result.stdout


def version_numbers(text):
    return tuple(int(part) for part in re.findall(r"\d+", text))


class ElfFile:
    def __init__(self, path, root):
        self.path, self.name, self.shown = path, path.name, str(path.relative_to(root))
        header = re.search(r"Machine:\s+(.*)", readelf(path, "--file-header")).group(1).strip()
        self.machine = MACHINES.get(header, header)
        dynamic = readelf(path, "--dynamic")
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.rpaths = ":".join(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)).split(":")
        self.versions = set(re.findall(r"Name: ((?:GLIBC|GLIBCXX|CXXABI|GCC)_\S+)", readelf(path, "--version-info")))

    def highest(self, library):
        """The highest version of GLIBC, GLIBCXX or CXXABI that the file needs, as in "GLIBC_2.27"; empty if none."""
        return max((v for v in self.versions if re.fullmatch(library + r"_[\d.]+", v)), key=version_numbers, default="")

    def exports(self):
        for line in readelf(self.path, "--dyn-syms").splitlines():
            parts = line.split()
            if len(parts) >= 8 and parts[4] in ("GLOBAL", "WEAK", "UNIQUE") and parts[6] != "UND":
                yield parts[7].split("@")[0]


def violations_of(file, names, machine, glibc):
    is_onnxruntime = file.name.startswith(ONNXRUNTIME)
    if file.machine != machine:
        yield f"is for {file.machine}, not for {machine}"
    for needed in file.needed:
        if needed not in C_LIBRARY | names | (GCC_LIBRARY if is_onnxruntime else set()):
            yield f"needs {needed}, which is neither in the tree nor part of the C library"
    limit = ONNXRUNTIME_GLIBC if is_onnxruntime else glibc
    for version in sorted(file.versions, key=version_numbers):
        numbers = re.fullmatch(r"GLIBC_([\d.]+)", version)
        if version.startswith("GLIBC_") and (not numbers or version_numbers(version) > limit):
            yield f"needs {version}; GLIBC_{'.'.join(map(str, limit))} is the highest allowed"
    for rpath in file.rpaths:
        if rpath and not rpath.startswith("$ORIGIN"):
            yield f"has the RPATH {rpath}, which does not start with $ORIGIN"
    if file.name.startswith("libheadroom_"):
        expected = HOOK if file.name.startswith("libheadroom_trace") else ENTRY_POINT
        others = sorted(symbol for symbol in set(file.exports()) if not expected.fullmatch(symbol))
        if others:
            some = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
            yield f"exports {len(others)} symbols that are no entry points: {some}"


def unpacked(package, folder):
    if package.suffix == ".deb":
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    else:
        shutil.unpack_archive(package, folder, "zip" if package.suffix == ".whl" else None)
    return pathlib.Path(folder)


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as opened:
        head = opened.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\x02\x00", b"\x03\x00")  # programs and shared libraries


def check(root, machine, glibc):
    files = [ElfFile(path, root) for path in sorted(root.rglob("*")) if is_elf(path)]
    names = {path.name for path in root.rglob("*.so*")}
    count = 0
    for file in files:
        for violation in violations_of(file, names, machine or files[0].machine, glibc):
            print(f"{file.shown}: {violation}")
            count += 1
        if file.name.startswith(ONNXRUNTIME):
            versions = map(file.highest, ("GLIBC", "GLIBCXX", "CXXABI", "GCC"))
            print(f"{file.shown}: needs", ", ".join(filter(None, versions)))
    highest = max((file.highest("GLIBC") for file in files if not file.name.startswith(ONNXRUNTIME)),
                  key=version_numbers, default="")
    print(f"{count} violations in {len(files)} ELF files; highest glibc version: {highest or 'none'}")
    if not files:
        print(f"check_elf: {root} has no ELF files", file=sys.stderr)
    return 1 if count or not files else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--machine", choices=sorted(MACHINES.values()))
    parser.add_argument("--glibc", type=version_numbers, default=(2, 27), help="highest allowed version (2.27)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = arguments.tree if arguments.tree.is_dir() else unpacked(arguments.tree, folder)
        return check(tree, arguments.machine, arguments.glibc)


if __name__ == "__main__":
    sys.exit(main())

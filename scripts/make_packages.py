#!/usr/bin/env python3
"""Packs the portable builds of both architectures: Debian packages, tar archives, Python wheels, the source archive and their
checksums. The same builds give the same bytes.

    scripts/make_packages.py [--out build/packages] [x86_64] [aarch64]

Needs build/portable-ARCHITECTURE (`make portable`). The version is that of project() in CMakeLists.txt; all times are that of
SOURCE_DATE_EPOCH, by default of the last commit.
"""
import argparse
import concurrent.futures
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

from packages import archive, deb, wheel

SOURCE = pathlib.Path(__file__).resolve().parent.parent
COMPONENTS = ("program", "development")


def run(*command, environment=None):
    return subprocess.run(command, cwd=SOURCE, env=environment, check=True, stdout=subprocess.PIPE).stdout


def version_of_project():
    text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(headroom VERSION ([0-9.]+)", text, re.MULTILINE).group(1)


def time_of_source():
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (SOURCE / ".git").exists():
        return int(run("git", "log", "-1", "--format=%ct"))
    return int((SOURCE / "CMakeLists.txt").stat().st_mtime)  # of the source archive


def build_of(machine):
    build = SOURCE / f"build/portable-{machine}"
    if not (build / "bin/headroom").exists():
        sys.exit(f"make_packages: {build}/bin/headroom is missing: run `make portable ARCHITECTURE={machine}`")
    return build


def stage_of(machine, folder):
    """What `cmake --install` writes, as a tree. The prefix is /usr: the systemd unit names it."""
    shutil.rmtree(folder, ignore_errors=True)
    for component in COMPONENTS:
        command = ("cmake", "--install", str(build_of(machine)), "--prefix", "/usr", "--component", component)
        run(*command, environment={**os.environ, "DESTDIR": str(folder)})
    return archive.read_tree(folder / "usr")


def source_archive(version, epoch, pages):
    """The committed files, and what a build would get by npm: the pages of web/ and ONNX Runtime's headers."""
    tree = {}
    with tarfile.open(fileobj=io.BytesIO(run("git", "archive", "--format=tar", "HEAD"))) as committed:
        for member in committed:
            if member.issym():
                tree[member.name] = archive.Entry(target=member.linkname)
            elif member.isfile():
                tree[member.name] = archive.Entry(committed.extractfile(member).read(), bool(member.mode & 0o100))
    for page in sorted(pages.glob("*.html")):
        tree[f"web/prebuilt/{page.name}"] = archive.Entry(page.read_bytes())
    for folder in ("onnxruntime/include", "licences"):
        for name, entry in archive.read_tree(SOURCE / ".deps" / folder).items():
            tree[f".deps/{folder}/{name}"] = entry
    name = f"headroom-{version}"
    return f"{name}-source.tar.xz", archive.xz(archive.tar(tree, epoch, name + "/"))


def jobs_of(arguments, version, epoch):
    """(function, arguments) for each package. A function returns (file name, content)."""
    for machine in arguments.machines:
        stage = stage_of(machine, SOURCE / "build/stage" / machine)
        name = f"headroom-{version}-linux-{machine}"
        yield archive_of_stage, (stage, name, epoch)
        yield deb.make, (stage, SOURCE, version, machine, epoch)
        yield wheel.make, (stage, SOURCE, version, machine, epoch)
    if (SOURCE / ".git").exists():
        yield source_archive, (version, epoch, build_of(arguments.machines[0]) / "web/dist")
    else:
        print("make_packages: no source archive: this is no git checkout", file=sys.stderr)


def archive_of_stage(stage, name, epoch):
    return name + ".tar.xz", archive.xz(archive.tar(stage, epoch, name + "/"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "build/packages")
    parser.add_argument("machines", nargs="*", metavar="x86_64|aarch64", help="architectures to pack (both)")
    arguments = parser.parse_args()
    arguments.machines = arguments.machines or ["x86_64", "aarch64"]
    unknown = set(arguments.machines) - set(deb.DEBIAN)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: an architecture is x86_64 or aarch64")

    version, epoch = version_of_project(), time_of_source()
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    sums = []
    with concurrent.futures.ProcessPoolExecutor() as pool:  # compression takes most of the time
        for made in [pool.submit(function, *values) for function, values in jobs_of(arguments, version, epoch)]:
            name, content = made.result()
            (arguments.out / name).write_bytes(content)
            sums.append(f"{archive.sha256(content).hexdigest()}  {name}\n")
            print(f"{arguments.out / name}  {len(content) / 2**20:.1f} MiB")
    (arguments.out / "SHA256SUMS").write_text("".join(sorted(sums, key=lambda line: line.split()[1])), encoding="ascii")


if __name__ == "__main__":
    main()

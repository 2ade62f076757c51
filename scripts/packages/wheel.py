"""The Python wheel: the module headroom_memory with the program, its libraries and the command `headroom`."""
import base64
import io
import pathlib
import time
import zipfile

from . import archive

# Of the stage: what the program needs, what `headroom build-plugin` compiles, and the pages that messages name. Not the man page and the
# service.
PARTS = ("bin/", "lib/headroom/", "include/", "share/headroom/", "share/doc/headroom/docs/")
LICENCES = "share/doc/headroom/licences/"
METADATA = """\
Metadata-Version: 2.1
Name: headroom-memory
Version: {version}
Summary: Memory benchmark, tracer, monitor and planner for neural networks, with its command `headroom`
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: headroom\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nheadroom = headroom_memory.__main__:main\n"


def tree_of(stage, source):
    module = pathlib.Path(source) / "python/headroom_memory"
    tree = {f"headroom_memory/{path.name}": archive.Entry(path.read_bytes()) for path in sorted(module.glob("*.py"))}
    for name, entry in archive.without_links(stage).items():
        if name.startswith(PARTS) and not name.startswith("share/headroom/python/"):
            tree["headroom_memory/" + name] = entry
    return tree


def make(stage, source, version, machine, epoch):
    """(file name, content) of the wheel."""
    tag = f"py3-none-manylinux_2_28_{machine}"
    tree = tree_of(stage, source)
    information = f"headroom_memory-{version}.dist-info/"
    packaging = pathlib.Path(source) / "packaging/python"
    readme = (packaging / "README.md").read_text(encoding="utf-8")
    for name, entry in archive.without_links(stage).items():
        if name.startswith(LICENCES):
            tree[information + "licences/" + name[len(LICENCES):]] = entry
    for name, text in (
        ("METADATA", METADATA.format(version=version, readme=readme)),
        ("WHEEL", WHEEL.format(tag=tag)),
        ("entry_points.txt", ENTRY_POINTS),
        ("LICENSE", (pathlib.Path(source) / "LICENSE").read_text(encoding="utf-8")),
        ("COPYRIGHT", (packaging / "COPYRIGHT").read_text(encoding="utf-8")),
    ):
        tree[information + name] = archive.Entry(text.encode())
    record = ""
    for name, entry in sorted(tree.items()):
        digest = base64.urlsafe_b64encode(archive.sha256(entry.content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(entry.content)}\n"
    tree[information + "RECORD"] = archive.Entry(f"{record}{information}RECORD,,\n".encode())

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        # pip reads the folder of the metadata anywhere; it is last by convention.
        for name in sorted(tree, key=lambda name: (name.startswith(information), name)):
            info = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (0o100755 if tree[name].is_executable else 0o100644) << 16
            package.writestr(info, tree[name].content)
    return f"headroom_memory-{version}-{tag}.whl", buffer.getvalue()

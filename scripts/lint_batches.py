#!/usr/bin/env python3
"""Combines the sources of src/ into batches for clang-tidy, which spends most of its time on headers.

    lint_batches.py BUILD FOLDER

BUILD has the compile_commands.json of a build, batched or not. Sources are combined across targets (unity_batches.py), into larger
batches than a build's. A batch has the include folders and definitions of all its targets, as long as no two of them define a name
differently. Writes the batches and their compile_commands.json to FOLDER, and prints their file names. Sources that the build leaves out
(a plug-in whose runtime headers are missing) cannot be checked, and neither can those with LibTorch's headers: clang 22 rejects these in
C++20 with libstdc++ 12.
"""
import json
import os
import pathlib
import re
import shlex
import sys

import unity_batches

UNREADABLE = re.compile(r"/src/inference/libtorch/(module|session|signature)\.cpp$")
# These are never combined: their headers use names of ours, or another file's variable name, or each backend has one.
ALONE = re.compile(r"/(demangle|terminal_screen|no_host_hooks|plugin)\.cpp$")
MOST_FILES, MOST_LINES = 60, 6000


def flags_of(entry):
    """The compiler's arguments that influence the meaning of the source, without file names."""
    words, kept = shlex.split(entry["command"]), []
    skip = {"-o": 1, "-c": 1, "-MF": 1, "-MT": 1, "-MD": 0}
    i = 1
    while i < len(words):
        if words[i] in skip:
            i += 1 + skip[words[i]]
            continue
        # Irrelevant for checks: the library's export macro, position independence, optimization
        # level and compiler parameters.
        if not re.match(r"-D\w+_EXPORTS$|-O\d$|-fPI[CE]$|-fvisibility|--param=", words[i]):
            kept.append(words[i])
        i += 1
    return tuple(kept)


def split(flags):
    """Splits the flags into include folders and definitions, and all others."""
    adding, others, i = [], [], 0
    while i < len(flags):
        count = 2 if flags[i] in ("-I", "-isystem", "-D") else 1
        (adding if re.match(r"-I|-isystem|-D", flags[i]) else others).extend([flags[i:i + count]])
        i += count
    return adding, tuple(word for words in others for word in words)


def definitions(flags):
    return dict(re.match(r"(\w+)=?(.*)", words[-1].removeprefix("-D"), re.DOTALL).groups() for words in flags if words[0].startswith("-D"))


class Group:
    """Sources that can be read together."""

    def __init__(self, others, checks):
        self.others, self.checks, self.adding, self.defined, self.sources = others, checks, [], {}, []

    def takes(self, others, checks, defined):
        return (others, checks) == (self.others, self.checks) and all(self.defined.get(name, value) == value for name, value in defined.items())

    def add(self, source, adding, defined):
        self.sources.append(source)
        self.adding += [words for words in adding if words not in self.adding]
        self.defined |= defined

    def flags(self):
        return [*self.others, *(word for words in self.adding for word in words)]


def includes_source(source):
    """Whether it includes another source: together in a batch, each name would be defined twice."""
    return re.search(r'^#include "[^"]+\.cpp"', pathlib.Path(source).read_text(), re.MULTILINE)


def checks_of(source):
    """The .clang-tidy in the source's folder, which its batch needs, too."""
    file = pathlib.Path(source).parent / ".clang-tidy"
    return file if file.is_file() else None


def main():
    build, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    groups, seen = [], set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        batch = entry["file"]
        sources = re.findall(r'#include "(/[^"]+\.cpp)"', open(batch).read()) if f"{build}/unity/" in batch else [batch]
        for source in sources:
            if not os.path.relpath(source).startswith("src/") or source in seen or UNREADABLE.search(source):
                continue
            seen.add(source)
            adding, others = split(flags_of(entry))
            defined, checks = definitions(adding), checks_of(source)
            group = next((one for one in groups if one.takes(others, checks, defined)), None)
            if group is None:
                groups.append(group := Group(others, checks))
            group.add(source, adding, defined)
    unity_batches.MOST_FILES, unity_batches.MOST_LINES = MOST_FILES, MOST_LINES
    entries = []

    def add(file, flags):
        command = shlex.join(["clang++", *flags, "-c", str(file)])
        entries.append({"directory": str(folder), "file": str(file), "command": command})
    for number, group in enumerate(groups):
        place, flags, checks, sources = folder, group.flags(), group.checks, group.sources
        if checks:
            place = folder / checks.parent.name
            place.mkdir(exist_ok=True)
            unity_batches.write_if_new(place / checks.name, checks.read_text())
        together = [source for source in sources if source.endswith(".cpp") and not ALONE.search(source) and not includes_source(source)]
        for source in sources:
            if source not in together:
                add(source, flags)
        for count, batch in enumerate(unity_batches.batches_of(sorted(together))):
            if len(batch.sources) == 1:
                add(batch.sources[0].path, flags)
                continue
            file = place / f"batch_{number}_{count}.cpp"
            unity_batches.write_if_new(file, batch.text())
            add(file, flags)
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    # Largest first, so that no process works alone at the end.
    entries.sort(key=lambda entry: -sum(len(open(name).read()) for name in re.findall(r'#include "(/[^"]+\.cpp)"', open(entry["file"]).read())))
    print(*(entry["file"] for entry in entries), sep="\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Puts the sources of src/ together for clang-tidy, which takes most of its time for the headers of what it reads.

    lint_batches.py BUILD FOLDER

BUILD has the compile_commands.json of a build, in batches or not. Sources are put into batches across targets (unity_batches.py), larger
ones than a build's: a batch has the include folders and definitions of all its targets, where no two of them define a name otherwise. FOLDER gets them, and a compile_commands.json of its own, whose files
are printed. Files that the build leaves out (a plug-in without its runtime's headers here) cannot be read, nor can those with
LibTorch's headers: clang 22 does not take them in C++20 with libstdc++ 12.
"""
import json
import os
import pathlib
import re
import shlex
import sys

import unity_batches

UNREADABLE = re.compile(r"/src/inference/libtorch/(module|session|signature)\.cpp$")
ALONE = re.compile(r"/(demangle|terminal_screen|no_host_hooks|plugin)\.cpp$")  # what they include has names of ours; another one of a variable; one of each backend
MOST_FILES, MOST_LINES = 60, 6000


def flags_of(entry):
    """What the source means depends on: the compiler's arguments without the files."""
    words, kept = shlex.split(entry["command"]), []
    skip = {"-o": 1, "-c": 1, "-MF": 1, "-MT": 1, "-MD": 0}
    i = 1
    while i < len(words):
        if words[i] in skip:
            i += 1 + skip[words[i]]
            continue
        # Of a library its own name, whether it is for a shared one, how fast it is to be and how its compiler gets there change
        # nothing that is looked for.
        if not re.match(r"-D\w+_EXPORTS$|-O\d$|-fPI[CE]$|-fvisibility|--param=", words[i]):
            kept.append(words[i])
        i += 1
    return tuple(kept)


def split(flags):
    """Those that only add to what a source may include or ask for, and all others."""
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
    """Whether it is another one's text once more: beside that one in a batch each name would be there twice."""
    return re.search(r'^#include "[^"]+\.cpp"', pathlib.Path(source).read_text(), re.MULTILINE)


def checks_beside(source):
    """The .clang-tidy of the source's own folder, which its batch must have beside it, too."""
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
            defined, checks = definitions(adding), checks_beside(source)
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
    # The largest first: with several processes the last is not waited for alone.
    entries.sort(key=lambda entry: -sum(len(open(name).read()) for name in re.findall(r'#include "(/[^"]+\.cpp)"', open(entry["file"]).read())))
    print(*(entry["file"] for entry in entries), sep="\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Which sources of a target can be compiled together: most of a file's time is its headers.

    unity_batches.py TARGETS OUT

TARGETS has a line for each source, `target<TAB>path`; OUT gets a line `target<TAB>batch<TAB>path` for each that shares its
batch with another (the rest are compiled alone). Files share one where none declares a name for itself (in an anonymous
namespace, `static`, a macro) that another one or a header of its has anywhere, and all are `using` the same namespaces; so a
file means the same alone and beside the others.
"""
import collections
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES, MOST_LINES = 12, 1800  # two processors: the last batches must not be waited for
WORD = re.compile(r"(?<![\w.>])[A-Za-z_]\w*|(?<=[^-]>)[A-Za-z_]\w*")
COMMENT = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
DECLARED = [
    re.compile(r"^(?:struct|class|enum class|enum|union)\s+(\w+)"),
    re.compile(r"^using\s+(\w+)\s*="),
    re.compile(r"^#\s*define\s+(\w+)"),
    # A function or a variable: the last word before (, =, {, [ or ;.
    re.compile(r"^[\w:<>,&*\s\[\]().]*?[\s&*>](\w+)\s*(?:\(|=|\{|\[|;)"),
]


INCLUDED = re.compile(r'^#include "([\w./]+)"', re.M)


def words_of(text):
    return set(WORD.findall(COMMENT.sub(" ", text)))


@functools.lru_cache(maxsize=None)
def header_words(name, folder):
    """Of a header of the project, as it is named in a file of that folder, and of those that it includes itself."""
    for root in (folder, ROOT / "src", ROOT / "tests"):
        file = root / name
        if file.is_file():
            text = file.read_text()
            return frozenset(words_of(text)).union(*(header_words(deeper, file.parent) for deeper in INCLUDED.findall(text)))
    return frozenset()


class Source:
    def __init__(self, path):
        path = pathlib.Path(path)
        text = path.read_text()
        self.path, self.lines = path, text.count("\n")
        self.own, self.namespaces = set(), frozenset(re.findall(r"^using namespace ([\w:]+);", text, re.M))
        is_own = False
        for line in text.split("\n"):
            if line.startswith("namespace {"):
                is_own = True
            elif line == "}  // namespace":
                is_own = False
            elif line and line[0] not in " \t})/" and (is_own or line.startswith(("static ", "#define", "# define"))):
                matches = (form.match(line) for form in DECLARED)
                self.own.update([match.group(1) for match in matches if match][:1])
        self.words = words_of(text).union(*(header_words(name, path.parent) for name in INCLUDED.findall(text)))


class Batch:
    def __init__(self, namespaces):
        self.namespaces, self.sources, self.own, self.words, self.lines = namespaces, [], set(), set(), 0

    def takes(self, source):
        return (self.namespaces == source.namespaces and len(self.sources) < MOST_FILES
                and self.lines + source.lines <= MOST_LINES
                and not self.own & source.words and not self.words & source.own)

    def add(self, source):
        self.sources.append(source)
        self.own |= source.own
        self.words |= source.words
        self.lines += source.lines


def batches_of(paths):
    batches = []
    for source in map(Source, paths):
        batch = next((batch for batch in batches if batch.takes(source)), None)
        if batch is None:
            batch = Batch(source.namespaces)
            batches.append(batch)
        batch.add(source)
    return batches


def main():
    targets = collections.defaultdict(list)
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        target, path = line.split("\t")
        targets[target].append(path)
    rows = []
    for target, paths in targets.items():
        for number, batch in enumerate(batches_of(paths)):
            if len(batch.sources) > 1:
                rows += [f"{target}\t{number}\t{source.path}\n" for source in batch.sources]
    pathlib.Path(sys.argv[2]).write_text("".join(rows))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Chooses sources of a target that can be compiled together, because headers take most of a file's compile time.

    unity_batches.py TARGETS FOLDER

TARGETS has a line for each source, `target<TAB>path`. For each batch, FOLDER gets a source that includes the sources of the batch.
FOLDER/batches gets a line `target<TAB>batch's source<TAB>path` for each of them. The other sources are compiled alone.

Files share a batch if each has the same meaning alone and together: they are `using` the same namespaces, and no name that a file
declares for itself (in an anonymous namespace, or `static`) occurs in another file. If it does occur, the batch renames it in its file
with a macro, so two files may both have their own `read`. Renaming is impossible if the file contains `.read`, `->read` or `::read`,
which may belong to another type, or if one of its headers declares `read`. Then the files do not share a batch.
"""
import collections
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES, MOST_LINES = 40, 6000  # for two processors: the last batches must not take long
WORD = re.compile(r"(?<![\w.>])[A-Za-z_]\w*|(?<=[^-]>)[A-Za-z_]\w*")
COMMENT = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
DECLARED = [
    re.compile(r"^(?:struct|class|enum class|enum|union)\s+(\w+)"),
    re.compile(r"^using\s+(\w+)\s*="),
    re.compile(r"^#\s*define\s+(\w+)"),
    # A function or a variable: the last word before (, =, {, [ or ;.
    re.compile(r"^[\w:<>,&*\s\[\]().]*?[\s&*>](\w+)\s*(?:\(|=|\{|\[|;)"),
]

ATTRIBUTE = re.compile(r"\s*(?:__attribute__\(\(.*\)\)|\[\[[^\]]*\]\]\s?)")
KEYWORDS = {"const", "noexcept", "override", "default", "delete"}
INCLUDED = re.compile(r'^#include "([\w./]+)"', re.M)


def words_of(text):
    return set(WORD.findall(COMMENT.sub(" ", text)))


@functools.lru_cache(maxsize=None)
def header_names(name, folder):
    """For a project header, as named in a file of that folder, and the headers that it includes: all words, and the names declared in
    a namespace (which start at the beginning of a line)."""
    file = next((root / name for root in (folder, ROOT / "src", ROOT / "tests") if (root / name).is_file()), None)
    if file is None:
        return frozenset(), frozenset()
    text = file.read_text()
    words = words_of(text)
    declared = {name for line in text.split("\n") for name in declared_in(line)}
    for deeper in INCLUDED.findall(text):
        more = header_names(deeper, file.parent)
        words, declared = words | more[0], declared | more[1]
    return frozenset(words), frozenset(declared)


def declared_in(line):
    """The names that a line of a namespace declares. Excludes aliases, and functions of a class declared elsewhere."""
    if not line or line[0] in " \t})/" or line.startswith(("using namespace ", "namespace ", "static_assert(")):
        return []
    line = ATTRIBUTE.sub("", line)
    if re.match(r"[^(=]*::~?\w+\(", line):
        return []
    matches = (form.match(line) for form in DECLARED)
    names = [match.group(1) for match in matches if match and match.group(1) not in KEYWORDS][:1]
    if line.startswith("constexpr "):  # kRows = 5, kPlaces{3};
        names += re.findall(r", (\w+)(?: = |{)", line)
    return names


class Source:
    def __init__(self, path):
        path = pathlib.Path(path)
        text = path.read_text()
        self.path, self.lines = path, text.count("\n")
        self.own, self.namespaces = set(), frozenset(re.findall(r"^using namespace ([\w:]+);", text, re.M))
        self.includes, self.macros = [], set()
        is_own, conditions = False, 0
        all_lines = text.split("\n")
        for number, line in enumerate(all_lines):
            if line.startswith("namespace {"):
                is_own = True
            elif line == "}  // namespace" or line == "}" and all_lines[number - 2].startswith("namespace {"):
                is_own = False  # clang-format omits the comment if there is only one line between
            elif is_own or line.startswith(("static ", "#define", "# define")):
                names = declared_in(line)
                self.own.update(names)
                if line.startswith("#"):
                    self.macros.update(names)
            conditions += line.startswith("#if") - line.startswith("#endif")
            if line.startswith("#include ") and conditions == 0:
                self.includes.append(self.include(line))
        headers = [header_names(name, path.parent) for name in INCLUDED.findall(text)]
        self.words = words_of(text).union(*(words for words, _ in headers))
        declared = set().union(*(names for _, names in headers))
        text = COMMENT.sub(" ", text)
        elsewhere = set(re.findall(r"(?:\.|->|::)\s*(\w+)", text) + re.findall(r"(\w+)::", text))
        self.renamable = self.own - self.macros - declared - elsewhere

    def include(self, line):
        """The include of the same header from another folder."""
        found = INCLUDED.match(line)
        beside = self.path.parent / found.group(1) if found else None
        return f'#include "{beside}"' if beside and beside.is_file() else line


class Batch:
    def __init__(self, namespaces):
        self.namespaces, self.sources, self.own, self.words, self.lines = namespaces, [], set(), set(), 0

    def takes(self, source):
        if self.namespaces != source.namespaces or len(self.sources) == MOST_FILES or self.lines + source.lines > MOST_LINES:
            return False
        common = self.own & source.words | self.words & source.own
        return all(common & one.own <= one.renamable for one in [*self.sources, source])

    def add(self, source):
        self.sources.append(source)
        self.own |= source.own
        self.words |= source.words
        self.lines += source.lines

    def renamed(self, source):
        """The names of the source that another source of the batch also has."""
        others = set().union(*(other.words for other in self.sources if other is not source))
        return sorted(source.own & others)

    def text(self):
        """All headers first, because names must not be replaced in them."""
        lines = ["// Written by scripts/unity_batches.py."]
        if any(map(self.renamed, self.sources)):
            lines += dict.fromkeys(line for source in self.sources for line in source.includes)
        for number, source in enumerate(self.sources):
            names = self.renamed(source)
            # Names in the usual style, for people who read clang-tidy's output of a batch.
            lines += [f"#define {name} {name}{'X' if name != name.lower() else '_'}{number}" for name in names]
            lines.append(f'#include "{source.path}"')
            lines += [f"#undef {name}" for name in names]
        return "\n".join(lines) + "\n"


def batches_of(paths):
    batches = []
    for source in map(Source, paths):
        batch = next((batch for batch in batches if batch.takes(source)), None)
        if batch is None:
            batch = Batch(source.namespaces)
            batches.append(batch)
        batch.add(source)
    return batches


def write_if_new(path, text):
    """Writes only changes, so that an unchanged file is not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    targets, folder = collections.defaultdict(list), pathlib.Path(sys.argv[2])
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        target, path = line.split("\t")
        targets[target].append(path)
    rows = []
    for target, paths in targets.items():
        for number, batch in enumerate(batches_of(paths)):
            if len(batch.sources) > 1:
                file = folder / f"{target}_{number}.cpp"
                write_if_new(file, batch.text())
                rows += [f"{target}\t{file}\t{source.path}\n" for source in batch.sources]
    (folder / "batches").write_text("".join(rows))


if __name__ == "__main__":
    main()

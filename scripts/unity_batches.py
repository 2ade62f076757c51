#!/usr/bin/env python3
"""Which sources of a target can be compiled together: most of a file's time is its headers.

    unity_batches.py TARGETS FOLDER

TARGETS has a line for each source, `target<TAB>path`. For each batch FOLDER gets a source that includes those of the batch, and
FOLDER/batches a line `target<TAB>batch's source<TAB>path` for each of them; the rest are compiled alone.

Files share a batch if each means the same alone and beside the others: all are `using` the same namespaces, and no name that a
file declares for itself (in an anonymous namespace, `static`) is one that another has anywhere. Where it is, the batch gives the
name another one in its file by a macro: two files may both have their own `read`. It does not where the file says `.read`,
`->read` or `::read`, which may be another's, or a header of its declares a `read`, too: then the files do not share a batch.
"""
import collections
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES, MOST_LINES = 40, 6000  # two processors: the last batches must not be waited for
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
    """Of a header of the project, as it is named in a file of that folder, and of those that it includes itself: all words, and what
    is declared in a namespace, which is at the beginning of a line."""
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
    """The names that a line of a namespace declares: not a function of a class that is declared elsewhere, nor an alias."""
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
                is_own = False  # clang-format leaves out the comment where there is one line between
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
        """The same header from another folder."""
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
        """The names of the source that another one of the batch has, too."""
        others = set().union(*(other.words for other in self.sources if other is not source))
        return sorted(source.own & others)

    def text(self):
        """All headers first, for which no name is another one."""
        lines = ["// Written by scripts/unity_batches.py."]
        if any(map(self.renamed, self.sources)):
            lines += dict.fromkeys(line for source in self.sources for line in source.includes)
        for number, source in enumerate(self.sources):
            names = self.renamed(source)
            # As names of their kind are written, for who reads a batch with clang-tidy.
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
    """A file that stays as it is is not compiled anew."""
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

#!/usr/bin/env python3
"""Checks the language of what users read: README.md, CONTRIBUTING.md, CHANGELOG.md, docs/ and the program's help.

    scripts/check_language.py [--program build/release/bin/headroom] [FILE.md …]

Without files it also checks the subjects of the commits after BASE. It reports sentences of more than 32 words, phrases that
the glossary replaces, and Markdown lines over 120 characters. Tables, code and links are ignored. This is a minimum: a text
that passes can still be hard to read. The last line gives the mean sentence.
"""
import argparse
import pathlib
import re
import subprocess
import sys

BASE = "9f3521f2"  # the last commit before these rules
MOST_WORDS, MOST_COLUMNS, MOST_SUBJECT = 32, 120, 72
FILES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]

# Pattern of a phrase, and the suggestion. From the glossary of the project's language rules.
PHRASES = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), better) for pattern, better in [
    (r"g[ai]v(?:e|es|en) (?:it |them )?back|giv(?:e|es|ing) back", "free, release or return"),
    (r"hand(?:s|ed)? out", "allocate or return"),
    (r"c[oa]mes? by", "get or allocate"),
    (r"what (?:is|was) held|what there is", "allocations, live bytes or peak"),
    (r"held most(?: at once)?", "largest peak"),
    (r"what is (?:run|traced)", "the command"),
    (r"(?:short|quick|long) way", "fast path or slow path"),
    (r"waits? for what", "synchronize; wait for the pending …"),
    (r"takes? not|finds? not|knows? not|says? not", "does not …"),
    (r"is no (?:number|name|size|flag|file|key|way|proof)", "invalid …, is not a …"),
    (r"nobody's|not told|(?:is|are|was|were) told", "unknown; reported, printed or recorded"),
    (r"tells? (?:of|apart|who|what|which)", "report, show, distinguish"),
    (r"what is added|by itself|by themselves", "overhead, baseline; alone, separately"),
    (r"the reference's", "compatibility alias"),
    (r"who(?:ever)? (?:is|has|was|cannot|can|asks|waits|holds|takes|wants|reads|sees)", "name the actor: the process, the driver, the user"),
    (r"one that|ones that|the one which", "name it: the process that …"),
    (r"of its own|of their own|of his own", "own, separate, private"),
    (r"bounds? nothing", "has no effect"),
    (r"to be had|(?:is|are) had", "available"),
    (r"without a word", "silently, automatically"),
    (r"the (?:rooms?|floors?|guests?)(?! of a)", "module, layer, command"),
]]


def sentences(block):
    """The sentences of a paragraph, with the offset of each in it. A code span counts as one word; a link counts as its text."""
    start = 0
    for end in re.finditer(r"[.!?][)\"'*_]*(?=\s|$)|$", block):
        if block[start:end.end()].strip():
            yield start, block[start:end.end()]
        start = end.end()


def count_words(text):
    return len(re.findall(r"\S*\w\S*", re.sub(r"`[^`]*`", "code", text)))


def markdown_blocks(text):
    """(line number, text) of each paragraph, list item and heading; code blocks, tables and HTML are ignored."""
    block, first, in_code = [], 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        bare = re.sub(r"\]\([^)]*\)", "]", line)
        if line.lstrip().startswith("```"):
            in_code = not in_code
        ends = in_code or not line.strip() or re.match(r"\s*(```|\||#|<|!\[)", line)
        if block and (ends or re.match(r"\s*([-*>]|\d+\.)\s", line)):
            yield first, "\n".join(block)
            block = []
        if ends:
            continue
        first = first if block else number
        block.append(re.sub(r"^\s*([-*>]|\d+\.)\s+", "", bare))


def help_blocks(text):
    """(line number, text) of each flag, verb and paragraph of a help page. A description starts after two spaces."""
    block, first, column = [], 0, 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        indent = len(line) - len(line.lstrip())
        if block and (not line.strip() or indent != column):
            yield first, "\n".join(block)
            block = []
        row = re.match(r"\s{2,}\S.*?\s{2,}(?=\S)", line)
        column = len(row.group(0)) if row else indent
        first = first if block else number
        if line.strip() and not re.match(r"\s*(headroom|\$|Usage)", line):
            block.append(line[column:])


def check_blocks(name, blocks, lengths):
    for first, block in blocks:
        for start, sentence in sentences(block):
            words = count_words(sentence)
            lengths.append(words)
            if words > MOST_WORDS:
                line = first + block.count("\n", 0, start + len(sentence) - len(sentence.lstrip()))
                yield f"{name}:{line}: a sentence of {words} words, {MOST_WORDS} at most: \"{' '.join(sentence.split()[:6])} …\": split it"
        prose = re.sub(r"`[^`]*`", lambda code: "`" * len(code.group(0)), block).replace("\n", " ")
        for pattern, better in PHRASES:
            for match in pattern.finditer(prose):
                line = first + block.count("\n", 0, match.start())
                yield f"{name}:{line}: \"{match.group(0)}\": write: {better}"


def check_markdown(name, text, lengths):
    yield from check_blocks(name, markdown_blocks(text), lengths)
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if len(line) > MOST_COLUMNS and not in_code and not line.lstrip().startswith("|") and "](" not in line:
            yield f"{name}:{number}: a line of {len(line)} characters, {MOST_COLUMNS} at most: break it"


def check_help(program, lengths):
    def help_of(*words):
        return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    yield from check_blocks("headroom --help", help_blocks(help_of()), lengths)
    for verb in re.findall(r"^  ([a-z][a-z-]+)  ", help_of(), re.MULTILINE):
        yield from check_blocks(f"headroom {verb} --help", help_blocks(help_of(verb)), lengths)


def check_subjects():
    log = subprocess.run(["git", "log", "--format=%h %s", f"{BASE}..HEAD"], capture_output=True, text=True)
    if log.returncode != 0:
        return print(f"commit subjects not checked: this clone has no commit {BASE}")
    for line in log.stdout.splitlines():
        commit, subject = line.split(" ", 1)
        if len(subject) > MOST_SUBJECT:
            yield f"commit {commit}: a subject of {len(subject)} characters, {MOST_SUBJECT} at most: \"{subject}\""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="also check the help of this program")
    parser.add_argument("files", nargs="*", help="Markdown files (default: README, CONTRIBUTING, CHANGELOG, docs/)")
    options = parser.parse_args()
    problems, lengths = [], []
    for name in options.files or FILES + sorted(str(path) for path in pathlib.Path("docs").rglob("*.md")):
        problems += check_markdown(name, pathlib.Path(name).read_text(encoding="utf-8"), lengths)
    if options.program and not pathlib.Path(options.program).is_file():
        sys.exit(f"cannot check the help of {options.program}: no such file; build it with make build")
    problems += check_help(options.program, lengths) if options.program else []
    problems += [] if options.files else check_subjects()
    print(*problems, f"{len(problems)} problems in {len(lengths)} sentences; mean: {sum(lengths) / max(1, len(lengths)):.1f} words", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

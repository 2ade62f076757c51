#!/usr/bin/env python3
"""Tests scripts/check_language.py: it finds each planted fault at its line, and accepts good text."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_language.py"
LONG = "The driver frees the memory " + "and then it frees more memory " * 5 + "before it returns."

GOOD = f"""# A page

Headroom charges the allocation before it calls the driver. See [the page with a very long address]({'x' * 200}).

- One item without a full stop
- Another item, which refers to `a code span {'y ' * 35}`.

| a table | {'z ' * 100} |
|---|---|

```
what is held by itself {'in code ' * 30}
```
"""


def check(text):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        page.write_text(text, encoding="utf-8")
        result = subprocess.run([sys.executable, SCRIPT, page], capture_output=True, text=True)
        return result.returncode, result.stdout.replace(str(page), "page.md")


def check_help(help_text):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{help_text}\nEND\n", encoding="utf-8")
        program.chmod(0o755)
        page = pathlib.Path(folder) / "page.md"
        page.write_text("Good.\n", encoding="utf-8")
        result = subprocess.run([sys.executable, SCRIPT, "--program", program, page], capture_output=True, text=True)
        return result.returncode, result.stdout


class CheckLanguage(unittest.TestCase):
    def test_accepts_good_text(self):
        code, output = check(GOOD)
        self.assertEqual((code, output.splitlines()[-1].split(";")[0]), (0, "0 problems in 4 sentences"), output)

    def test_finds_a_long_sentence_at_its_line(self):
        code, output = check(f"# Page\n\nShort.\n{LONG}\n")
        self.assertEqual(code, 1)
        self.assertIn("page.md:4: a sentence of 38 words, 32 at most", output)

    def test_joins_the_lines_of_a_sentence(self):
        code, output = check("- " + LONG.replace(" and", "\n  and") + "\n")
        self.assertEqual(code, 1)
        self.assertIn("page.md:1: a sentence of 38 words", output)

    def test_finds_a_phrase_over_a_line_end_and_names_the_better_word(self):
        code, output = check("# Page\n\nThe driver gives\nback memory. It takes the short way.\n")
        self.assertEqual(code, 1)
        self.assertIn('page.md:3: "gives back": write: free, release or return', output)
        self.assertIn('page.md:4: "short way": write: fast path', output)

    def test_finds_a_long_line(self):
        code, output = check("One. " * 25 + "\n")
        self.assertEqual(code, 1)
        self.assertIn("page.md:1: a line of 125 characters, 120 at most", output)

    def test_finds_faults_in_the_help_of_a_verb(self):
        code, output = check_help("Usage: program VERB\n\n  run     Run a command\n  --size N   what is held\n             by itself")
        self.assertEqual(code, 1)
        self.assertIn('headroom --help:4: "what is held"', output)
        self.assertIn('headroom run --help:5: "by itself"', output)

    def test_accepts_good_help(self):
        code, output = check_help("Usage: program VERB\n\n  run     Run a command\n  --size N   size of each block")
        self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()

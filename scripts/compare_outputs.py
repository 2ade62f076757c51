#!/usr/bin/env python3
"""Compares the outputs that scripts rely on between two builds: exit codes, JSON keys and CSV columns of 38 commands.

    scripts/compare_outputs.py BEFORE/bin/headroom AFTER/bin/headroom [DATA]

DATA has models/, models_bad/, pytorch_snapshots/, logs/, tegrastats/ (default: ../shared/data). Each program runs every command in
its own folder. Prints a line for each command, and the differences. Exits with 1 if there are any.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

BUDGET = """
[device]
profile = "orin-nx-16gb"

[[component]]
name = "detector"
run_peak = "700 MB"
load_peak = "900 MB"
"""
NO_FRAMES = "bench --quiet --model vad=DATA/models/silero_vad.onnx --max-frames 3 --warmup 1"

# Arguments, and the files whose keys and columns are compared in addition to standard output.
COMMANDS = [
    ("--version", []),
    ("no-such-verb", []),
    (f"{NO_FRAMES} --output-dir run --json", ["run/*/report.json", "run/*/summary.csv", "run/*/metrics.jsonl"]),
    (f"{NO_FRAMES} --output-dir limited --mem-limit 1GiB --json", ["limited/*/report.json"]),
    (f"{NO_FRAMES} --output-dir layers --layers --json", ["layers/*/report.json"]),
    ("bench --quiet --source DATA/media --max-frames 2 --model bad=DATA/models_bad/BAD --output-dir bad --json", ["bad/*/report.json"]),
    ("bench --model m=missing.onnx", []),
    ("bench --model m=DATA/models/silero_vad.onnx --max-frames none", []),
    ("bench --mem-limit 2XB --model m=DATA/models/silero_vad.onnx", []),
    ("run --limit 1GiB -- sh -c 'exit 7'", []),
    ("run -- true", []),
    ("trace --full --out a.hrec -- ls -l /usr/lib", []),
    ("trace --force --out b.hrec -- true", []),
    ("trace --out a.hrec -- true", []),
    ("trace --out b.hrec -- no-such-program", []),
    ("report a.hrec --json", []),
    ("report a.hrec --csv", []),
    ("report run/* --json", []),
    ("report run/* --csv", []),
    ("report nothing.hrec --json", []),
    ("report DATA/pytorch_snapshots/SNAPSHOT --json", []),
    ("diff a.hrec a.hrec --json", []),
    ("diff run/* limited/* --json", []),
    ("diff run/* limited/* --fail-on p99>+1XB", []),
    ("doctor run/* --json", []),
    ("doctor DATA/logs/out_of_memory_messages.tsv --json", []),
    ("plan budget.toml --json", []),
    ("top --once --json", []),
    ("watch --interval 100ms --duration 300ms --jsonl", []),
    ("watch --interval 100ms --duration 300ms --csv", []),
    ("watch --from tegrastats:tegrastats.log --jsonl", []),
    ("history add run/* --db h.sqlite --commit 1a2b3c4d", []),
    ("history list --db h.sqlite --json", []),
    ("history show no-such-metric --db h.sqlite", []),
    ("export a.hrec --to speedscope --out -", []),
    ("export a.hrec --to no-such-format", []),
    ("symbols a.hrec --out folder", []),
    ("symbols missing.hrec --out folder", []),
]


def key_paths(value, path=""):
    if isinstance(value, dict):
        return {found for key, inner in value.items() for found in key_paths(inner, f"{path}.{key}")}
    if isinstance(value, list):
        return {found for inner in value for found in key_paths(inner, path + "[]")} or {path + "[]"}
    return {path}


def shape(text):
    """The keys of JSON or JSON lines, or the columns of CSV; nothing for other text."""
    try:
        return key_paths(json.loads(text))
    except ValueError:
        pass
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return {path for line in lines for path in key_paths(json.loads(line))} if lines[0].startswith("{") else set(next(csv.reader([lines[0]])))
    except (ValueError, IndexError):
        return set()


def results(program, data, folder):
    (folder / "budget.toml").write_text(BUDGET, encoding="utf-8")
    lines = (data / "tegrastats" / "real_lines.tsv").read_text(encoding="utf-8").splitlines()
    (folder / "tegrastats.log").write_text("\n".join(line.split("\t")[-1] for line in lines if "RAM " in line), encoding="utf-8")
    names = {"DATA": str(data)}
    for word, where in [("BAD", "models_bad"), ("SNAPSHOT", "pytorch_snapshots")]:
        names[word] = next((path.name for path in sorted((data / where).glob("*")) if path.suffix not in (".json", ".md", ".tsv")), "absent")
    for command, files in COMMANDS:
        line = command
        for word, name in names.items():
            line = line.replace(word, name)
        words = [f"'{word}'" if ">" in word else word for word in line.split(" ")] if "'" not in line else [line]
        ended = subprocess.run(f"{program} {' '.join(words)}", shell=True, cwd=folder, capture_output=True, text=True, timeout=300)
        is_data = any(flag in command for flag in ("--json", "--csv", "speedscope"))
        shapes = {"standard output": shape(ended.stdout) if is_data else set()}
        for file in files:
            path = next(folder.glob(file), None)
            shapes[file] = shape(path.read_text(encoding="utf-8")) if path else {"absent"}
        yield command, ended.returncode, shapes


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    data = pathlib.Path(sys.argv[3] if len(sys.argv) == 4 else "../shared/data").resolve()
    differences = 0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        pairs = zip(results(pathlib.Path(sys.argv[1]).resolve(), data, pathlib.Path(one)),
                    results(pathlib.Path(sys.argv[2]).resolve(), data, pathlib.Path(other)))
        for (command, code_before, before), (_, code_after, after) in pairs:
            problems = [] if code_before == code_after else [f"exit code {code_before} before, {code_after} after"]
            for name, keys in before.items():
                problems += [f"{name}: {key} is gone" for key in sorted(keys - after[name])]
                problems += [f"{name}: {key} is new" for key in sorted(after[name] - keys)]
            keys = sum(len(found) for found in before.values())
            print(f"{'differs' if problems else 'same   '}  exit {code_before}, {keys:4} keys  headroom {command}")
            print("".join(f"    {problem}\n" for problem in problems[:8]), end="")
            differences += bool(problems)
    print(f"{len(COMMANDS)} commands, {differences} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

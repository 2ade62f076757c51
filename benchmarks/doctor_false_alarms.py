#!/usr/bin/env python3
"""Measures the wrong alarms of headroom doctor on clean logs: logs of other people's programs in which memory did not run out.

    benchmarks/doctor_false_alarms.py [--logs DIR] [--build build/release] [--markdown FILE]

benchmarks/clean_logs.tsv lists the logs. A log is a file of a public repository, or the output of a command that runs here.
The files are not part of this repository. DIR has a folder OWNER+NAME for each repository: a clone with its history, or the
listed files alone. Missing files and programs are named and left out. A finding above "note" is a wrong alarm; the measurement
fails if more than 1 of 300 logs has one.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "benchmarks/clean_logs.tsv"
MOST_LOGS = 10  # of a program, so that none dominates
MOST_LINES = 20000  # of a command's output
LEAST_LINES = 15
MOST_SHOWN = 3  # findings of a log
ALLOWED = 1 / 300


def read_list():
    with LIST.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    counts = collections.Counter(row["program"] for row in rows)
    too_many = [program for program, count in counts.items() if count > MOST_LOGS]
    if too_many:
        sys.exit(f"more than {MOST_LOGS} logs of a program: {', '.join(too_many)}")
    return rows


def log_of_repository(row, folder):
    """The file in the folder, or in the history of a clone. The size shows whether it is the listed version."""
    checkout = folder / row["repository"].replace("/", "+", 1)
    file = checkout / row["path"]
    data = file.read_bytes() if file.is_file() else None
    if data is None or len(data) != int(row["bytes"]):
        shown = subprocess.run(["git", "-C", str(checkout), "cat-file", "blob", f"{row['commit']}:{row['path']}"], capture_output=True)
        if shown.returncode == 0:
            data = shown.stdout
    if data is None:
        return None, "absent"
    if len(data) != int(row["bytes"]):
        return None, f"{len(data)} bytes instead of {row['bytes']}: another version"
    return data, ""


def log_of_command(row, build):
    environment = {**os.environ, "BUILD": str(build), "ROOT": str(ROOT), "LC_ALL": "C.UTF-8"}
    # A session of its own, so that a time-out also ends the command's children.
    child = subprocess.Popen(["bash", "-c", row["path"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             cwd=ROOT, env=environment, start_new_session=True)
    try:
        output, _ = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        output, _ = child.communicate()
    lines = output.splitlines(keepends=True)[:MOST_LINES]
    if len(lines) < LEAST_LINES:
        return None, f"{len(lines)} lines: is the program missing?"
    return b"".join(lines), ""


def findings_in(data, build):
    """Passed on standard input, so that it is read as a log in any case."""
    answer = subprocess.run([str(build / "bin/headroom"), "doctor", "-", "--json"], input=data, capture_output=True)
    try:
        return json.loads(answer.stdout)["findings"]
    except (json.JSONDecodeError, KeyError):
        sys.exit(f"headroom doctor failed: {answer.stderr.decode(errors='replace').strip()}")


def table_of(results):
    table = "| kind | programs | logs | lines | notes | logs with a wrong alarm |\n|---|---|---|---|---|---|\n"
    kinds = collections.defaultdict(list)
    for result in results:
        kinds[result["kind"]].append(result)
    for kind, of_kind in [*sorted(kinds.items()), ("**all**", results)]:
        programs = len({result["program"] for result in of_kind})
        notes = sum(result["notes"] for result in of_kind)
        bad = sum(1 for result in of_kind if result["alarms"])
        table += f"| {kind} | {programs} | {len(of_kind)} | {sum(result['lines'] for result in of_kind):,} | {notes} | {bad} |\n"
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="default: build/release")
    parser.add_argument("--logs", type=pathlib.Path, help="folder with the repositories; without it, only commands run")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table to this file")
    options = parser.parse_args()
    build = options.build.resolve()

    def measure(row):
        if row["repository"] == "-":
            data, problem = log_of_command(row, build)
        else:
            data, problem = log_of_repository(row, options.logs) if options.logs else (None, "absent: no --logs")
        if data is None:
            return row, None, problem
        return row, data.count(b"\n"), findings_in(data, build)

    results, absent = [], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row, lines, answer in pool.map(measure, read_list()):
            name = f"{row['program']}: {row['repository']} {row['path']}"
            if lines is None:
                absent += 1
                print(f"left out: {name}: {answer}", file=sys.stderr)
                continue
            alarms = [finding for finding in answer if finding["severity"] in ("severe", "warning")]
            for finding in alarms[:MOST_SHOWN]:
                evidence = finding["evidence"][0]
                print(f"{name}: {finding['severity']} {finding['id']}: line {evidence['line']}: {evidence['text'][:160]}", file=sys.stderr)
            if len(alarms) > MOST_SHOWN:
                print(f"{name}: {len(alarms) - MOST_SHOWN} more", file=sys.stderr)
            results.append({**row, "lines": lines, "notes": len(answer) - len(alarms), "alarms": len(alarms)})
    table = table_of(results)
    print(table)
    if not results:
        sys.exit("no log was read")
    if absent:
        print(f"{absent} logs were left out", file=sys.stderr)
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")
    programs = ", ".join(f"{program} {count}" for program, count in sorted(collections.Counter(r["program"] for r in results).items()))
    print(f"Logs by program: {programs}.")
    return 1 if sum(1 for result in results if result["alarms"]) > len(results) * ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures the false alarms of headroom doctor. Runs ordinary programs on this machine, keeps their real output, and runs
headroom doctor on each log. None of the programs ran out of memory, so every finding that is not benign is a false alarm.

    benchmarks/doctor_false_alarms.py [--build build/release] [--markdown FILE]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MOST_LINES = 3000  # lines per log, so that no program dominates
ROOT = pathlib.Path(__file__).resolve().parent.parent

# Raises many exceptions; none is caused by a lack of memory.
TRACEBACKS = r"""
import traceback
def inner(kind):
    raise kind
for i in range(150):
    for kind in (ValueError(f"bad value {i}"), KeyError(i), TimeoutError("no answer in 30 s"), OSError(28, "No space left on device"),
                 PermissionError(13, "Permission denied"), ConnectionResetError(104, "Connection reset by peer"),
                 RuntimeError(f"shape mismatch: expected [1, 3, {i}, {i}]")):
        try:
            inner(kind)
        except Exception:
            traceback.print_exc()
"""
LOGGING = r"""
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(asctime)s %(levelname)s [%(name)s] %(message)s")
node = logging.getLogger("camera_node")
for i in range(700):
    node.info("frame %d: 1920x1080 bgr8, memory pool 8 of 16 buffers, 24.9 MiB", i)
    node.debug("allocated buffer %d, free memory 3875 MiB", i)
    node.warning("dropped frame %d: queue is full", i)
    node.error("cannot open /dev/video%d: No such device", i)
"""
ACCESS = r"""
import http.server, threading, urllib.request, urllib.error
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for i in range(400):
    for path in ("", "docs/limits.md", "missing?memory=1", "src/"):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{path}").read()
        except urllib.error.HTTPError:
            pass
"""
SQLITE = r"""
import sqlite3
base = sqlite3.connect(":memory:")
base.set_trace_callback(print)
base.execute("create table samples (time integer, memory integer)")
for i in range(500):
    base.execute("insert into samples values (?, ?)", (i, i * 4096))
    base.execute("select max(memory) from samples").fetchall()
"""


def programs(build):
    python = sys.executable
    headroom = str(build / "bin/headroom")
    shell = ["sh", "-c"]
    return {
        "dpkg": shell + ["cat /var/log/dpkg.log* 2>/dev/null; dpkg -l; dpkg -s libc6 gcc cmake git 2>/dev/null"],
        "apt": shell + ["apt-cache policy libc6 gcc cmake; apt-get install --simulate --reinstall cmake git gcc; apt-cache depends --recurse libc6 | head -2000"],
        "cmake (help)": ["cmake", "--help-variable-list"],
        "ninja": ["ninja", "-C", str(build), "-t", "commands", "headroom"],
        "gcc": shell + ["for f in " + str(ROOT) + "/tests/cli/*.c; do gcc -v -Wall -Wextra -Weverything -fsyntax-only $f; gcc -H -fsyntax-only $f; done"],
        "git": ["git", "-C", str(ROOT), "log", "--stat", "-150"],
        "git (diffs of the code)": ["git", "-C", str(ROOT), "log", "-p", "-30", "--", "src/sources", "src/watch", "src/limits"],
        "python tracebacks": [python, "-c", TRACEBACKS],
        "python logging": [python, "-c", LOGGING],
        "python unittest": [python, "-m", "unittest", "-v", "test.test_json", "test.test_textwrap", "test.test_dict"],
        "web server": [python, "-c", ACCESS],
        "sqlite": [python, "-c", SQLITE],
        "googletest": [str(build / "tests/attribution_test")],
        "ld": ["ld", "--verbose"],
        "readelf": ["readelf", "-sW", headroom],
        "ps, free, vmstat": shell + ["for i in 1 2 3 4 5; do ps axu; free; vmstat -s; cat /proc/meminfo /proc/buddyinfo; done"],
        "find": ["find", "/usr/include/linux", "/usr/include/x86_64-linux-gnu", "-ls"],
        "headroom watch": [headroom, "watch", "--interval", "10ms", "--duration", "5s", "--jsonl"],
        "headroom (help)": shell + [f"for v in bench trace watch plan doctor report limits run top; do {headroom} help $v; done"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    rows, total, alarms = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, command in programs(build).items():
            try:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, timeout=120)
            except (OSError, subprocess.TimeoutExpired) as error:
                print(f"left out: {name}: {error}", file=sys.stderr)
                continue
            lines = done.stdout.splitlines(keepends=True)[:MOST_LINES]
            if len(lines) < 20:
                print(f"left out: {name}: {len(lines)} lines", file=sys.stderr)
                continue
            log = pathlib.Path(folder) / "program.log"
            log.write_bytes(b"".join(lines))
            # Passed on standard input, so that it is read as a log in any case.
            with log.open("rb") as text:
                answer = subprocess.run([str(build / "bin/headroom"), "doctor", "-", "--json"], stdin=text, capture_output=True)
            findings = json.loads(answer.stdout)["findings"]
            bad = [finding for finding in findings if finding["severity"] != "benign"]
            for finding in bad:
                print(f"{name}: {finding['severity']} {finding['id']}: {finding['evidence'][0]['text'][:160]}", file=sys.stderr)
            rows.append((name, len(lines), len(findings) - len(bad), len(bad)))
            total += len(lines)
            alarms += len(bad)
    table = "| program | lines | benign | false alarms |\n|---|---|---|---|\n"
    table += "".join(f"| {name} | {lines:,} | {benign} | {bad} |\n" for name, lines, benign, bad in rows)
    table += f"| **{len(rows)} programs** | {total:,} | {sum(row[2] for row in rows)} | {alarms} |\n"
    print(table)
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())

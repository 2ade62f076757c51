#!/usr/bin/env python3
"""Does headroom doctor find planted faults, name their level, and does the cure help? Records doctor_fault (a small
program that goes through videos, models and objects) with each fault and with its cure, asks headroom doctor about
both, and compares what the program holds at its end. The cured ones are the healthy programs: they must give nothing
severe.

    bench/doctor_planted_faults.py [--build build/release] [--markdown FILE]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Fault, finding, severity, level.
FAULTS = [
    ("leak-object", "leak", "severe", "object"),
    ("leak-model", "leak", "severe", "model"),
    ("leak-video", "leak", "severe", "video"),
    ("arena", "growth-levelled-off", "note", None),
    ("fragmentation", "fragmentation", "warning", None),
]


def examine(build, folder, words):
    """What the program held at its end, without and under the tracer's eye, and the findings on its recording."""
    program = [str(build / "bin/doctor_fault"), *words]
    resident = int(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    recording = folder / ("-".join(words) + ".hrec")
    subprocess.run([str(build / "bin/headroom"), "trace", "--full", "--out", str(recording), "--", *program],
                   check=True, capture_output=True)
    answer = subprocess.run([str(build / "bin/headroom"), "doctor", str(recording), "--json"], capture_output=True, text=True)
    return resident, json.loads(answer.stdout)["findings"], answer.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    table = "| fault | found | level | may save | held at the end | cured | findings when cured | right |\n|---|---|---|---|---|---|---|---|\n"
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for fault, wanted, severity, level in FAULTS:
            resident, findings, code = examine(build, folder, [fault])
            cured, after, cured_code = examine(build, folder, [fault, "cured"])
            ids = ", ".join(finding["id"] for finding in findings) or "-"
            found_level = findings[0]["figures"].get("level") if findings else None
            saves = max((cure.get("saves_bytes", 0) for finding in findings for cure in finding["cures"]), default=0)
            right = (ids == wanted and findings[0]["severity"] == severity and (level is None or found_level == level)
                     and code == (1 if severity == "severe" else 0) and cured_code == 0)
            wrong += not right
            table += (f"| {fault} | {ids} | {found_level or '-'} | {saves / 2**20:.1f} MiB | {resident / 2**20:.1f} MiB "
                      f"| {cured / 2**20:.1f} MiB | {', '.join(finding['id'] for finding in after) or 'none'} | {'yes' if right else 'NO'} |\n")
    print(table)
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

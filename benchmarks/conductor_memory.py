#!/usr/bin/env python3
"""Measures the memory of `headroom bench`'s conductor as a run grows: polls its VmHWM while a model without frame input runs N times.

    benchmarks/conductor_memory.py --build build/release MODEL.onnx [N …]

Uses only the Python standard library. Prints a Markdown table.
"""
import argparse
import subprocess
import tempfile
import time


def peak_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("model")
    parser.add_argument("runs", nargs="*", type=int, default=[300, 100_000, 200_000, 500_000])
    options = parser.parse_args()
    print("| runs | conductor's VmHWM, MiB |\n|--:|--:|")
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [f"{options.build}/bin/headroom", "bench", "--model", f"m={options.model}", "--max-frames", str(runs),
                 "--threads", "1", "--output-dir", f"{folder}/outputs", "--prepared-dir", f"{folder}/prepared", "--quiet"],
                stdout=subprocess.DEVNULL)
            peak = 0
            while process.poll() is None:
                peak = max(peak, peak_of(process.pid))
                time.sleep(0.002)
            if process.returncode != 0:
                raise SystemExit(f"conductor_memory.py: headroom bench ended with {process.returncode}")
        print(f"| {runs:,} | {peak:.1f} |", flush=True)


if __name__ == "__main__":
    main()

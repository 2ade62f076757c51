#!/usr/bin/env python3
"""Measures how long `headroom report` takes to open a large memory snapshot of PyTorch, and its memory. For comparison: Python's own
pickle loading the same file, which is the first step of torch.cuda._memory_viz. (Python's pickle executes code from the file, so use
only your own files.)

    benchmarks/snapshot_reading.py --mib 1024 --rounds 5 --output benchmarks/results/snapshot_reading

make_pytorch_snapshot.py makes the snapshot, which takes minutes; --snapshot uses an existing one. Each round runs all commands in
separate processes, in another order each time. The file is in the page cache. Time and peak memory are the kernel's (wait4).
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

LOADING = "import gc, pickle, sys\ngc.disable()\npickle.load(open(sys.argv[1], 'rb'))\nimport os\nos._exit(0)"


def run(command):
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return {"seconds": time.perf_counter() - start, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--snapshot")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", default="build/bench/snapshot_reading")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        snapshot = options.snapshot or os.path.join(folder, "snapshot.pickle")
        if not options.snapshot:
            maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_pytorch_snapshot.py")
            subprocess.run([sys.executable, maker, "--mib", str(options.mib), "--frames", "12", snapshot], check=True, stdout=subprocess.DEVNULL)
        headroom = os.path.join(options.build, "bin", "headroom")
        page = os.path.join(folder, "page.html")
        commands = {"headroom report": [headroom, "report", snapshot], "headroom report --json": [headroom, "report", snapshot, "--json"],
                "headroom report --html": [headroom, "report", snapshot, "--html", page],
                "Python's pickle.load, without its garbage collector": [sys.executable, "-c", LOADING, snapshot]}
        found = {name: [] for name in commands}
        names = list(commands)
        run(commands[names[0]])  # reads the file into the page cache
        for index in range(options.rounds):
            for name in names[index % len(names):] + names[:index % len(names)]:
                found[name].append(run(commands[name]))
        page_bytes = os.path.getsize(page)
        entries = json.loads(subprocess.run(commands["headroom report --json"], check=True, stdout=subprocess.PIPE).stdout)["devices"][0]["entries"]
        size = os.path.getsize(snapshot)
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}; load when it began {load:.1f}"
    lines = ["# Opening a large snapshot", "",
             f"Command: `benchmarks/snapshot_reading.py {f'--snapshot {os.path.basename(options.snapshot)}' if options.snapshot else f'--mib {options.mib}'} --rounds {options.rounds}`. Machine: {machine}. Python {platform.python_version()}. A snapshot of "
             f"{size / 2**20:,.0f} MiB with {entries:,} entries of twelve frames, in the page cache; the page is {page_bytes / 2**20:.1f} MiB.", "",
             "| | seconds, median (lowest–highest) | CPU seconds | peak memory | rounds |", "|---|--:|--:|--:|--:|"]
    for name, rounds in found.items():
        seconds = [r["seconds"] for r in rounds]
        lines.append(f"| {name} | {statistics.median(seconds):.1f} ({min(seconds):.1f}–{max(seconds):.1f}) | {statistics.median(r['cpu_seconds'] for r in rounds):.1f} | "
                     f"{statistics.median(r['peak_mib'] for r in rounds):,.0f} MiB | {len(rounds)} |")
    text = "\n".join(lines) + "\n"
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "bytes": size, "entries": entries, "rounds": found}, file)
        file.write("\n")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that `headroom watch` survives an out-of-memory situation. It runs in the same control group as a process that fills the group,
lets it thrash for a minute and is then killed. Checks: delay of samples, alerts before the kill, a complete log, the name of the victim.

    benchmarks/monitor_survives.py --build build/release [--limit-mib 192] [--interval-ms 100] [--minutes 1] [--markdown FILE]

The monitor's program file is not in the page cache, so the group can reclaim its pages, too. Needs root (control groups, /dev/kmsg).
Uses swap if the machine has any; without it, the group thrashes on file pages.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile

# Fills 5 MiB per second up to 50 MiB below the limit. Then four processes read a file larger than
# the rest, page by page in random order. Then it continues to fill until the kernel kills it.
VICTIM = """
import mmap, os, random, sys, time
limit, seconds, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
held = []
while 5 * len(held) < limit - 55:
    held.append(bytearray(os.urandom(5 << 20)))
    time.sleep(1)
end = time.monotonic() + seconds
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        with open(path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            while time.monotonic() < end:
                for _ in range(256):
                    pages[random.randrange(len(pages) >> 12) << 12]
                sum(block[random.randrange(len(block))] for block in held)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
while True:
    held.append(bytearray(os.urandom(5 << 20)))
    time.sleep(1)
"""


def swap_mib():
    with open("/proc/swaps") as swaps:
        return sum(int(line.split()[2]) for line in swaps.readlines()[1:]) // 1024


def drop_from_cache(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--limit-mib", type=int, default=192)
    parser.add_argument("--interval-ms", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary, log, data = (os.path.join(folder, name) for name in ("headroom", "log.jsonl", "data"))
        shutil.copy(os.path.join(options.build, "bin/headroom"), binary)
        with open(data, "wb") as file:
            for _ in range(2 * options.limit_mib):
                file.write(os.urandom(1 << 20))
        drop_from_cache(binary)
        drop_from_cache(data)
        command = [os.path.join(options.build, "bin/headroom"), "run", "--limit", f"{options.limit_mib}MiB", "--", binary, "watch", "--interval",
                   f"{options.interval_ms}ms", "--output", log, "--", "python3", "-c", VICTIM, str(options.limit_mib), str(60 * options.minutes), data]
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        with open(log) as file:
            text = file.read()
    print(ended.stderr)
    samples = [json.loads(line) for line in text.splitlines()]  # an incomplete line raises an exception here
    gaps = [after["time_ns"] - before["time_ns"] for before, after in zip(samples, samples[1:])]
    latest = max(gaps) / 1e6 / options.interval_ms - 1
    late = sum(gap > 2e6 * options.interval_ms for gap in gaps)
    alerts = [(sample["time_ns"] / 1e9, alert["alert"]) for sample in samples for alert in sample.get("alerts", []) if alert["state"] == "fired"]
    # The kernel log covers the whole machine.
    followed = {process["pid"] for sample in samples for process in sample.get("process_table", [])}
    kills = [(sample["time_ns"] / 1e9, event["process"]) for sample in samples for event in sample.get("kernel_events", [])
             if event["kind"] == "oom_kill" and event.get("pid") in followed]
    kill = kills[0][0] if kills else None
    before = [f"{name} at {time:.1f} s" for time, name in alerts if kill is not None and time < kill]
    rows = [
        ("samples, all of them complete lines", f"{len(samples)} in {samples[-1]['time_ns'] / 1e9:.0f} s; the last line is {'whole' if text.endswith(chr(10)) else 'CUT'}"),
        ("latest sample", f"{latest:.2f} intervals late (of {options.interval_ms} ms); {late} of {len(gaps)} by more than one"),
        ("the kill", f"at {kill:.1f} s, of {', '.join(name for _, name in kills)}" if kill is not None else "NOT REPORTED"),
        ("alerts before it", ", ".join(before) or "NONE"),
        ("refaults of the machine", f"{sum(sample.get('refaults', 0) for sample in samples):,}"),
        ("longest stall of ten seconds (PSI some, of the machine)", f"{max(sample.get('psi_some_percent', 0) for sample in samples):.0f} %"),
        ("swap of the machine", f"{swap_mib()} MiB"),
        ("exit code of the watch (128 + SIGKILL of the victim is 137)", str(ended.returncode)),
    ]
    table = "\n".join(f"| {what} | {result} |" for what, result in rows)
    text = (f"`benchmarks/monitor_survives.py --limit-mib {options.limit_mib} --interval-ms {options.interval_ms} --minutes {options.minutes:g}`, "
            f"{os.cpu_count()} cores, Linux {platform.release()}; load average at the end {os.getloadavg()[0]:.1f}.\n\n| what | result |\n|---|---|\n{table}\n")
    print(text)
    if options.markdown:
        with open(options.markdown, "a") as file:
            file.write(text)


if __name__ == "__main__":
    main()

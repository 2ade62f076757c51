#!/usr/bin/env python3
"""Checks Headroom's figures, and measures its overhead. Compares

  * `headroom bench`'s inference P50 with a bare ONNX Runtime C API loop on the same model, threads and inputs. Both start together
    and alternate every quarter of a second or dozen frames (turns.py), so that both see the same states of the machine;
  * its run peak with independent observers: VmRSS polled every 2 ms, and the kernel's control-group peak;
  * the processes' own memory (anonymous and shared) with the group's charge for the same kinds, at one time. This is the exact
    comparison: the group's peak also includes page cache, and does not include library pages that were cached before;
  * the worker's peak with the bare loop's VmHWM (the worker's overhead, without the frames it holds);
  * the conductor's own VmHWM.

    benchmarks/truth.py --build build/release --rounds 15 --output benchmarks/results/truth.json MODEL:SOURCE[:IMGSZ] …

Uses only the Python standard library. Prints a Markdown table; every single value is in the JSON file.
"""
import argparse
import glob
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from medians import confidence_of_median
from turns import run_in_turns, slice_for


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def status_bytes(pid, key):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return None


def measured_groups(name):
    """Files of the groups of headroom's workers; groups of the probe and of the scan are excluded."""
    found = glob.glob(f"/sys/fs/cgroup/memory/**/headroom-*/{name}", recursive=True) or \
        glob.glob(f"/sys/fs/cgroup/**/headroom-*/{name}", recursive=True)
    return [path for path in found if not re.search(r"-(probe|scan)", os.path.basename(os.path.dirname(path)))]


class Observer(threading.Thread):
    """Observes the conductor's peak, the worker's resident bytes and the charge of its group."""

    def __init__(self, conductor):
        super().__init__(daemon=True)
        self.conductor, self.worker = conductor, None
        self.conductor_peak = self.worker_peak = self.group_peak = 0
        self.own_of_group = self.own_of_processes = 0  # anonymous and shared bytes at the group's maximum
        self.stop = False

    def run(self):
        while not self.stop:
            self.conductor_peak = max(self.conductor_peak, status_bytes(self.conductor, "VmHWM") or 0)
            children = read(f"/proc/{self.conductor}/task/{self.conductor}/children").split()
            for pid in children:
                if "_worker" not in read(f"/proc/{pid}/cmdline"):
                    continue
                self.worker_peak = max(self.worker_peak, status_bytes(pid, "VmRSS") or 0)
            for name in ("memory.max_usage_in_bytes", "memory.peak"):
                for path in measured_groups(name):
                    text = read(path).strip()
                    if text.isdigit():
                        self.group_peak = max(self.group_peak, int(text))
            for path in measured_groups("memory.stat"):
                self.compare_own_memory(os.path.dirname(path))
            time.sleep(0.002)

    def compare_own_memory(self, group):
        stat = dict(line.split() for line in read(f"{group}/memory.stat").splitlines())
        of_group = int(stat.get("anon", stat.get("rss", 0))) + int(stat.get("shmem", 0))
        anonymous, shared = 0, 0
        for pid in read(f"{group}/cgroup.procs").split():
            anonymous += status_bytes(pid, "RssAnon") or 0
            shared = max(shared, status_bytes(pid, "RssShmem") or 0)  # one ring of frames, mapped by both processes
        if anonymous and of_group > self.own_of_group:  # a group without processes is being removed
            self.own_of_group, self.own_of_processes = of_group, anonymous + shared


def headroom_command(arguments, model, source, size, frames, folder, threads, setup):
    command = [f"{arguments.build}/bin/headroom", "bench", "--source", source, "--model", f"m={model}", "--max-frames",
               str(frames), "--threads", str(threads), "--imgsz", str(size), "--prepared-dir", f"{folder}/prepared",
               "--output-dir", f"{folder}/outputs", "--sample-images", "0", "--quiet", "--json", "--mem-limit", "16GiB"]
    if not setup:
        command.append("--skip-setup")
    return command


def headroom_run(arguments, model, source, size, frames, folder, threads, setup, observed=False):
    command = headroom_command(arguments, model, source, size, frames, folder, threads, setup)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    observer = Observer(process.pid)
    if observed:
        observer.start()
    out, err = process.communicate()
    if observed:
        observer.stop = True
        observer.join()
    if process.returncode != 0:
        sys.exit(f"truth.py: headroom failed with {process.returncode}: {err}")
    return json.loads(out)["models"][0], observer


def bare_command(arguments, model, inputs, dims, frames, threads):
    return [f"{arguments.build}/bin/bare_onnxruntime_loop", "--model", model, "--threads", str(threads), "--iterations",
            str(frames), "--warmup", "10", "--input-file", inputs, "--dims", dims]


def bare_run(arguments, model, inputs, dims, frames, threads):
    command = bare_command(arguments, model, inputs, dims, frames, threads)
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def interval_of_median(values):
    """The median of paired ratios with its 95 % confidence interval, and the whole range."""
    low, high = confidence_of_median(values)
    return {**spread(values), "ci95_low": low, "ci95_high": high}


def measure(arguments, specification, folder):
    model, source, *rest = specification.split(":")
    size = int(rest[0]) if rest else 640
    inputs = f"{folder}/inputs.raw"
    # As many different inputs as fit into a small file; both sides repeat them in a circle.
    subprocess.run([f"{arguments.build}/bin/make_inputs", model, source, str(arguments.frames), inputs, str(size)],
                   check=True, stdout=subprocess.DEVNULL)
    first, _ = headroom_run(arguments, model, source, size, arguments.frames, folder, arguments.threads, True)
    dims = first["input"].split("[")[1].rstrip("]")  # "float32[1,3,640,640]"
    # Times are measured without observers: polling /proc and the group every 2 ms takes a good
    # part of the measured process's time on two cores. Memory is measured in separate rounds.
    times, memory = [], []
    # The bench also decodes and pre-processes, so the bare loop gets more runs, to make both end
    # together.
    whole = first["stages_ns"]["end_to_end"]["mean"] / first["latency_ns"]["mean"]
    turn = slice_for(first["stages_ns"]["end_to_end"]["p50"] / 1e9)
    commands = {
        "headroom_p50_ns": headroom_command(arguments, model, source, size, arguments.frames, folder, arguments.threads,
                                            False),
        "bare_p50_ns": bare_command(arguments, model, inputs, dims, round(arguments.frames * whole), arguments.threads),
    }
    for index in range(arguments.rounds):
        order = list(commands) if index % 2 == 0 else list(reversed(commands))
        found = dict(zip(order, map(json.loads, run_in_turns([commands[side] for side in order], turn))))
        times.append({"headroom_p50_ns": found["headroom_p50_ns"]["models"][0]["latency_ns"]["p50"],
                      "bare_p50_ns": found["bare_p50_ns"]["p50_ns"]})
        print(f"{os.path.basename(model)} round {index + 1}: {times[-1]}", file=sys.stderr)
    for _ in range(arguments.memory_rounds):
        result, observer = headroom_run(arguments, model, source, size, arguments.frames, folder, arguments.threads,
                                        False, observed=True)
        peer = bare_run(arguments, model, inputs, dims, arguments.frames, arguments.threads)
        memory.append({
            "run_peak_bytes": max(result["memory"]["run_peak_bytes"], result["memory"]["load_peak_bytes"]),
            "frames_bytes": result["memory"].get("frames_bytes", 0),
            "observed_rss_bytes": observer.worker_peak,
            "observed_cgroup_peak_bytes": observer.group_peak,
            "group_own_bytes": observer.own_of_group,
            "processes_own_bytes": observer.own_of_processes,
            "bare_hwm_bytes": peer["vm_hwm_bytes"],
            "conductor_hwm_bytes": observer.conductor_peak,
        })

    def ratios(above, below):
        return spread([r[above] / r[below] for r in memory if r[below]] or [float("nan")])
    return {
        "model": os.path.basename(model), "source": os.path.basename(source), "imgsz": size,
        "p50_ratio": interval_of_median([r["headroom_p50_ns"] / r["bare_p50_ns"] for r in times]),
        "headroom_p50_ms": spread([r["headroom_p50_ns"] / 1e6 for r in times]),
        "peak_over_observed_rss": ratios("run_peak_bytes", "observed_rss_bytes"),
        "peak_over_cgroup": ratios("run_peak_bytes", "observed_cgroup_peak_bytes"),
        "own_over_group": ratios("processes_own_bytes", "group_own_bytes"),
        "worker_extra_mib": spread([(r["run_peak_bytes"] - r["frames_bytes"] - r["bare_hwm_bytes"]) / 2**20
                                    for r in memory]),
        "conductor_mib": spread([r["conductor_hwm_bytes"] / 2**20 for r in memory]),
        "times": times, "memory": memory,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--memory-rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output")
    parser.add_argument("cases", nargs="+", metavar="MODEL:SOURCE[:IMGSZ]")
    arguments = parser.parse_args()
    cpu = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines()
                if line.startswith("model name")), platform.machine())
    results = {"machine": f"{os.cpu_count()} × {cpu}, Linux {platform.release()}", "command": " ".join(
        ["benchmarks/truth.py"] + [re.sub(r"[^:= ]*/", "", argument) for argument in sys.argv[1:]]), "cases": []}
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            results["cases"].append(measure(arguments, case, folder))
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    print(f"Machine: {results['machine']}; {arguments.rounds} alternating rounds of {arguments.frames} frames, "
          f"{arguments.threads} thread(s), and {arguments.memory_rounds} rounds for memory. Median (min–max).\n")
    print("| model | P50 ms | P50 / bare loop | 95 % of its median | peak / polled VmRSS | peak / cgroup peak | own memory / cgroup's | worker over bare, MiB | conductor, MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in results["cases"]:
        cells = [case["model"]]
        for key, digits in (("headroom_p50_ms", 2), ("p50_ratio", 4), ("peak_over_observed_rss", 4),
                            ("peak_over_cgroup", 4), ("own_over_group", 4),
                            ("worker_extra_mib", 1), ("conductor_mib", 1)):
            value = case[key]
            cells.append(f"{value['median']:.{digits}f} ({value['min']:.{digits}f}–{value['max']:.{digits}f})")
            if key == "p50_ratio":
                cells.append(f"{value['ci95_low']:.4f}–{value['ci95_high']:.4f}")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

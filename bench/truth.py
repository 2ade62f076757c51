#!/usr/bin/env python3
"""Are Headroom's figures true, and what does it cost? Compares, alternating in one run,

  * `headroom bench`'s inference P50 with a bare ONNX Runtime C API loop on the same model, threads and inputs;
  * its run peak with independent observers: the kernel's own control-group peak, and VmRSS polled every 2 ms;
  * the worker's peak with the bare loop's VmHWM (the worker's cost, apart from the frames it holds);
  * the conductor's own VmHWM.

    bench/truth.py --build build/release --rounds 7 --output bench/results/truth.json MODEL:SOURCE[:IMGSZ] …

Only the Python standard library is used. Prints a Markdown table; every single value is in the JSON file.
"""
import argparse
import glob
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time


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


class Observer(threading.Thread):
    """Watches the conductor's own peak, the worker's resident bytes and the kernel's account of its group."""

    def __init__(self, conductor):
        super().__init__(daemon=True)
        self.conductor, self.worker = conductor, None
        self.conductor_peak = self.worker_peak = self.group_peak = 0
        self.stop = False

    def run(self):
        while not self.stop:
            self.conductor_peak = max(self.conductor_peak, status_bytes(self.conductor, "VmHWM") or 0)
            children = read(f"/proc/{self.conductor}/task/{self.conductor}/children").split()
            for pid in children:
                if "_worker" not in read(f"/proc/{pid}/cmdline"):
                    continue
                self.worker_peak = max(self.worker_peak, status_bytes(pid, "VmRSS") or 0)
            for pattern in ("/sys/fs/cgroup/memory/**/headroom-*/memory.max_usage_in_bytes",
                            "/sys/fs/cgroup/**/headroom-*/memory.peak"):
                for path in glob.glob(pattern, recursive=True):
                    text = read(path).strip()
                    if text.isdigit():
                        self.group_peak = max(self.group_peak, int(text))
            time.sleep(0.002)


def headroom_run(arguments, model, source, size, frames, folder, threads, setup):
    command = [f"{arguments.build}/bin/headroom", "bench", "--source", source, "--model", f"m={model}", "--max-frames",
               str(frames), "--threads", str(threads), "--imgsz", str(size), "--prepared-dir", f"{folder}/prepared",
               "--output-dir", f"{folder}/outputs", "--sample-images", "0", "--quiet", "--json", "--mem-limit", "16GiB"]
    if not setup:
        command.append("--skip-setup")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    observer = Observer(process.pid)
    observer.start()
    out, err = process.communicate()
    observer.stop = True
    observer.join()
    if process.returncode != 0:
        sys.exit(f"truth.py: headroom failed with {process.returncode}: {err}")
    return json.loads(out)["models"][0], observer


def bare_run(arguments, model, inputs, dims, frames, threads):
    command = [f"{arguments.build}/bin/bare_onnxruntime_loop", "--model", model, "--threads", str(threads),
               "--iterations", str(frames), "--warmup", "10", "--input-file", inputs, "--dims", dims]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def measure(arguments, specification, folder):
    model, source, *rest = specification.split(":")
    size = int(rest[0]) if rest else 640
    inputs = f"{folder}/inputs.raw"
    # As many different inputs as fit into a small file; both sides go through them in a circle.
    subprocess.run([f"{arguments.build}/bin/make_inputs", model, source, str(arguments.frames), inputs, str(size)],
                   check=True, stdout=subprocess.DEVNULL)
    first, _ = headroom_run(arguments, model, source, size, arguments.frames, folder, arguments.threads, True)
    dims = first["input"].split("[")[1].rstrip("]")  # "float32[1,3,640,640]"
    rounds = []
    for index in range(arguments.rounds):
        def ours():
            return headroom_run(arguments, model, source, size, arguments.frames, folder, arguments.threads, False)

        def bare():
            return bare_run(arguments, model, inputs, dims, arguments.frames, arguments.threads)
        if index % 2 == 0:
            (result, observer), peer = ours(), bare()
        else:
            peer = bare()
            result, observer = ours()
        memory = result["memory"]
        rounds.append({
            "headroom_p50_ns": result["latency_ns"]["p50"],
            "bare_p50_ns": peer["p50_ns"],
            "run_peak_bytes": max(memory["run_peak_bytes"], memory["load_peak_bytes"]),
            "frames_bytes": memory.get("frames_bytes", 0),
            "observed_rss_bytes": observer.worker_peak,
            "observed_cgroup_peak_bytes": observer.group_peak,
            "bare_hwm_bytes": peer["vm_hwm_bytes"],
            "conductor_hwm_bytes": observer.conductor_peak,
        })
        print(f"{os.path.basename(model)} round {index + 1}: {rounds[-1]}", file=sys.stderr)
    return {
        "model": os.path.basename(model), "source": os.path.basename(source), "imgsz": size,
        "p50_ratio": spread([r["headroom_p50_ns"] / r["bare_p50_ns"] for r in rounds]),
        "headroom_p50_ms": spread([r["headroom_p50_ns"] / 1e6 for r in rounds]),
        "peak_over_observed_rss": spread([r["run_peak_bytes"] / r["observed_rss_bytes"] for r in rounds]),
        "peak_over_cgroup": spread([r["run_peak_bytes"] / r["observed_cgroup_peak_bytes"] for r in rounds
                                    if r["observed_cgroup_peak_bytes"]] or [float("nan")]),
        "worker_extra_mib": spread([(r["run_peak_bytes"] - r["frames_bytes"] - r["bare_hwm_bytes"]) / 2**20
                                    for r in rounds]),
        "conductor_mib": spread([r["conductor_hwm_bytes"] / 2**20 for r in rounds]),
        "rounds": rounds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output")
    parser.add_argument("cases", nargs="+", metavar="MODEL:SOURCE[:IMGSZ]")
    arguments = parser.parse_args()
    cpu = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines()
                if line.startswith("model name")), platform.machine())
    results = {"machine": f"{os.cpu_count()} × {cpu}, Linux {platform.release()}", "command": " ".join(
        ["bench/truth.py"] + [os.path.basename(a) if "/" in a else a for a in sys.argv[1:]]), "cases": []}
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            results["cases"].append(measure(arguments, case, folder))
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    print(f"Machine: {results['machine']}; {arguments.rounds} alternating rounds of {arguments.frames} frames, "
          f"{arguments.threads} thread(s). Median (min–max).\n")
    print("| model | P50 ms | P50 / bare loop | peak / polled VmRSS | peak / cgroup peak | worker over bare, MiB | conductor, MiB |")
    print("|---|---|---|---|---|---|---|")
    for case in results["cases"]:
        cells = [case["model"]]
        for key, digits in (("headroom_p50_ms", 2), ("p50_ratio", 4), ("peak_over_observed_rss", 4),
                            ("peak_over_cgroup", 4), ("worker_extra_mib", 1), ("conductor_mib", 1)):
            value = case[key]
            cells.append(f"{value['median']:.{digits}f} ({value['min']:.{digits}f}–{value['max']:.{digits}f})")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

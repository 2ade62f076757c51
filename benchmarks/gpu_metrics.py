#!/usr/bin/env python3
"""Checks the GPU figures, and measures the cost of a reading.

Compares NVML as Headroom reads it (nvml_readings) with nvidia-smi just before and just after: with an idle GPU, with a PyTorch
process that allocates a known number of bytes and then the same again, and with a process that multiplies matrices. Then times
readings. Needs a GPU, nvidia-smi and PyTorch. Run it alone on the machine: `make bench-gpu`.

    benchmarks/gpu_metrics.py --build build/gpu [--readings 1000] [--gibibytes 4] [--results benchmarks/results]
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20
# NVML's figure, the column of nvidia-smi, the unit of that column, and the largest allowed
# difference. Figures that change are read at different times.
COLUMNS = [
    ("memory_total_bytes", "memory.total", MIB, MIB), ("memory_used_bytes", "memory.used", MIB, MIB),
    ("memory_free_bytes", "memory.free", MIB, MIB), ("memory_reserved_bytes", "memory.reserved", MIB, MIB),
    ("gpu_percent", "utilization.gpu", 1, 100), ("memory_percent", "utilization.memory", 1, 100),
    ("encoder_percent", "utilization.encoder", 1, 0), ("decoder_percent", "utilization.decoder", 1, 0),
    ("graphics_clock_hz", "clocks.current.graphics", 1e6, 2e9), ("sm_clock_hz", "clocks.current.sm", 1e6, 2e9),
    ("memory_clock_hz", "clocks.current.memory", 1e6, 0), ("power_watts", "power.draw", 1, 700),
    ("power_limit_watts", "enforced.power.limit", 1, 0.01), ("temperature_celsius", "temperature.gpu", 1, 3),
]
HOLDER = """
import sys, torch
size = int(sys.argv[1])
held = []
for line in sys.stdin:
    held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    print(torch.cuda.memory_reserved(), flush=True)
"""
WORKER = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + 120
print("working", flush=True)
while time.monotonic() < end:  # it is killed before
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""


def ask_nvidia_smi():
    names = ["index", "uuid"] + [column for _, column, _, _ in COLUMNS]
    started = time.monotonic()
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits"],
                          check=True, capture_output=True, text=True).stdout
    seconds = time.monotonic() - started
    row = dict(zip(names, (field.strip() for field in text.splitlines()[0].split(","))))
    return row, seconds


def ask_processes():
    text = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                          check=True, capture_output=True, text=True).stdout
    rows = (line.split(",") for line in text.splitlines() if line.strip())
    return {int(pid): int(used) * MIB if used.strip().isdigit() else None for pid, used in rows}


def read_nvml(build, times):
    text = subprocess.run([os.path.join(build, "bin/nvml_readings"), str(times)], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def compare(build, times):
    before, _ = ask_nvidia_smi()
    own = read_nvml(build, times)
    after, _ = ask_nvidia_smi()
    rows, wrong = [], []
    for key, column, unit, tolerance in COLUMNS:
        theirs = [value_of(side[column], unit) for side in (before, after)]
        value = own["gpus"][0].get(key)
        rows.append({"figure": key, "nvml": value, "nvidia_smi_before": theirs[0], "nvidia_smi_after": theirs[1]})
        if any((one is None) != (value is None) for one in theirs):
            wrong.append(f"{key}: only one of the two reports it")
        elif value is not None and not min(theirs) - tolerance <= value <= max(theirs) + tolerance:
            wrong.append(f"{key}: {value}, and nvidia-smi {theirs}")
    return {"rows": rows, "wrong": wrong, "nvml": own}


def value_of(text, unit):
    try:
        return float(text) * unit
    except ValueError:
        return None  # [N/A]


def hold_memory(build, size):
    idle = read_nvml(build, 1)["gpus"][0]["memory_used_bytes"]
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    steps = []
    for _ in range(2):
        child.stdin.write("more\n")
        child.stdin.flush()
        reserved = int(child.stdout.readline())
        gpu = read_nvml(build, 1)["gpus"][0]
        own = [process for process in gpu["processes"] if process["pid"] == child.pid]
        steps.append({"pytorch_reserved_bytes": reserved, "nvml_process_bytes": own[0].get("used_bytes") if own else None,
                      "nvidia_smi_process_bytes": ask_processes().get(child.pid),
                      "nvml_device_used_over_idle_bytes": gpu["memory_used_bytes"] - idle})
    child.stdin.close()
    child.wait()
    time.sleep(1)
    return {"bytes_each": size, "idle_used_bytes": idle, "steps": steps,
            "used_after_bytes": read_nvml(build, 1)["gpus"][0]["memory_used_bytes"]}


def work(build, times):
    child = subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    time.sleep(3)
    result = compare(build, times)
    child.terminate()
    child.wait()
    return result


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "")
    return f"{os.cpu_count()} processors ({model or platform.machine()}), {platform.system()} {platform.release()}"


def in_words(key, value):
    if value is None:
        return "absent"
    if key.endswith("_bytes"):
        return f"{value / MIB:,.2f} MiB"
    if key.endswith("_hz"):
        return f"{value / 1e6:,.0f} MHz"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def microseconds(spread):
    return f"{spread['median_ns'] / 1e3:,.1f} ({spread['p5_ns'] / 1e3:,.1f}–{spread['p95_ns'] / 1e3:,.1f}, most {spread['max_ns'] / 1e3:,.1f})"


def page(result):
    idle, busy, held = result["idle"], result["busy"], result["held"]
    gpu = idle["nvml"]["gpus"][0]
    lines = ["# GPU figures from NVML: accuracy and cost", "",
             f"Command: `{result['command']}`. Machine: {result['machine']}; {gpu['name']}, driver {idle['nvml']['driver']}. "
             f"{result['date']}.", ""]
    for title, part in (("Idle", idle), ("While PyTorch multiplies matrices", busy)):
        lines += [f"## {title}, compared with nvidia-smi just before and just after", "", "| figure | NVML | nvidia-smi before | after |",
                  "|---|---|---|---|"]
        lines += [f"| {row['figure']} | {in_words(row['figure'], row['nvml'])} | {in_words(row['figure'], row['nvidia_smi_before'])} | "
                  f"{in_words(row['figure'], row['nvidia_smi_after'])} |" for row in part["rows"]]
        now = part["nvml"]["gpus"][0]
        reasons = ", ".join(now["throttle_reasons"] + now["clock_limits"]) or "none"
        lines += ["", f"Throttled: {now.get('throttled')}; clock limited by: {reasons}. "
                  + ("All agree." if not part["wrong"] else "Different: " + "; ".join(part["wrong"]) + "."), ""]
    lines += [f"## A PyTorch process that allocates {held['bytes_each'] / MIB:,.0f} MiB, and then the same again", "",
              "| | PyTorch allocated | NVML: the process | nvidia-smi: the process | NVML: the device, over idle |", "|---|---|---|---|---|"]
    keys = ("pytorch_reserved_bytes", "nvml_process_bytes", "nvidia_smi_process_bytes", "nvml_device_used_over_idle_bytes")
    for name, step in zip(("first", "second"), held["steps"]):
        lines.append(f"| {name} | " + " | ".join(in_words(key, step[key]) for key in keys) + " |")
    lines.append("| difference | " + " | ".join(
        in_words(key, held["steps"][1][key] - held["steps"][0][key]) if held["steps"][0][key] is not None else "absent" for key in keys) + " |")
    lines += ["", f"Used before it: {in_words('_bytes', held['idle_used_bytes'])}; after it ended: {in_words('_bytes', held['used_after_bytes'])}. "
              "The process's memory beyond PyTorch's bytes is the CUDA context and its modules.", "",
              f"## Cost, in µs: median (5th–95th percentile, maximum) of {idle['nvml']['reading']['n']}", "",
              "| | idle | busy |", "|---|---|---|",
              f"| a reading of the whole GPU | {microseconds(idle['nvml']['reading'])} | {microseconds(busy['nvml']['reading'])} |"]
    for name, spread in idle["nvml"]["calls"].items():
        lines.append(f"| {name} | {microseconds(spread)} | {microseconds(busy['nvml']['calls'][name])} |")
    smi = result["nvidia_smi_seconds"]
    lines += ["", f"Opening NVML took {idle['nvml']['open_ns'] / 1e6:,.1f} ms, the first reading {idle['nvml']['first_reading_ns'] / 1e6:,.1f} ms; "
              f"the process grew by {idle['nvml']['resident_growth_bytes'] / MIB:,.1f} MiB (resident) and {idle['nvml']['threads_started']} thread. "
              f"One nvidia-smi took {statistics.median(smi) * 1e3:,.0f} ms (median of {len(smi)}, {min(smi) * 1e3:,.0f}–{max(smi) * 1e3:,.0f})."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/gpu"))
    parser.add_argument("--readings", type=int, default=1000)
    parser.add_argument("--gibibytes", type=float, default=4)
    parser.add_argument("--results", default=os.path.join(ROOT, "benchmarks/results"))
    options = parser.parse_args()
    result = {"command": "benchmarks/gpu_metrics.py " + " ".join(f"--{name} {getattr(options, name)}" for name in ("readings", "gibibytes")),
              "machine": machine(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    result["idle"] = compare(options.build, options.readings)
    result["held"] = hold_memory(options.build, int(options.gibibytes * (1 << 30)))
    result["busy"] = work(options.build, options.readings)
    result["nvidia_smi_seconds"] = [ask_nvidia_smi()[1] for _ in range(10)]
    for ending, text in (("json", json.dumps(result, indent=1) + "\n"), ("md", page(result))):
        with open(os.path.join(options.results, "gpu_metrics." + ending), "w", encoding="utf-8") as file:
            file.write(text)
    print(page(result))
    # The bytes of the second step are memory alone: the process must grow by them, rounded to a
    # granule of 2 MiB.
    first, second = result["held"]["steps"]
    apart = result["idle"]["wrong"] + result["busy"]["wrong"]
    if first["nvml_process_bytes"] is not None:
        grown = second["nvml_process_bytes"] - first["nvml_process_bytes"]
        if abs(grown - result["held"]["bytes_each"]) > 2 * MIB:
            apart.append(f"the process grew by {grown} bytes")
    for problem in apart:
        print("apart:", problem, file=sys.stderr)
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares `headroom plan` for models on a GPU with measurements. Each model is measured alone several times. Then sets of models run
all at once on a real GPU, again under a limit equal to the planned allocations, and in a pool that is too small for all.

    gpu_plan.py --build BIN --models FOLDER --out FOLDER [--conv-search heuristic exhaustive] [--no-pool]

BIN as for gpu_inference.py. Missing models are exported from torchvision (random weights). The plan only uses the measurements of
single models. Its peak is compared with the growth of the GPU's used memory by NVML; both include contexts and modules. The limit
(--gpu-mem-limit) applies to allocations. Writes gpu_plan.json and gpu_plan.md.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys

from gpu_inference import EXPORTED, MIB, export, run

SETS = [["resnet18", "mobilenet_v2"], ["resnet50", "mobilenet_v2"], ["resnet50", "resnet18", "mobilenet_v2"], ["fcn_resnet50", "resnet50"], ["fcn_resnet50", "resnet18", "mobilenet_v2"],
        ["fcn_resnet50", "resnet50", "resnet18", "mobilenet_v2"]]
ALL = SETS[-1]
POOL_MODELS = ["resnet50", "resnet18", "mobilenet_v2"]
DEVICE = "h200"


def used_by_phase(folder, uuid):
    """The smallest and largest used memory of that GPU by NVML, by phase."""
    least, most = {}, {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        for gpu in sample.get("gpus", []):
            if gpu.get("uuid") != uuid or "memory_used_bytes" not in gpu:
                continue
            phase, used = sample.get("phase", ""), gpu["memory_used_bytes"]
            least[phase] = min(least.get(phase, used), used)
            most[phase] = max(most.get(phase, used), used)
    return least, most


def bench(arguments, search, models, out, *flags):
    command = [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--quiet", "--max-frames", arguments.frames, "--metrics-interval", "20ms",
               "--prepared-dir", out / "prepared", "--output-dir", out / "outputs", "--conv-search", search, *flags]
    for model in models:
        command += ["--model", f"{model}={arguments.models / model}.onnx"]
    done, _ = run(command)
    folder = max((out / "outputs").iterdir(), key=lambda path: path.stat().st_mtime)
    if done.returncode != 0:
        print(f"{models} {flags}: {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
    return json.loads((folder / "report.json").read_text()), folder


def planned(arguments, models, out, footprints):
    budget = out / "budget.toml"
    budget.write_text("".join(f'[[component]]\nname = "{model}"\nmodel = "{model}"\n' for model in models))
    done = subprocess.run([str(arguments.build / "headroom"), "plan", str(budget), "--device", DEVICE, "--footprints", str(footprints), "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"plan: {done.stderr}")
    return json.loads(done.stdout)


def peak_of(model):
    memory = model["gpu_memory"][0]
    return max(memory["load_peak_bytes"], memory["run_peak_bytes"])


def measure_alone(arguments, search):
    """Measures each model alone several times. Returns the folder of the runs, and the peaks of each model's allocations."""
    out = arguments.out / search / "alone"
    out.mkdir(parents=True, exist_ok=True)
    peaks = {model: [] for model in ALL}
    for _ in range(arguments.alone):
        report, _ = bench(arguments, search, ALL, out)
        for model in report["models"]:
            peaks[model["name"]].append(peak_of(model))
    return out / "outputs", peaks


def compare(arguments, search, models, footprints, peaks):
    out = arguments.out / search / "_".join(models)
    out.mkdir(parents=True, exist_ok=True)
    plan = planned(arguments, models, out, footprints)
    report, folder = bench(arguments, search, models, out, "--parallel")
    least, most = used_by_phase(folder, report["models"][0]["gpu_memory"][0]["uuid"])
    measured = most.get("parallel", 0) - min(least.values())
    limit = sum(max(peaks[model]) for model in models)
    limited, _ = bench(arguments, search, models, out, "--parallel", "--gpu-mem-limit", f"{limit}B")
    row = {"search": search, "models": models, "planned_bytes": plan["peak_bytes"], "measured_bytes": measured, "off": plan["peak_bytes"] / measured - 1,
           "ledger_joint_peak_bytes": report["parallel"]["gpu_memory"][0].get("joint_peak_bytes"), "limit_bytes": limit, "used_before_bytes": min(least.values()),
           "together_peaks_bytes": [[peak_of(model)] if model.get("gpu_memory") else [] for model in report["parallel"]["together"]],
           "gpu": report["host"]["gpus"][0]["name"], "status": [model["status"] for model in report["parallel"]["together"]],
           "status_limited": [model["status"] for model in limited["parallel"]["together"]]}
    print(row, file=sys.stderr)
    return row


def pool(arguments):
    """Runs a pool with a budget of the largest model plus half of the others."""
    search, out = arguments.conv_search[0], arguments.out / "pool"
    out.mkdir(parents=True, exist_ok=True)
    report, _ = bench(arguments, search, POOL_MODELS, out)
    peaks = sorted(peak_of(model) for model in report["models"])
    budget = peaks[-1] + sum(peaks[:-1]) // 2
    report, _ = bench(arguments, search, POOL_MODELS, out, "--pool", f"{budget // MIB}MiB", "--skip-setup")
    return {"peaks_bytes": peaks, "pool": {key: value for key, value in report.get("pool", {}).items() if key not in ("memory", "gpu_memory")}}


def lean(value):
    if isinstance(value, list):
        return [lean(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: lean(each) for key, each in value.items() if key != "histogram"}


def table(results):
    lines = ["# GPU plans compared with measurements", "",
             f"{results['gpu']}, {results['machine']}. Command: `benchmarks/gpu_plan.py`, which also writes this file. Each model was measured alone {results['alone']} times, and the plan uses only that. Then sets of models ran "
             "all at once in one run of `headroom bench --device cuda:0 --parallel`. *Measured*: growth of the GPU's used memory by NVML over the memory used before, the largest of samples 20 ms apart. *Limited*: how the "
             "models of the set ended in another run under a `--gpu-mem-limit` equal to the planned allocations. MiB.", "",
             "| convolution search | set | planned | measured | error | allocations, planned | allocations, joint | limited |", "|---|---|--:|--:|--:|--:|--:|---|"]
    for row in results["plans"]:
        limited = "all ok" if set(row["status_limited"]) == {"ok"} else ", ".join(row["status_limited"])
        lines.append(f"| {row['search']} | {', '.join(row['models'])} | {row['planned_bytes'] / MIB:.0f} | {row['measured_bytes'] / MIB:.0f} | {100 * row['off']:+.1f} % | {row['limit_bytes'] / MIB:.0f} | "
                     f"{(row['ledger_joint_peak_bytes'] or 0) / MIB:.0f} | {limited} |")
    lines += ["", "Allocations of each model alone, from run to run, MiB:", "", "| convolution search | " + " | ".join(ALL) + " |", "|---|" + "---|" * len(ALL)]
    for search, peaks in results["peaks"].items():
        lines.append(f"| {search} | " + " | ".join(", ".join(f"{peak / MIB:.0f}" for peak in peaks[model]) for model in ALL) + " |")
    pool = results.get("pool", {}).get("pool") or {}
    if pool:
        lines += ["", "## `headroom bench --pool` on it", "",
                  f"{', '.join(POOL_MODELS)} in {pool['budget_bytes'] / MIB:.0f} MiB of GPU memory, while all models together need {pool.get('all_at_once_bytes', 0) / MIB:.0f} MiB by the pool's account: status {pool['status']}, {pool['samples_over']} of "
                  f"{pool['samples']} samples over the budget, peak {pool.get('peak_bytes', 0) / MIB:.0f} MiB, {pool.get('fps', 0):.1f} frames per second through all models.", "",
                  "| model | requests | found loaded | loads | takes | load P50 ms | run P50 ms |", "|---|--:|--:|--:|--:|--:|--:|"]
        for model in pool["models"]:
            lines.append(f"| {model['name']} | {model['requests']} | {model['hits']} | {model['loads']} | {model.get('charge_bytes', 0) / MIB:.1f} | {model.get('load_ns', {}).get('p50', 0) / 1e6:.0f} | {model.get('latency_ns', {}).get('p50', 0) / 1e6:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--alone", type=int, default=4, help="how often each model is measured alone")
    parser.add_argument("--conv-search", default=["heuristic", "exhaustive"], nargs="+", choices=("exhaustive", "heuristic", "default"))
    parser.add_argument("--no-pool", action="store_true")
    arguments = parser.parse_args()
    for folder in (arguments.models, arguments.out):
        folder.mkdir(parents=True, exist_ok=True)
    export(arguments.models, EXPORTED)
    results = {"machine": f"{platform.machine()}, kernel {platform.release()}", "gpu": "?", "alone": arguments.alone, "peaks": {}, "plans": []}

    def save():
        if results["plans"]:
            results["gpu"] = results["plans"][0]["gpu"]
        (arguments.out / "gpu_plan.json").write_text(json.dumps(lean(results), indent=1) + "\n")
        (arguments.out / "gpu_plan.md").write_text(table(results))

    for search in arguments.conv_search:
        footprints, results["peaks"][search] = measure_alone(arguments, search)
        for models in SETS:
            results["plans"].append(compare(arguments, search, models, footprints, results["peaks"][search]))
            save()
    if not arguments.no_pool:
        results["pool"] = pool(arguments)
        save()
    print(table(results))


if __name__ == "__main__":
    main()

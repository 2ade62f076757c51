#!/usr/bin/env python3
"""What `headroom plan` says of models on a GPU, and what they take: sets of models measured alone and all at once on a real
one, and the same in a pool that has no room for all of them.

    gpu_plan.py --build BIN --models FOLDER --out FOLDER [--conv-search heuristic] [--no-pool]

BIN as for gpu_inference.py. Models are exported from torchvision where they are absent (random weights). The plan's peak is
compared with what NVML says that the GPU has in use beyond what it had before: contexts and modules are in both. Writes
gpu_plan.json and gpu_plan.md.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys

from gpu_inference import EXPORTED, MIB, export, run

SETS = [["resnet18", "mobilenet_v2"], ["resnet50", "resnet18", "mobilenet_v2"], ["fcn_resnet50", "resnet50"], ["fcn_resnet50", "resnet50", "resnet18", "mobilenet_v2"]]
POOL_MODELS = ["resnet50", "resnet18", "mobilenet_v2"]
DEVICE = "rtx-3090"  # a card of its own: its total is not what is compared


def used_by_phase(folder, uuid):
    """The least and the most that NVML says is in use on that GPU, by phase."""
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


def bench(arguments, models, out, *flags):
    command = [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--quiet", "--max-frames", arguments.frames, "--metrics-interval", "20ms",
               "--prepared-dir", out / "prepared", "--output-dir", out / "outputs", "--conv-search", arguments.conv_search, *flags]
    for model in models:
        command += ["--model", f"{model}={arguments.models / model}.onnx"]
    done, seconds = run(command)
    folder = max((out / "outputs").iterdir(), key=lambda path: path.stat().st_mtime)
    if done.returncode != 0:
        print(f"{models} {flags}: {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
    return json.loads((folder / "report.json").read_text()), folder, seconds


def planned(arguments, models, out, folder):
    budget = out / "budget.toml"
    budget.write_text("".join(f'[[component]]\nname = "{model}"\nmodel = "{model}"\n' for model in models))
    done = subprocess.run([str(arguments.build / "headroom"), "plan", str(budget), "--device", DEVICE, "--footprints", str(folder), "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"plan: {done.stderr}")
    return json.loads(done.stdout)


def compare(arguments, models):
    out = arguments.out / "_".join(models)
    out.mkdir(parents=True, exist_ok=True)
    report, folder, seconds = bench(arguments, models, out, "--parallel")
    uuid = report["models"][0]["gpu_memory"][0]["uuid"]
    least, most = used_by_phase(folder, uuid)
    before = min(least.values())
    plan = planned(arguments, models, out, folder)
    ledger = report["parallel"]["gpu_memory"][0]
    measured = most.get("parallel", 0) - before
    row = {"models": models, "planned_bytes": plan["peak_bytes"], "measured_bytes": measured, "off": plan["peak_bytes"] / measured - 1, "ledger_joint_peak_bytes": ledger.get("joint_peak_bytes"),
           "ledger_sum_of_peaks_bytes": ledger.get("sum_of_peaks_bytes"), "used_before_bytes": before, "seconds": seconds, "gpu": report["host"]["gpus"][0]["name"],
           "least_bytes": least, "most_bytes": most, "alone": [model["gpu_memory"][0] for model in report["models"]], "together": [model.get("gpu_memory") for model in report["parallel"]["together"]],
           "status": [model["status"] for model in report["parallel"]["together"]]}
    print(row, file=sys.stderr)
    return row


def pool(arguments):
    """With a budget of what the largest takes and a half of the others."""
    out = arguments.out / "pool"
    out.mkdir(parents=True, exist_ok=True)
    report, _, _ = bench(arguments, POOL_MODELS, out)
    peaks = sorted(max(model["gpu_memory"][0]["load_peak_bytes"], model["gpu_memory"][0]["run_peak_bytes"]) for model in report["models"])
    budget = peaks[-1] + sum(peaks[:-1]) // 2
    report, _, _ = bench(arguments, POOL_MODELS, out, "--pool", f"{budget // MIB}MiB", "--skip-setup")
    return {"peaks_bytes": peaks, "pool": {key: value for key, value in report.get("pool", {}).items() if key not in ("memory", "gpu_memory")}}


def lean(value):
    if isinstance(value, list):
        return [lean(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: lean(each) for key, each in value.items() if key != "histogram"}


def table(results):
    lines = ["# Plans of a GPU against reality", "",
             f"{results['gpu']}, {results['machine']}. Command: `bench/gpu_plan.py`, which also writes this file. Each model was measured alone and all at once in one run of `headroom bench --device cuda:0 --parallel`; "
             "the plan has the footprints of the models alone. *Measured*: what NVML says is in use on the GPU, beyond what was in use before, the most of samples 20 ms apart. MiB.", "",
             "| set | planned | measured | off | ledger, joint | ledger, sum of peaks |", "|---|--:|--:|--:|--:|--:|"]
    for row in results["plans"]:
        lines.append(f"| {', '.join(row['models'])} | {row['planned_bytes'] / MIB:.0f} | {row['measured_bytes'] / MIB:.0f} | {100 * row['off']:+.1f} % | {(row['ledger_joint_peak_bytes'] or 0) / MIB:.0f} | {(row['ledger_sum_of_peaks_bytes'] or 0) / MIB:.0f} |")
    pool = results.get("pool", {}).get("pool") or {}
    if pool:
        lines += ["", "## `headroom bench --pool` on it", "",
                  f"{', '.join(POOL_MODELS)} in {pool['budget_bytes'] / MIB:.0f} MiB of the GPU's memory, for which all need {pool.get('all_at_once_bytes', 0) / MIB:.0f} MiB by the pool's books: status {pool['status']}, {pool['samples_over']} of "
                  f"{pool['samples']} samples over the budget, peak {pool.get('peak_bytes', 0) / MIB:.0f} MiB, {pool.get('fps', 0):.1f} frames through all models a second.", "",
                  "| model | requests | found loaded | loads | takes | load P50 ms | run P50 ms |", "|---|--:|--:|--:|--:|--:|--:|"]
        for model in pool["models"]:
            lines.append(f"| {model['name']} | {model['requests']} | {model['hits']} | {model['loads']} | {model.get('charge_bytes', 0) / MIB:.1f} | {model.get('load_ns', {}).get('p50', 0) / 1e6:.0f} | {model.get('latency_ns', {}).get('p50', 0) / 1e6:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--conv-search", default="exhaustive", choices=("exhaustive", "heuristic", "default"))
    parser.add_argument("--no-pool", action="store_true")
    arguments = parser.parse_args()
    for folder in (arguments.models, arguments.out):
        folder.mkdir(parents=True, exist_ok=True)
    export(arguments.models, EXPORTED)
    results = {"conv_search": arguments.conv_search, "machine": f"{platform.machine()}, kernel {platform.release()}", "plans": []}

    def save():
        results["gpu"] = results["plans"][0]["gpu"] if results["plans"] else "?"
        (arguments.out / "gpu_plan.json").write_text(json.dumps(lean(results), indent=1) + "\n")
        (arguments.out / "gpu_plan.md").write_text(table(results))

    for models in SETS:
        results["plans"].append(compare(arguments, models))
        save()
    if not arguments.no_pool:
        results["pool"] = pool(arguments)
        save()
    print(table(results))


if __name__ == "__main__":
    main()

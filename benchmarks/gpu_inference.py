#!/usr/bin/env python3
"""Evaluates `headroom bench --device cuda:0` on a real GPU: its P50 compared with a bare ONNX Runtime loop, the ledger's device
memory compared with NVML's by phase, a limit that one model exceeds, and four models under one limit.

    gpu_inference.py --build BIN --models FOLDER --out FOLDER [--rounds 21]

BIN contains headroom, its plug-in, its preload libraries, bare_onnxruntime_loop and ONNX Runtime with its CUDA provider
(scripts/join_onnxruntime_cuda.sh). FOLDER contains models: *.onnx. resnet50 and fcn_resnet50 are exported from torchvision
if missing (with random weights, which don't affect times and sizes). Writes results.json and results.md.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

from turns import run_in_turns

EXPORTED = {"resnet50": (1, 3, 224, 224), "fcn_resnet50": (1, 3, 520, 520), "resnet18": (1, 3, 224, 224), "mobilenet_v2": (1, 3, 224, 224)}
MIB = 1 << 20


def export(folder, names=("resnet50", "fcn_resnet50")):
    """Exports models of EXPORTED with torch.onnx.export, opset 17 and fixed shapes."""
    missing = [name for name in names if not (folder / f"{name}.onnx").exists()]
    if not missing:
        return
    import torch
    import torchvision
    for name in missing:
        torch.manual_seed(0)
        if name == "fcn_resnet50":
            model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None)
        else:
            model = getattr(torchvision.models, name)(weights=None)
        torch.onnx.export(model.eval(), torch.zeros(EXPORTED[name]), str(folder / f"{name}.onnx"), opset_version=17, dynamo=False)


def run(command, timeout=240):
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)
    return done, round(time.monotonic() - begin, 2)


def lean(value):
    """Removes long data that is not needed here: curves and histograms."""
    if isinstance(value, list):
        return [lean(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: lean(each) for key, each in value.items() if key not in ("memory_series", "histogram", "phases", "cleanups")}


def headroom(arguments, models, *flags, expect=0):
    command = [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--json", "--quiet",
               "--prepared-dir", arguments.out / "prepared", "--output-dir", arguments.out / "outputs"]
    for model in models:
        command += ["--model", f"{model}={arguments.models / model}.onnx"]
    done, seconds = run(command + list(flags))
    if done.returncode != expect:
        print(f"headroom {models} {flags} gave {done.returncode}: {done.stderr[-3000:]}", file=sys.stderr)
    try:
        return json.loads(done.stdout), seconds
    except ValueError:
        return {"failed": done.stderr[-3000:], "status": done.returncode, "models": []}, seconds


def bare(arguments, model, *flags):
    done, _ = run([arguments.build / "bare_onnxruntime_loop", "--model", arguments.models / f"{model}.onnx", "--threads", "0",
                   "--warmup", "30", "--iterations", str(arguments.frames), "--device", "cuda:0", *flags])
    if done.returncode != 0:
        raise SystemExit(f"bare loop: {done.stderr}")
    return json.loads(done.stdout)


def latency(arguments, model, search):
    """One run of each per round; they take turns to be first."""
    flags = ["--max-frames", str(arguments.frames), "--conv-search", search]
    headroom(arguments, [model], *flags, "--skip-inference")
    rounds = []
    for index in range(arguments.rounds):
        one = {}
        for side in (("headroom", "bare") if index % 2 == 0 else ("bare", "headroom")):
            if side == "bare":
                one["bare_p50_ns"] = bare(arguments, model, "--conv-search", search)["p50_ns"]
                continue
            result, _ = headroom(arguments, [model], "--skip-setup", "--warmup", "30", *flags)
            if not result["models"] or "latency_ns" not in result["models"][0]:
                return {"failed": result}
            one["headroom_p50_ns"] = result["models"][0]["latency_ns"]["p50"]
            one["device_p50_ns"] = result["models"][0]["device_latency_ns"]["p50"]
        rounds.append(one)
    print(model, search, rounds[-1], file=sys.stderr)
    return {"rounds": rounds}


def in_turns(arguments, model, iterations):
    """As latency(), but both start together and alternate every quarter of a second, so that both see the same states of the
    machine (turns.py)."""
    flags = ["--max-frames", str(iterations), "--conv-search", "heuristic"]
    headroom(arguments, [model], *flags, "--skip-inference")
    path = arguments.models / f"{model}.onnx"
    commands = {
        "headroom": [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--json", "--quiet", "--prepared-dir",
                     arguments.out / "prepared", "--output-dir", arguments.out / "outputs", "--model", f"{model}={path}",
                     "--skip-setup", "--warmup", "30", *flags],
        "bare": [arguments.build / "bare_onnxruntime_loop", "--model", path, "--threads", "0", "--warmup", "30", "--iterations",
                 str(iterations), "--device", "cuda:0", "--conv-search", "heuristic"]}
    rounds = []
    for index in range(arguments.rounds):
        order = list(commands) if index % 2 == 0 else list(reversed(commands))
        found = dict(zip(order, map(json.loads, run_in_turns([list(map(str, commands[side])) for side in order], 0.25))))
        ours = found["headroom"]["models"][0]
        rounds.append({"headroom_p50_ns": ours["latency_ns"]["p50"], "device_p50_ns": ours["device_latency_ns"]["p50"],
                       "bare_p50_ns": found["bare"]["p50_ns"]})
    return {"rounds": rounds}


def ledger_cost(arguments, model, rounds=14):
    """P50 in ms of the same program with and without the ledger's hooks, and of Headroom with and without them."""
    flags = ["--max-frames", "300", "--conv-search", "heuristic"]
    headroom(arguments, [model], *flags, "--skip-inference")
    ledger = {"LD_PRELOAD": str(arguments.build / "libheadroom_trace_gpu.so"), "HEADROOM_TRACE_OPTIONS": "ledger=1"}
    path = arguments.models / f"{model}.onnx"
    loop = [arguments.build / "bare_onnxruntime_loop", "--model", path, "--threads", "0", "--warmup", "30", "--iterations", "300",
            "--device", "cuda:0", "--conv-search", "heuristic"]
    bench = [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--json", "--quiet", "--prepared-dir",
             arguments.out / "prepared", "--output-dir", arguments.out / "outputs", "--model", f"{model}={path}", "--skip-setup",
             "--warmup", "30", *flags]
    sides = {"bare": (loop, {}), "bare, with the ledger": (loop, ledger), "Headroom": (bench, {}),
             "Headroom, without the ledger": (bench, {"HEADROOM_TRACER": "/nonexistent"})}
    found = {side: [] for side in sides}
    for index in range(rounds):
        order = list(sides)[index % 4:] + list(sides)[:index % 4]
        for side in order:
            command, more = sides[side]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **more})
            result = json.loads(done.stdout)
            p50 = result["p50_ns"] if "p50_ns" in result else result["models"][0]["latency_ns"]["p50"]
            found[side].append(round(p50 / 1e6, 3))
    return found


def phases(arguments, models):
    """The figures by phase, from a separate run for each model."""
    found = {}
    for model in models:
        result, _ = headroom(arguments, [model], "--max-frames", "100")
        found[model] = result["models"][0] if result["models"] else result
    return found


def over_the_limit(arguments, models, limit):
    result, seconds = headroom(arguments, models, "--max-frames", "50", "--gpu-mem-limit", limit, expect=1)
    return {"limit": limit, "seconds": seconds, "gpu_limit": result.get("gpu_limit"),
            "models": [{key: model.get(key) for key in ("name", "status", "error", "died_in", "gpu_memory", "warnings")}
                       for model in result["models"]], "failed": result.get("failed")}


def together(arguments, models, limit):
    result, seconds = headroom(arguments, models, "--parallel", "--max-frames", "200", "--gpu-mem-limit", limit)
    return {"limit": limit, "seconds": seconds, "parallel": result.get("parallel"), "gpu_limit": result.get("gpu_limit"),
            "alone": [{"name": model["name"], "status": model["status"], "latency_ns": model.get("latency_ns"),
                       "gpu_memory": model.get("gpu_memory")} for model in result["models"]],
            "failed": result.get("failed")}


def tune(arguments, model, limit=None):
    """Runs --tune under a limit that some settings exceed, and without a limit."""
    flags = ["--gpu-mem-limit", limit] if limit else []
    result, seconds = headroom(arguments, [model], "--tune", "--max-frames", "50", *flags)
    model = result["models"][0] if result["models"] else {}
    return {"seconds": seconds, "limit": limit, "gpu_limit": result.get("gpu_limit"), "trials": model.get("trials"), "settings": model.get("settings"),
            "smallest_settings": model.get("smallest_settings"), "status": model.get("status"), "failed": result.get("failed")}


TAKE_UNTIL_REFUSED = """
import torch
held = []
try:
    while True:
        held.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    print("refused after", len(held), "of 100 MiB; torch reports", torch.cuda.mem_get_info()[1] >> 20, "MiB in total")
del held
torch.cuda.empty_cache()
print("goes on:", float(torch.ones(1 << 20, device="cuda").sum()))
"""


def run_torch(arguments, limit):
    """An ordinary program under a limit: PyTorch allocates until a request is refused, and continues."""
    done, seconds = run([arguments.build / "headroom", "run", "--gpu-limit", limit, "--", sys.executable, "-c", TAKE_UNTIL_REFUSED])
    return {"limit": limit, "status": done.returncode, "out": done.stdout[-2000:], "err": done.stderr[-2000:], "seconds": seconds}


def machine():
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                         capture_output=True, text=True).stdout.strip()
    return {"gpu": gpu, "kernel": platform.release(), "cores": os.cpu_count(), "libc": " ".join(platform.libc_ver()),
            "date": time.strftime("%Y-%m-%d")}


def mib(value):
    return "–" if value is None else f"{value / MIB:,.1f}"


def markdown(result):
    out = ["# ONNX Runtime on a real GPU\n", f"{result['machine']['gpu']}, {result['machine']['cores']} cores, "
           f"kernel {result['machine']['kernel']}, {result['machine']['date']}; ONNX Runtime {result.get('runtime', '?')}. "
           "Command: `benchmarks/gpu_inference.py`, which also writes this file.\n",
           "If the quartiles of a ratio are more than 1 % apart, the variation between runs of the same program hides a "
           "difference of 1 %: such a line proves nothing finer.\n"]
    for kind, title in (("heuristic", "P50 against a bare loop"), ("exhaustive", "P50 against a bare loop, exhaustive search"),
                        ("turns", "P50 against a bare loop, both at once, alternating every quarter of a second")):
        if kind not in result:
            continue
        out += [f"\n## {title}\n", "The bare loop binds input and output on the device and synchronizes once, as Headroom does; "
                "convolutions by " + ("exhaustive" if kind == "exhaustive" else "heuristic") + " search in both, because an exhaustive "
                "search chooses other algorithms in each run. Median (smallest to largest) over the rounds; both take turns to be first.\n",
                "| model | rounds | Headroom P50 ms | by CUDA events ms | bare loop ms | ratio of P50 | quartiles |",
                "|---|---|---|---|---|---|---|"]
        for model, found in result[kind].items():
            if "failed" in found:
                out.append(f"| {model} | failed | | | | | |")
                continue
            rounds = found["rounds"]

            def spread(key):
                values = [one[key] / 1e6 for one in rounds]
                return f"{statistics.median(values):.3f} ({min(values):.3f}–{max(values):.3f})"
            ratios = [one["headroom_p50_ns"] / one["bare_p50_ns"] for one in rounds]
            quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
            out.append(f"| {model} | {len(rounds)} | {spread('headroom_p50_ns')} | {spread('device_p50_ns')} | "
                       f"{spread('bare_p50_ns')} | {statistics.median(ratios):.4f} | {quartiles[0]:.4f}–{quartiles[2]:.4f} |")
    if "ledger" in result:
        out += ["\n## What the ledger costs in a run\n", "P50 in ms, programs alternate.\n",
                "| model | program | rounds | median | quartiles | smallest |", "|---|---|---|---|---|---|"]
        for model, found in result["ledger"].items():
            for side, values in found.items():
                quartiles = statistics.quantiles(values, n=4)
                out.append(f"| {model} | {side} | {len(values)} | {statistics.median(values):.2f} | "
                           f"{quartiles[0]:.2f}–{quartiles[2]:.2f} | {min(values):.2f} |")
    if "phases" in result:
        out += ["\n## Device memory by phase: the ledger, and NVML's figure for the process\n",
                "MiB at the end of each phase. The difference is memory that the ledger does not count: context and modules.\n",
                "| model | phase | ledger | NVML | difference |", "|---|---|---|---|---|"]
        for model, found in result["phases"].items():
            for gpu in found.get("gpu_memory", []):
                process = gpu.get("process", {})
                for phase in ("runtime", "loaded", "running", "residual"):
                    ours, theirs = gpu.get(f"{phase}_bytes"), process.get(f"{phase}_bytes")
                    difference = None if ours is None or theirs is None else theirs - ours
                    out.append(f"| {model} | {phase} | {mib(ours)} | {mib(theirs)} | {mib(difference)} |")
                out.append(f"| {model} | peaks: load {mib(gpu.get('load_peak_bytes'))}, run {mib(gpu.get('run_peak_bytes'))}; "
                           f"nodes {found.get('nodes')} | | | |")
    if "limit" in result:
        limit = result["limit"]
        kind = (limit.get("gpu_limit") or {})
        out += [f"\n## A limit of {limit['limit']} that some models exceed\n",
                f"Probe: {kind.get('type')} by {kind.get('mechanism')}: " +
                "; ".join(f"{route['name']} {route['outcome']} ({route['detail']})" for route in kind.get("routes", [])) + "\n",
                "| model | status | message |", "|---|---|---|"]
        out += [f"| {model['name']} | {model['status']} | {model.get('error', '')} |" for model in limit["models"]]
    if "parallel" in result:
        parallel = result["parallel"]
        out += [f"\n## Four models at once under {parallel['limit']}\n", "| model | alone | together | P50 together ms |",
                "|---|---|---|---|"]
        alone = {model["name"]: model for model in parallel["alone"]}
        for model in (parallel.get("parallel") or {}).get("together", []):
            p50 = (model.get("latency_ns") or {}).get("p50")
            out.append(f"| {model['name']} | {alone[model['name']]['status']} | {model['status']} {model.get('error', '')} | "
                       f"{'–' if p50 is None else f'{p50 / 1e6:.3f}'} |")
        for gpu in (parallel.get("parallel") or {}).get("gpu_memory", []):
            out.append(f"\nJoint peak {mib(gpu.get('joint_peak_bytes'))} MiB of {mib(gpu.get('limit_bytes'))}; sum of the peaks "
                       f"alone {mib(gpu.get('sum_of_peaks_bytes'))}.")
    if "tune" in result:
        out += ["\n## --tune\n"]
        for model, found in result["tune"].items():
            out += [f"\n{model}, {found['seconds']} s, the run after it {found.get('status')}:\n", "| settings | status | P50 ms | device peak MiB |", "|---|---|---|---|"]
            for trial in found.get("trials") or []:
                p50 = trial.get("p50_ns")
                settings = {key: value for key, value in trial["settings"].items()
                            if key in ("threads", "arena_extend", "conv_search", "conv_small_workspace", "device_graph")}
                out.append(f"| {settings} | {trial['status']} {trial.get('error', '')} | "
                           f"{'–' if p50 is None else f'{p50 / 1e6:.3f}'} | {mib(trial.get('gpu_peak_bytes'))} |")
    if "run" in result:
        out += [f"\n## headroom run --gpu-limit {result['run']['limit']} -- python3 (PyTorch)\n", "```",
                (result["run"]["out"] + result["run"]["err"]).strip(), "```", f"Exit code {result['run']['status']}."]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--limit", default="600MiB")
    parser.add_argument("--only", default="phases,limit,parallel,tune,run,heuristic,turns,ledger")
    parser.add_argument("--markdown-only", action="store_true", help="write results.md from an earlier results.json")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = arguments.out / "results.json"
    if not arguments.markdown_only:
        arguments.build, arguments.models, arguments.out = (path.resolve() for path in (arguments.build, arguments.models,
                                                                                     arguments.out))
        export(arguments.models)
        result = json.loads(results.read_text()) if results.exists() else {}
        result["machine"] = machine()
        three = ["resnet50", "fcn_resnet50", "yolox_nano_640x640"]
        steps = {"phases": lambda: phases(arguments, three),
                 "limit": lambda: over_the_limit(arguments, three, arguments.limit),
                 "parallel": lambda: together(arguments, three + ["yolox_nano_416x416"], "8GiB"),
                 "tune": lambda: {"resnet50": tune(arguments, "resnet50"), "resnet50 in 210 MiB": tune(arguments, "resnet50", "210MiB"),
                                  "yolox_nano_640x640 in 127 MiB": tune(arguments, "yolox_nano_640x640", "127MiB")},
                 "run": lambda: run_torch(arguments, "4GiB"),
                 "heuristic": lambda: {model: latency(arguments, model, "heuristic") for model in three},
                 "exhaustive": lambda: {model: latency(arguments, model, "exhaustive") for model in three},
                 "turns": lambda: {"yolox_nano_640x640": in_turns(arguments, "yolox_nano_640x640", 900),
                                   "resnet50": in_turns(arguments, "resnet50", 1500)},
                 "ledger": lambda: {"yolox_nano_640x640": ledger_cost(arguments, "yolox_nano_640x640")}}
        for name in arguments.only.split(","):
            begin = time.monotonic()
            result[name] = steps[name]()
            print(name, round(time.monotonic() - begin, 1), "s", file=sys.stderr)
            for found in result.get("phases", {}).values():
                result["runtime"] = found.get("backend_version")
            results.write_text(json.dumps({key: lean(each) for key, each in result.items()}, indent=1) + "\n")
    (arguments.out / "results.md").write_text(markdown(json.loads(results.read_text())))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares `headroom bench --device cuda:0` for TorchScript modules on a real GPU with a PyTorch loop over the same module in the same
precision: P50 of alternating processes, device memory, and whether autocast was active.

    gpu_libtorch.py --build BIN --out FOLDER [--rounds 7] [--frames 300]

BIN contains headroom and libheadroom_backend_libtorch.so, built against the LibTorch of this python3 (docs/libtorch.md). The modules
are traced from torchvision with random weights, which don't affect times and sizes. Writes gpu_libtorch.json and .md.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SHAPES = {"resnet18": (1, 3, 224, 224), "resnet50": (1, 3, 224, 224), "mobilenet_v3_small": (1, 3, 224, 224)}
PRECISIONS = ("fp32", "fp16", "bf16")

# The same settings as the plug-in: frozen and optimized if nothing is cast, inference mode, input
# bound on the device.
LOOP = r"""
import json, statistics, sys, time, torch
path, precision, frames = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True
module = torch.jit.freeze(torch.jit.load(path, map_location="cuda:0").eval())
if precision == "fp32":
    module = torch.jit.optimize_for_inference(module)
host = torch.rand(1, 3, 224, 224).pin_memory()
bound = torch.empty(host.shape, device="cuda:0")
answer = torch.empty(1, 1000).pin_memory()
times = []
with torch.inference_mode(), torch.autocast("cuda", {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float16),
                                            enabled=precision != "fp32"):
    for index in range(30 + frames):
        begin = time.perf_counter_ns()
        bound.copy_(host, non_blocking=True)
        answer.copy_(module(bound).float(), non_blocking=True)
        torch.cuda.synchronize()
        if index >= 30:
            times.append(time.perf_counter_ns() - begin)
print(json.dumps({"p50_ns": statistics.median(times), "reserved": torch.cuda.memory_reserved(), "version": torch.__version__,
                  "device": torch.cuda.get_device_name(0)}))
"""


def trace_modules(folder):
    import torch
    import torchvision
    folder.mkdir(parents=True, exist_ok=True)
    for name, shape in SHAPES.items():
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(weights=None).eval()
        torch.jit.trace(model, torch.zeros(shape)).save(str(folder / f"{name}.pt"))


def answer_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240)
    if done.returncode != 0:
        return {"failed": done.stderr[-2000:], "status": done.returncode}
    return json.loads(done.stdout)


def headroom(arguments, name, precision):
    found = answer_of([arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--json", "--quiet", "--output-dir",
                       arguments.out / "outputs", "--prepared-dir", arguments.out / "prepared", "--model",
                       f"{name}={arguments.out / 'modules' / name}.pt", "--precision", precision, "--warmup", "30", "--max-frames",
                       arguments.frames])
    if "failed" in found:
        return found
    model = found["models"][0]
    if "latency_ns" not in model:
        return {"failed": model.get("error", "no latency"), "status": model.get("status")}
    return {"p50_ns": model["latency_ns"]["p50"], "device_p50_ns": model.get("device_latency_ns", {}).get("p50"),
            "settings": model.get("settings"), "gpu_memory": model.get("gpu_memory")}


def measure(arguments):
    found = []
    for name in SHAPES:
        for precision in PRECISIONS:
            rounds = []
            for index in range(arguments.rounds):
                one = {}
                for side in (("headroom", "pytorch") if index % 2 == 0 else ("pytorch", "headroom")):
                    one[side] = (headroom(arguments, name, precision) if side == "headroom" else
                                 answer_of([sys.executable, "-c", LOOP, arguments.out / "modules" / f"{name}.pt", precision,
                                            arguments.frames]))
                failure = next((side for side in one if "failed" in one[side]), None)
                if failure:
                    rounds = []
                    found.append({"model": name, "precision": precision, "side": failure, **one[failure]})
                    break
                rounds.append(one)
            if rounds:
                found.append({"model": name, "precision": precision, "rounds": rounds})
            print(json.dumps({key: found[-1].get(key) for key in ("model", "precision", "failed")}), file=sys.stderr, flush=True)
            save(arguments, found)
    return found


def save(arguments, found):
    (arguments.out / "gpu_libtorch.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = ["| module | precision | PyTorch's loop, P50 | Headroom, P50 | ratio (lowest to highest) | on the device, P50 |", "|---|---|--:|--:|--:|--:|"]
    for each in found:
        if "rounds" not in each:
            lines.append(f"| {each['model']} | {each['precision']} | failed: {each['failed'][-200:]} | | | |".replace("\n", " "))
            continue
        ours, theirs, device = ([one[side][key] / 1e6 for one in each["rounds"]] for side, key in
                                (("headroom", "p50_ns"), ("pytorch", "p50_ns"), ("headroom", "device_p50_ns")))
        ratios = [a / b for a, b in zip(ours, theirs)]
        lines.append(f"| {each['model']} | {each['precision']} | {statistics.median(theirs):.3f} ms | {statistics.median(ours):.3f} ms | "
                     f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {statistics.median(device):.3f} ms |")
    machine = next((one["pytorch"] for each in found for one in each.get("rounds", [])), {})
    (arguments.out / "gpu_libtorch.md").write_text(
        f"# TorchScript on a GPU: headroom bench compared with PyTorch's own loop\n\n{machine.get('device', '')}, torch {machine.get('version', '')}; "
        f"{arguments.rounds} alternating rounds, {arguments.frames} frames each. `benchmarks/gpu_libtorch.py --build BIN --out FOLDER`\n\n"
        + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--frames", type=int, default=300)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    trace_modules(arguments.out / "modules")
    measure(arguments)


if __name__ == "__main__":
    main()

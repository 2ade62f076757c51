#!/usr/bin/env python3
"""Checks on a real GPU that the cures of `headroom doctor` help, with `--try`: for models exported by PyTorch with default settings
(exhaustive search for convolutions), and for a model that runs under a limit only after the cure.

    gpu_doctor_try.py --build BIN --models FOLDER --out FOLDER [--repeat 3]

BIN as for gpu_inference.py. Writes gpu_doctor_try.json and gpu_doctor_try.md.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import gpu_inference

FRAMES = 100
# A model, the GPU memory limit (None: no limit), and the expected finding.
CASES = [("fcn_resnet50", None, "convolution-search"), ("resnet50", None, None), ("fcn_resnet50", "600MiB", "model-out-of-memory")]


def mib(value):
    return "-" if value is None else f"{value / gpu_inference.MIB:,.1f}"


def rows_of(document):
    """For each tried cure: its name, the verdict, and the GPU run peak and latency before and after."""
    for finding in document["findings"]:
        for cure in finding["cures"]:
            tried = cure.get("tried")
            if tried is None:
                continue
            before, after = tried.get("before", {}), tried.get("after", {})
            latencies = " → ".join("-" if side.get("latency_ns") is None else f"{side['latency_ns'] / 1e6:.2f}" for side in (before, after))
            yield (finding["id"], tried["settings"], tried["verdict"], f"{mib(before.get('gpu_run_peak_bytes'))} → {mib(after.get('gpu_run_peak_bytes'))}",
                   latencies, tried["sentence"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    gpu_inference.export(arguments.models, {name for name, _, _ in CASES})
    head = ("model", "limit of the GPU", "finding", "cure", "verdict", "run peak of the GPU, MiB", "latency, ms", "message")
    table, documents, wrong = [head, ("---",) * len(head)], [], 0
    for name, limit, expected in CASES:
        outputs = arguments.out / "runs" / f"{name}-{limit}"
        bench = [arguments.build / "headroom", "bench", "--device", "cuda:0", "--task", "none", "--quiet", "--max-frames", FRAMES,
                 "--model", f"{name}={arguments.models / name}.onnx", "--prepared-dir", arguments.out / "prepared", "--output-dir", outputs]
        done, _ = gpu_inference.run(bench + (["--gpu-mem-limit", limit] if limit else []))
        if done.returncode > 1:
            sys.exit(f"headroom bench {name}: {done.returncode}: {done.stderr[-2000:]}")
        run = max(outputs.iterdir())
        done, seconds = gpu_inference.run([arguments.build / "headroom", "doctor", run, "--try", "--repeat", arguments.repeat, "--json"], timeout=400)
        if done.returncode > 1:
            print(f"headroom doctor {name} {limit}: {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
            wrong += 1
            continue
        document = json.loads(done.stdout)
        documents.append({"model": name, "limit": limit, "seconds": seconds, **document})
        found = [finding["id"] for finding in document["findings"]]
        wrong += expected is not None and expected not in found
        rows = list(rows_of(document)) or [(", ".join(found) or "none", "-", "-", "-", "-", "nothing was tried")]
        table += [(name, limit or "none", *row) for row in rows]
        print(name, limit, found, f"{seconds} s", file=sys.stderr)
    machine = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    (arguments.out / "gpu_doctor_try.json").write_text(json.dumps({"machine": machine, "documents": documents}, indent=1))
    lines = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in table)
    (arguments.out / "gpu_doctor_try.md").write_text(
        f"# The cures of `headroom doctor` on a real GPU\n\n{machine}. Command: `benchmarks/gpu_doctor_try.py`, {FRAMES} frames, {arguments.repeat} runs each in turns.\n\n{lines}")
    print(lines)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares `headroom bench --task vos` on a CPU with the Python predictor of transformers on the same threads, by turns.

    vos_cpu.py --build BIN --out OUT --threads 2

EdgeTAM at 512 pixels with the same random weights: exported to ONNX for ONNX Runtime, and eager PyTorch. One object. Compares the
median time of a frame: of all frames, and of the predictor's frames after --warm. Writes vos_cpu.json and .md after each round. Needs
torch, transformers 5, timm, onnx, onnxscript, Pillow.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import gpu_vos

ROOT = gpu_vos.ROOT


def page(found, options):
    lines = ["# Video object segmentation on a CPU: headroom bench compared with the Python predictor", "",
             f"{found['cpu']}, {options.threads} threads; {found['version']}, ONNX Runtime; torch {found.get('torch')}, transformers "
             f"{found.get('transformers')}. {options.model}, {options.size} pixels, random weights, 32 bits, one object, {options.frames} frames "
             f"(predictor: after {options.warm}).", "", f"`benchmarks/vos_cpu.py --build BIN --out OUT --threads {options.threads}`", "",
             "| round | predictor, ms a frame | headroom, ms a frame | frames per second, by the predictor's | anonymous memory beyond the runtime, MiB: "
             "predictor, headroom |", "|--:|--:|--:|--:|---|"]
    ratios = []
    for number, run in enumerate(found["rounds"]):
        failed = next((side["failed"] for side in run.values() if "failed" in side), None)
        if failed:
            lines.append(f"| {number + 1} | failed: {failed} | | | |".replace("\n", " "))
            continue
        theirs, ours = run["predictor"]["runs"][0], run["headroom"]
        ratios.append(theirs["p50"] * 1e9 / ours["latency_ns"]["p50"])
        lines.append(f"| {number + 1} | {theirs['p50'] * 1e3:.1f} | {ours['latency_ns']['p50'] / 1e6:.1f} | {ratios[-1]:.2f} | "
                     f"{gpu_vos.mib(theirs['anonymous'] - run['predictor']['machine']['runtime'])}, "
                     f"{gpu_vos.mib((ours['anonymous'] or 0) - (ours['runtime'] or 0))} |")
    if ratios:
        lines += ["", f"Median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); more is faster than the predictor."]
        bank = found["rounds"][-1].get("headroom", {}).get("bank_bytes")
        lines += ["", f"Memory bank of the object: {bank / 1024:.1f} KiB."] if bank else []
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with headroom and its plug-ins")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/vos")
    parser.add_argument("--model", default="edgetam")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--warm", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800, help="seconds of one run")
    options = parser.parse_args()
    options.build, options.out, options.work = (folder.resolve() for folder in (options.build, options.out, options.work))
    options.device, options.python = "cpu", sys.executable
    options.environment = {**os.environ, "HEADROOM_BACKEND_PATH": str(options.build), "HF_HUB_OFFLINE": "1"}
    for folder in (options.out, options.work):
        folder.mkdir(parents=True, exist_ok=True)
    side = gpu_vos.write_pictures(options.work / "speed/one", options.frames)
    gpu_vos.write_prompts(options.work / "one.json", {"one": 1}, side)
    model = options.work / f"{options.model}_{options.size}_onnx"
    subprocess.run([sys.executable, ROOT / "python/export_vos.py", "--source", "transformers", "--checkpoint", "random:1", "--model",
                    options.model, "--size", str(options.size), "--threads", str(options.threads), "--output", model], check=True,
                   env=options.environment)
    found = {"cpu": gpu_vos.processor(), "rounds": [],
             "version": subprocess.run([options.build / "headroom", "--version"], capture_output=True, text=True, check=True).stdout.strip()}
    sides = {
        "predictor": lambda: gpu_vos.predictor(options, options.model, 1, options.size, "fp32", options.limit, options.frames, options.warm),
        "headroom": lambda: gpu_vos.bench(options, model, options.work / "speed", options.work / "one.json", options.work / "prepared_cpu",
                                          ("--warmup", 3, "--limit-videos", 1), options.limit)}
    for number in range(options.rounds):
        run = {side: sides[side]() for side in (list(sides) if number % 2 == 0 else reversed(list(sides)))}
        found["rounds"].append(run)
        found.update({key: value for key, value in run["predictor"].get("machine", {}).items() if key in ("torch", "transformers")})
        (options.out / "vos_cpu.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.out / "vos_cpu.md").write_text(page(found, options))
        print(next(line for line in page(found, options).splitlines() if line.startswith(f"| {number + 1} |")), flush=True)
    print(page(found, options))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Whether memory grows with the length of a video: `headroom bench --task vos` over 2,000 frames with 1, 3 and 10 objects, on a CPU.

    vos_growth.py --build BIN --out OUT

Runs each number of objects twice. Under `headroom trace --full`: live bytes from frame 40 on (the bank is full after 16) to the end,
as the lowest value of each 2 % of the clip. Untraced: the slope of anonymous memory with its 95 % interval, and the bank's bytes an
object. The nets are the small random ones of the tests. Needs PyTorch and Pillow for the pictures. Writes vos_growth.json and .md.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess

import gpu_vos

ROOT = gpu_vos.ROOT
PART = 0.02


def live_bytes(headroom, recording, phases, frames):
    """Lowest live bytes in each part of the clip. Phases and recording both count from the start of the worker."""
    report = json.loads(subprocess.run([headroom, "report", recording, "--json"], capture_output=True, text=True, check=True).stdout)
    times = {phase["phase"]: phase["time_ns"] for phase in phases}
    begin, length = times["warm"], times["running"] - times["warm"]
    first = math.ceil(40 / frames / PART)
    timeline, lowest = report["timeline"], {}
    for at, value in zip(timeline["start_ns"], timeline["lowest_bytes"]):
        part = int((at - begin) / length / PART)
        if first <= part < round(1 / PART) - 1:  # not the last part, in which the clip ends
            lowest[part] = min(value, lowest.get(part, value))
    return {"events": report["events"], "complete": report["complete"], "parts": [lowest[part] for part in sorted(lowest)]}


def measure(options, objects):
    prompts = options.work / f"growth{objects}.json"
    gpu_vos.write_prompts(prompts, {"clip": objects}, 256)
    flags = ("--warmup", 3)
    recording = options.work / "growth.hrec"
    shutil.rmtree(str(recording) + ".d", ignore_errors=True)
    headroom = options.build / "headroom"
    untraced = gpu_vos.bench(options, options.model, options.work / "growth", prompts, options.work / "prepared", flags, options.limit)
    print(f"{objects} objects, untraced: {untraced.get('failed') or [clip['growth_per_frame'] for clip in untraced['clips']]}", flush=True)
    traced = gpu_vos.bench(options, options.model, options.work / "growth", prompts, options.work / "prepared", flags, options.limit,
                           (headroom, "trace", "--full", "--stacks", "off", "--layers", "off", "--force", "--out", recording, "--"))
    result = {"untraced": untraced, "traced": traced}
    if "failed" not in traced:
        files = sorted(pathlib.Path(str(recording) + ".d").glob("*.hrec"), key=lambda file: file.stat().st_size)
        result["live"] = live_bytes(headroom, files[-1], traced["phases"], options.frames)
        parts = result["live"]["parts"]
        result["live_growth_bytes"] = parts[-1] - parts[0] if len(parts) > 1 else None
    shutil.rmtree(str(recording) + ".d", ignore_errors=True)
    print(f"{objects} objects, traced: {traced.get('failed') or result.get('live_growth_bytes')} bytes", flush=True)
    return result


def page(found, options):
    lines = ["# Video object segmentation: memory over the length of a clip", "",
             f"{found['cpu']}; {found['version']}. {options.frames} frames, {options.model.name} net of the tests, ONNX Runtime, "
             f"{options.threads} thread.", "", "`benchmarks/vos_growth.py --build BIN --out OUT`", "",
             "| objects | live bytes, growth over the clip | anonymous memory, bytes a frame (95 %) | bank, KiB an object | allocations recorded |",
             "|--:|--:|--:|--:|--:|"]
    for objects, run in found["runs"].items():
        untraced, live = run["untraced"], run.get("live")
        if "failed" in untraced or live is None:
            lines.append(f"| {objects} | failed: {untraced.get('failed') or run['traced'].get('failed')} | | | |".replace("\n", " "))
            continue
        growth = untraced["clips"][0].get("growth_per_frame") or {"bytes": 0, "low_bytes": 0, "high_bytes": 0}
        lines.append(f"| {objects} | {run['live_growth_bytes']:+,} | {growth['bytes']:+.1f} ({growth['low_bytes']:+.1f} to {growth['high_bytes']:+.1f}) | "
                     f"{untraced['bank_bytes'] / objects / 1024:.1f} | {live['events']:,}{'' if live['complete'] else ' (incomplete)'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with headroom and its plug-ins")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/vos")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "tests/golden/vos/edgetam")
    parser.add_argument("--objects", default="1,3,10")
    parser.add_argument("--frames", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds of one run")
    options = parser.parse_args()
    options.device, options.environment = "cpu", {**os.environ, "HEADROOM_BACKEND_PATH": str(options.build.resolve())}
    options.build, options.out, options.work, options.model = (folder.resolve() for folder in
                                                               (options.build, options.out, options.work, options.model))
    for folder in (options.out, options.work):
        folder.mkdir(parents=True, exist_ok=True)
    gpu_vos.write_pictures(options.work / "growth/clip", options.frames)
    found = {"cpu": gpu_vos.processor(), "runs": {},
             "version": subprocess.run([options.build / "headroom", "--version"], capture_output=True, text=True, check=True).stdout.strip()}
    for objects in map(int, options.objects.split(",")):
        found["runs"][objects] = measure(options, objects)
        (options.out / "vos_growth.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.out / "vos_growth.md").write_text(page(found, options))
    print(page(found, options))


if __name__ == "__main__":
    main()

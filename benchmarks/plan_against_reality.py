#!/usr/bin/env python3
"""Compares plans with measurements: ten sets of real ONNX models. Each model is measured alone, the joint peak is planned, and the
models are measured all at once.

    benchmarks/plan_against_reality.py [--build build/release] [--models FOLDER …] [--sets N] [--out benchmarks/results/plan_against_reality]

Models are those of `make demo` (.deps/models) and the shared test data, if available. For each set:
  1. `headroom plan` predicts the peak from footprints of the single models (an earlier run of `headroom bench`);
  2. `headroom bench --parallel` measures the charge of the control group, and `headroom plan --verify` compares both;
  3. without a control group, the resident pages of all processes are measured, each page once: the memory that the machine needs;
  4. the set runs under a hard limit of the planned charge plus the 2 % by which a plan may be too low ("fits"), and under 90 %
     of the charge ("does not fit"); `headroom plan --mem-limit` predicts both results.
Uses only the Python standard library. Writes OUT.json and OUT.md; exits 1 if a bound is missed.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1024 * 1024
FRAMES = 1  # frames that each model holds
TIMES = 3  # measurements of each model alone; the plan uses the median
PICTURES = ["data/messi5.jpg", "text/scenetext01.jpg", "text/scenetext02.jpg", "data/building.jpg"]

FILES = {
    "text": "ch_PP-OCRv4_det_infer.onnx", "words": "ch_PP-OCRv4_rec_infer.onnx",
    "face": "face_detection_back_256x256_barracuda.onnx", "near_face": "face_detection_front_128x128_barracuda.onnx",
    "lines": "mlsd_320x320_tiny.onnx", "large_lines": "mlsd_512x512_large.onnx",
    "yolox416": "yolox_nano_416x416.onnx", "yolox640": "yolox_nano_640x640.onnx", "yolox1280": "yolox_nano_1280x1280.onnx",
    "fastest": "FastestDet.onnx", "yunet": "yunet_n_320_320.onnx", "ultraface": "ultraface_rfb_320.onnx",
    "selfie": "selfie_segmentation_landscape.onnx", "bodypix": "bodypix_mbv1_050_s16.onnx", "mnist": "mnist.onnx",
}
SETS = [
    ["text", "face", "lines"],
    ["near_face", "lines", "large_lines"],
    ["text", "words", "face", "large_lines"],
    ["face", "near_face"],
    ["yolox640", "ultraface", "text"],
    ["yolox416", "yolox640", "yolox1280"],
    ["yolox1280", "ultraface", "large_lines", "face", "fastest"],
    ["yunet", "ultraface", "face", "near_face"],
    ["selfie", "bodypix", "yolox416", "mnist"],
    ["text", "words", "face", "near_face", "lines", "yolox640", "fastest", "selfie"],
]


def headroom(options, *arguments, expected=(0,)):
    command = [f"{options.build}/bin/headroom", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=options.folder, check=False)
    if done.returncode not in expected:
        raise SystemExit(f"plan_against_reality.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def bench(options, name, models, frames, *flags, expected=(0,)):
    outputs = pathlib.Path(options.folder) / name
    arguments = ["bench", "--source", options.source, "--max-frames", options.max_frames, "--max-frames-in-mem", frames, "--sample-images", 0, "--warmup", 2, "--threads", 1,
                 "--output-dir", outputs, "--prepared-dir", pathlib.Path(options.folder) / f"prepared-{name}", "--quiet"]
    for model in models:
        arguments += ["--model", f"{model}={options.files[model]}"]
    done = headroom(options, *arguments, *flags, expected=expected)
    runs = sorted(outputs.iterdir()) if outputs.exists() else []
    return done, (runs[-1] if runs else None)


def report_of(run):
    return json.loads((run / "report.json").read_text())


def write_budget(options, name, models, total):
    lines = ['start = "together"', "[device]", f'total = "{total}B"', 'system = "0B"', "[rules]", 'most_used = "100 %"', 'healthy_used = "100 %"', 'buffer = "0B"']
    for model in models:
        lines += ["[[component]]", f'name = "{model}"', f'model = "{model}"']
    path = pathlib.Path(options.folder) / f"{name}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def plan(options, name, models, total, *flags, expected=(0, 1)):
    budget = write_budget(options, name, models, total)
    done = headroom(options, "plan", budget, "--footprints", "alone", "--json", *flags, expected=expected)
    return json.loads(done.stdout)


# Whether all models finished under a hard limit of this many bytes.
def runs_under(options, name, models, limit):
    done, run = bench(options, name, models, FRAMES * len(models), "--parallel", "--mem-limit", f"{limit}B", expected=(0, 1, 2))
    if run is None or not (run / "report.json").exists():
        return {"limit_bytes": limit, "came_through": False, "why": done.stderr.strip().splitlines()[-1:]}
    report = report_of(run)
    together = (report.get("parallel") or {}).get("together") or []
    # A model that fails alone is not tried together with others.
    ended = {model["name"]: model["status"] for model in report["models"] + together}
    all_ok = len(together) == len(models) and all(status == "ok" for status in ended.values())
    return {"limit_bytes": limit, "limit_type": report["limit"]["type"], "came_through": all_ok, "status": ended}


def measure_set(options, number, models):
    name = f"set{number}"
    first = plan(options, name, models, 1 << 40)
    peak, charged = first["peak_bytes"], first["charged_peak_bytes"]
    enough, too_little = charged * 100 // 98, charged * 9 // 10
    _, run = bench(options, f"{name}-joint", models, FRAMES * len(models), "--parallel")
    verified = json.loads(headroom(options, "plan", write_budget(options, name, models, 1 << 40), "--footprints", "alone", "--verify", run,
                                   "--json", expected=(0, 1)).stdout)
    _, run = bench(options, f"{name}-shares", models, FRAMES * len(models), "--parallel", "--limit-mechanism", "watchdog", "--mem-limit", "64GiB")
    shares = json.loads(headroom(options, "plan", write_budget(options, name, models, 1 << 40), "--footprints", "alone", "--verify", run,
                                 "--json", expected=(0, 1)).stdout)
    fits = runs_under(options, f"{name}-fits", models, enough)
    fits["verdict"] = plan(options, name, models, 1 << 40, "--mem-limit", f"{enough}B")["verdict"]
    fails = runs_under(options, f"{name}-fails", models, too_little)
    fails["verdict"] = plan(options, name, models, 1 << 40, "--mem-limit", f"{too_little}B")["verdict"]
    joint, machine = verified["joint"], shares["joint"]
    return {
        "models": models, "planned_peak_bytes": peak, "joint_peak_source": verified["joint_peak_source"],
        "planned_charged_bytes": joint["planned_bytes"], "measured_charged_bytes": joint["measured_bytes"], "off": joint["off"],
        "machine_source": shares["joint_peak_source"], "planned_machine_bytes": machine["planned_bytes"], "measured_machine_bytes": machine["measured_bytes"],
        "machine_off": machine["off"],
        "components": verified["components"], "fits": fits, "does_not_fit": fails,
        "holds": -0.02 <= joint["off"] <= 0.05 and -0.02 <= machine["off"] <= 0.05,
        "limits_hold": fits["came_through"] and fits["verdict"] != "does_not_fit" and not fails["came_through"]
        and fails["verdict"] == "does_not_fit",
    }


def words_for_limits(each):
    def words(side, is_good):
        limit = f"{side['limit_bytes'] / MIB:.1f}"
        return f"{limit}: {'finished' if side['came_through'] else 'failed'}{'' if side['came_through'] == is_good else ' (!)'}"
    return words(each["fits"], True), words(each["does_not_fit"], False)


def markdown(result):
    lines = [
        "# Plans compared with measurements", "",
        f"{result['machine']}, {result['date']}. Command: `benchmarks/plan_against_reality.py`, which also writes this file. ONNX Runtime on the CPU, one thread per model. Each model was measured "
        f"alone {TIMES} times, in separate processes, and the plan uses the median; each model holds {FRAMES} frame; MiB. *Charged*: the peak that the kernel charged to the models' common control group. "
        "*Machine*: resident pages of the models' processes, each page once: the largest sum of all samples, without a group. It does not include kernel pages (page tables), and neither does the plan "
        "that it is compared with; the peak that `headroom plan` prints includes them.", "",
        "| set | planned, charged | measured | error | planned, machine | measured | error | printed peak | limit: charge plus 2 % | limit: 90 % of the charge |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for each in result["sets"]:
        fits, fails = words_for_limits(each)
        lines.append(
            f"| {', '.join(each['models'])} | {each['planned_charged_bytes'] / MIB:.1f} | {each['measured_charged_bytes'] / MIB:.1f} | {100 * each['off']:+.1f} % "
            f"| {each['planned_machine_bytes'] / MIB:.1f} | {each['measured_machine_bytes'] / MIB:.1f} | {100 * each['machine_off']:+.1f} % "
            f"| {each['planned_peak_bytes'] / MIB:.1f} | {fits} | {fails} |")
    off, machine_off = [each["off"] for each in result["sets"]], [each["machine_off"] for each in result["sets"]]
    lines += ["", f"The errors of the plans are {100 * min(off):+.1f} to {100 * max(off):+.1f} % of the group's charge, and {100 * min(machine_off):+.1f} to {100 * max(machine_off):+.1f} % of "
              "the machine's need; the allowed error is -2 to +5 %. "
              f"{sum(each['holds'] for each in result['sets'])} of {len(off)} sets are within it. For {sum(each['limits_hold'] for each in result['sets'])} sets, both limits had the planned result.", ""]
    return "\n".join(lines)


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores, kernel {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--models", nargs="*", default=[str(ROOT / ".deps/models"), os.environ.get("HEADROOM_SHARED_DATA", str(ROOT.parent / "shared/data")) + "/models"])
    parser.add_argument("--source", default="")
    parser.add_argument("--max-frames", type=int, default=4)
    parser.add_argument("--sets", type=int, default=len(SETS))
    parser.add_argument("--out", default=str(ROOT / "benchmarks/results/plan_against_reality"))
    options = parser.parse_args()
    options.build = str(pathlib.Path(options.build).resolve())
    if not options.source:
        examples = subprocess.run([ROOT / "scripts/opencv_examples.sh"], capture_output=True, text=True, check=True).stdout.strip()
        options.pictures = [pathlib.Path(examples) / picture for picture in PICTURES]
    options.files = {}
    for name, file in FILES.items():
        found = [pathlib.Path(folder) / file for folder in options.models if (pathlib.Path(folder) / file).exists()]
        if found:
            options.files[name] = found[0]
    sets = [models for models in SETS if all(model in options.files for model in models)][: options.sets]
    if len(sets) < min(options.sets, len(SETS)):
        print(f"plan_against_reality.py: {len(SETS) - len(sets)} sets skipped: models not found", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        wanted = sorted({model for models in sets for model in models})
        if not options.source:
            (pathlib.Path(folder) / "pictures").mkdir()
            for picture in options.pictures:
                shutil.copy(picture, pathlib.Path(folder) / "pictures")
            options.source = f"image_dir={folder}/pictures"
        for _ in range(TIMES):
            bench(options, "alone", wanted, FRAMES)
        result = {"machine": machine(), "date": datetime.date.today().isoformat(), "sets": []}
        for number, models in enumerate(sets):
            each = measure_set(options, number, models)
            result["sets"].append(each)
            print(f"{', '.join(models)}: {100 * each['off']:+.1f} % by group, {100 * each['machine_off']:+.1f} % of the machine; "
                  f"{', '.join(words_for_limits(each))}", flush=True)
    pathlib.Path(options.out + ".json").write_text(json.dumps(result, indent=1) + "\n")
    pathlib.Path(options.out + ".md").write_text(markdown(result))
    sys.exit(0 if all(each["holds"] and each["limits_hold"] for each in result["sets"]) else 1)


if __name__ == "__main__":
    main()

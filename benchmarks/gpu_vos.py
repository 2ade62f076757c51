#!/usr/bin/env python3
"""Compares `headroom bench --task vos` on a GPU with the Python predictor of transformers, by turns (random weights).

    gpu_vos.py --build BIN --plugin FOLDER --out OUT

Exports EdgeTAM and SAM2.1-tiny, measures speed and memory with one and three objects, growth over 2,000 frames with 1, 3 and 10
objects, and verifies exports of every size against the predictor. Saves gpu_vos.json and gpu_vos.md after each step. No step starts
that could not end within --seconds. gpu_vos.sh builds the plug-in first. `--device cpu --narrow --size 256` tries it without a GPU.
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN = time.monotonic()
SIZES = ("tiny", "small", "base_plus", "large")
MIB = 2 ** 20
BANK_FULL = 20  # frames: 16, and three runs of full size before the run that is captured


def say(text):
    print(f"{time.monotonic() - BEGIN:6.1f} s  {text}", flush=True)


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


def last_lines(text, count=3):
    return " / ".join(line.strip() for line in text.strip().splitlines()[-count:])[-500:]


# --- Pictures and prompts

def write_pictures(folder, count, different=100, side=256):
    """`count` pictures of a made clip; after `different` ones they repeat, as hard links."""
    sys.path.insert(0, str(ROOT / "python"))
    import torch
    import vos_clips
    from PIL import Image
    folder.mkdir(parents=True, exist_ok=True)
    video, _ = vos_clips.make_clips(1, min(count, different), side, 3, torch.Generator().manual_seed(vos_clips.FIRST_TEST_SEED))
    for index in range(count):
        file = folder / f"{index:05d}.jpg"
        file.unlink(missing_ok=True)
        if index < different:
            Image.fromarray((video[0, index].permute(1, 2, 0) * 255).round().byte().numpy()).save(file, quality=92)
        else:
            os.link(folder / f"{index % different:05d}.jpg", file)
    return side


def write_prompts(file, objects_of, side):
    """A point for each object, in a row, as vos_predictor.py sets them."""
    prompts = [{"video": video, "object": index + 1, "frame": 0, "points": [[side * (index + 1) / (count + 1), side / 2]]}
               for video, count in objects_of.items() for index in range(count)]
    file.write_text(json.dumps({"prompts": prompts}))


# --- headroom bench

def figures_of_processes(root):
    """Anonymous memory of each descendant of `root`."""
    children, anonymous = {}, {}
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if "RssAnon" in fields:
            pid = int(fields["Pid"])
            children.setdefault(int(fields["PPid"]), []).append(pid)
            anonymous[pid] = int(fields["RssAnon"].split()[0]) * 1024
    found, waiting = {}, list(children.get(root, []))
    while waiting:
        pid = waiting.pop()
        found[pid] = anonymous[pid]
        waiting += children.get(pid, [])
    return found


def run_watched(command, environment, limit):
    """Runs a command; returns its status, output, errors, and the highest anonymous memory of its last large process."""
    process = subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    highest, ended = {}, threading.Event()  # by process, in the order of their start

    def watch():
        while not ended.wait(0.1):
            for pid, value in figures_of_processes(process.pid).items():
                highest[pid] = max(value, highest.get(pid, 0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, errors = process.communicate(timeout=max(1, limit))
    except subprocess.TimeoutExpired:
        for pid in [process.pid, *figures_of_processes(process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        output, errors = process.communicate()
        errors += f"\nstopped after {limit:.0f} s"
    ended.set()
    watcher.join()
    large = [value for value in highest.values() if 2 * value >= max(highest.values())]
    return process.returncode, output, errors, large[-1] if large else None


def add_steady_rates(result, folder, model):
    """Adds `steady_fps` to each clip: frames from BANK_FULL on by their time, as vos_predictor.py counts."""
    with open(max(folder.glob(f"*/frames/{model}.csv"), key=os.path.getmtime), encoding="ascii") as lines:
        times = [int(row["inference_ns"]) for row in csv.DictReader(lines)]
    begin = 0
    for clip in result["clips"]:
        counted = times[begin + BANK_FULL:begin + clip["frames"]]
        begin += clip["frames"]
        if counted:
            clip["steady_fps"] = 1e9 * len(counted) / sum(counted)


def bench(options, model, dataset, prompts, prepared, flags=(), limit=100, before=()):
    """Figures of one model in a run of headroom bench; `failed` if there are none. `before`: words before the command."""
    name = pathlib.Path(model).name.replace("_", "-")
    command = [*before, options.build / "headroom", "bench", "--task", "vos", "--dataset", dataset, "--prompts", prompts, "--model", f"{name}={model}",
               "--device", options.device, "--max-frames", options.frames, "--sample-images", 0, "--json", "-v", "--output-dir",
               options.out / "runs", "--prepared-dir", prepared, *flags]
    if options.threads:
        command += ["--threads", options.threads]
    begin = time.monotonic()
    status, output, errors, anonymous = run_watched(command, options.environment, limit)
    seconds, found = time.monotonic() - begin, None
    (options.out / "last_run.log").write_text(errors)
    try:
        found = json.loads(output)["models"][0]
        clips = found["vos"]["clips"]
    except (ValueError, KeyError, IndexError):
        return {"failed": (found or {}).get("error") or last_lines(errors, 8) or f"status {status}", "seconds": seconds, "command": " ".join(map(str, command))}
    loads = found["vos"].get("loads_bytes") or [None]
    result = {"seconds": seconds, "fps": found.get("fps"), "latency_ns": {key: found["latency_ns"][key] for key in ("mean", "p50", "p90", "p99")},
              "stages_ns": {name: stage["mean"] for name, stage in found["stages_ns"].items()}, "anonymous": anonymous,
              "runtime": loads[0], "phases": found["phases"], "bank_bytes": found["vos"].get("bank_bytes"), "clips": clips, "memory": found["memory"],
              "settings": found["settings"], "warnings": found["warnings"], "leaks": found["vos"].get("leaks")}
    add_steady_rates(result, options.out / "runs", name)
    if "device_latency_ns" in found:
        result["device_mean_ns"] = found["device_latency_ns"]["mean"]
    if "gpu_memory" in found:
        result["gpu_memory"] = found["gpu_memory"]
    if found.get("status") != "ok":
        result["error"] = found.get("error") or found.get("status")
    return result


def predictor(options, model, objects, size, precision, limit=100, frames=60, warm=20):
    """The lines of vos_predictor.py: the machine, then one for each number of objects."""
    command = [options.python, ROOT / "benchmarks/vos_predictor.py", "--model", model, "--size", size, "--device", options.device,
               "--precision", precision, "--objects", objects, "--pictures", options.work / "speed/one", "--frames", frames, "--warm", warm,
               "--threads", options.threads]
    begin = time.monotonic()
    status, output, errors, _ = run_watched(command, options.environment, limit)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    result = {"seconds": time.monotonic() - begin}
    if len(lines) < 2:
        return {**result, "failed": last_lines(errors) or f"status {status}"}
    return {**result, "machine": lines[0], "runs": lines[1:]}


# --- The steps

def command_of(words):
    """The call of gpu_vos.sh, without folders of this machine."""
    folders = ("--build", "--plugin", "--plugin-status", "--out", "--work", "--add-to")
    kept = [word for before, word in zip(["", *words], words) if word not in folders and before not in folders]
    return " ".join(["benchmarks/gpu_vos.sh BIN OUT", *kept])


class Session:
    def __init__(self, options):
        self.options, self.names = options, ["edgetam-narrow", "narrow"] if options.narrow else ["edgetam", "tiny"]
        self.found = {"commands": [command_of(sys.argv[1:])], "machine": {}, "exports": {}, "speed": [], "growth": {}, "verified": {}}
        self.background = {}  # name -> process of --verify

    def left(self):
        return self.options.seconds - (time.monotonic() - BEGIN)

    def save(self):
        (self.options.out / "gpu_vos.json").write_text(json.dumps(self.found, indent=1) + "\n")
        (self.options.out / "gpu_vos.md").write_text(page(self.found))

    def export(self, model, folder, size, *words, device=None, threads=4):
        options = self.options
        log = open(options.work / f"export_{folder.name}.log", "w", encoding="utf-8")
        command = [options.python, "-u", ROOT / "python/export_vos.py", "--source", "transformers", "--checkpoint", "random:1", "--model", model,
                   "--size", size, "--format", "torchscript", "--threads", options.threads or threads, "--device", device or options.device,
                   "--output", folder, *words]
        return subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT, env=options.environment,
                                start_new_session=True)

    def log_of(self, folder_name):
        return (self.options.work / f"export_{folder_name}.log").read_text()

    def prepare(self):
        options = self.options
        half = ["--fp16"] if options.precision == "float16" else []
        kinds = {"fused": ["--uint8", *(["--fused-attention"] if options.fused else [])],
                 **({"static": ["--uint8", "--static", "7,16"]} if options.all else {})}
        wanted = {f"{name}_{kind}": (name, options.size, *half, *words) for name in self.names for kind, words in kinds.items()}
        wanted["edgetam_long"] = (self.names[0], options.long_size, *half, *kinds["fused"])
        if options.growth_only:
            wanted = {"edgetam_long": wanted["edgetam_long"]}
        running = {folder: self.export(words[0], options.work / folder, *words[1:]) for folder, words in wanted.items()}
        models = ["edgetam", *SIZES, *(f"{size}-2.0" for size in SIZES)] if not options.narrow else self.names
        verified = {} if options.growth_only else {f"{name}_fused": (name, *half, *kinds["fused"]) for name in self.names}  # what is measured
        verified.update({model: (model,) for model in models if options.all})
        for folder, words in verified.items():
            self.background[folder] = self.export(words[0], options.work / f"verify_{folder}", options.size, *words[1:], "--verify", threads=2)
            os.setpriority(os.PRIO_PROCESS, self.background[folder].pid, 10)
        side = write_pictures(options.work / "speed/one", options.frames)
        for video in ("three", "again"):  # "three" warms three objects up, "again" counts
            shutil.rmtree(options.work / "speed" / video, ignore_errors=True)
            shutil.copytree(options.work / "speed/one", options.work / "speed" / video, copy_function=os.link)
        write_prompts(options.work / "speed.json", {"one": 1, "three": 3, "again": 3}, side)
        write_pictures(options.work / "long/clip", options.long_frames)
        for objects in (1, 3, 10):
            write_prompts(options.work / f"long{objects}.json", {"clip": objects}, side)
        say("pictures are written")
        for folder, process in running.items():
            status = self.wait(process, options.speed_until / 2)
            if status != 0 and options.device != "cpu":
                say(f"export of {folder} on {options.device} failed, once more on the CPU: {last_lines(self.log_of(folder))}")
                self.found["exports"][folder + " on " + options.device] = last_lines(self.log_of(folder))
                status = self.wait(self.export(wanted[folder][0], options.work / folder, *wanted[folder][1:], device="cpu", threads=8),
                                   options.speed_until * 0.7)
            self.found["exports"][folder] = "ok" if status == 0 else last_lines(self.log_of(folder))
            say(f"export {folder}: {self.found['exports'][folder]}")
            self.save()

    @staticmethod
    def wait(process, until):
        try:
            return process.wait(timeout=max(1, until - (time.monotonic() - BEGIN)))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait()

    def wait_for_plugin(self):
        """Whether the plug-in is there. gpu_vos.sh writes the status of its build into a file."""
        status = self.options.plugin_status
        while status and not status.exists() and self.left() > 60:
            time.sleep(0.5)
        if status and (not status.exists() or status.read_text().strip() != "0"):
            log = self.options.out / "plugin.log"
            self.found["plugin"] = f"The LibTorch plug-in was not built: {last_lines(log.read_text(), 8) if log.exists() else ''}"
            say(self.found["plugin"])
            return False
        say("the LibTorch plug-in is ready")
        return True

    def collect_verified(self, until):
        for model, process in list(self.background.items()):
            try:
                status = process.wait(timeout=max(0.1, until - (time.monotonic() - BEGIN)))
            except subprocess.TimeoutExpired:
                continue
            del self.background[model]
            lines = [line for line in self.log_of(f"verify_{model}").splitlines() if line.startswith(("points:", "box:"))]
            self.found["verified"][model] = {"status": status, "lines": lines or [last_lines(self.log_of(f"verify_{model}"))],
                                             "size": self.options.size, "device": self.options.device}
            say(f"verify {model}: {'ok' if status == 0 else 'FAILED'}: {'; '.join(self.found['verified'][model]['lines'])}")
            shutil.rmtree(self.options.work / f"verify_{model}", ignore_errors=True)
            self.save()

    def signal_verify(self, number):
        for process in self.background.values():
            if process.poll() is None:
                os.killpg(process.pid, number)

    def speed(self, until, has_plugin):
        options = self.options
        half = options.precision == "float16"
        sides = {"predictor": lambda name, limit: predictor(options, name, "1,3", options.size, "fp16" if half else "fp32", limit,
                                                            options.predictor_frames, options.predictor_frames // 3)}
        if has_plugin:
            for side, kind, flags in (("graph", "fused", ("--capture-graph",)), ("headroom", "fused", ()),
                                      ("static", "static", ("--capture-graph",))):
                if "--capture-graph" in flags and options.device == "cpu" or side == "static" and not options.all:
                    continue
                # The other side fills no holes either.
                words = ["--warmup", 30 if half else 3, "--vos-profile", "evaluation", *flags]
                sides[side] = lambda name, limit, kind=kind, words=words: bench(
                    options, options.work / f"{name}_{kind}", options.work / "speed", options.work / "speed.json", options.work / "prepared",
                    words, limit)
        rounds = [["graph", "predictor"], ["headroom"], ["predictor", "graph", "headroom"], ["static"]]
        took = {}
        for number, order in enumerate(rounds):
            for name in self.names:
                for side in order:
                    left = until - (time.monotonic() - BEGIN)
                    if side not in sides or left < 1.1 * took.get(side, 25):
                        if side in sides:
                            say(f"speed {name} {side}, round {number + 1}: left out, {left:.0f} s remain")
                        continue
                    result = sides[side](name, min(90, left + 20))
                    took[side] = max(result["seconds"], took.get(side, 0))
                    self.found["speed"].append({"model": name, "side": side, "round": number, **result})
                    say(f"speed {name} {side}: {summary(self.found['speed'][-1])}")
                    self.save()

    def growth(self):
        options = self.options
        flags = ("--warmup", 3, *(["--capture-graph"] if options.device != "cpu" else []))
        options.frames = options.long_frames
        for objects in (1, 3, 10):  # all use the same prepared frames
            if self.left() < 30:
                say(f"growth, {objects} objects: left out, {self.left():.0f} s remain")
                continue
            self.found["growth"][objects] = bench(options, options.work / "edgetam_long", options.work / "long",
                                                  options.work / f"long{objects}.json", options.work / "prepared_long", flags, self.left() - 5)
            say(f"growth, {objects} objects: {summary({'side': 'growth', **self.found['growth'][objects]})}")
            self.save()


# --- The page

def slope(growth):
    if not growth:
        return "none"
    return f"{growth['bytes'] / MIB:+.4f} ({growth['low_bytes'] / MIB:+.4f} to {growth['high_bytes'] / MIB:+.4f})"


def mib(value):
    return "none" if value is None else f"{value / MIB:,.1f}"


def summary(run):
    if "failed" in run:
        return "failed: " + run["failed"]
    if "runs" in run:
        return ", ".join(f"{each['objects']} objects {each['fps']:.1f} FPS" for each in run["runs"])
    return ", ".join(f"{clip['objects']} objects {clip.get('steady_fps') or 0:.1f} FPS ({clip.get('fps') or 0:.1f} of the clip), GPU growth {slope(clip.get('gpu_growth_per_frame'))} MiB"
                     for clip in run["clips"])


def counted_clip(run, objects):
    clips = [clip for clip in run.get("clips", []) if clip["objects"] == objects]
    return clips[-1] if clips else None


def rows_of_speed(found):
    for run in found["speed"]:
        label = f"| {run['model']} | {run['side']} |"
        if "failed" in run:
            yield f"{label} | failed: {run['failed']} | | | | | | | |".replace("\n", " ")
        elif "runs" in run:
            for each in run["runs"]:
                yield (f"{label} {each['objects']} | {each['fps']:.1f} | {1e3 / each['fps']:.1f} | | {each['gpu_growth_a_frame'] / MIB:+.3f} | "
                       f"{mib(each.get('gpu_peak'))} (reserved {mib(each.get('gpu_reserved'))}) | {mib(each['anonymous'])} | "
                       f"{mib(each['anonymous'] - run['machine']['runtime'])} |")
        else:
            for objects in (1, 3):
                clip = counted_clip(run, objects)
                if clip is None or not clip.get("steady_fps"):
                    continue
                beyond = None if None in (run["anonymous"], run["runtime"]) else run["anonymous"] - run["runtime"]
                yield (f"{label} {objects} | {clip['steady_fps']:.1f} | {1e3 / clip['steady_fps']:.1f} | {clip['fps']:.1f} | {slope(clip.get('gpu_growth_per_frame'))} | "
                       f"{mib(clip.get('gpu_peak_bytes'))} | {mib(run['anonymous'])} | {mib(beyond)} |")


def banks(found):
    """The bank's bytes an object, by model."""
    for model in dict.fromkeys(run["model"] for run in found["speed"]):
        run = next((run for run in found["speed"] if run["model"] == model and run.get("bank_bytes")), None)
        if run:
            yield f"{model} {run['bank_bytes'] / max(clip['objects'] for clip in run['clips']) / MIB:.3f} MiB"


def rows_of_ratios(found):
    best = {}
    for run in found["speed"]:
        for objects, fps in ([(each["objects"], each["fps"]) for each in run["runs"]] if "runs" in run else
                             [(objects, (counted_clip(run, objects) or {}).get("steady_fps")) for objects in (1, 3)]):
            if fps:
                best.setdefault((run["model"], run["side"]), {}).setdefault(objects, []).append(fps)
    for (model, side), fps in best.items():
        base = best.get((model, "predictor"), {})
        median = {objects: sorted(values)[len(values) // 2] for objects, values in fps.items()}
        ratios = {objects: median[objects] / sorted(base[objects])[len(base[objects]) // 2] for objects in median if objects in base}
        cost = f"{median[1] / median[3]:.2f}" if {1, 3} <= median.keys() else ""
        yield f"| {model} | {side} | " + " | ".join(f"{ratios[objects]:.2f}" if objects in ratios else "" for objects in (1, 3)) + f" | {cost} |"


def page(found):
    machine = found["machine"]
    lines = ["# Video object segmentation on a GPU: headroom bench compared with the Python predictor", "",
             f"{machine.get('gpu') or machine.get('cpu')}, torch {machine.get('torch')}, transformers {machine.get('transformers')}. Random weights, "
             f"{machine.get('size')} pixels, {machine.get('precision')}, clips of {machine.get('frames')} frames. By turns, in the order of the rows:", "",
             *(f"- `{command}`" for command in found["commands"]), "",
             f"`predictor`: transformers, eager. `graph`: LibTorch with `--capture-graph`, graphs of `--uint8 --fused-attention`; `headroom`: the same "
             f"without it{'; `static`: plain attention, M and K fixed' if any(run['side'] == 'static' for run in found['speed']) else ''}. FPS counts from frame {BANK_FULL} on, when the bank is full, on each side; `clip` "
             "is the rate of the whole clip, with the runs before the capture. No side fills holes. Masks of random weights are noise; an object "
             "whose score is below 0 takes the same time.", "",
             "## Speed and memory", "",
             "| model | side | objects | FPS | ms a frame | clip | GPU growth, MiB a frame | GPU peak, MiB | anonymous, MiB | beyond the runtime, MiB |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|", *rows_of_speed(found), "",
             "The runtime of the predictor: after imports and first use of the device. Headroom's: after the model is unloaded. Headroom's "
             "anonymous memory is that of both numbers of objects; its GPU peak is what the driver allocated. Memory bank of an object: "
             f"{', '.join(banks(found)) or 'none'}.", "",
             "| model | side | FPS by the predictor's, 1 object | 3 objects | cost of 3 objects by 1 |", "|---|---|--:|--:|--:|",
             *rows_of_ratios(found), "", f"## EdgeTAM, {machine.get('long_frames')} frames at {machine.get('long_size')} pixels", "",
             "| objects | FPS | growth, MiB a frame (95 %) | GPU growth | bank, MiB an object |", "|--:|--:|--:|--:|--:|"]
    for objects, run in sorted(found["growth"].items()):
        if "failed" in run:
            lines.append(f"| {objects} | failed: {run['failed']} | | | |".replace("\n", " "))
            continue
        clip = run["clips"][0]
        lines.append(f"| {objects} | {clip.get('fps') or 0:.1f} | {slope(clip.get('growth_per_frame'))} | {slope(clip.get('gpu_growth_per_frame'))} | "
                     f"{(run['bank_bytes'] or 0) / int(objects) / MIB:.3f} |")
    if found["verified"]:
        lines += ["", "## Exports compared with the predictor, 21 frames", "", "In 32 bits; `_fused`: the measured export.", "", "| model | size | result |", "|---|--:|---|"]
    lines += [f"| {model} | {each['size']} | {'ok' if each['status'] == 0 else 'FAILED'}: {' '.join(each['lines'])} |".replace("\n", " ")
              for model, each in found["verified"].items()]
    failed = [f"- {name}: {text}" for name, text in found["exports"].items() if text != "ok"]
    lines += ["", *(["Exports that failed:", "", *failed] if failed else []), *([found["plugin"]] if "plugin" in found else [])]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with headroom and libheadroom_media_pictures.so")
    parser.add_argument("--plugin", type=pathlib.Path, help="folder with libheadroom_backend_libtorch.so; default: that of --build")
    parser.add_argument("--plugin-status", type=pathlib.Path, help="file that gets the status of the plug-in's build when it ends")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, help="folder for models and frames (10 GB); default: build/vos")
    parser.add_argument("--seconds", type=float, default=285, help="time for everything")
    parser.add_argument("--speed-until", type=float, default=205, help="seconds after which no speed is measured any more")
    parser.add_argument("--growth-only", action="store_true", help="only the long clip")
    parser.add_argument("--add-to", type=pathlib.Path, help="gpu_vos.json of an earlier call, whose other steps stay")
    parser.add_argument("--all", action="store_true", help="also graphs whose sizes vary, and --verify of every size: minutes more")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--long-size", type=int, default=512)
    parser.add_argument("--frames", type=int, default=80)
    parser.add_argument("--plain-attention", dest="fused", action="store_false", help="export without --fused-attention")
    parser.add_argument("--predictor-frames", type=int, default=60)
    parser.add_argument("--long-frames", type=int, default=2000)
    parser.add_argument("--precision", default="float16", choices=["float16", "float32"])
    parser.add_argument("--narrow", action="store_true", help="small nets, to try the script")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of each program; 0: its default")
    options = parser.parse_args()
    options.python = sys.executable
    options.out, options.build = options.out.resolve(), options.build.resolve()
    options.work = (options.work or ROOT / "build/vos").resolve()
    for folder in (options.out, options.work):
        folder.mkdir(parents=True, exist_ok=True)
    plugins = ":".join(str(folder.resolve()) for folder in (options.plugin, options.build) if folder)
    options.environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HEADROOM_BACKEND_PATH": plugins}
    session = Session(options)
    if options.add_to:
        earlier = json.loads(options.add_to.read_text())
        session.found.update(earlier, growth={}, commands=earlier["commands"] + session.found["commands"])
    machine = session.found["machine"] = {key: getattr(options, key) for key in ("size", "precision", "frames", "long_frames", "long_size")}
    import torch
    import transformers
    machine.update(torch=torch.__version__, transformers=transformers.__version__, processors=os.cpu_count(),
                   gpu=torch.cuda.get_device_name(0) if options.device != "cpu" else None,
                   cpu=processor())
    say(f"{machine['gpu'] or machine['cpu']}, torch {machine['torch']}, transformers {machine['transformers']}")
    if not (options.build / "libheadroom_media_pictures.so").exists():
        say(f"{options.build} has no libheadroom_media_pictures.so: headroom bench will read no pictures")
    session.save()
    try:
        session.prepare()
        has_plugin = session.wait_for_plugin()
        session.collect_verified(min(options.seconds / 3, options.speed_until / 2))
        session.signal_verify(signal.SIGSTOP)  # nothing runs beside a measured speed
        if not options.growth_only:
            session.speed(options.speed_until, has_plugin)
        session.signal_verify(signal.SIGCONT)
        if has_plugin:
            session.growth()
        session.collect_verified(options.seconds - 5)
    finally:
        session.signal_verify(signal.SIGKILL)
        for model in session.background:
            session.found["verified"][model] = {"status": -1, "lines": ["not finished in time"], "size": options.size, "device": options.device}
        session.save()
    say("done")


if __name__ == "__main__":
    main()

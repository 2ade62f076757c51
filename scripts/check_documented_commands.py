#!/usr/bin/env python3
"""Runs the commands of README.md and docs/*.md, and some more whose output scripts rely on, in scratch folders with sample inputs.

    scripts/check_documented_commands.py                                # the release build
    scripts/check_documented_commands.py NEW/bin/headroom --compare OLD/bin/headroom
    scripts/check_documented_commands.py --list                         # runs nothing
    scripts/check_documented_commands.py --only docs/plan.md --keys     # a page; also prints keys and columns

Prints a line for each command: exit code, number of JSON keys and CSV columns, place, command. A command fails if it ends with a
code that its page does not promise. --compare runs each command with both programs and prints what differs: exit codes, keys of JSON
and JSON lines, columns of CSV, in standard output and in the files that the command writes. A page that differs runs up to three
times, because some keys depend on what was measured. Ends with 1 if a command fails or differs.

The words after `sh` of a code block say what its commands need; the script only counts those: `sh gpu` (all commands of the block),
`sh gpu=2,3` (its second and third command). A command with … is a pattern, not run either. The samples come from --data (default
../shared/data), which has models/, media/, shapes/, logs/, tegrastats/ and vos/.
"""
import argparse
import collections
import csv
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# camera: or a sender of a stream; checkout: commands for contributors, in a checkout; package: with the files of a release, as
# root, or in Docker
NEEDS = ("gpu", "ros", "tensorrt", "camera", "checkout", "package")
# What a command names outside of the scratch folder, or has no meaning in it.
REPLACED = [("/etc/headroom/token", "token"), ("/etc/bash_completion.d/headroom", "headroom.bash"), ("--pid 1234", "--pid $$"),
            ("flamegraph.pl --countname bytes", "cat"), ("journalctl -k", "cat kernel.log"), ("$(git rev-parse HEAD)", "1a2b3c4d")]
# Exit codes other than 0, as the pages explain them.
EXPECTED = [("run --limit 32MiB", {137}), ("--fail-on", {0, 1}), ("--fail-above", {0, 1}), ("headroom doctor", {0, 1}), ("plan ", {0, 1})]
# These run until Ctrl-C. They end after the other commands of their block, at the earliest after two seconds.
ENDLESS = re.compile(r"^headroom (watch|serve|top)\b(?!.*(--duration|--once|--baseline|--from|-- ))")
# A verb without a format: also run with --json, because scripts read that.
HAS_JSON = re.compile(r"^headroom (report|diff|doctor|evaluate|plan|history (list|show|diff|gate)|top --once)\b"
                      r"(?!.*(--json|--csv|--markdown|--html|--try|[|>;&]))")

# Commands that no page shows. Each runs in the folder of the samples, after the commands before it.
MORE = """
headroom --version
headroom no-such-verb
headroom bench --model m=missing.onnx
headroom bench --model m=m.onnx --max-frames none
headroom bench --mem-limit 2XB --model m=m.onnx
headroom bench --quiet --model vad=silero_vad.onnx --output-dir limited --mem-limit 1GiB --json
headroom bench --quiet --model vad=silero_vad.onnx --output-dir layers --layers --json
headroom bench --quiet --source photos --model bad=bad.onnx --output-dir bad --json
headroom run --limit 1GiB -- sh -c 'exit 7'
headroom run -- true
headroom trace --full --out full.hrec -- ls -l /usr/lib
headroom trace --force --out full.hrec -- true
headroom trace --out full.hrec -- true
headroom trace --out none.hrec -- no-such-program
headroom report app.hrec --csv
headroom report runs/main/* --csv
headroom report nothing.hrec --json
headroom report snapshot.pickle --json
headroom diff runs/main runs/branch --fail-on 'p99>+1XB'
headroom doctor out_of_memory_messages.tsv --json
headroom plan documented_budget.toml --footprints outputs --json
headroom bench --config documented_bench.toml --dump-config
headroom watch --interval 100ms --duration 300ms --csv
headroom watch --interval 100ms --duration 300ms --jsonl --processes 3
headroom watch --from tegrastats:stats.log --jsonl
headroom history list --db h.sqlite --json
headroom history show no-such-metric --db h.sqlite
headroom export app.hrec --to speedscope --out -
headroom export app.hrec --to no-such-format
headroom symbols missing.hrec --out folder
""".strip().splitlines()

Command = collections.namedtuple("Command", "text place needs")
Result = collections.namedtuple("Result", "code shapes messages")


def commands_of(body):
    """The commands of a block: joined at a backslash, and from a line that ends with & to its `wait`. Comments go."""
    found, open_lines = [], []
    for line in body.splitlines():
        open_lines.append(re.sub(r"\s+# .*", "", line).rstrip())
        text = "\n".join(open_lines)
        if text.endswith("\\") or (re.search(r"&$", text, re.M) and open_lines[-1] != "wait"):
            continue
        if text.strip():
            found.append(text)
        open_lines = []
    return found


def blocks(page):
    """The commands of each sh block of a page."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```sh([^\n]*)\n(.*?)^```", text, re.M | re.S):
        place = f"{page.relative_to(ROOT)}:{text[:block.start()].count(chr(10)) + 1}"
        needs = dict((word.split("=") + [""])[:2] for word in block[1].split())
        unknown = set(needs) - set(NEEDS)
        if unknown:
            sys.exit(f"{place}: unknown word {unknown} after ```sh; use one of {', '.join(NEEDS)}")
        commands = []
        for number, command in enumerate(commands_of(block[2]), 1):
            own = [need for need, lines in needs.items() if not lines or str(number) in lines.split(",")]
            commands.append(Command(command, place, own[0] if own else "pattern" if "…" in command else ""))
        yield commands


def example_column():
    """The commands of README.md's table of examples."""
    page = ROOT / "README.md"
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 6 and cells[3].strip().startswith("`"):
            text = cells[3].strip().strip("`").replace("\\|", "|")
            yield Command(text, f"{page.name}:{number}", "tensorrt" if "build-engine" in text else "")


def key_paths(value, path=""):
    if isinstance(value, dict):  # kernel_events: depends on what else runs on the machine
        return {found for key, inner in value.items() if key != "kernel_events" for found in key_paths(inner, f"{path}.{key}")}
    if isinstance(value, list):
        return {found for inner in value for found in key_paths(inner, path + "[]")} or {path + "[]"}
    return {path}


def shape(text, is_csv):
    """The keys of JSON or JSON lines, or the columns of CSV."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return set()
    if is_csv:
        return set(next(csv.reader([lines[0]])))
    try:
        return key_paths(json.loads(text))
    except ValueError:
        pass
    try:
        return {path for line in lines for path in key_paths(json.loads(line))}
    except ValueError:
        return set()


def data_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink() and re.search(r"\.(json|jsonl|csv|jsonl\.gz)$", path.name)}


def shapes_of(folder, before):
    """The shapes of the files that are new or changed. Dates and process numbers in names become *."""
    shapes = collections.defaultdict(set)
    for path, changed in data_files(folder).items():
        if before.get(path) != changed:
            name = re.sub(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d([_-]\d+)?|\d+-\d+(?=[_.])", "*", str(path.relative_to(folder)))
            content = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
            shapes[name] |= shape(content, path.suffix == ".csv")
    return shapes


class Scratch:
    """A folder with sample inputs, in which commands find the program under its name."""

    def __init__(self, folder, program):
        self.folder = folder
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "HEADROOM_MAX_FRAMES": "3", "HEADROOM_WARMUP": "1"}
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        link = folder / "bin" / "headroom"
        link.unlink(missing_ok=True)
        link.symlink_to(program)

    def start(self, text, is_documented):
        for before, after in REPLACED:
            text = text.replace(before, after)
        written = re.match(r"headroom (?:trace --out|watch .*--output|watch --output) (\S+)", text)
        if written and is_documented:
            (self.folder / written[1]).unlink(missing_ok=True)  # a sample that other pages read
        if text == "headroom top" or text.startswith("headroom top --replay"):
            text = f"script -qec {text!r} /dev/null"  # gives it a terminal
        streams = [tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") for _ in range(2)]
        process = subprocess.Popen(["bash", "-c", text], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=streams[0],
                                   stderr=streams[1], start_new_session=True)
        return process, streams

    def finish(self, command, started, before, is_endless=False):
        process, streams = started
        try:
            process.wait(2 if is_endless else 300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT if is_endless else signal.SIGKILL)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        for stream in streams:
            stream.seek(0)
        output, errors = (stream.read() for stream in streams)
        shapes = shapes_of(self.folder, before)
        if wants_data(command):
            shapes["standard output"] = shape(output, "--csv" in command)
        return Result(process.wait(), shapes, errors or output)

    def run(self, commands):
        """The results of a block. Endless commands end last, each when the next one begins."""
        running, results = None, {}
        for command in commands:
            if command.needs:
                continue
            before = data_files(self.folder)
            is_endless = bool(ENDLESS.match(command.text))
            if is_endless and running:
                results[running[0]] = self.finish(running[0].text, *running[1:], is_endless=True)
            started = self.start(command.text, bool(command.place))
            if is_endless:
                running = (command, started, before)
                time.sleep(1.5)  # until it listens
            else:
                results[command] = self.finish(command.text, started, before)
        if running:
            results[running[0]] = self.finish(running[0].text, *running[1:], is_endless=True)
        return results


def wants_data(text):
    return any(word in text for word in ("--json", "--csv", "speedscope --out -"))


SAMPLE_BUDGET = """
[device]
profile = "orin-nx-16gb"

[[component]]
name = "yolo"
memory = "500 MB"
precision = "fp16"

[[component.variant]]
precision = "int8"
memory = "300 MB"

[[component]]
name = "vlm"
memory = "500 MB"

[[component]]
name = "segnet"
memory = "300 MB"
"""
PROGRAM = 'import time\nblocks = [bytearray(100_000) for _ in range(50)]\ntime.sleep(0.3)\n'
MODELS = {"yolo11n.onnx": "yunet_n_320_320.onnx", "yolo.onnx": "yolox_nano_416x416.onnx", "face.onnx": "ultraface_rfb_320.onnx",
          "text.onnx": "yunet_n_320_320.onnx", "m.onnx": "yolox_nano_416x416.onnx", "silero_vad.onnx": "silero_vad.onnx",
          "yolox.onnx": "yolox_nano_416x416.onnx", "yolox.torchscript.pt": "yolox_nano_640x640.torchscript.pt"}


def toml_of(page):
    """The first TOML block of a page of docs/."""
    return re.search(r"^```toml\n(.*?)^```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)[1]


def make_samples(folder, program, data):
    """The inputs that the pages name. The program itself writes recordings, runs and logs, as a user's would."""
    scratch = Scratch(folder, program)

    def sample(command):
        result = scratch.run([Command(command, "", "")]).popitem()[1]
        if result.code != 0:
            sys.exit(f"cannot make the samples: {command}: exit code {result.code}\n{result.messages[-2000:]}")

    for name in ("docs", "tests", ".deps"):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    for name, model in MODELS.items():
        shutil.copyfile(data / "models" / model, folder / name)
    shutil.copyfile(data / "models_bad" / "bodypix_mbv1_050_s8.onnx", folder / "bad.onnx")
    pictures = sorted((data / "shapes/images/val").glob("*.jpg"))[:3]
    for target in ("photos", "videos/drive", "build/demo/photos"):
        (folder / target).mkdir(parents=True)
        for picture in pictures:
            shutil.copyfile(picture, folder / target / picture.name)
    (folder / "blackswan").symlink_to((data / "vos/blackswan").resolve())
    for name in ("app.py", "infer.py"):
        (folder / name).write_text(PROGRAM)
    for name in ("app", "first", "second"):
        (folder / name).write_text("#!/bin/sh\nexec python3 app.py\n")
        (folder / name).chmod(0o755)
    text = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
    source = re.search(r"^```cpp\n(.*?)^```", text, re.M | re.S)[1]
    (folder / "gallery.cpp").write_text(source)
    (folder / "fixed.cpp").write_text(source.replace("push_back(decode_frame(i))", "push_back(shrink(decode_frame(i)))"))
    messages = (data / "logs/out_of_memory_messages.tsv").read_text(encoding="utf-8")
    (folder / "out_of_memory_messages.tsv").write_text(messages)
    for name in ("run.log", "kernel.log"):
        (folder / name).write_text(messages)
    (folder / "app.log.gz").write_bytes(gzip.compress(messages.encode()))
    lines = (data / "tegrastats/real_lines.tsv").read_text(encoding="utf-8").splitlines()
    (folder / "stats.log").write_text("\n".join(line.split("\t")[-1] for line in lines if "RAM " in line))
    for name in ("bench.toml", "before.toml", "after.toml"):
        (folder / name).write_text('max-frames = 3\n\n[[model]]\nname = "m"\npath = "silero_vad.onnx"\n')
    for name, page in [("rules.toml", "alerts.md"), ("documented_bench.toml", "configuration.md"), ("documented_budget.toml", "plan.md")]:
        (folder / name).write_text(toml_of(page))
    (folder / "budget.toml").write_text(SAMPLE_BUDGET)
    (folder / "token").write_text("0123456789abcdef\n")
    (folder / "token").chmod(0o600)

    sample("g++ -g -O1 -o gallery gallery.cpp && g++ -g -O1 -o fixed fixed.cpp")
    for name in ("app", "before", "main", "program", "after", "branch"):
        sample(f"headroom trace --out {name}.hrec -- {'./fixed' if name in ('after', 'branch') else './gallery'}")
    for name, extra in [("main", ""), ("branch", "--threads 1")]:
        sample(f"headroom bench --quiet --repeat 3 --output-dir runs/{name} --source photos --parallel {extra} "
               "--model yolo=yolo11n.onnx --model segnet=face.onnx")
    runs = {name: sorted((folder / "runs" / name).iterdir()) for name in ("main", "branch")}
    for i in range(3):
        (folder / f"A{i + 1}").symlink_to(runs["main"][i])
        (folder / f"B{i + 1}").symlink_to(runs["branch"][i])
    # Ends with 1, because the model does not fit.
    sample("! headroom bench --quiet --output-dir runs/failed --model text=m.onnx --source photos --mem-limit 28MiB")
    failed = next((folder / "runs/failed").iterdir())
    for name, run in [("2026-11-21_10-30-00", failed), ("2026-11-28_17-27-44", runs["main"][0]), ("2026-11-28_17-27-56", failed),
                      ("RUN", runs["main"][0])]:
        shutil.copytree(run, folder / "outputs" / name)
    shutil.copytree(runs["branch"][0], folder / "runs/new")
    shutil.copyfile(runs["main"][0] / "report.json", folder / "report.json")
    for name in ("watch", "run"):
        sample(f"headroom watch --quiet --interval 50ms --duration 500ms --processes 2 --output {name}.jsonl")
    sample(f"python3 {ROOT}/benchmarks/make_pytorch_snapshot.py --mib 1 --frames 3 snapshot.pickle")
    (folder / "leak_graph.pickle.gz").write_bytes(gzip.compress((folder / "snapshot.pickle").read_bytes(), 1))
    sample("headroom history add runs/main --commit 1a2b3c4d && headroom history add runs/main --commit 1a2b3c4d --db h.sqlite")


def with_json(block):
    for command in block:
        yield command
        if not command.needs and HAS_JSON.match(command.text):
            yield Command(command.text + " --json", command.place, "")


def run_page(page, page_blocks, samples, folder, program):
    """The results of a page's commands, in a copy of the samples."""
    shutil.copytree(samples, folder, symlinks=True)
    for name in ("A1", "A2", "A3", "B1", "B2", "B3"):  # links into the copy
        target = (folder / name).readlink()
        (folder / name).unlink()
        (folder / name).symlink_to(folder / target.relative_to(samples))
    scratch, results = Scratch(folder, program), {}
    for block in page_blocks:
        results.update(scratch.run(list(with_json(block))))
    shutil.rmtree(folder)
    return results


def expected_codes(command):
    if not command.place:
        return None  # errors, too
    return next((codes for part, codes in EXPECTED if part in command.text), {0})


def both(one, other):
    """Two results of a command as one: a key that depends on what was measured is there if it was there once."""
    if other is None:
        return one
    shapes = {name: one.shapes.get(name, set()) | other.shapes.get(name, set()) for name in {*one.shapes, *other.shapes}}
    return Result(one.code, shapes, one.messages)


def differences(before, after):
    if before.code != after.code:
        yield f"exit code {before.code} before, {after.code} after"
    for name in sorted(set(before.shapes) | set(after.shapes)):
        old, new = before.shapes.get(name), after.shapes.get(name)
        if old is None or new is None:
            yield f"{name}: {'is new' if old is None else 'is gone'}"
            continue
        yield from (f"{name}: {key} is gone" for key in sorted(old - new))
        yield from (f"{name}: {key} is new" for key in sorted(new - old))


def show(command, result, before, options):
    """Prints a command's lines; false if it fails or differs."""
    codes = expected_codes(command)
    problems = list(differences(before, result)) if before else []
    if codes and result.code not in codes:
        last = (result.messages.strip().splitlines() or [""])[-1]
        problems.insert(0, f"exit code {result.code}, not {' or '.join(map(str, sorted(codes)))}: {last[:200]}")
    keys = sum(map(len, result.shapes.values()))
    first = command.text.replace("\\\n", " ").replace("\n", "; ")
    print(f"{'DIFFERS' if problems else 'ok     '} exit {result.code:3} {keys:4} keys  {command.place or 'more':28} {first}", flush=True)
    for problem in problems[:12]:
        print(f"        {problem}")
    if options.keys:
        for name, shape_of_file in sorted(result.shapes.items()):
            print(f"        {name}: {' '.join(sorted(shape_of_file))}")
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/release/bin/headroom"))
    parser.add_argument("--compare", metavar="OLD")
    parser.add_argument("--data", default=os.environ.get("HEADROOM_SHARED_DATA", str(ROOT.parent / "shared/data")))
    parser.add_argument("--only", default="", metavar="TEXT", help="pages whose path has TEXT; more: commands that no page shows")
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    pages = {"README.md": [], **{f"docs/{path.name}": [] for path in sorted((ROOT / "docs").glob("*.md"))}}
    pages = {page: list(blocks(ROOT / page)) for page in pages}
    pages["README.md"] += [[command] for command in example_column()]
    pages["more"] = [[Command(text, "", "")] for text in MORE]
    pages = {page: found for page, found in pages.items() if options.only in page and found}
    counts = collections.Counter(command.needs or "run" for found in pages.values() for block in found for command in block)
    if not options.list and not (pathlib.Path(options.data) / "models").is_dir():
        sys.exit(f"no samples: {options.data} has no models/; give their folder with --data or HEADROOM_SHARED_DATA")
    if options.list:
        for command in (command for found in pages.values() for block in found for command in block):
            print(f"{command.needs or 'run':9} {command.place or 'more':28} {command.text}")
    else:
        programs = [pathlib.Path(path).resolve() for path in (options.compare, options.program) if path]
        with tempfile.TemporaryDirectory(prefix="headroom-") as place:
            # Both programs get the samples of the first one, so that they read the same recordings and runs.
            samples = pathlib.Path(place) / "samples"
            make_samples(samples, programs[0], pathlib.Path(options.data).resolve())
            for page, found in pages.items():
                results = [{} for _ in programs]
                for attempt in range(3):
                    new = [run_page(page, found, samples, pathlib.Path(place) / "page", program) for program in programs]
                    results = [{key: both(each[key], old.get(key)) for key in each} for each, old in zip(new, results)]
                    if all(not any(differences(results[0][key], results[-1][key])) for key in results[0]):
                        break
                for command, result in results[-1].items():
                    counts["failed"] += not show(command, result, results[0][command] if options.compare else None, options)
    print(", ".join(f"{number} {name}" for name, number in sorted(counts.items())))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

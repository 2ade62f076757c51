"""The processes that benchmarks/kills.py kills. Each target is a class: once(number, chance) kills one process at a random moment, checks
what was finished before, runs the same command again, and returns an Outcome."""
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import time
import urllib.request

import recorded_operations
from kill_support import Outcome, kill_at, last_line, marked_with, missing_from, times_in_csv

NOTES = """- `program`: the traced program; in turns SIGKILL, abort() and the kernel's out-of-memory killer. Figures are its allocations and
  releases, which it counts itself.
- `trace`: `headroom trace` of two processes, which continue. Figures: the same.
- `conductor`, `worker`: of `headroom bench` with two models, every fifth time under a memory limit. Figures: models whose result was printed.
- `watch`: with a log that rotates; `.jsonl`, `.csv` and `.jsonl.gz` in turns. Figures: samples that were printed. Of a
  `.jsonl.gz`, the last five seconds may be missing, so only whole members count.
- `serve`: on a fixed port, with an open connection. Figures: none are kept.
- `history`: `history add`, every tenth time into a new database. Figures: runs whose `add` has ended.
- `cut`: no kill; a recording of four threads, cut at a random byte. Figures: its allocations before the cut."""


def kill_children(process, is_wanted=lambda arguments: True):
    """Kills the children of the process, and their children, that are wanted."""
    def descendants(pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            return []
        return children + [below for child in children for below in descendants(child)]

    killed = 0
    for pid in descendants(process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if is_wanted(file.read().split(b"\0")):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        except OSError:
            pass
    return killed


def check_recordings(place, root, outcome):
    """Whether Headroom opens every recording."""
    for path in recorded_operations.recordings_of(root):
        report, problem = place.read_json(["report", path, "--json"])
        if report is None:
            outcome.lost.append(problem)
    return outcome


class Program:
    WAYS = ["SIGKILL", "abort", "OOM kill", "SIGKILL", "abort"]

    def __init__(self, place):
        self.place, self.group = place, recorded_operations.MemoryGroup()
        self.root, self.tally = place.path("victim.hrec"), place.path("tally")

    def close(self):
        self.group.remove()

    def once(self, number, chance):
        way, full = self.WAYS[number % len(self.WAYS)], number // len(self.WAYS) % 2 == 0
        before, expected = None, 128 + signal.SIGKILL
        victim = [os.path.join(self.place.build, "tests/trace_victim"), self.tally, str(recorded_operations.THREADS)]
        if way == "SIGKILL":
            victim += ["run", "0"]
        elif way == "abort":
            victim += ["abort", str(int(chance.random() * 1_000))]
            expected = 128 + signal.SIGABRT
        elif self.group.path:
            victim += ["hoard", os.path.join(self.group.path, "cgroup.procs")]
        else:  # a failing allocation, and the abort() that follows
            victim += ["hoard", os.devnull]
            expected = 128 + signal.SIGABRT
            before = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        if os.path.exists(self.tally):
            os.remove(self.tally)
        process = self.place.start(["trace", "--force", *(["--full"] if full else []), "--out", self.root, "--", *victim], before)
        if way == "SIGKILL":
            while process.poll() is None and sum(recorded_operations.operations_of([self.tally])) == 0:
                time.sleep(0.001)
            time.sleep(chance.random() * 0.001)
            kill_children(process)
        outcome = Outcome()
        if (code := process.wait()) != expected:
            outcome.next_failed.append(f"headroom trace ended with {code}, not {expected}: {last_line(self.place.printed('stderr'))}")
        check_recordings(self.place, self.root, outcome)
        outcome.finished, problems = recorded_operations.compare(self.root, [self.tally])
        outcome.lost += problems
        report, _ = self.place.read_json(["report", self.root, "--json"])
        if report and report["complete"]:
            outcome.lost.append("the recording is reported as complete")
        return outcome


class Trace:
    def __init__(self, place):
        self.place, self.root = place, place.path("tree.hrec")
        self.tallies = [place.path("tally1"), place.path("tally2")]
        victim = os.path.join(place.build, "tests/trace_victim")
        script = " & ".join(f"{victim} {tally} 2 pause 1500" for tally in self.tallies) + "; wait"
        self.command = ["trace", "--full", "--force", "--out", self.root, "--", "sh", "-c", script]
        self.duration = place.duration_of(self.command)

    def once(self, number, chance):
        os.system(f"rm -rf '{self.root}' '{self.root}.d' {self.place.path('tally')}*")
        outcome = Outcome()
        process = self.place.start(self.command)
        outcome.ended = kill_at(process, chance.random() * 1.05 * self.duration)
        if running := self.place.wait_until_alone():
            outcome.next_failed.append(f"the traced program hangs: {running}")
        check_recordings(self.place, self.root, outcome)
        outcome.finished, problems = recorded_operations.compare(self.root, self.tallies)
        outcome.lost += problems
        code, _, errors = self.place.run(self.command)
        if code != 0:
            outcome.next_failed.append(f"headroom trace ended with {code}: {last_line(errors)}")
        with open(self.root + ".d/index.json", encoding="utf-8") as file:
            listed = {entry["file"] for entry in json.load(file)["recordings"]}
        outcome.left += sorted(set(os.listdir(self.root + ".d")) - listed - {"index.json"})
        outcome.left += self.place.unfinished()
        return outcome


def bitmap():
    side = 16
    head = b"BM" + (54 + side * side * 3).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")
    return head + side.to_bytes(4, "little") * 2 + b"\1\0\x18\0" + bytes(24) + bytes(i % 251 for i in range(side * side * 3))


class Bench:
    """Two models of the test runtime, which needs no library."""

    def __init__(self, place):
        self.place, self.durations = place, []
        for number in range(3):
            place.write(f"pictures/{number}.bmp", bitmap(), "wb")
        models = []
        for name in ("first", "second"):
            models += ["--model", f"{name}=" + place.write(f"{name}.misbehave", "run sleep 1\n")]
        self.command = ["bench", "--source", place.path("pictures"), "--backend", "misbehaving", *models, "--max-frames", "4", "--warmup", "1",
                        "--sample-images", "1", "--output-dir", place.path("outputs"), "--prepared-dir", place.path("prepared")]
        # The limit's probe takes most of a run's time, so only every fifth run has a limit.
        self.limited = [*self.command, "--mem-limit", "256MiB"]

    def choose(self, number):
        command = self.limited if number % 5 == 0 else self.command
        if command not in [known for known, _ in self.durations]:
            self.durations.append((command, self.place.duration_of(command)))
        return next(one for one in self.durations if one[0] == command)

    def newest_report(self, outcome):
        runs = sorted(glob.glob(self.place.path("outputs/*/report.json")), key=os.path.getmtime)
        if not runs:
            return {}
        report, problem = self.place.read_json(["report", os.path.dirname(runs[-1]), "--json"])
        if report is None:
            outcome.lost.append(problem)
        return report or {}

    def finished_models(self):
        """The models whose result bench printed."""
        return set(re.findall(r"(\w+): [\d.]+ FPS", self.place.printed("stderr")))

    def check(self, outcome, printed):
        report = self.newest_report(outcome) if printed else {}
        kept = {model["name"] for model in report.get("models", []) if model["status"] == "ok" and model.get("fps")}
        outcome.finished = len(printed)
        outcome.lost += [f"the figures of {model} are missing" for model in sorted(printed - kept)]
        return report

    def check_next(self, command, outcome, pids):
        code, _, errors = self.place.run(command)
        if code != 0:
            outcome.next_failed.append(f"headroom bench ended with {code}: {last_line(errors)}")
        elif len(self.newest_report(outcome).get("models", [])) != 2:
            outcome.next_failed.append("the next run has not two models")
        outcome.left += marked_with(pids)
        # Its folder belongs to the killed run, and may keep an unfinished file.
        for path in sorted(glob.glob(self.place.path("outputs/*")), key=os.path.getmtime)[:-1]:
            shutil.rmtree(path)
        outcome.left += self.place.unfinished()
        shutil.rmtree(self.place.path("outputs"))


class Conductor(Bench):
    def once(self, number, chance):
        outcome, (command, duration) = Outcome(), self.choose(number)
        process = self.place.start(command)
        outcome.ended = kill_at(process, chance.random() * 1.05 * duration)
        if running := self.place.wait_until_alone():
            outcome.left.append(f"process {running}")
        self.check(outcome, self.finished_models())
        self.check_next(command, outcome, [process.pid])
        return outcome


class Worker(Bench):
    def once(self, number, chance):
        outcome, (command, duration) = Outcome(), self.choose(number)
        process = self.place.start(command)
        time.sleep(chance.random() * duration)
        killed = 0
        while process.poll() is None and killed == 0:
            killed = kill_children(process, lambda arguments: b"_worker" in arguments)
            time.sleep(0.001)
        outcome.ended = killed == 0
        try:
            code = process.wait(timeout=600)
        except Exception:
            process.kill()
            code = "hangs"
        if code not in (0, 1):
            outcome.next_failed.append(f"headroom bench ended with {code}: {last_line(self.place.printed('stderr'))}")
        report = self.check(outcome, self.finished_models())
        if report and not report["complete"]:
            outcome.lost.append("the report of the other model is incomplete")
        if running := self.place.wait_until_alone():
            outcome.left.append(f"process {running}")
        self.check_next(command, outcome, [process.pid])
        return outcome


class Watch:
    KINDS = ["jsonl", "csv", "jsonl.gz"]

    def __init__(self, place):
        self.place = place
        self.commands = [["watch", "--interval", "5ms", "--duration", "150ms", "--output", place.path(f"log.{kind}"), "--rotate", "16KiB", "--keep", "3",
                          "--jsonl"] for kind in self.KINDS]
        self.duration = place.duration_of(self.commands[0], self.remove_logs)

    def remove_logs(self):
        for path in glob.glob(self.place.path("log*")):
            os.remove(path)

    def once(self, number, chance):
        kind, command = self.KINDS[number % 3], self.commands[number % 3]
        self.remove_logs()
        outcome = Outcome()
        process = self.place.start(command)
        outcome.ended = kill_at(process, chance.random() * 1.05 * self.duration)
        printed = [line for line in self.place.printed().splitlines(keepends=True) if line.endswith("\n")]
        logs = glob.glob(self.place.path("log*"))
        times = set()
        for path in logs:
            times |= self.times_of(path, kind, outcome)
        if kind != "jsonl.gz":
            outcome.finished = len(printed)
            if missing := missing_from(times, printed[-20:]):  # with --keep 3, the oldest may be gone
                outcome.lost.append(f"{len(missing)} printed samples are not in the log")
        before = {path: os.path.getsize(path) for path in logs}
        code, _, errors = self.place.run(command)
        if code != 0:
            outcome.next_failed.append(f"headroom watch ended with {code}: {last_line(errors)}")
        if sum(before.values()) and not glob.glob(self.place.path("log.1.*")):
            outcome.lost.append("the log of the killed run is gone")
        outcome.left += self.place.unfinished() + [name for name in os.listdir(self.place.folder) if name.endswith(".rotated")]
        return outcome

    def times_of(self, path, kind, outcome):
        """The times of the samples in a log. Headroom and this program have to read it."""
        if os.path.getsize(path) == 0:
            return set()
        if kind == "csv":
            with open(path, encoding="utf-8") as file:
                rows = file.read().split("\n")
            width = rows[0].count(",")
            if any(row.count(",") != width for row in rows[1:-1]):
                outcome.lost.append("a row of the CSV is cut")
            return times_in_csv("\n".join(rows))
        code, out, errors = self.place.run(["watch", "--from", f"headroom:{path}", "--jsonl"])
        if code != 0:
            outcome.lost.append(f"headroom watch --from ended with {code}: {last_line(errors)}")
            return set()
        return {json.loads(line)["time_ns"] for line in out.splitlines()}


class Serve:
    def __init__(self, place):
        self.place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = ["serve", "--listen", f"127.0.0.1:{self.port}", "--interval", "100ms"]

    def once(self, number, chance):
        outcome = Outcome()
        process = self.place.start(self.command)
        seconds, client = chance.random() * 0.2, None
        if number % 2 == 0:
            client = self.connect(process)
        outcome.ended = kill_at(process, seconds)
        if client:
            client.close()
        if outcome.ended:
            outcome.next_failed.append(f"headroom serve ended: {last_line(self.place.printed('stderr'))}")
        process = self.place.start(self.command)
        try:
            client = self.connect(process)
            if client is None:
                raise OSError(last_line(self.place.printed("stderr")))
            client.close()
            end, figures = time.monotonic() + 10, b""
            while b"headroom_memory_total_bytes" not in figures:  # after the first sample
                if time.monotonic() > end:
                    raise OSError("no figure in the answer")
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                    figures = answer.read()
                time.sleep(0.01)
        except OSError as problem:
            outcome.next_failed.append(f"headroom serve does not answer: {problem}")
        process.terminate()
        process.wait()
        if running := self.place.wait_until_alone():
            outcome.left.append(f"process {running}")
        outcome.left += self.place.unfinished()
        return outcome

    def connect(self, process):
        end = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < end:
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                time.sleep(0.002)
        return None


class History:
    def __init__(self, place):
        self.place, self.added, self.number = place, 0, 0
        bench = Bench(place)
        place.run([*bench.command, "--sample-images", "0"])
        run = sorted(glob.glob(place.path("outputs/*/report.json")))[-1]
        with open(run, encoding="utf-8") as file:
            self.report = file.read()
        self.database = place.path("history.sqlite")
        self.duration = place.duration_of(self.add(), lambda: self.new_runs(3))

    def add(self):
        return ["history", "--db", self.database, "add", self.place.path("runs")]

    def new_runs(self, count):
        os.system(f"rm -rf '{self.place.path('runs')}'")
        for _ in range(count):
            self.number += 1
            moment = f"2026-{1 + self.number // 86400 % 12:02}-01T{self.number // 3600 % 24:02}:{self.number // 60 % 60:02}:{self.number % 60:02}"
            self.place.write(f"runs/{self.number}/report.json", re.sub(r'("started_at": ")[^"+Z]{19}', lambda found: found[1] + moment, self.report))

    def kept(self):
        listed, problem = self.place.read_json(["history", "--db", self.database, "list", "--json"])
        return (len(listed["runs"]), "") if listed else (0, problem)

    def once(self, number, chance):
        outcome = Outcome()
        if number % 10 == 0:
            for path in glob.glob(self.database + "*"):
                os.remove(path)
            self.added = 0
        self.new_runs(3)
        process = self.place.start(self.add())
        outcome.ended = kill_at(process, chance.random() * 1.05 * self.duration)
        done = outcome.ended and process.returncode == 0
        kept, problem = self.kept()
        expected = self.added + (3 if done else 0)
        outcome.finished = expected
        if (problem and expected) or kept not in (expected, self.added + 3):
            outcome.lost.append(f"{kept} runs are kept, {expected} were added; {problem}")
        code, _, errors = self.place.run(self.add())
        if code != 0:
            outcome.next_failed.append(f"headroom history add ended with {code}: {last_line(errors)}")
        self.added += 3
        kept, problem = self.kept()
        if kept != self.added:
            outcome.next_failed.append(f"{kept} runs are kept after the next run, not {self.added}; {problem}")
            self.added = kept
        outcome.left += self.place.unfinished() + [name for name in os.listdir(self.place.folder) if name.startswith("history.sqlite-")]
        return outcome


class Cut:
    """No kill: a recording is cut at a random byte. tests/golden/read_recording.py counts what is before the cut."""

    def __init__(self, place):
        self.place, self.whole, self.cut = place, place.path("whole.hrec"), place.path("cut.hrec")
        victim = os.path.join(place.build, "tests/trace_victim")
        place.run(["trace", "--full", "--out", self.whole, "--", victim, place.path("tally"), "4", "end", "2000"])
        with open(self.whole, "rb") as file:
            self.content = file.read()
        self.events = place.read_json(["report", self.whole, "--json"])[0]["events"]

    def once(self, number, chance):
        outcome = Outcome()
        # Half of the cuts fall into the last segment, which has most events of its thread at the end.
        length = chance.randrange(4096 if number % 2 else len(self.content) // 2, len(self.content))
        with open(self.cut, "wb") as file:
            file.write(self.content[:length])
        report, problem = self.place.read_json(["report", self.cut, "--json"])
        if report is None:
            outcome.lost.append(f"cut at {length}: {problem}")
            return outcome
        allocations = recorded_operations.allocations_in(self.cut)
        outcome.finished = allocations
        if report["allocations"] != allocations:
            outcome.lost.append(f"cut at {length}: {report['allocations']} of {allocations} allocations")
        if report["complete"] or (report["events"] < self.events and not any("cut off" in problem for problem in report["problems"])):
            outcome.lost.append(f"cut at {length}: the report does not say so")
        return outcome


TARGETS = {"program": Program, "trace": Trace, "conductor": Conductor, "worker": Worker, "watch": Watch, "serve": Serve, "history": History, "cut": Cut}

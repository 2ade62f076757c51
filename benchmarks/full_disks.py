"""The writers whose disk benchmarks/kills.py fills. Each has an earlier result on the disk. once(number, chance) leaves a random rest of
space, runs the writer, checks both results, frees the disk, runs the writer again, and returns an Outcome."""
import glob
import json
import os
import resource
import subprocess

import recorded_operations
from kill_support import Outcome, last_line, missing_from, times_in_csv
from kill_targets import Bench, History

NOTES = """Figures: the earlier result on the same disk, and for `recording`, `watch log` and `bench` also what the run could write. "Had ended
before": the rest of the disk was large enough."""
DISK_BYTES = 64 << 20
CAUSES = ("No space left", "File too large", "disk is full", "disk I/O error", "file size limit")


class Disk:
    """A tmpfs, which needs root. Without it only RLIMIT_FSIZE bounds the writer."""

    def __init__(self, place):
        self.path = place.path("disk")
        os.makedirs(self.path)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", self.path], capture_output=True)
        self.mounted = made.returncode == 0
        self.filler = os.path.join(self.path, "filler")

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.path], capture_output=True)
            self.mounted = False

    def file(self, name):
        return os.path.join(self.path, name)

    def clear(self):
        os.system(f"rm -rf '{self.path}'/*")

    def used(self):
        return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for folder, _, names in os.walk(self.path) for name in names)

    def fill(self, rest):
        """Leaves so many bytes."""
        info = os.statvfs(self.path)
        if info.f_blocks * info.f_frsize > DISK_BYTES:
            raise RuntimeError(f"{self.path} is no longer the small disk")  # never fill the machine's own
        with open(self.filler, "wb") as file:
            size = info.f_bavail * info.f_frsize - rest // 4096 * 4096
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)

    def free(self):
        if os.path.exists(self.filler):
            os.remove(self.filler)


class Writer:
    least_file_bytes = 0  # of RLIMIT_FSIZE

    def __init__(self, place):
        self.place, self.disk, self.need = place, Disk(place), 0
        self.prepare()

    def measure(self):
        """The space that the writer needs."""
        self.run_earlier()
        before = self.disk.used()
        code, _, errors = self.place.run(self.command())
        if code != 0:
            raise RuntimeError(f"{' '.join(self.command()[:2])} ended with {code}: {last_line(errors)}")
        self.need = max(self.disk.used() - before, self.disk.used() // 2, 4096)

    def close(self):
        self.disk.close()

    def prepare(self):
        pass

    def run_earlier(self):
        """Makes the earlier result."""
        self.place.run(self.command())

    def once(self, number, chance):
        if self.need == 0:
            self.measure()
        self.disk.clear()
        self.run_earlier()
        rest, before = int(chance.random() * 1.05 * self.need), None
        if number % 2 == 0 and self.disk.mounted:
            self.disk.fill(rest)
        else:
            most = rest + self.least_file_bytes
            before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        with open(self.place.path("stdout"), "wb") as out, open(self.place.path("stderr"), "wb") as errors:
            done = subprocess.Popen([self.place.headroom, *self.command()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    cwd=self.place.folder, env=self.place.environment, preexec_fn=before)
            printed, said = done.communicate(timeout=600)
            out.write(printed)
            errors.write(said)
        outcome = Outcome(ended=done.returncode == 0, finished=1)
        said = said.decode(errors="replace")
        if done.returncode not in (0, 1, 2):
            outcome.lost.append(f"it ended with {done.returncode}: {last_line(said)}")
        elif done.returncode != 0 and not any(cause in said for cause in CAUSES):
            outcome.lost.append(f"it ended with {done.returncode} without the cause: {last_line(said)}")
        self.check(outcome, done.returncode, printed.decode(errors="replace"))
        self.disk.free()
        code, _, errors = self.place.run(self.command())
        if code != 0:
            outcome.next_failed.append(f"the next run ended with {code}: {last_line(errors)}")
        self.check_next(outcome)
        outcome.left += self.place.unfinished()
        return outcome

    def check(self, outcome, code, printed):
        """Whether the earlier result is readable, and a new one that the writer reported."""

    def check_next(self, outcome):
        problems = Outcome()
        self.check(problems, 0, "")
        outcome.next_failed += problems.lost


class Recording(Writer):
    least_file_bytes = 5 << 20 | 8192
    earlier = 0

    def prepare(self):
        self.tally = self.place.path("tally")

    def command(self):
        victim = os.path.join(self.place.build, "tests/trace_victim")
        if os.path.exists(self.tally):
            os.remove(self.tally)
        return ["trace", "--full", "--force", "--out", self.disk.file("new.hrec"), "--", victim, self.tally, "2", "end", "4000"]

    def run_earlier(self):
        self.place.run(["trace", "--full", "--force", "--out", self.disk.file("earlier.hrec"), "--", "/bin/true"])

    def check(self, outcome, code, printed):
        earlier, problem = self.place.read_json(["report", self.disk.file("earlier.hrec"), "--json"])
        if earlier is None or not earlier["complete"]:
            outcome.lost.append(f"the earlier recording is damaged {problem}")
        if code == 2:  # not even the beginning fits
            return
        path = self.disk.file("new.hrec")
        if not os.path.exists(path):
            return outcome.lost.append("there is no recording") if code == 0 else None
        report, problem = self.place.read_json(["report", path, "--json"])
        if report is None:
            return outcome.lost.append(problem)
        counts, problems = recorded_operations.own_events(recorded_operations.READER, path)
        recorded = sum(one[0] + one[1] for one in counts)
        done = sum(recorded_operations.operations_of([self.tally])[:2])
        outcome.lost += problems
        outcome.finished += recorded
        outcome.ended = recorded >= done
        dropped = report.get("dropped_events", 0)
        if recorded + dropped < done:
            outcome.lost.append(f"{done} operations, {recorded} recorded, {dropped} dropped")
        if recorded < done and report["complete"]:
            outcome.lost.append("a recording with dropped events is reported as complete")


class Report(Writer):
    """The run folder of bench."""

    def prepare(self):
        self.bench = Bench(self.place)

    def command(self):
        command = list(self.bench.command)
        command[command.index("--output-dir") + 1] = self.disk.file("outputs")
        return command

    def check(self, outcome, code, printed):
        runs = glob.glob(self.disk.file("outputs/*/"))
        whole = 0
        for run in runs:
            report, _ = self.place.read_json(["report", run, "--json"])
            whole += bool(report and report["complete"] and [model["status"] for model in report["models"]] == ["ok", "ok"])
        expected = 1 if code == 2 else 2
        outcome.finished = expected
        # A run that could not write its figures has printed them.
        if whole < expected and not (whole == 1 and printed.count(" ok ") >= 2):
            outcome.lost.append(f"{whole} of {expected} runs are whole")

    def check_next(self, outcome):
        report, problem = self.place.read_json(["report", max(glob.glob(self.disk.file("outputs/*/")), key=os.path.getmtime), "--json"])
        if not report or not report["complete"]:
            outcome.next_failed.append(f"the next run has no whole report: {problem}")


class Log(Writer):
    kind = "jsonl"

    def command(self):
        return ["watch", "--interval", "5ms", "--duration", "100ms", "--output", self.disk.file(f"log.{self.kind}"), "--rotate", "8KiB", "--keep", "30",
                "--jsonl"]

    def check(self, outcome, code, printed):
        times = set()
        for path in glob.glob(self.disk.file("log*")):
            if os.path.getsize(path) == 0:
                continue
            if self.kind == "csv":
                with open(path, encoding="utf-8") as file:
                    rows = file.read().split("\n")
                if rows[-1] != "" or len({row.count(",") for row in rows[:-1]}) != 1:
                    outcome.lost.append("a row of the CSV is cut")
                times |= times_in_csv("\n".join(rows))
                continue
            result, out, errors = self.place.run(["watch", "--from", f"headroom:{path}", "--jsonl"])
            if result != 0:
                outcome.lost.append(f"headroom watch --from ended with {result}: {last_line(errors)}")
            times |= {json.loads(line)["time_ns"] for line in out.splitlines()}
        outcome.finished = len(times)
        samples = printed.splitlines()
        if code == 0 and (missing := missing_from(times, samples)):
            outcome.lost.append(f"{len(missing)} of {len(samples)} samples are missing, and the exit code is 0")


class CsvLog(Log):
    kind = "csv"


class GzipLog(Log):
    kind = "jsonl.gz"


class Database(Writer):
    def prepare(self):
        self.history = History(self.place)
        self.history.database = self.disk.file("history.sqlite")
        self.kept = 0

    def command(self):
        return self.history.add()

    def run_earlier(self):
        self.history.new_runs(3)
        self.place.run(self.command())
        self.history.new_runs(30)

    def check(self, outcome, code, printed):
        kept, problem = self.history.kept()
        outcome.finished = 3
        if kept != (33 if code == 0 else 3):
            outcome.lost.append(f"{kept} runs are kept, and the exit code is {code}; {problem}")


class NewDatabase(Database):
    """The database is created on the full disk."""

    def run_earlier(self):
        self.history.new_runs(30)

    def check(self, outcome, code, printed):
        kept, problem = self.history.kept()
        outcome.finished = 0
        if kept != (30 if code == 0 else 0):
            outcome.lost.append(f"{kept} runs are kept, and the exit code is {code}; {problem}")


class OneFile(Writer):
    """A writer of one file, which has an earlier version. The file is either the earlier or the new one, byte by byte."""

    def prepare(self):
        self.recording = self.place.path("source.hrec")
        victim = os.path.join(self.place.build, "tests/trace_victim")
        self.place.run(["trace", "--full", "--out", self.recording, "--", victim, self.place.path("tally"), "1", "end", "1000"])

    def output(self):
        return self.disk.file("output")

    def run_earlier(self):
        with open(self.output(), "w", encoding="utf-8") as file:
            file.write("earlier")

    def check(self, outcome, code, printed):
        with open(self.output(), "rb") as file:
            content = file.read()
        if code == 0 and content == b"earlier":
            outcome.lost.append("the new file is missing")
        if code != 0 and content != b"earlier":
            outcome.lost.append("the earlier file is damaged")
        if code == 0 and not self.is_whole(content):
            outcome.lost.append("the new file is cut")

    def is_whole(self, content):
        # A heap's addresses differ in no export of the same recording, so the size is the same.
        self.size = getattr(self, "size", len(content))
        return len(content) == self.size


def export(form):
    class Export(OneFile):
        def command(self):
            return ["export", self.recording, "--to", form, "--out", self.output()]
    return Export


class Symbols(OneFile):
    """The folder of symbol files that goes to another machine."""

    def command(self):
        return ["symbols", self.recording, "--out", self.disk.file("symbols")]

    def run_earlier(self):
        if not hasattr(self, "whole"):
            self.place.run(self.command())
            self.whole = self.files()
            self.disk.clear()

    def files(self):
        root = self.disk.file("symbols")
        return {os.path.join(folder, name): os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(root) for name in names}

    def check(self, outcome, code, printed):
        outcome.finished = len(self.files())
        if not self.files().items() <= self.whole.items():
            outcome.lost.append("a symbol file is cut")
        if code == 0 and self.files() != self.whole:
            outcome.lost.append("symbol files are missing, and the exit code is 0")


class Page(OneFile):
    def command(self):
        return ["report", self.recording, "--html", self.output()]


class Plot(OneFile):
    def command(self):
        return ["watch", "--interval", "5ms", "--duration", "50ms", "--quiet", "--plot", self.output()]

    def output(self):
        return self.disk.file("plot.svg")

    def is_whole(self, content):
        return content.rstrip().endswith(b"</svg>")


FORMATS = ["speedscope", "collapsed", "pprof", "timeline-json", "csv", "heaptrack", "perfetto", "pytorch-snapshot"]
WRITERS = {"recording": Recording, "bench": Report, "watch log": Log, "watch log (CSV)": CsvLog, "watch log (gzip)": GzipLog, "history database": Database,
           "history database (new)": NewDatabase, "report page": Page, "watch plot": Plot, "symbols": Symbols, **{f"export {form}": export(form) for form in FORMATS}}

"""What kill_targets.py and full_disks.py share: a folder to work in, running Headroom there, and what a run left behind."""
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import time

TOKEN = "KILLS_TOKEN"  # a variable of every process that is started here
NAMES = ("headroom", "trace_victim", "sh")  # of these processes


@dataclasses.dataclass
class Outcome:
    ended: bool = False  # the process had ended before the kill; the disk was large enough
    finished: int = 0  # figures that were finished, and so have to be readable
    lost: list = dataclasses.field(default_factory=list)
    next_failed: list = dataclasses.field(default_factory=list)
    left: list = dataclasses.field(default_factory=list)

    def faults(self):
        return self.lost + self.next_failed + [f"left behind: {name}" for name in self.left]


class Place:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.headroom = os.path.join(build, "bin/headroom")
        self.temporary = os.path.join(folder, "tmp")
        self.token = f"{os.getpid()}-{os.path.basename(folder)}"
        os.makedirs(self.temporary, exist_ok=True)
        self.environment = {**os.environ, TOKEN: self.token, "TMPDIR": self.temporary, "HEADROOM_BACKEND_PATH": os.path.join(build, "test-plugins")}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content, mode="w"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), mode) as file:
            file.write(content)
        return self.path(name)

    def start(self, arguments, before=None):
        """Starts headroom. Its output goes to files, so that what it printed before a kill can be read."""
        with open(self.path("stdout"), "wb") as out, open(self.path("stderr"), "wb") as errors:
            return subprocess.Popen([self.headroom, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=self.folder,
                                    env=self.environment, preexec_fn=before)

    def printed(self, name="stdout"):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def run(self, arguments, timeout=600):
        """(exit code, standard output, standard error); the exit code is 'hangs' after the timeout."""
        try:
            done = subprocess.run([self.headroom, *arguments], stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder, env=self.environment,
                                  timeout=timeout)
        except subprocess.TimeoutExpired:
            return "hangs", "", ""
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def read_json(self, arguments):
        """The JSON that headroom prints, and a sentence if it prints none."""
        code, out, errors = self.run(arguments)
        try:
            return json.loads(out), ""
        except ValueError:
            return None, f"headroom {arguments[0]} ended with {code}: {last_line(errors)}"

    def duration_of(self, arguments, before_each=lambda: None):
        """Of the second run, because the first may read its files from the disk."""
        for _ in range(2):
            before_each()
            started = time.monotonic()
            self.start(arguments).wait()
        return time.monotonic() - started

    def processes(self):
        """Processes that were started here and their descendants: {pid: arguments}."""
        found, mark = {}, f"{TOKEN}={self.token}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    name, state = file.read().split("(", 1)[1].rsplit(")", 1)
                if name not in NAMES or state.split()[0] in "ZX":
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read()
                # A process that was killed and has not closed its files yet has no environment.
                if environment and mark not in environment.split(b"\0"):
                    continue
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found[int(pid)] = [word.decode(errors="replace") for word in file.read().split(b"\0")]
            except OSError:
                continue
        return found

    def wait_until_alone(self, seconds=3.0):
        """Waits until no process of this place runs. Kills those that remain, and returns their arguments."""
        end = time.monotonic() + seconds
        while (running := self.processes()) and time.monotonic() < end:
            time.sleep(0.01)
        for pid in running:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return [" ".join(arguments)[:80] for arguments in running.values()]

    def unfinished(self):
        """Temporary files in this place, and what is left in the temporary folder."""
        found = [name for _, folders, files in os.walk(self.folder) for name in [*folders, *files] if ".tmp-" in name]
        return found + os.listdir(self.temporary)


def marked_with(pids):
    """Control groups and files in /dev/shm that have one of these process ids in their name."""
    names = [name for name in os.listdir("/dev/shm") if name.startswith("headroom")]
    for folder in (own_memory_group(),):
        with contextlib.suppress(OSError):
            names += [name for name in os.listdir(folder) if name.startswith("headroom")]
    return [name for name in names if {int(word) for word in re.findall(r"\d+", name)} & set(pids)]


def own_memory_group():
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, own = line.strip().split(":", 2)
            if "memory" in controllers.split(","):
                return "/sys/fs/cgroup/memory" + own
            if controllers == "":
                unified = "/sys/fs/cgroup" + own
    return unified


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1][:200]


def kill_at(process, seconds):
    """Kills the process after this time. Returns whether it had ended before."""
    time.sleep(seconds)
    ended = process.poll() is not None
    process.kill()
    process.wait()
    return ended


def missing_from(times, printed):
    """The printed samples (JSON lines) whose time in nanoseconds is not in a log. A CSV has microseconds, so half a one may differ."""
    known = {time // 1000 for time in times}
    return [line for line in printed if not {json.loads(line)["time_ns"] // 1000 + near for near in (-1, 0, 1)} & known]


def times_in_csv(text):
    """The times of a CSV log in nanoseconds."""
    return {round(float(row.split(",")[0]) * 1e9) for row in text.split("\n")[1:-1] if row}

#!/usr/bin/env python3
"""Gives hostile files to every reader of Headroom: cut, doubled, huge, in other encodings, compressed, nested, not files at all.

    tests/cli/test_hostile_inputs.py build/release/bin/headroom                # a part of them, in a minute
    tests/cli/test_hostile_inputs.py build/release/bin/headroom --all          # all, with files of 64 MiB
    tests/cli/test_hostile_inputs.py build/release/bin/headroom --reader report --variant "deep lists" --keep

Checks of each command: it ends without a signal, within --hang seconds (30), with exit code 0, 1 or 2; an error is printed as one line
that names the file, in UTF-8 and without control characters; JSON on standard output is whole; the peak of memory is at most that of the
good file plus three times the file plus the reader's bound (hostile_readers.py). Prints the commands above two seconds. Exits with 1 if a
check fails. Uses only the Python standard library.
"""
import argparse
import concurrent.futures
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import hostile_readers
import hostile_variants

MIB = 1 << 20
SLOW = 2.0
HERE = os.path.dirname(os.path.abspath(__file__))


class Runner:
    """hostile_runner.py, which starts the commands."""

    def __init__(self, folder, program, seconds):
        self.out, self.err = os.path.join(folder, "stdout"), os.path.join(folder, "stderr")
        self.seconds = seconds
        self.environment = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8",
                            "HEADROOM_BACKEND_PATH": os.path.dirname(program)}
        self.process = subprocess.Popen([sys.executable, "-I", "-S", os.path.join(HERE, "hostile_runner.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, command, as_nobody=False):
        job = {"command": command, "out": self.out, "err": self.err, "environment": self.environment, "as_nobody": as_nobody,
               "seconds": self.seconds}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        for key in ("out", "err"):
            with open(getattr(self, key), "rb") as file:
                result[key] = file.read(4 * MIB)
        return result

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def problems_of(result, command, reader, path, limit):
    problems = []
    if result["hung"]:
        problems.append("it hung")
    elif result["code"] < 0:
        problems.append(f"it ended by signal {-result['code']}")
    elif result["code"] not in (0, 1, 2):
        problems.append(f"exit code {result['code']}")
    if limit is not None and result["peak"] > limit:
        problems.append(f"{result['peak'] / MIB:.0f} MiB of memory, more than {limit / MIB:.0f}")
    try:
        errors = result["err"].decode()
    except UnicodeDecodeError:
        return problems + ["standard error is not UTF-8"]
    for line in errors.splitlines():
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line):
            problems.append("a control character in a message")
        if len(line) > 8000:
            problems.append(f"a message of {len(line)} characters")
    said = [line for line in errors.splitlines() if line.startswith("error: ")]
    if result["code"] in (1, 2) and not result["hung"]:
        if result["code"] == 2 and not said:
            problems.append("no error message")
        names = [os.path.basename(path), reader.place] + reader.also_named
        if reader.names_file and said and not any(name in line for name in names for line in said):
            problems.append("the error does not name the file")
    if "--json" in command and len(result["out"]) < 4 * MIB and result["out"].strip():
        try:
            json.loads(result["out"])
        except ValueError:
            problems.append("its JSON is not valid")
    return problems


class Work:
    """A folder with a reader's good files, in which hostile ones take the place of one file or of all."""

    def __init__(self, reader, folder):
        self.reader, self.folder = reader, folder
        tree = {place: source if isinstance(source, bytes) else hostile_readers.content_of(source) for place, source in reader.tree.items()}
        if reader.seed:
            tree[reader.place] = hostile_readers.content_of(reader.seed)
        self.tree = tree
        self.places = sorted(tree) if reader.all_places or reader.one_by_one else [reader.place]
        self.path = os.path.join(folder, reader.place)
        self.good = os.path.join(folder, "good", "run" if reader.place.startswith("run/") else reader.place)
        for place, content in tree.items():
            self.write(place, content)
            self.write("good/" + place, content)
        os.chmod(folder, 0o777)

    def write(self, place, content):
        path = os.path.join(self.folder, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def variants(self, huge):
        """Yields (name, contents by place)."""
        makers = [hostile_variants.variants(self.tree[place], self.reader.text, huge) for place in self.places]
        for number, row in enumerate(zip(*makers)):
            contents = {place: content for place, (_, content) in zip(self.places, row)}
            if self.reader.one_by_one:
                place = self.places[number % len(self.places)]
                contents = {place: contents[place]}
            yield row[0][0], contents

    def clear(self, path):
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isdir(path)):
            os.unlink(path)
        elif os.path.isdir(path):
            shutil.rmtree(path)

    def place(self, contents):
        """Puts hostile files in their places and good ones in the others. Returns the size of all."""
        size = 0
        for place in self.places:
            path = os.path.join(self.folder, place)
            self.clear(path)
            content = contents.get(place, self.tree[place])
            if callable(content):
                content(path)
            else:
                self.write(place, content)
            if os.path.isfile(path):
                size += os.path.getsize(path)
        return size

    def commands(self, program, first_only):
        commands = self.reader.commands[:1] if first_only else self.reader.commands
        for command in commands:
            yield [program] + [word.format(file=self.path, folder=self.folder, good=self.good) for word in command.split()]


def check_reader(reader, arguments):
    """All variants of one reader. Returns (runs, problems, slow)."""
    program = os.path.abspath(arguments.program)
    runs, failed, slow = 0, [], []
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        inner = os.path.join(folder, "work")
        os.mkdir(inner)
        runner = Runner(folder, program, arguments.hang)
        work = Work(reader, inner)
        work.place({})
        base = []
        for command in work.commands(program, arguments.first):
            result = runner.run(command)
            base.append(result["peak"])
            if result["code"] not in reader.good_codes:
                failed.append(f"{reader.name}: the good file: {' '.join(command[1:])}: exit code {result['code']}: {result['err'].decode()[-300:]}")
        every = 1 if arguments.all or arguments.variant else arguments.every * (6 if reader.is_slow else 1)
        for number, (name, contents) in enumerate(work.variants((min(arguments.huge, 4) if len(work.places) > 1 else arguments.huge) * MIB)):
            if (arguments.variant and arguments.variant not in name) or (reader.is_live and name in hostile_variants.ENDLESS):
                continue
            if number % every != sum(map(ord, reader.name)) % every:
                continue
            size = work.place(contents)
            contents = None
            for command, good_peak in zip(work.commands(program, arguments.first), base):
                as_nobody = name == "no permission" and os.geteuid() == 0
                result = runner.run(command, as_nobody)
                runs += 1
                limit = None if arguments.no_memory else good_peak + 3 * size + reader.bound_mib * MIB
                words = " ".join(command[1:]).replace(inner, "FOLDER")
                problems = problems_of(result, command, reader, work.path, limit)
                # On a loaded machine, a command also waits for a core. One that waits for anything else is found by its time.
                if result["cpu"] > SLOW or result["seconds"] > SLOW + 10 * result["cpu"]:
                    slow.append(f"{result['seconds']:.1f} s, {result['cpu']:.1f} s of them on a core: {reader.name}: {name}: headroom {words}")
                if problems:
                    last = result["err"].decode(errors="replace").strip()[-300:]
                    failed.append(f"{reader.name}: {name} ({size} bytes): headroom {words}: {'; '.join(problems)}\n    {last!r}")
        runner.end()
        if arguments.keep:
            shutil.copytree(inner, "hostile-kept", dirs_exist_ok=True, symlinks=True)
    return runs, failed, slow


def has_part(reader, program):
    folder = os.path.dirname(os.path.abspath(program))
    return not reader.needs or any(reader.needs in name for name in os.listdir(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--all", action="store_true", help="every variant and command, with huge files of 64 MiB")
    parser.add_argument("--every", type=int, default=5, help="without --all: every Nth variant [5]")
    parser.add_argument("--huge", type=int, help="size of the largest variants in MiB [4; with --all: 64]")
    parser.add_argument("--hang", type=float, default=30, help="seconds after which a command counts as hung [30]")
    parser.add_argument("--reader", help="only readers with this text in their name")
    parser.add_argument("--variant", help="only variants with this text in their name")
    parser.add_argument("--no-memory", action="store_true", help="do not check memory, for sanitizers")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="copy the last files to hostile-kept/")
    arguments = parser.parse_args()
    arguments.huge = arguments.huge or (64 if arguments.all else 4)
    arguments.first = not arguments.all and not arguments.reader
    # No core files of thousands of crashes, and no commands that fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chosen = [reader for reader in hostile_readers.readers() if not arguments.reader or arguments.reader in reader.name]
    missing = [reader.name for reader in chosen if not has_part(reader, arguments.program)]
    chosen = [reader for reader in chosen if reader.name not in missing]
    runs, failed, slow = 0, [], []
    # A new process for each reader, because the peak of this script would count as that of its children.
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, max_tasks_per_child=1) as pool:
        for reader, answer in zip(chosen, pool.map(check_reader, chosen, [arguments] * len(chosen))):
            runs += answer[0]
            failed += answer[1]
            slow += answer[2]
            print(f"{reader.name}: {answer[0]} runs, {len(answer[1])} failed, {len(answer[2])} above {SLOW:g} s", flush=True)
            for title, lines in [("slow", answer[2]), ("failed", answer[1])]:
                for line in lines:
                    print(f"  {title}: {line}", flush=True)
    if missing:
        print(f"skipped, their plug-ins are not built: {', '.join(missing)}")
    print(f"{runs} runs of {len(chosen)} readers: {len(failed)} failed, {len(slow)} above {SLOW:g} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

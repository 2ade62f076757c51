#!/usr/bin/env python3
"""Tests of `headroom trace --pid`: what it records, how it ends, and what it refuses.

    tests/cli/attach_test.py --build build/release
"""
import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPECIFICATION = importlib.util.spec_from_file_location("attach_cycles", ROOT / "benchmarks/attach_cycles.py")
attach_cycles = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(attach_cycles)
BUILD = pathlib.Path()


def wait_until(condition, what, seconds=60):
    for _ in range(seconds * 100):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"after {seconds} s: not {what}")


class Attach(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, name):
        program = attach_cycles.Program(attach_cycles.commands(BUILD)[name])
        self.addCleanup(program.kill)
        return program

    def headroom(self, *words):
        return subprocess.run([BUILD / "bin/headroom", *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=120)

    def attach(self, program, *words):
        return self.headroom("trace", "--pid", program.pid, "--out", "a.hrec", "--force", *words)

    def start_attached(self, program, *words):
        """headroom, once the program records."""
        headroom = subprocess.Popen([BUILD / "bin/headroom", "trace", "--pid", str(program.pid), "--out", self.folder / "a.hrec", *words],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (headroom.kill(), headroom.wait(), headroom.stderr.close()))
        wait_until(lambda: attach_cycles.slots_of_library(program), "attached")
        return headroom

    def report(self):
        result = self.headroom("report", "a.hrec", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_refused(self, result, *words):
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse((self.folder / "a.hrec").exists())

    def test_full_mode_records_all_events_from_then_on(self):
        program = self.start("node")
        traced = self.attach(program, "--full", "--for", "300ms")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        self.assertIn(f"(process {program.pid}) was recorded for", traced.stderr)
        self.assertIn("resident before attaching", traced.stderr)
        figures = self.report()
        self.assertTrue(figures["complete"], figures["problems"])
        self.assertTrue(figures["full"])
        self.assertGreater(figures["allocations"], 1000)
        self.assertGreater(figures["attached"]["resident_bytes"], 1 << 20)
        self.assertGreater(figures["unknown_releases"], 0)  # messages from before
        self.assertIn("resident before attaching", figures["notes"][0])
        self.assertEqual(program.finish()[1]["wrong"], 0)

    def test_default_mode_counts_all_events_from_then_on(self):
        program = self.start("server")
        traced = self.attach(program, "--for", "300ms")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        figures = self.report()
        self.assertTrue(figures["complete"], figures["problems"])
        self.assertGreater(figures["counted_allocations"], 100)
        text = self.headroom("report", "a.hrec")
        self.assertIn("traced_server", text.stdout)
        self.assertIn("blocks from then are not counted", text.stdout)

    def test_no_call_goes_to_the_library_afterwards(self):
        program = self.start("node")
        first = self.start_attached(program)
        self.assertGreater(len(attach_cycles.slots_of_library(program)), 5)
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(60), 0)
        self.assertEqual(attach_cycles.slots_of_library(program), [])
        self.assertEqual(program.mappings_of(".hrec"), [])
        self.assertTrue(program.works())

    def test_slots_have_their_values_of_before(self):
        program = self.start("node")
        wait_until(lambda: program.progress() > 5000, "warm")
        before = values_of_slots(program)
        self.assertEqual(self.attach(program, "--for", "100ms").returncode, 0)
        after = values_of_slots(program)
        # A slot that points into its own module was not resolved yet.
        changed = [slot for slot, (value, is_resolved) in before.items() if is_resolved and after[slot][0] != value]
        self.assertEqual(changed, [])
        self.assertGreater(len(before), 100)

    def test_the_process_ends_its_recording_if_headroom_is_killed(self):
        program = self.start("server")
        headroom = self.start_attached(program)
        self.assertTrue(program.works())
        time.sleep(1)  # the recorder must have seen headroom's lock; it looks ten times a second
        headroom.kill()
        headroom.wait()
        wait_until(lambda: attach_cycles.slots_of_library(program) == [], "detached by itself")
        self.assertTrue(program.works())
        figures = self.report()
        self.assertTrue(figures["ended_by_itself"])
        # and it can be attached to again
        self.assertEqual(self.attach(program, "--for", "100ms").returncode, 0)
        self.assertTrue(self.report()["complete"])

    def test_the_end_of_the_process_ends_the_recording(self):
        program = self.start("node")
        headroom = self.start_attached(program)
        self.assertEqual(program.finish()[0], 0)
        self.assertEqual(headroom.wait(60), 0)
        self.assertIn("until its end", headroom.stderr.read())
        self.assertTrue(self.report()["complete"])

    def test_libraries_that_are_loaded_later_are_recorded(self):
        plugin = BUILD / "tests/libtraced_plugin_a.so"
        source = f"import ctypes, sys\nprint('ready', flush=True)\nsys.stdin.read(1)\nlibrary = ctypes.CDLL({str(plugin)!r})\n" \
                 "library.allocate_for_a()\nprint(1, flush=True)\nsys.stdin.read()"
        program = attach_cycles.Program([sys.executable, "-c", source])
        self.addCleanup(program.kill)
        headroom = self.start_attached(program, "--full")
        self.assertEqual(program.progress(), 1)
        headroom.send_signal(signal.SIGTERM)
        self.assertEqual(headroom.wait(60), 0)
        blocks = self.headroom("export", "a.hrec", "--to", "collapsed", "--out", "-", "--metric", "allocated").stdout
        self.assertIn("allocate_for_a", blocks)

    def test_refuses_a_process_that_does_not_exist(self):
        self.assert_refused(self.headroom("trace", "--pid", 999999999, "--out", "a.hrec"), "there is no such process")

    def test_refuses_a_thread_of_a_process(self):
        program = self.start("server")
        thread = max(int(name) for name in os.listdir(f"/proc/{program.pid}/task"))
        self.assert_refused(self.headroom("trace", "--pid", thread, "--out", "a.hrec"), f"use --pid {program.pid}")

    def test_refuses_a_process_that_another_tracer_has(self):
        program = self.start("node")
        libc = ctypes.CDLL(None, use_errno=True)
        seize = 0x4206
        self.assertEqual(libc.ptrace(seize, program.pid, None, None), 0)
        self.assert_refused(self.attach(program), f"process {os.getpid()}", "traces it already")

    def test_refuses_a_stopped_process(self):
        program = self.start("node")
        os.kill(program.pid, signal.SIGSTOP)
        wait_until(lambda: "T (stopped)" in pathlib.Path(f"/proc/{program.pid}/status").read_text(), "stopped")
        self.assert_refused(self.attach(program), f"kill -CONT {program.pid}")

    def test_refuses_a_process_that_headroom_records_already(self):
        traced = subprocess.Popen([BUILD / "bin/headroom", "trace", "--out", self.folder / "b.hrec", "--", sys.executable, "-c",
                                   "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        pid = int(traced.stdout.readline())
        result = self.headroom("trace", "--pid", pid, "--out", "a.hrec")
        traced.communicate()
        self.assert_refused(result, "Headroom records it already (libheadroom_trace.so)")

    def test_refuses_a_second_recording_of_a_process(self):
        program = self.start("node")
        self.start_attached(program)
        result = self.headroom("trace", "--pid", program.pid, "--out", "b.hrec")
        self.assertEqual(result.returncode, 2)
        self.assertIn("another headroom trace --pid records it", result.stderr)

    def test_refuses_a_static_program(self):
        program = subprocess.Popen([BUILD / "tests/traced_static_wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(lambda: program.communicate())
        program.stdout.readline()
        self.assert_refused(self.headroom("trace", "--pid", program.pid, "--out", "a.hrec"), "statically linked")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_refuses_the_process_of_another_user(self):
        program = self.start("node")
        as_nobody = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", BUILD / "bin/headroom", "trace", "--pid", str(program.pid)],
                                   cwd="/tmp", capture_output=True, text=True, timeout=60)
        if "ermission" in as_nobody.stderr and "cannot attach" not in as_nobody.stderr:
            self.skipTest("nobody cannot run this build")
        self.assertEqual(as_nobody.returncode, 2, as_nobody.stderr)
        self.assertIn("it belongs to user root, and headroom runs as", as_nobody.stderr)

    def test_refuses_flags_that_need_a_program_start(self):
        self.assertEqual(self.headroom("trace", "--pid", 1, "--", "true").returncode, 2)
        self.assertEqual(self.headroom("trace", "--pid", 1, "--only", "gpu").returncode, 2)
        self.assertEqual(self.headroom("trace", "--for", "1s", "--", "true").returncode, 2)


def values_of_slots(program):
    """(value, whether it points out of its own file's mappings) of each slot that relocations of functions fill."""
    modules = {}
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            fields = line.split()
            if len(fields) == 6 and fields[5].startswith("/") and "libheadroom" not in fields[5] and os.path.isfile(fields[5]):
                start, end = (int(text, 16) for text in fields[0].split("-"))
                first, _ = modules.get(fields[5], (start, end))
                modules[fields[5]] = (first, end)
    found = {}
    with open(f"/proc/{program.pid}/mem", "rb", 0) as memory:
        for path, (start, end) in modules.items():
            listed = subprocess.run(["readelf", "-rW", path], capture_output=True, text=True, check=False).stdout
            position = start if b"DYN" in subprocess.run(["readelf", "-hW", path], capture_output=True, check=False).stdout else 0
            for line in listed.splitlines():
                fields = line.split()
                if len(fields) >= 4 and fields[2] in ("R_X86_64_JUMP_SLOT", "R_X86_64_GLOB_DAT", "R_AARCH64_JUMP_SLOT", "R_AARCH64_GLOB_DAT"):
                    memory.seek(position + int(fields[0], 16))
                    value = int.from_bytes(memory.read(8), "little")
                    found[path, fields[0]] = value, not start <= value < end
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parsed, rest = parser.parse_known_args()
    BUILD = parsed.build.resolve()
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""Tests the pprof and Perfetto exports of real recordings: they are valid by their public schemas, independent readers can
read them, and they have the same figures as `headroom report --json`.

    export_schema_test.py HEADROOM PROGRAM...     (each program is traced with --full and without)
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # keeps the source tree clean
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from perfetto_schema import UNIT_SIZE_BYTES, read_trace  # noqa: E402
from pprof_schema import read_profile  # noqa: E402

HEADROOM, PROGRAMS = sys.argv[1], [program.split() for program in sys.argv[2:]]


def headroom(*words):
    return subprocess.run([HEADROOM, *words], check=True, capture_output=True, text=True).stdout


class Exports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def for_each_recording(self, check):
        for number, program in enumerate(PROGRAMS):
            for mode in ([], ["--full"]):
                with self.subTest(program=program, mode=mode):
                    file = self.folder / f"{number}{'-full' if mode else ''}.hrec"
                    headroom("trace", *mode, "--out", str(file), "--", *program)
                    check(file, json.loads(headroom("report", str(file), "--json")))

    def export(self, recording, kind, extension):
        headroom("export", str(recording), "--to", kind)
        return recording.with_suffix(extension)

    def test_pprof(self):
        def check(recording, report):
            profile, sums = read_profile(self.export(recording, "pprof", ".pb.gz"))
            self.assertEqual(sums["peak_space"], ("bytes", report["peak_bytes"]))
            self.assertEqual(sums["inuse_space"], ("bytes", report["leaked_bytes"]))
            self.assertEqual(sums["peak_objects"], ("count", report["peak_blocks"]))
            self.assertEqual("temporary_objects" in sums, report["full"])
            if report["full"]:
                self.assertEqual(sums["alloc_space"], ("bytes", report["total_allocated_bytes"]))
                self.assertEqual(sums["alloc_objects"], ("count", report["allocations"]))
                self.assertEqual(sums["temporary_objects"], ("count", report["temporary_allocations"]))
            self.assertEqual(profile["time_nanos"], report["started_realtime_ns"])
            texts = profile["string_table"]
            layers = {texts[label["str"]] for sample in profile.get("sample", []) for label in sample.get("label", [])
                      if texts[label["key"]] == "layer"}
            known = {layer["layer_name"] for layer in report["layers"]}
            self.assertLessEqual(layers, known)
            self.assertEqual(texts[profile["mapping"][0]["filename"]], report["executable"])

        self.for_each_recording(check)

    def test_perfetto(self):
        def check(recording, report):
            tracks = read_trace(self.export(recording, "perfetto", ".perfetto-trace"))
            heap = tracks.counters.get("heap", [0])  # missing if the program allocates nothing there
            if report["full"]:  # for samples, the curve uses all samples and the peak one half (docs/trace-report.md)
                self.assertEqual(max(heap), report["peak_bytes"])
                self.assertEqual(heap[-1], report["leaked_bytes"])
            else:  # the report limits estimates from samples to the allocated bytes
                self.assertGreaterEqual(heap[-1], report["leaked_bytes"])
            if report["mapped"]["maps"] > 0:
                self.assertEqual(max(tracks.counters["mapped by the program"]), report["mapped"]["peak_bytes"])
            counters = [track for track in tracks.described.values() if "counter" in track]
            self.assertEqual({track["counter"]["unit"] for track in counters}, {UNIT_SIZE_BYTES})
            processes = [track["process"] for track in tracks.described.values() if "process" in track]
            self.assertEqual([process["pid"] for process in processes], [report["pid"]])
            entered = {}
            for layer in report["layers"][1:]:
                name = layer["layer_name"].rsplit("/", 1)[-1]
                entered[name] = entered.get(name, 0) + layer["entries"]
            self.assertEqual(tracks.slices, {name: times for name, times in entered.items() if times > 0})

        self.for_each_recording(check)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

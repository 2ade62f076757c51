#!/usr/bin/env python3
"""Tests what `export_vos.py --verify` says about frames in which the object was not seen. Needs no packages."""
import importlib
import pathlib
import sys
import types
import unittest

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"


def load_verify():
    """python/vos_export/verify.py without the packages that it needs to run nets."""
    sys.path.insert(0, str(PYTHON))
    sys.dont_write_bytecode = True
    sys.modules["numpy"] = types.ModuleType("numpy")
    for name in ("run", "tracker"):
        sys.modules[f"vos_export.{name}"] = types.ModuleType(name)
    sources = sys.modules["vos_export.sources"] = types.ModuleType("sources")
    sources.MEAN, sources.STD = (0, 0, 0), (1, 1, 1)
    return importlib.import_module("vos_export.verify")


class SeenFrames(unittest.TestCase):
    def lines(self, seen, compared):
        lines = []
        load_verify().report_seen(seen, compared, lines.append)
        return lines

    def test_half_of_the_frames_is_enough(self):
        self.assertEqual(self.lines(42, 63), ["the object was seen in 42 of 63 frames"])
        self.assertEqual(self.lines(21, 42), ["the object was seen in 21 of 42 frames"])

    def test_warns_below_half_of_the_frames(self):
        seen, warning = self.lines(3, 63)
        self.assertEqual(seen, "the object was seen in 3 of 63 frames")
        self.assertTrue(warning.startswith("warning: the object score is at most 0 in 60 of 63 frames"), warning)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests scripts/check_elf.py with libraries that gcc makes: each kind of violation is found, a good library passes."""
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_elf.py"
GOOD = 'int headroom_backend(void) { return 1; }'
HIDDEN = '__attribute__((visibility("hidden"))) int hidden(void) { return 1; }'


class CheckElf(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)

    def build(self, name, source, *options):
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", self.tree / name, *options],
                       input=source, text=True, check=True)

    def check(self, *options):
        result = subprocess.run([sys.executable, SCRIPT, self.tree, *options], capture_output=True, text=True)
        return result.returncode, result.stdout

    def expect(self, violation, *options):
        code, output = self.check(*options)
        self.assertEqual(code, 1, output)
        self.assertIn(violation, output)
        self.assertIn("1 violations in", output)

    def test_accepts_a_good_library_and_one_that_it_needs(self):
        self.build("libother.so.1", HIDDEN, "-Wl,-soname,libother.so.1")
        self.build("libheadroom_backend_a.so", GOOD + HIDDEN, "-Wl,--no-as-needed", self.tree / "libother.so.1",
                   "-Wl,-rpath,$ORIGIN/../lib/headroom:$ORIGIN")
        code, output = self.check()
        self.assertEqual((code, output.split(";")[0]), (0, "0 violations in 2 ELF files"), output)

    def test_finds_a_library_that_is_not_in_the_tree(self):
        self.build("libother.so.1", HIDDEN, "-Wl,-soname,libother.so.1")
        self.build("libheadroom_backend_a.so", GOOD, "-Wl,--no-as-needed", self.tree / "libother.so.1")
        (self.tree / "libother.so.1").unlink()
        self.expect("libheadroom_backend_a.so: needs libother.so.1, which is neither in the tree")

    def test_finds_a_function_of_a_later_glibc(self):
        self.build("liba.so", "#define _GNU_SOURCE\n#include <unistd.h>\nint thread(void) { return gettid(); }")
        self.expect("liba.so: needs GLIBC_2.30; GLIBC_2.27 is the highest allowed")
        self.assertEqual(self.check("--glibc", "2.30")[0], 0)

    def test_finds_symbols_of_the_cpp_library(self):
        standard = 'int stream(void) __asm__("_ZNSt3__14coutE"); int stream(void) { return 1; }'
        self.build("libheadroom_backend_a.so", GOOD + standard)
        self.expect("libheadroom_backend_a.so: exports 1 symbols that are no entry points: _ZNSt3__14coutE")

    def test_knows_the_hooks_of_a_preload_library(self):
        hooks = """void* malloc(unsigned long size) { return (void*)size; }
            int make(void) __asm__("_Znwm"); int make(void) { return 1; }"""
        self.build("libheadroom_trace.so", hooks)
        self.assertEqual(self.check()[0], 0)
        self.build("libheadroom_trace.so", hooks + "int _Unwind_Resume(void) { return 1; }")
        self.expect("libheadroom_trace.so: exports 1 symbols that are no entry points: _Unwind_Resume")

    def test_finds_an_absolute_rpath(self):
        self.build("libheadroom_backend_a.so", GOOD, "-Wl,-rpath,$ORIGIN:/opt/lib")
        self.expect("libheadroom_backend_a.so: has the RPATH /opt/lib, which does not start with $ORIGIN")

    def test_finds_another_machine(self):
        self.build("libheadroom_backend_a.so", GOOD)
        machine = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
        self.expect(f"not for {machine}", "--machine", machine)

    def test_rejects_a_tree_without_elf_files(self):
        self.assertEqual(self.check()[0], 1)


if __name__ == "__main__":
    unittest.main()

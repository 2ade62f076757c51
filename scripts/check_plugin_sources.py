#!/usr/bin/env python3
"""Checks the sources that `headroom build-plugin` compiles on a user's machine (src/plugin_sources.txt).

Each plug-in's files must be complete (every include is listed, every header is included) and compile as C++17 in a
folder that has nothing else; the memory tracer as C++20. Files whose foreign headers are absent are left out.

    scripts/check_plugin_sources.py [--compiler g++-9] [--include DIR …] [--require tensorrt]
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
# Headers without which a library, or one of its files, is left out.
FOREIGN = {"tensorrt": ["NvInfer.h", "cuda_runtime_api.h"], "libtorch": ["torch/csrc/jit/api/module.h"],
           "memory_tracer": ["torch/csrc/jit/api/module.h"],
           "rclcpp": ["rclcpp/rclcpp.hpp", "diagnostic_msgs/msg/diagnostic_array.hpp"]}
FOREIGN_OF_FILE = {"memory_tracer/cuda_allocator.cpp": ["c10/cuda/impl/cuda_cmake_macros.h", "cuda_runtime_api.h"]}
STANDARD = {"memory_tracer": "c++20"}  # the others: C++17
FOREIGN_INCLUDE = re.compile(r"^(Nv|cuda_|torch/|ATen/|c10/|caffe2/|rclcpp/|diagnostic_msgs/)")


def read_list():
    plugins = {}
    for line in (ROOT / "plugin_sources.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            plugin, file = line.split()
            plugins.setdefault(plugin, []).append(file)
    del plugins["third-party"]
    return plugins


def place_of(file):
    """The file in src/ or include/, or None for a generated or foreign one."""
    return next((root / file for root in (ROOT, ROOT.parent / "include") if (root / file).exists()), None)


def includes_of(file, kind):
    return [name for found, name in INCLUDE.findall(place_of(file).read_text()) if found == kind]


def reachable(start):
    found, left = set(), [start]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += [name for name in includes_of(file, '"') if place_of(name)]
    return found


def problems_of_list(plugin, files):
    needed = set().union(*(reachable(file) for file in files if file.endswith(".cpp")))
    for file in sorted(needed - set(files)):
        yield f"src/plugin_sources.txt: {plugin} lacks {file}; add the line \"{plugin} {file}\""
    for file in sorted(set(files) - needed):
        yield f"src/plugin_sources.txt: {plugin} does not need {file}; remove the line"


def needs_foreign(file):
    return any(FOREIGN_INCLUDE.match(name) for part in reachable(file) for name in includes_of(part, "<"))


def run(compiler, flags, text=None):
    return subprocess.run([*compiler, "-fsyntax-only", *flags], input=text, text=True, capture_output=True)


def are_there(headers, compiler, includes):
    text = "".join(f"#if !__has_include(<{header}>)\n#error {header}\n#endif\n" for header in headers)
    return run(compiler, [*includes, "-x", "c++", "-"], text).returncode == 0


def check_plugin(plugin, files, compiler, includes):
    """Returns problems, and whether the foreign headers are there."""
    has_foreign = are_there(FOREIGN[plugin], compiler, includes)
    standard = STANDARD.get(plugin, "c++17")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place_of(file), folder / file)
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fmax-errors=5", "-DFMT_HEADER_ONLY",
                 "-I", name, *includes]
        sources = [file for file in files if file.endswith(".cpp") and (has_foreign or not needs_foreign(file))
                   and are_there(FOREIGN_OF_FILE.get(file, []), compiler, includes)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda file: (file, run(compiler, [*flags, str(folder / file)])), sources)
            problems = [f"{file} does not compile as {standard}:\n{result.stderr[:4000]}" for file, result in results
                        if result.returncode != 0]
    left_out = sum(file.endswith(".cpp") for file in files) - len(sources)
    headers = FOREIGN[plugin] if not has_foreign else sum((FOREIGN_OF_FILE.get(file, []) for file in files), [])
    print(f"{plugin}: {len(sources)} sources compile as {standard}" if not problems else f"{plugin}: failed",
          f"; left out {left_out}: {' or '.join(headers)} is not installed" if left_out else "", sep="")
    return problems, has_foreign


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="folder of foreign headers; repeatable")
    parser.add_argument("--require", action="append", default=[], help="fail if its headers are absent; repeatable")
    arguments = parser.parse_args()
    includes = [word for folder in arguments.include for word in ("-isystem", folder)]
    problems = []
    for plugin, files in read_list().items():
        problems += problems_of_list(plugin, files)
        failed, has_foreign = check_plugin(plugin, files, arguments.compiler.split(), includes)
        problems += failed
        if plugin in arguments.require and not has_foreign:
            problems.append(f"{plugin}: {' or '.join(FOREIGN[plugin])} is not installed")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

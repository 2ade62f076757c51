#!/usr/bin/env python3
"""Checks the includes under src/ against the layers of docs/architecture.md.

Fails on an include from a higher layer, on a cycle between modules of one layer, on a module that is missing in the table below,
and on relative includes ("../x.h"). Prints file:line, the problem and the fix.

    scripts/check_layering.py [SOURCE_ROOT]
"""
import pathlib
import re
import sys

LAYERS = [
    ["base"],
    ["types", "cuda"],
    ["inference", "media", "sources", "limits", "recording", "symbols", "ledger", "history"],
    ["attribution", "comparison", "evaluation", "snapshot", "monitoring", "planning", "pool"],
    ["report", "exporters"],
    ["bench", "trace", "watch", "doctor", "memory_tracer"],
    ["tui", "serve", "plugin_builder"],
    ["cli"],
]
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}
# The preload library runs inside other programs. It may only use plain data, the recording writer
# and the ledger.
PRELOAD_MAY_SEE = {"types", "recording", "ledger", "preload"}
# The memory tracer's library also runs there and uses the preload library's recorder. No other
# module may do so.
MEMORY_TRACER_MAY_SEE = {"types", "recording", "preload", "memory_tracer"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def find_problems(root):
    problems, edges = [], {}
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cpp", ".c"):
            continue
        module = path.relative_to(root).parts[0]
        if module != "preload" and module not in LAYER_OF:
            problems.append(f"{path}: the module '{module}' is unknown; move the file to a module of docs/architecture.md, or add the module there and to {sys.argv[0]}")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            where = f"{path}:{number}"
            if target.startswith("."):
                problems.append(f"{where}: the include \"{target}\" is relative; write it relative to src/: \"{module}/…\"")
                continue
            other = target.split("/")[0]
            if "/" not in target or (other not in LAYER_OF and other != "preload"):
                continue  # a generated or external header
            if module == "preload":
                if other not in PRELOAD_MAY_SEE:
                    problems.append(f"{where}: preload/ includes {other}/; it may only include {', '.join(sorted(PRELOAD_MAY_SEE))}")
                continue
            if module == "memory_tracer":
                if other not in MEMORY_TRACER_MAY_SEE:
                    problems.append(f"{where}: memory_preload/ includes {other}/; it may only include {', '.join(sorted(MEMORY_TRACER_MAY_SEE))}")
                continue
            if other == "preload" or LAYER_OF[other] > LAYER_OF[module]:
                problems.append(f"{where}: {module}/ (layer {LAYER_OF[module]}) includes {target}, which is above it; move the shared part down")
            elif other != module and LAYER_OF[other] == LAYER_OF[module]:
                edges.setdefault(module, {}).setdefault(other, where)
    return problems + find_cycles(edges)


def find_cycles(edges):
    problems, done = [], set()

    def visit(module, path):
        if module in path:
            cycle = path[path.index(module):] + [module]
            problems.append(f"{edges[cycle[0]][cycle[1]]}: the modules {' → '.join(cycle)} include each other in a cycle; move the shared part down")
            return
        if module in done:
            return
        for other in edges.get(module, {}):
            visit(other, path + [module])
        done.add(module)

    for module in sorted(edges):
        visit(module, [])
    return problems


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = find_problems(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("no include from a higher layer")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds the includes under src/ to the floors of docs/architecture.md.

Fails on an include of a higher floor, on a circle between rooms of one floor, on a room that is not in the table
below, and on relative includes ("../x.h"). Prints file:line, what is wrong and how to mend it.

    scripts/check_layering.py [SOURCE_ROOT]
"""
import pathlib
import re
import sys

FLOORS = {
    "base": 0,
    "model": 1, "cuda": 1,
    "inference": 2, "media": 2, "sources": 2, "limits": 2, "recording": 2, "symbols": 2, "ledger": 2, "snapshot": 2, "history": 2,
    "analysis": 3, "planning": 3, "pool": 3,
    "report": 4, "exporters": 4, "importers": 4, "ros2": 4,
    "bench": 5, "watch": 5, "trace": 5, "doctor": 5,
    "memory_tracer": 5,
    "tui": 6, "serve": 6,
    "cli": 7,
}
# The preload library lives in another's process: it may see plain data, the writer of recordings and the ledger of devices.
TRACER_MAY_SEE = {"model", "recording", "ledger", "tracer"}
# The library of memory tracers lives there, too, and records by the preload library's recorder: it alone may see that.
MEMORY_TRACER_MAY_SEE = {"model", "recording", "tracer", "memory_tracer"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def find_problems(root):
    problems, edges = [], {}
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cpp", ".c"):
            continue
        room = path.relative_to(root).parts[0]
        if room != "tracer" and room not in FLOORS:
            problems.append(f"{path}: the room '{room}' is unknown; put the file into a room of docs/architecture.md or add the room there and to {sys.argv[0]}")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            where = f"{path}:{number}"
            if target.startswith("."):
                problems.append(f"{where}: the include \"{target}\" is relative; write it from src/, as \"{room}/…\"")
                continue
            other = target.split("/")[0]
            if "/" not in target or (other not in FLOORS and other != "tracer"):
                continue  # a generated or foreign header
            if room == "tracer":
                if other not in TRACER_MAY_SEE:
                    problems.append(f"{where}: tracer/ includes {other}/; it may see {', '.join(sorted(TRACER_MAY_SEE))} only")
                continue
            if room == "memory_tracer":
                if other not in MEMORY_TRACER_MAY_SEE:
                    problems.append(f"{where}: memory_tracer/ includes {other}/; it may see {', '.join(sorted(MEMORY_TRACER_MAY_SEE))} only")
                continue
            if other == "tracer" or FLOORS[other] > FLOORS[room]:
                problems.append(f"{where}: {room}/ (floor {FLOORS[room]}) includes {target}, which is above it; move the shared part down")
            elif other != room and FLOORS[other] == FLOORS[room]:
                edges.setdefault(room, {}).setdefault(other, where)
    return problems + find_circles(edges)


def find_circles(edges):
    problems, done = [], set()

    def visit(room, path):
        if room in path:
            circle = path[path.index(room):] + [room]
            problems.append(f"{edges[circle[0]][circle[1]]}: the rooms {' → '.join(circle)} include each other in a circle; move the shared part down")
            return
        if room in done:
            return
        for other in edges.get(room, {}):
            visit(other, path + [room])
        done.add(room)

    for room in sorted(edges):
        visit(room, [])
    return problems


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = find_problems(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("every include points downward")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

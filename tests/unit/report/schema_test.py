#!/usr/bin/env python3
"""Holds report.json files to docs/report.schema.json.

usage: schema_test.py SCHEMA FOLDER_OR_FILE...

The schema lets keys be added; here it is made strict first, so that a key which the program writes and the schema does
not name is found. Each requirement of the schema is then broken once in a real report, and must be noticed.
"""
import copy
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not on this machine; this test needs it and is skipped")
    sys.exit(77)


def strict(schema):
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def breakages(report, seen):
    """Yields (what was done, broken copy) for the values of the report, one of each kind: those in `seen` were broken before, in
    another report (each takes a validation of all of it)."""
    def places(value, path=()):
        yield path, value
        if isinstance(value, dict):
            for key, member in value.items():
                yield from places(member, path + (key,))
        elif isinstance(value, list):
            for index, member in enumerate(value[:1]):
                yield from places(member, path + (index,))

    def edited(path, edit):
        broken = copy.deepcopy(report)
        parent = broken
        for key in path[:-1]:
            parent = parent[key]
        edit(parent, path[-1])
        return broken

    for path, value in places(report):
        kind = tuple(key for key in path if isinstance(key, str)), type(value)
        if not path or kind in seen:
            continue
        seen.add(kind)
        wrong = [] if isinstance(value, str) else "of another type"
        yield f"/{'/'.join(map(str, path))} of a wrong type", edited(path, lambda parent, key: parent.__setitem__(key, wrong))
        if isinstance(value, dict):
            yield f"/{'/'.join(map(str, path))} with an unknown key", edited(
                path, lambda parent, key: parent[key].__setitem__("of_nowhere", 1))


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(strict(schema))
    failures = reports = noticed = 0
    seen = set()
    for argument in map(pathlib.Path, sys.argv[2:]):
        for path in sorted(argument.rglob("report.json")) if argument.is_dir() else [argument]:
            reports += 1
            report = json.loads(path.read_text(encoding="utf-8"))
            for error in validator.iter_errors(report):
                print(f"{path}: /{'/'.join(map(str, error.absolute_path))}: {error.message}")
                failures += 1
            for what, broken in breakages(report, seen):
                if validator.is_valid(broken):
                    print(f"{path}: {what} is not noticed")
                    failures += 1
                noticed += 1
    print(f"{reports} reports, {noticed} breakages, {failures} failures")
    return 1 if failures or not reports else 0


if __name__ == "__main__":
    sys.exit(main())

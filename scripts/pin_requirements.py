#!/usr/bin/env python3
"""Turns a report of pip into a list of pinned packages with their checksums.

    pip install --dry-run --ignore-installed --quiet --report - -r python/requirements-export.in |
      scripts/pin_requirements.py > python/requirements-export.txt

The checksums are those of the files for the Python and the machine that pip runs on.
"""
import json
import sys

print("# Made by scripts/pin_requirements.py from requirements-export.in, for CPython 3.11 on x86-64 Linux.")
for package in sorted(json.load(sys.stdin)["install"], key=lambda package: package["metadata"]["name"].lower()):
    data, archive = package["metadata"], package["download_info"]["archive_info"]
    print(f"{data['name']}=={data['version']} \\\n    --hash=sha256:{archive['hashes']['sha256']}")

#!/usr/bin/env bash
# run_tests.sh BUILD_DIR [ctest arguments]: runs CTest and ends with the line `N passed, N failed, N skipped`. Fails if any test
# failed or none ran.
set -uo pipefail
build=$1
shift
sizes=(--test-output-size-passed 1000000 --test-output-size-failed 1000000)  # the counts are at the end of the output
junit=$(mktemp)
trap 'rm -f "$junit"' EXIT
ctest --test-dir "$build" --output-on-failure --output-junit "$junit" "${sizes[@]}" -j "${TEST_JOBS:-2}" "$@" | grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
python3 - "$junit" "${PIPESTATUS[0]}" <<'PY'
import re
import sys
import xml.etree.ElementTree as tree
try:
    cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
except (OSError, tree.ParseError) as problem:
    print(f"no test ran: {problem}")
    sys.exit(1)


def was_not_built(case):
    skip = case.find("skipped")
    return skip is not None and "Unable to find executable" in (skip.get("message") or "")


def count_of(case, what):
    counts = re.findall(rf"^\[ +{what} +\] (\d+) tests?", case.findtext("system-out") or "", re.MULTILINE)
    return int(counts[-1]) if counts else 0


# "NAME (3 of 8)" is a process with many tests; its output has the counts.
processes = [case for case in cases if re.search(r" \(\d+ of \d+\)$", case.get("name")) and case.get("status") == "run"]
failures = [case.get("name") for case in cases if case.get("status") == "fail" or was_not_built(case)]
failures += [case.get("name") + " ended without a result" for case in processes if "[  PASSED  ]" not in (case.findtext("system-out") or "")]
skipped = sum(case.get("status") in ("notrun", "disabled") and not was_not_built(case) for case in cases)
for name in failures:
    print(f"failed: {name}")
failed = len(failures)
if int(sys.argv[2]) != 0 and failed == 0:
    print(f"failed: ctest itself ended with {sys.argv[2]}")
    failed = 1
passed = max(len(cases) - failed - skipped - len(processes), 0) + sum(count_of(case, "PASSED") for case in processes)
skipped += sum(count_of(case, "SKIPPED") for case in processes)
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(0 if passed > 0 and failed == 0 else 1)
PY

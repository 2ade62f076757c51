#!/usr/bin/env bash
# run_tests.sh BUILD_DIR [ctest arguments]: runs CTest and ends with the line `N passed, N failed, N skipped`. Fails if any test
# failed or none ran. If only a few tests failed, each is run once more, alone, because tests with real processes, time-outs and
# limits can fail on a busy machine. A test that then passes counts as passed and is listed as unsteady, so that it gets checked.
set -uo pipefail
build=$1
shift
most_to_repeat=5
sizes=(--test-output-size-passed 1000000 --test-output-size-failed 1000000)  # the counts are at the end of the output
junit=$(mktemp) again=$(mktemp)
trap 'rm -f "$junit" "$again"' EXIT
ctest --test-dir "$build" --output-on-failure --output-junit "$junit" "${sizes[@]}" -j "${TEST_JOBS:-2}" "$@" | grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
ctest_status=${PIPESTATUS[0]}
failures=$(grep -c 'status="fail"' "$junit" || true)
if [ "$failures" -gt 0 ] && [ "$failures" -le "$most_to_repeat" ]; then
  echo "running the failed tests once more, alone:"
  ctest --test-dir "$build" --output-on-failure --output-junit "$again" "${sizes[@]}" -j 1 --rerun-failed | grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
fi
python3 - "$junit" "$again" "$ctest_status" <<'PY'
import os
import re
import sys
import xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot()
    again = tree.parse(sys.argv[2]).getroot() if os.path.getsize(sys.argv[2]) > 0 else []
except (OSError, tree.ParseError) as problem:
    print(f"no test ran: {problem}")
    sys.exit(1)


def names(suite, is_wanted):
    return [case.get("name") for case in suite.iter("testcase") if is_wanted(case)] if len(suite) else []


def was_not_built(case):
    skip = case.find("skipped")
    return skip is not None and "Unable to find executable" in (skip.get("message") or "")


# "NAME (3 of 8)" is a process with many tests; its output has the counts.
OF_MANY = re.compile(r" \(\d+ of \d+\)$")


def count_of(case, what):
    counts = re.findall(rf"^\[ +{what} +\] (\d+) tests?", case.findtext("system-out") or "", re.MULTILINE)
    return int(counts[-1]) if counts else 0


processes = [case for case in suite.iter("testcase") if OF_MANY.search(case.get("name")) and case.get("status") == "run"]
in_processes = sum(count_of(case, "PASSED") for case in processes)
skipped_in_processes = sum(count_of(case, "SKIPPED") for case in processes)
failures = names(suite, lambda case: case.get("status") == "fail")
failures += [case.get("name") + " ended without a result" for case in processes if "[  PASSED  ]" not in (case.findtext("system-out") or "")]
passed_alone = names(again, lambda case: case.get("status") == "run")
unsteady = [name for name in failures if name in passed_alone]
absent = names(suite, was_not_built)
failures = [name for name in failures if name not in unsteady] + absent
total = int(suite.get("tests"))
skipped = len(names(suite, lambda case: case.get("status") in ("notrun", "disabled"))) - len(absent)
for name in unsteady:
    print(f"unsteady: {name} failed together with others and passed alone")
for name in failures:
    print(f"failed: {name}")
failed = len(failures)
if int(sys.argv[3]) != 0 and failed == 0 and not unsteady:
    print(f"failed: ctest itself ended with {sys.argv[3]}")
    failed = 1
passed = max(total - failed - skipped, 0) - len(processes) + in_processes
skipped += skipped_in_processes
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(0 if passed > 0 and failed == 0 else 1)
PY

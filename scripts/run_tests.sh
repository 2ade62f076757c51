#!/usr/bin/env bash
# run_tests.sh BUILD_DIR [ctest arguments]: runs CTest, ends with `N passed, N failed, N skipped` alone on a line and
# fails if any test failed or none ran.
set -uo pipefail
build=$1
shift
junit=$(mktemp)
ctest --test-dir "$build" --output-on-failure --output-junit "$junit" -j "${TEST_JOBS:-2}" "$@" | grep -vE '^ +Start +[0-9]+:|Passed +[0-9.]+ sec$'
# A program that was never built counts as "not run" in the results; only ctest's own status tells it from a skip.
ctest_status=${PIPESTATUS[0]}
python3 - "$junit" "$ctest_status" <<'PY'
import sys
import xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot()
except (OSError, tree.ParseError) as problem:
    print(f"no test ran: {problem}")
    sys.exit(1)
total, failed = int(suite.get("tests")), int(suite.get("failures"))
skipped = sum(1 for case in suite.iter("testcase") if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"))
for case in suite.iter("testcase"):
    if case.get("status") == "fail":
        print(f"failed: {case.get('name')}")
if int(sys.argv[2]) != 0 and failed == 0:
    print(f"failed: ctest itself ended with {sys.argv[2]} (a test program was not built, or ctest broke off)")
    failed, skipped = 1, max(skipped - 1, 0)
passed = total - failed - skipped
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(0 if passed > 0 and failed == 0 else 1)
PY
status=$?
rm -f "$junit"
exit $status

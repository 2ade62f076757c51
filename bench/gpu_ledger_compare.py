#!/usr/bin/env python3
"""The ledger of a recording against what NVML said of the process at the same moments.

    gpu_ledger_compare.py SAMPLES.json RECORDING.hrec

SAMPLES are those of gpu_torch_guest.py. The recording's figures for contexts and modules are found by difference and stand apart;
what NVML says beyond allocations, contexts and modules is explained by nothing, and is printed with its range for each phase, so that it
shows whether it moves. Reads the recording by tests/golden/read_recording.py. Prints JSON.
"""
import bisect
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
import read_recording as reader  # noqa: E402

POOL, GRAPH, POOL_RESERVED, MODULES, GRAPH_RESERVED, CONTEXTS = 5, 6, 11, 12, 13, 14


def physical_over_time(recording):
    """[(CLOCK_MONOTONIC ns, bytes of device 0 that its allocations take up, its contexts, its modules)]"""
    live, by_kind, curve = {}, {}, []
    for time, _, _, _, kind, fields in recording.events():
        if kind <= reader.EXTENDED or fields[2] != 0:
            continue
        what, memory, rest = kind - reader.EXTENDED, fields[3], fields[4:]
        if what == reader.DEVICE_ALLOCATE:
            live[memory, rest[0]] = rest[1]
            by_kind[memory] = by_kind.get(memory, 0) + rest[1]
        elif what == reader.DEVICE_RELEASE:
            by_kind[memory] = by_kind.get(memory, 0) - live.pop((memory, rest[0]), 0)
        elif what == reader.DEVICE_FIGURE:
            by_kind[memory] = rest[0]
        total = sum(by_kind.get(one, 0) for one in reader.DEVICE_TOTAL if one not in (POOL, GRAPH))
        total += max(by_kind.get(POOL, 0), by_kind.get(POOL_RESERVED, 0))
        total += by_kind.get(GRAPH_RESERVED, by_kind.get(GRAPH, 0))
        curve.append((recording.first_monotonic_ns + int(time * recording.ns_per_unit), total,
                      by_kind.get(CONTEXTS, 0), by_kind.get(MODULES, 0)))
    return curve


def main():
    samples = json.load(open(sys.argv[1]))
    with open(sys.argv[2], "rb") as file:
        curve = physical_over_time(reader.Recording(file.read()))
    times = [point[0] for point in curve]
    phases = {}
    for sample in samples["samples"]:
        if sample["phase"] in ("between", "before") or sample["process_bytes"] is None:
            continue
        at = bisect.bisect(times, sample["before_ns"])
        if at != bisect.bisect(times, sample["after_ns"]):
            continue  # something changed while NVML was asked
        _, ledger, contexts, modules = curve[at - 1] if at else (0, 0, 0, 0)
        phase = phases.setdefault(sample["phase"], {"samples": 0, "nvml_bytes": sample["process_bytes"], "ledger_bytes": ledger,
                                                    "contexts_bytes": contexts, "modules_bytes": modules, "difference_bytes": []})
        phase["samples"] += 1
        phase["difference_bytes"].append(sample["process_bytes"] - ledger - contexts - modules)
    for phase in phases.values():
        differences = phase.pop("difference_bytes")
        phase["difference_lowest_bytes"], phase["difference_highest_bytes"] = min(differences), max(differences)
    json.dump({"torch": samples["torch"], "device": samples["device"], "allocator": samples["allocator"], "phases": phases},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()

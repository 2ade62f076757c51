#!/usr/bin/env python3
"""Compares the ledger of a recording with NVML's figure for the process at the same times.

    gpu_ledger_compare.py SAMPLES.json RECORDING.hrec

SAMPLES are from nvml_sampler.py. The driver's own memory (contexts, modules, streams) is NVML's figure minus the recorded allocations,
measured at the end of the last phase in which the program created or loaded something of that kind. After that it is assumed constant,
so recorded allocations alone must explain every later change of NVML's figure. `unexplained_bytes` is the rest: the lowest and highest
of a phase's samples. `every_moment` is the same for all samples of the run, at rest or not. It omits samples before a phase in which
the driver may have allocated for itself, and samples during which the recording has an event. The recording's own figures for contexts
and for the driver's later growth are not used. Reads the recording with tests/golden/read_recording.py. Prints JSON.
"""
import bisect
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
import read_recording as reader  # noqa: E402

DEVICE, ARRAY, MANAGED = 1, 2, 3
POOL, GRAPH, POOL_RESERVED, MODULES, GRAPH_RESERVED, CONTEXTS = 5, 6, 11, 12, 13, 14


def in_granules(memory, bytes):
    """The rule of types/memory_event.h: above 1 MiB the driver allocates multiples of 2 MiB."""
    return -(-bytes >> 21) << 21 if memory in (DEVICE, ARRAY) and bytes > 1 << 20 else bytes


def physical_over_time(recording):
    """[(CLOCK_MONOTONIC ns, bytes of allocations on device 0, of contexts, of modules)]. NVML does not count managed memory for a process."""
    live, by_kind, curve = {}, {}, []
    for time, _, _, _, kind, fields in recording.events():
        if kind <= reader.EXTENDED or fields[2] != 0:
            continue
        what, memory, rest = kind - reader.EXTENDED, fields[3], fields[4:]
        if what == reader.DEVICE_ALLOCATE:
            live[memory, rest[0]] = in_granules(memory, rest[1])
            by_kind[memory] = by_kind.get(memory, 0) + live[memory, rest[0]]
        elif what == reader.DEVICE_RELEASE:
            by_kind[memory] = by_kind.get(memory, 0) - live.pop((memory, rest[0]), 0)
        elif what == reader.DEVICE_FIGURE:
            by_kind[memory] = rest[0]
        total = sum(by_kind.get(one, 0) for one in reader.DEVICE_TOTAL if one not in (POOL, GRAPH, MANAGED))
        total += max(by_kind.get(POOL, 0), by_kind.get(POOL_RESERVED, 0))
        total += by_kind.get(GRAPH_RESERVED, by_kind.get(GRAPH, 0))
        curve.append((recording.first_monotonic_ns + int(time * recording.ns_per_unit), total,
                      by_kind.get(CONTEXTS, 0), by_kind.get(MODULES, 0)))
    return curve


def every_moment(samples, phases, curve, times):
    """Compares all samples, also between phases. `phases`: from main(), with the driver's own bytes."""
    last_of = {sample["phase"]: sample["before_ns"] for sample in samples["samples"] if sample["phase"] is not None}
    ends = [(last_of[known["name"]], known) for known in samples["phases"] if known["name"] in last_of and known["name"] in phases]
    result = {"samples": 0, "while_the_driver_may_grow": 0, "during_an_event": 0, "beyond": 0, "beyond_before": {}, "worst_bytes": 0, "worst_share": 0.0}
    for sample in samples["samples"]:
        following = next((known for end, known in ends if sample["before_ns"] <= end), None)
        if following is None or sample["process_bytes"] is None:
            continue
        at = bisect.bisect(times, sample["before_ns"])
        if following["driver_grows"] and sample["phase"] is None:
            result["while_the_driver_may_grow"] += 1
        elif at != bisect.bisect(times, sample["after_ns"]):
            result["during_an_event"] += 1
        else:
            ledger = curve[at - 1][1] if at else 0
            unexplained = abs(sample["process_bytes"] - ledger - phases[following["name"]]["driver_bytes"])
            result["samples"] += 1
            if unexplained > max(sample["process_bytes"] / 100, 2 << 20):
                result["beyond"] += 1
                result["beyond_before"].setdefault(following["name"], []).append(
                    {"at_rest": sample["phase"] is not None, "bytes": sample["process_bytes"] - ledger - phases[following["name"]]["driver_bytes"]})
            if unexplained > result["worst_bytes"]:
                result["worst_bytes"], result["worst_share"] = unexplained, round(unexplained / sample["process_bytes"], 5)
    return result


def main():
    samples = json.load(open(sys.argv[1]))
    with open(sys.argv[2], "rb") as file:
        curve = physical_over_time(reader.Recording(file.read()))
    times = [point[0] for point in curve]
    phases, driver_bytes = {}, None
    for known in samples["phases"]:
        beyond, phase = [], None
        for sample in samples["samples"]:
            if sample["phase"] != known["name"] or sample["process_bytes"] is None:
                continue
            at = bisect.bisect(times, sample["before_ns"])
            if at != bisect.bisect(times, sample["after_ns"]):
                continue  # something changed while NVML was read
            _, ledger, contexts, modules = curve[at - 1] if at else (0, 0, 0, 0)
            phase = {"nvml_bytes": sample["process_bytes"], "ledger_bytes": ledger, "contexts_bytes": contexts, "modules_bytes": modules}
            beyond.append(sample["process_bytes"] - ledger)
        if phase is None:
            continue
        if known["driver_grows"]:
            driver_bytes = beyond[-1]
        else:
            phase["unexplained_bytes"] = [min(beyond) - driver_bytes, max(beyond) - driver_bytes]
        phases[known["name"]] = {**phase, "driver_bytes": driver_bytes, "samples": len(beyond)}
    about = {key: samples[key] for key in ("program", "device", "setting")}
    json.dump(about | {"phases": phases, "every_moment": every_moment(samples, phases, curve, times)}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()

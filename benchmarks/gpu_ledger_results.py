#!/usr/bin/env python3
"""Writes benchmarks/results/gpu_ledger.md and .json from what gpu_ledger.py and gpu_ledger_compare.py brought back.

    gpu_ledger_results.py FOLDER
"""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MIB = 1 << 20


SETTINGS = {"": "", "expandable_segments:True": ", expandable segments", "backend:cudaMallocAsync": ", cudaMallocAsync"}


def cells_of(figures):
    """For a phase: the driver's own memory if it may have grown, else the unexplained bytes."""
    if "unexplained_bytes" not in figures:
        return [f"**{figures['driver_bytes'] / MIB:,.1f}**", "", ""]
    low, high = figures["unexplained_bytes"]
    return [f"{figures['driver_bytes'] / MIB:,.1f}", f"{low / MIB:,.2f} to {high / MIB:,.2f}",
            f"{100 * max(abs(low), abs(high)) / figures['nvml_bytes']:.2f} %"]


def main():
    folder = pathlib.Path(sys.argv[1])
    results = json.loads((folder / "results.json").read_text())
    compared = {name: json.loads((folder / f"compare_{name}.json").read_text()) for name in ("torch_caching", "torch_expandable", "torch_async", "onnxruntime", "driver") if (folder / f"compare_{name}.json").exists()}
    machine, routes = results["machine"], results["routes"]
    lines = ["# The ledger of GPU memory on a real GPU", "",
             f"{machine['gpu']} (driver), {machine['cores']} cores, {machine['libc']}, kernel {machine['kernel']}, {machine['date']}; "
             f"{compared['torch_caching']['program']}. Commands: `benchmarks/gpu_ledger.py`, `benchmarks/gpu_ledger_compare.py`, this file by "
             "`benchmarks/gpu_ledger_results.py`.", "",
             "## No route exceeds the limit", "",
             f"`traced_cuda` allocates by each route until a request is refused, frees everything, and allocates again; limit "
             f"{routes['limit_bytes']:,} bytes, requests of {routes['step_bytes']:,}. \"Sound\": not a byte too much was granted, the next "
             "request would not have fitted, the error was the driver's own (2), and after freeing the same amount was granted again.", "",
             "| functions found by | routes sound | wrong |", "|---|---|---|"]
    for way, run in routes["ways"].items():
        lines.append(f"| {way} | {run['out'].count(': sound')} | {run['out'].count('WRONG')}{'' if run['status'] == 0 else ' (failed)'} |")
    lines += ["", "The routes: " + ", ".join(dict.fromkeys(line.split()[0] for line in routes["ways"]["dlsym"]["out"].splitlines())) +
              " (fork, process: another process under the same limit, which ends or is killed while it holds half).", "",
              "## PyTorch under a limit of 4 GiB", "", "| allocator | granted | error | continues after freeing |", "|---|---|---|---|"]
    for name, run in results["torch"]["limit"].items():
        result = json.loads(run["out"])
        lines.append(f"| {name} | {result['granted_bytes'] / MIB:,.0f} MiB | {result['error'].split(':')[0]} | {result['goes_on']} |")
    lines += ["", "## The ledger against NVML's figure for the process", "",
              "At rest in each phase, ten samples a second. The driver's own memory (contexts, modules, streams) is NVML's figure minus the recorded allocations, "
              "measured at the end of a phase in which the program created or loaded something of that kind (**bold**); after that it is assumed constant. Recorded allocations alone must explain any later "
              "change of NVML's figure. The unexplained rest is listed: lowest and highest of the samples, and the larger of the two as a share of NVML's figure. "
              "The ledger's own figures for contexts and for the driver's later growth come from NVML too, so they are not used. Allocations and arrays larger than 1 MiB count in whole granules of 2 MiB, as the "
              "driver allocates them. Managed memory is left out, because NVML does not count it for a process. Memory imported from another process counts in neither figure.", "",
              "| program | phase | NVML MiB | allocations MiB, in granules | driver's own | unexplained MiB | of NVML's figure |", "|---|---|--:|--:|--:|--:|--:|"]
    for one in compared.values():
        for phase, figures in one["phases"].items():
            lines.append(f"| {one['program']}{SETTINGS[one['setting']]} | {phase} | {figures['nvml_bytes'] / MIB:,.1f} | {figures['ledger_bytes'] / MIB:,.1f} | " +
                         " | ".join(cells_of(figures)) + " |")
    lines += ["", "## At every moment", "",
              "All samples of each run, ten a second, at rest or not. Left out are samples before a phase in which the driver may have allocated for itself (its growth is known only at the end of that phase), "
              "and samples during which the recording has an event. \"Beyond\": the unexplained part exceeds 1 % of NVML's figure and a granule of 2 MiB.", "",
              "| program | samples | before the driver may have grown | during an event | beyond | worst, MiB | of NVML's figure |", "|---|--:|--:|--:|--:|--:|--:|"]
    for one in compared.values():
        result = one["every_moment"]
        lines.append(f"| {one['program']}{SETTINGS[one['setting']]} | {result['samples']} | {result['while_the_driver_may_grow']} | {result['during_an_event']} | "
                     f"{result['beyond']} | {result['worst_bytes'] / MIB:.2f} | {100 * result['worst_share']:.2f} % |")
    for one in compared.values():
        for phase, list_of in one["every_moment"]["beyond_before"].items():
            where = "at rest" if any(each["at_rest"] for each in list_of) else "between two rests"
            lines += ["", f"{one['program']}, before the end of '{phase}': {len(list_of)} sample{'' if len(list_of) == 1 else 's'} {where}, {min(each['bytes'] for each in list_of) / MIB:,.1f} to {max(each['bytes'] for each in list_of) / MIB:,.1f} MiB."]
    if any(one["every_moment"]["beyond"] for one in compared.values()):
        lines += ["", "The ledger reads the driver's memory for graphs twenty times a second, because it does not watch launches. So up to 1/20 s after a launch its figure may be outdated."]
    lines += ["", "What a call costs: [gpu_call_cost.md](gpu_call_cost.md).", ""]
    (RESULTS / "gpu_ledger.md").write_text("\n".join(lines))
    for run in routes["ways"].values():
        run.pop("err", None)
    (RESULTS / "gpu_ledger.json").write_text(json.dumps({"results": results, "against_nvml": compared}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

#!/usr/bin/env python3
"""Writes bench/results/gpu_ledger.md and .json from what gpu_ledger.py and gpu_ledger_compare.py brought back.

    gpu_ledger_results.py FOLDER
"""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MIB = 1 << 20


SETTINGS = {"": "", "expandable_segments:True": ", expandable segments", "backend:cudaMallocAsync": ", cudaMallocAsync"}


def cells_of(figures):
    """Of a phase: what the driver has for itself if it may have grown, else what nothing explains."""
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
             f"{compared['torch_caching']['program']}. Commands: `bench/gpu_ledger.py`, `bench/gpu_ledger_compare.py`, this file by "
             "`bench/gpu_ledger_results.py`.", "",
             "## No route gets past the limit", "",
             f"`traced_cuda` takes memory until it is refused, frees it, and takes it again, by each route; limit "
             f"{routes['limit_bytes']:,} bytes, requests of {routes['step_bytes']:,}. \"Sound\": not a byte more was granted, the next whole "
             "request would not have fitted, the error was the driver's own (2), and after freeing the same was granted again.", "",
             "| functions found by | routes sound | wrong |", "|---|---|---|"]
    for way, run in routes["ways"].items():
        lines.append(f"| {way} | {run['out'].count(': sound')} | {run['out'].count('WRONG')}{'' if run['status'] == 0 else ' (failed)'} |")
    lines += ["", "The routes: " + ", ".join(dict.fromkeys(line.split()[0] for line in routes["ways"]["dlsym"]["out"].splitlines())) +
              " (fork, process: another process under the same limit, which ends or is killed while it holds half).", "",
              "## PyTorch under a limit of 4 GiB", "", "| allocator | granted | error | goes on after freeing |", "|---|---|---|---|"]
    for name, run in results["torch"]["limit"].items():
        told = json.loads(run["out"])
        lines.append(f"| {name} | {told['granted_bytes'] / MIB:,.0f} MiB | {told['error'].split(':')[0]} | {told['goes_on']} |")
    lines += ["", "## The ledger against NVML's figure for the process", "",
              "At rest in each phase, ten samples a second. What the driver takes for itself (contexts, modules, its streams) is what NVML says beyond the recorded allocations "
              "at the end of a phase in which the program made or loaded something of that kind (**bold**); from then on it is held to stand still. Any later move of NVML's figure must be "
              "explained by recorded allocations alone, and what is not is told: lowest and highest of the samples, and the larger of the two as a share of NVML's figure. "
              "The ledger's own figures for contexts and for what the driver takes later, which are NVML's too, take no part in this. Allocations and arrays larger than 1 MiB count in whole granules of 2 MiB, as the "
              "driver gives them; managed memory is left out, as NVML counts none of it to a process; what another process made and this one opened counts to neither figure.", "",
              "| program | phase | NVML MiB | allocations MiB, in granules | driver's own | unexplained MiB | of NVML's figure |", "|---|---|--:|--:|--:|--:|--:|"]
    for one in compared.values():
        for phase, figures in one["phases"].items():
            lines.append(f"| {one['program']}{SETTINGS[one['setting']]} | {phase} | {figures['nvml_bytes'] / MIB:,.1f} | {figures['ledger_bytes'] / MIB:,.1f} | " +
                         " | ".join(cells_of(figures)) + " |")
    lines += ["", "## At every moment", "",
              "All samples of each run, ten a second, whatever the program was at, but for those before a phase in which the driver may have taken memory for itself (its growth is told only at that phase's end) "
              "and those during which the recording has an event. \"Beyond\": more is unexplained than 1 % of NVML's figure and than a granule of 2 MiB.", "",
              "| program | samples | before the driver may have grown | during an event | beyond | worst, MiB | of NVML's figure |", "|---|--:|--:|--:|--:|--:|--:|"]
    for one in compared.values():
        told = one["every_moment"]
        lines.append(f"| {one['program']}{SETTINGS[one['setting']]} | {told['samples']} | {told['while_the_driver_may_grow']} | {told['during_an_event']} | "
                     f"{told['beyond']} | {told['worst_bytes'] / MIB:.2f} | {100 * told['worst_share']:.2f} % |")
    for one in compared.values():
        for phase, list_of in one["every_moment"]["beyond_before"].items():
            where = "at rest" if any(each["at_rest"] for each in list_of) else "between two rests"
            lines += ["", f"{one['program']}, before the end of '{phase}': {len(list_of)} sample{'' if len(list_of) == 1 else 's'} {where}, {min(each['bytes'] for each in list_of) / MIB:,.1f} to {max(each['bytes'] for each in list_of) / MIB:,.1f} MiB."]
    if any(one["every_moment"]["beyond"] for one in compared.values()):
        lines += ["", "What the driver keeps for graphs is asked of it twenty times a second, as launches are not watched, so for up to a twentieth of one after a launch the ledger has its figure of before."]
    lines += ["", "What a call costs: [gpu_call_cost.md](gpu_call_cost.md).", ""]
    (RESULTS / "gpu_ledger.md").write_text("\n".join(lines))
    for run in routes["ways"].values():
        run.pop("err", None)
    (RESULTS / "gpu_ledger.json").write_text(json.dumps({"results": results, "against_nvml": compared}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

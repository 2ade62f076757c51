#!/usr/bin/env python3
"""Writes bench/results/gpu_ledger.md and .json from what gpu_ledger.py and gpu_ledger_compare.py brought back.

    gpu_ledger_results.py FOLDER
"""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
MIB = 1 << 20


def moves_of(phases):
    """In words: from phase to phase, where it is more than a granule of the driver's."""
    told, last = [], 0
    for phase, figures in phases.items():
        if abs(figures["contexts_bytes"] - last) > 2 * MIB:
            told.append(f"{(figures['contexts_bytes'] - last) / MIB:+,.1f} MiB ({phase})")
        last = figures["contexts_bytes"]
    return ", ".join(told)


def main():
    folder = pathlib.Path(sys.argv[1])
    results = json.loads((folder / "results.json").read_text())
    compared = {name: json.loads((folder / f"compare_{name}.json").read_text()) for name in ("caching", "expandable", "async")}
    machine, routes, cost = results["machine"], results["routes"], results["cost"]
    lines = ["# The ledger of GPU memory on a real GPU", "",
             f"{machine['gpu']} (driver), {machine['cores']} cores, {machine['libc']}, kernel {machine['kernel']}, {machine['date']}; "
             f"PyTorch {compared['caching']['torch']}. Commands: `bench/gpu_ledger.py`, `bench/gpu_ledger_compare.py`, this file by "
             "`bench/gpu_ledger_results.py`.", "",
             "## No route gets past the limit", "",
             f"`trace_guest_cuda` takes memory until it is refused, frees it, and takes it again, by each route; limit "
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
              "At rest in each phase, ten samples a second. Contexts is what the driver takes for itself, by difference: asked of NVML once a second, so the rest is what "
              "changed since. An allocation that was missed would show as a move of contexts between phases; what moves it here is said below.", "",
              "| allocator | phase | NVML MiB | allocations MiB | contexts | modules | rest MiB, lowest to highest | of NVML's figure |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    for name, one in compared.items():
        for phase, figures in one["phases"].items():
            lines.append(f"| {name} | {phase} | {figures['nvml_bytes'] / MIB:,.1f} | {figures['ledger_bytes'] / MIB:,.1f} | "
                         f"{figures['contexts_bytes'] / MIB:,.1f} | {figures['modules_bytes'] / MIB:,.1f} | "
                         f"{figures['difference_lowest_bytes'] / MIB:,.2f} to {figures['difference_highest_bytes'] / MIB:,.2f} | "
                         f"{100 * figures['difference_highest_bytes'] / figures['nvml_bytes']:.2f} % |")
    moves = {name: moves_of(one["phases"]) for name, one in compared.items()}
    lines += ["", "Moves of contexts: " + "; ".join(f"{name} {moves[name]}" for name in moves) + ". Phases that only allocate, free or launch move nothing. A "
              "separate look at each step found when the driver takes what: most with the context, more with its first launch, with the first kernels of cuDNN and "
              "with the first stream beside the default one (cudaMallocAsync has one of its own, so there that comes with the context).", "",
              "## Cost", "", f"Medians of {cost['pairs']} alternating pairs of programs, nanoseconds; a pair of calls allocates and frees, with a "
              "limit set.", "", "| | untraced | traced | added, median (quartiles) |", "|---|---|---|---|"]
    for key, figures in cost.items():
        if key == "pairs":
            continue
        low, _, high = figures["added_quartiles"]
        lines.append(f"| {key.removesuffix('_ns')} | {figures['untraced']:,.0f} | {figures['traced']:,.0f} | {figures['added_median']:,.0f} ({low:,.0f} to {high:,.0f}) |")
    lines += ["", "A launch calls the driver's own function, so nothing is added to it: what the line shows is the noise of the machine.", ""]
    (RESULTS / "gpu_ledger.md").write_text("\n".join(lines))
    for run in routes["ways"].values():
        run.pop("err", None)
    (RESULTS / "gpu_ledger.json").write_text(json.dumps({"results": results, "against_nvml": compared}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

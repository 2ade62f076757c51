#!/usr/bin/env python3
"""Checks the memory of layers. Traces a plain ONNX Runtime program (benchmarks/bare_onnxruntime_loop.cpp), every allocation, and compares
Headroom's figures for each node with ONNX Runtime's own profile of the same runs: heap allocations while a node ran (blocks of 4 KiB
and more), and the growth of the runtime's arena in that node (mem_arena_held_delta). Once with the default arena, which doubles and so
grows in few nodes, and once with an arena that grows by the size of each tensor. It also reports how much of the heap's peak has a
name: a layer, the runtime, the program, or the profile that tracing adds.

Then the tensors of every node: the output bytes that Headroom reports are compared with the runtime's profile of each run
(output_size), and with the shapes and types of its outputs in the profile (output_type_shape). With the arena off, each tensor is a
separate block; then they are also compared with the blocks that were recorded in the node's layer.

    benchmarks/trace_layers.py --build build/release --output benchmarks/results/trace_layers MODEL[:DIMS] …

DIMS such as 1,3,640,640, if the model leaves them open. Writes OUTPUT.json with every node's growth and the nodes whose tensors
differ, and OUTPUT.md. Uses only the Python standard library.
"""
import argparse
import glob
import json
import os
import platform
import subprocess
import sys
import tempfile

ARENAS = ("doubling", "exact")
ELEMENT_BYTES = {"float": 4, "double": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4,
                 "uint32": 4, "int64": 8, "uint64": 8, "bool": 1}
PAGE = 4096
ALIGNMENT = 64  # of the runtime's buffers
RUNS = 3  # the tracer lets the runtime profile this many


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"trace_layers: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def whole(arguments, key):
    return int(arguments.get(key, 0))


def tensor_bytes(shape):
    """{"float": [1, 32, 52, 52]} → 346112; None for a type without a size, such as string."""
    ((element, dims),) = shape.items()
    size = ELEMENT_BYTES.get(element)
    for dim in dims if size else ():
        size *= dim
    return size


def profile_of(folder):
    """By node, over all runs: growth of the arena, and sizes of its outputs, in total and individually by shape."""
    nodes = {}
    (path,) = glob.glob(os.path.join(folder, "*.hrec.d", "onnxruntime-*.json"))
    with open(path, encoding="utf-8") as file:
        for event in json.load(file):
            if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
                continue
            arguments = event["args"]
            node = nodes.setdefault(event["name"][: -len("_kernel_time")], {"runs": 0, "arena_growth": 0, "output_bytes": [], "outputs": []})
            node["runs"] += 1
            node["output_bytes"].append(whole(arguments, "output_size"))
            node["outputs"].append([tensor_bytes(shape) for shape in arguments.get("output_type_shape", [])])
            node["arena_growth"] += max(0, whole(arguments, "mem_arena_held_delta"))
    return nodes


def trace(options, model, dims, arena):
    binaries = os.path.join(options.build, "bin")
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "a.hrec")
        loop = [os.path.join(binaries, "bare_onnxruntime_loop"), "--model", model, "--threads", "2", "--iterations",
                str(RUNS), "--warmup", "0", "--arena", arena] + (["--dims", dims] if dims else [])
        run([os.path.join(binaries, "headroom"), "trace", "--full", "--out", recording, "--"] + loop)
        report = json.loads(run([os.path.join(binaries, "headroom"), "report", "--json", recording]))
        return report, profile_of(folder), blocks_by_layer(binaries, recording) if arena == "off" else {}


def blocks_by_layer(binaries, recording):
    """The sizes of all blocks allocated in each layer."""
    blocks = {}
    text = run([os.path.join(binaries, "headroom"), "export", recording, "--to", "timeline-json", "--out", "-"])
    for event in json.loads(text)["events"]:
        if event["event_type"] == "alloc":
            blocks.setdefault(event["layer_name"], []).append(event["size_bytes"])
    return blocks


def compare_tensors(report, profile, blocks):
    """Every node of the runtime's profile, with Headroom's figures for its outputs."""
    (session,) = report["sessions"]
    reported = {node["name"]: node.get("output_bytes") for node in session["nodes"]}
    rows = []
    for name, node in profile.items():
        in_layer = set(blocks.get(f"{session['name']}/run/{name}", ()))
        outputs = [size for size in node["outputs"][0] if size and size >= PAGE]
        rows.append({"node": name, "told_bytes": reported.get(name), "profile_bytes": sorted(set(node["output_bytes"])),
                     "shape_bytes": sorted({sum(sizes) for sizes in node["outputs"] if None not in sizes}),
                     "outputs": outputs,
                     "missing": [size for size in outputs if in_layer.isdisjoint({size, -(-size // ALIGNMENT) * ALIGNMENT})]})
    return rows


def summary_of_tensors(rows):
    is_as_profile = lambda row: row["profile_bytes"] == [row["told_bytes"]]
    is_as_shapes = lambda row: row["shape_bytes"] == [row["told_bytes"]]
    return {"nodes": len(rows), "as_profile": sum(map(is_as_profile, rows)), "as_shapes": sum(map(is_as_shapes, rows)),
            "exact": sum(1 for row in rows if is_as_profile(row) and is_as_shapes(row)),
            "told_bytes": sum(row["told_bytes"] or 0 for row in rows),
            "own_blocks": sum(1 for row in rows if row["outputs"] and not row["missing"]),
            "reused": sum(1 for row in rows if row["missing"]),
            "differing": [row for row in rows if not (is_as_profile(row) and is_as_shapes(row))]}


def compare(report, profile):
    """Nodes with memory in the profile, and the heap allocations in their layers."""
    (session,) = report["sessions"]
    prefix = session["name"] + "/run/"
    given = {layer["layer_name"][len(prefix):]: layer["total_allocated_bytes"] for layer in report["layers"]
             if layer["layer_name"].startswith(prefix)}
    return [{"node": name, "profile_bytes": node["arena_growth"], "heap_bytes": given.get(name, 0)} for name, node in profile.items()]


def summary(rows):
    """For nodes with at least a page in both: how much the two differ."""
    both = [row for row in rows if row["profile_bytes"] >= 4096 and row["heap_bytes"] >= 4096]
    ratios = sorted(row["heap_bytes"] / row["profile_bytes"] for row in both)
    return {"nodes": len(rows), "compared": len(both),
            "only_profile": sum(1 for row in rows if row["profile_bytes"] >= 4096 > row["heap_bytes"]),
            "only_heap_bytes": sum(row["heap_bytes"] for row in rows if row["profile_bytes"] < 4096),
            "profile_bytes": sum(row["profile_bytes"] for row in both), "heap_bytes": sum(row["heap_bytes"] for row in both),
            "ratio_min": ratios[0] if ratios else None, "ratio_median": ratios[len(ratios) // 2] if ratios else None,
            "ratio_max": ratios[-1] if ratios else None}


def named_share(report):
    unnamed = sum(share["bytes"] for share in report["peak_shares"]
                  if not any(key in share for key in ("layer", "module", "tracing")))
    return 1 - unnamed / report["peak_bytes"]


def measure(options, model, dims):
    result = {"model": os.path.basename(model), "dims": dims}
    result["tensors"] = {}
    for arena in (*ARENAS, "off"):
        report, profile, blocks = trace(options, model, dims, arena)
        result["tensors"][arena] = summary_of_tensors(compare_tensors(report, profile, blocks))
        if arena == "off":
            continue
        rows = compare(report, profile)
        result[arena] = dict(summary(rows), peak_bytes=report["peak_bytes"], named_share=named_share(report),
                            shares=[dict(share) for share in report["sessions"][0]["at_peak"]], rows=rows)
    return result


def table(results, command):
    lines = ["# Memory of layers, compared with ONNX Runtime's own profile", "",
             f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}", "", f"    {command}", "",
             "Heap bytes allocated in a node's layer (Headroom, full recording, all its allocations), divided by the arena growth of the same "
             "node in the runtime's profile. The heap has more: the arena keeps an uncounted index of 8 bytes for every 256 that it holds "
             "(3.1 %), and kernels allocate scratch memory.", "",
             "| model | arena | nodes | compared | heap | profile | ratio, least | median | largest | only the profile's | other nodes' heap | named at the peak |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for result in results:
        for arena in ARENAS:
            row = result[arena]
            ratio = lambda value: "–" if value is None else f"{value:.4f}"
            lines.append(f"| {result['model']} | {arena} | {row['nodes']} | {row['compared']} | {row['heap_bytes']:,} | "
                         f"{row['profile_bytes']:,} | {ratio(row['ratio_min'])} | {ratio(row['ratio_median'])} | {ratio(row['ratio_max'])} | "
                         f"{row['only_profile']} | {row['only_heap_bytes']:,} | {100 * row['named_share']:.2f} % |")
    return "\n".join(lines + table_of_tensors(results)) + "\n"


def table_of_tensors(results):
    runs = [(result["model"], arena, row) for result in results for arena, row in result["tensors"].items()]
    nodes, exact = sum(row["nodes"] for _, _, row in runs), sum(row["exact"] for _, _, row in runs)
    lines = ["", "## Every node's tensors", "",
             f"Headroom's figure for each node's outputs (`sessions[].nodes[].output_bytes`) equals, to the byte, the runtime's profile of each "
             f"run, and the shapes and types of the outputs in the profile, at {exact:,} of {nodes:,} nodes "
             f"({100 * exact / max(1, nodes):.2f} %). With the arena off, each tensor is a separate block, or reuses an earlier one. Of the "
             "nodes with outputs of 4 KiB and more, *own blocks* are those whose layer has a recorded block of each output's exact size (rounded up to "
             "64 bytes, as the runtime does), and *reused* are the others.", "",
             "| model | arena | nodes | as the profile | as the shapes | exact | outputs, bytes | own blocks | reused |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for model, arena, row in runs:
        blocks = f"{row['own_blocks']} | {row['reused']}" if arena == "off" else "– | –"
        lines.append(f"| {model} | {arena} | {row['nodes']} | {row['as_profile']} | {row['as_shapes']} | "
                     f"{100 * row['exact'] / max(1, row['nodes']):.2f} % | {row['told_bytes']:,} | {blocks} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--output", default="build/bench/trace_layers")
    parser.add_argument("models", nargs="+", metavar="MODEL[:DIMS]")
    options = parser.parse_args()
    results = []
    for spec in options.models:
        model, _, dims = spec.partition(":")
        if not os.path.exists(model):
            raise SystemExit(f"trace_layers: model not found: {model}")
        results.append(measure(options, model, dims))
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    names = " ".join(os.path.basename(spec) for spec in options.models)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump(results, file)
        file.write("\n")
    text = table(results, f"benchmarks/trace_layers.py {names}")
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()

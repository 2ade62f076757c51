#!/usr/bin/env python3
"""Evaluates the ledger of GPU memory on a real GPU: limits on every route, and the ledger compared with NVML.

    gpu_ledger.py --tracer libheadroom_trace.so --tools FOLDER --out FOLDER [--onnxruntime BIN --model FILE.onnx]

FOLDER of tools is build/gpu/bin (make_account; traced_cuda is in build/gpu/tests). PyTorch is that of python3. BIN contains
bare_onnxruntime_loop and ONNX Runtime with its CUDA provider. Writes results.json, the recordings, and NVML's samples
(for gpu_ledger_compare.py) into --out. Needs only the preload library of Headroom, so it runs on the machine with the GPU.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from nvml_sampler import Sampler

HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30


def traced(arguments, recording, settings):
    """The environment of a traced program, as headroom trace sets it."""
    environment = dict(os.environ)
    environment.update({"LD_PRELOAD": str(arguments.tracer), "HEADROOM_TRACE_FILE": str(recording),
                        "HEADROOM_TRACE_OPTIONS": settings, "NVTX_INJECTION64_PATH": str(arguments.tracer)})
    return environment


def run(command, environment=None, timeout=240):
    begin = time.monotonic()
    try:
        done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=timeout)
        return {"status": done.returncode, "out": done.stdout[-6000:], "err": done.stderr[-3000:],
                "seconds": round(time.monotonic() - begin, 2)}
    except subprocess.TimeoutExpired as late:
        return {"status": None, "out": str(late.stdout)[-3000:], "err": "timed out"}


def routes(arguments):
    limit, step = 2 * GIB + 12345, 38 << 20
    result = {}
    for way in ("dlsym", "proc", "first", "ptsz"):
        account = pathlib.Path(f"/dev/shm/headroom-bench-{os.getpid()}")
        subprocess.run([str(arguments.tools / "make_account"), str(account), str(limit)], check=True)
        recording = arguments.out / f"routes_{way}.hrec"
        program = arguments.tools / "traced_cuda"
        if not program.exists():
            program = arguments.tools.parent / "tests" / "traced_cuda"
        result[way] = run([program, way, "all", limit, step],
                          traced(arguments, recording, f"full=0,device={limit},account={account}"))
        account.unlink()
    return {"limit_bytes": limit, "step_bytes": step, "ways": result}


def torch_runs(arguments):
    result = {"ledger": {}, "limit": {}}
    for name, setting in (("caching", ""), ("expandable", "expandable_segments:True"), ("async", "backend:cudaMallocAsync")):
        samples = arguments.out / f"torch_{name}.json"
        environment = traced(arguments, arguments.out / f"torch_{name}.hrec", "full=0")
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
        result["ledger"][name] = run([sys.executable, HERE / "gpu_torch_program.py", "ledger", samples], environment)
        environment = traced(arguments, arguments.out / f"limit_{name}.hrec", f"full=0,device={4 * GIB}")
        environment["PYTORCH_CUDA_ALLOC_CONF"] = setting
        result["limit"][name] = run([sys.executable, HERE / "gpu_torch_program.py", "limit"], environment)
    return result


def driver_runs(arguments):
    environment = traced(arguments, arguments.out / "driver.hrec", "full=0")
    return run([sys.executable, HERE / "gpu_driver_program.py", arguments.out / "driver.json"], environment)


def onnxruntime_runs(arguments):
    if arguments.onnxruntime is None or arguments.model is None or not arguments.model.exists():
        return {"skipped": "--onnxruntime is missing, or --model does not exist"}
    command = [arguments.onnxruntime / "bare_onnxruntime_loop", "--model", arguments.model, "--threads", "1", "--device", "cuda:0", "--on-command", "on"]
    loop = subprocess.Popen([str(word) for word in command], env=traced(arguments, arguments.out / "onnxruntime.hrec", "full=0"),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    sampler = Sampler(loop.pid)
    sampler.start()
    said = [loop.stdout.readline()]  # ready
    sampler.rest("session", driver_grows=True)
    for count, phase in ((1, "first run"), (1, "a run"), (20, "20 runs"), (200, "200 runs")):
        loop.stdin.write(f"{count}\n")
        loop.stdin.flush()
        said.append(loop.stdout.readline())
        sampler.rest(phase, driver_grows=phase == "first run")
    sampler.save(arguments.out / "onnxruntime.json", program=f"ONNX Runtime, {arguments.model.stem}", device="", setting="")
    loop.stdin.close()
    return {"status": loop.wait(60), "out": "".join(said)}


def machine():
    query = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return {"gpu": query["out"].strip(), "kernel": platform.release(), "cpu": platform.machine(),
            "cores": os.cpu_count(), "libc": " ".join(platform.libc_ver()), "date": time.strftime("%Y-%m-%d")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tracer", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--onnxruntime", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--only", default="routes,torch,driver,onnxruntime")
    arguments = parser.parse_args()
    arguments.tracer = arguments.tracer.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "command": " ".join([pathlib.Path(sys.argv[0]).name, *("--only", arguments.only)])}
    for name, step in (("routes", routes), ("torch", torch_runs), ("driver", driver_runs), ("onnxruntime", onnxruntime_runs)):
        if name not in arguments.only.split(","):
            continue
        begin = time.monotonic()
        result[name] = step(arguments)
        print(name, round(time.monotonic() - begin, 1), "s", file=sys.stderr)
        (arguments.out / "results.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

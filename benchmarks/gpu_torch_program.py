#!/usr/bin/env python3
"""A PyTorch program for benchmarks/gpu_ledger.py: uses GPU memory in several ways, with and without a limit.

    gpu_torch_program.py ledger SAMPLES.json    runs models eagerly and as a CUDA graph; records NVML's figures meanwhile
    gpu_torch_program.py limit                  allocates until PyTorch's OutOfMemoryError, frees, and continues
    gpu_torch_program.py inference MODEL…       for each line "MODEL N" of standard input runs N passes of it, for gpu_trace_cost.py
"""
import json
import os
import sys
import time

from nvml_sampler import Sampler


def ledger(path):
    sampler = Sampler()
    sampler.start()
    import torch
    import torchvision

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    sampler.rest("context", driver_grows=True)
    # Kernels and libraries are loaded at first use: warm up before comparing.
    model = torchvision.models.resnet50().cuda().eval()
    data = torch.randn(32, 3, 224, 224, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            model(data)
        torch.cuda.synchronize()
        sampler.rest("resnet50", driver_grows=True)  # its kernels
        for _ in range(20):
            model(data)
        torch.cuda.synchronize()
        sampler.rest("resnet50 again")
        blocks = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (300, 700, 1500, 33, 2)]
        sampler.rest("tensors")
        del blocks
        sampler.rest("tensors freed to the cache")
        torch.cuda.empty_cache()
        sampler.rest("cache emptied")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(data)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(data)
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
        sampler.rest("graph", driver_grows=True)  # another stream
    pinned = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    sampler.rest("pinned")
    del pinned, graph
    torch.cuda.empty_cache()
    sampler.rest("end")
    sampler.save(path, program=f"PyTorch {torch.__version__}", device=torch.cuda.get_device_name(0),
                 setting=os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))


def limit():
    import torch

    free, total = torch.cuda.mem_get_info()
    blocks, error = [], None
    try:
        while True:
            blocks.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as caught:
        error = type(caught).__name__ + ": " + str(caught).splitlines()[0]
    granted = len(blocks) * (100 << 20)
    reserved = torch.cuda.memory_reserved()
    del blocks[len(blocks) // 2:]
    torch.cuda.empty_cache()  # cuBLAS allocates its workspace directly from the driver
    again = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
    again.fill_(7)
    works = int(again[-1].item()) == 7 and float((torch.ones(512, 512, device="cuda") @ torch.ones(512, 512, device="cuda"))[0, 0]) == 512
    print(json.dumps({"free_bytes": free, "total_bytes": total, "granted_bytes": granted, "reserved_bytes": reserved,
                      "error": error, "goes_on": works, "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")}))


def make_model(name):
    """A model with random weights, and its input. Times do not depend on the weights."""
    import torch
    import torchvision

    torch.manual_seed(0)
    with torch.device("cuda"):
        if name == "transformer_b4":
            layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
            return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval(), torch.randn(4, 512, 768)
        model, batch = name.rsplit("_b", 1)  # "resnet50_b1"
        return getattr(torchvision.models, model)(weights=None).eval(), torch.randn(int(batch), 3, 224, 224)


def inference(names, warmup=30):
    import torch

    made = {name: make_model(name) for name in names}
    with torch.inference_mode():
        for model, data in made.values():
            for _ in range(warmup):
                model(data)
        torch.cuda.synchronize()
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            name, count = line.split()
            model, data = made[name]
            times = []
            for _ in range(int(count)):
                begin = time.perf_counter_ns()
                model(data)
                torch.cuda.synchronize()
                times.append(time.perf_counter_ns() - begin)
            times.sort()
            print(json.dumps({"n": len(times), "p50_ns": times[len(times) // 2], "min_ns": times[0]}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "ledger":
        ledger(sys.argv[2])
    elif sys.argv[1:] == ["limit"]:
        limit()
    elif len(sys.argv) > 2 and sys.argv[1] == "inference":
        inference(sys.argv[2:])
    else:
        sys.exit(__doc__)

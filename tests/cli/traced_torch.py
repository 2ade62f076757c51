"""Runs models with real PyTorch. Their outputs have sizes that follow from their shapes.

    traced_torch.py layers    prints the expected bytes of each layer in blocks of at least 64 KiB, as JSON
    traced_torch.py weights   prints the expected bytes of weights and phases, as JSON
    traced_torch.py leak      a module keeps its results
    traced_torch.py loader    a DataLoader with forked workers, and one with spawned workers
    traced_torch.py calls     calls behave as untraced, including hooks
    traced_torch.py looks     other code that uses nn.Module.__call__: the profiler, fx, TorchScript
"""
import inspect
import json
import os
import pickle
import sys
import types

import torch
from torch import nn

from module_calls import check_module_calls

torch.set_num_threads(1)
FLOAT = 4
BATCH = 64


def check(is_true, what):
    if not is_true:
        raise SystemExit(f"traced_torch: {what}")


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.body(x))


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Linear(512, width)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(3))
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(width, 1024)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.act(x))


def layers():
    width, passes = 768, 5
    model = Classifier(width).eval()
    x = torch.zeros(BATCH, 512)
    with torch.no_grad():
        for _ in range(passes):
            model(x)
    rows = BATCH * FLOAT * passes
    expected = {"Classifier/stem": rows * width, "Classifier/head": rows * 1024}
    for block in range(3):
        path = f"Classifier/blocks/{block}"
        expected.update({path: rows * width, f"{path}/body/0": rows * 2 * width, f"{path}/body/1": rows * 2 * width,
                         f"{path}/body/2": rows * width, f"{path}/norm": rows * width})
    # Training with new layers: gradients of all parameters, and the optimizer's two moments of the same size each.
    model = nn.Sequential(nn.Linear(512, 768, bias=False), nn.Linear(768, 512, bias=False))
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        schedule.step()
    parameters = 2 * 512 * 768 * FLOAT
    print(json.dumps({"layers": expected, "parameters": parameters}), flush=True)
    os._exit(0)  # while the model, its gradients and the optimizer's state still exist


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def weights():
    model = nn.Sequential(nn.Linear(512, 768), nn.BatchNorm1d(768), nn.Linear(768, 512, bias=False)).eval()
    model[1].register_buffer("table", torch.zeros(300, 1024))
    tied = nn.Linear(768, 512, bias=False)
    tied.weight = model[2].weight
    model.append(nn.ModuleList([tied])) if hasattr(model, "append") else model.add_module("3", nn.ModuleList([tied]))
    model.forward = lambda x: model[2](model[1](model[0](x)))
    scripted = torch.jit.script(nn.Sequential(nn.Linear(600, 300, bias=False)).eval())
    scripted(torch.zeros(1, 600))
    x = torch.zeros(BATCH, 512)
    torch.autograd.backward(model(x).sum())
    (kept,) = torch.autograd.grad(model(x).sum(), [model[0].weight])
    expected = {"0": bytes_of([model[0].weight]), "1": bytes_of([model[1].table]), "2": bytes_of([model[2].weight])}
    print(json.dumps({"weights": {f"Sequential 2/{name}/(weights)": size for name, size in expected.items()} |
                      {"Sequential/(weights)": 600 * 300 * FLOAT},
                      "backward": bytes_of([model[0].weight, model[2].weight]) + bytes_of([kept])}), flush=True)
    os._exit(0)


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 2048)
        self.memory = Memory()

    def forward(self, x):
        return self.memory(self.linear(x)).sum()


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        self.kept.append(x.clone())
        return x


def leak():
    model = Keeping().eval()
    x = torch.zeros(BATCH, 512)
    with torch.no_grad():
        for _ in range(40):
            model(x)


class Augment(nn.Module):
    def forward(self, x):
        return x + torch.zeros(256, 1024)


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.augment = Augment()

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.augment(torch.zeros(256, 1024)).sum()


def loader():
    for method in ("fork", "spawn"):
        loaded = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context=method)
        check(sum(1 for _ in loaded) == 4, "the loader lost something")


def looks():
    call = nn.Module.__call__
    check(inspect.isfunction(call) and inspect.signature(call), "__call__ does not look like a function")
    model = Classifier(64).eval()
    x = torch.zeros(1, 512)
    result = model(x)
    with torch.profiler.profile(with_stack=True, profile_memory=True) as profile:
        model(x)
    stacks = [event.stack for event in profile.events() if event.stack]  # empty in 2.11, traced or not
    check(not stacks or any("nn.Module: Classifier_0" in stack for stack in stacks), "the profiler saw no module")
    traced = torch.fx.symbolic_trace(model)
    check(torch.equal(traced(x), result), "the fx result differs")
    check(torch.nn.Module.__call__ is call, "fx replaced __call__")
    scripted = torch.jit.script(model)
    check(torch.equal(scripted(x), result), "a scripted module has another result")
    check(torch.equal(torch.jit.trace(model, x)(x), result), "a traced module has another result")
    if hasattr(torch, "compile"):  # since 2.0
        with torch.no_grad():
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            check(torch.equal(compiled(x), model(x)), "a compiled module has another result")
        check(not torch._dynamo.utils.counters["graph_break"], "there are breaks in the compiled graph")
    copied = pickle.loads(pickle.dumps(model))
    check(torch.equal(copied(x), result), "a copy has another result")
    check(type(model.__call__) is types.MethodType, "a bound __call__ is not a method")
    handle = model.register_forward_hook(lambda module, inputs, output: output + 1)
    check(torch.equal(model(x), result + 1), "a hook was not called")
    handle.remove()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    copy = pickle.loads(pickle.dumps(optimizer))
    copy.step()
    torch.autograd.grad(model(x).sum(), list(model.parameters()))
    print("done")


def calls():
    check_module_calls(traced=True)
    print("done")


if __name__ == "__main__":
    {"calls": calls, "layers": layers, "weights": weights, "leak": leak, "loader": loader, "looks": looks}[sys.argv[1]]()

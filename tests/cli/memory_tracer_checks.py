"""Checks headroom_memory.MemoryTracer with real PyTorch, on models whose sizes follow from their shapes. Each mode is a separate test.

    memory_tracer_checks.py figures            layers, phases and uses of training, exact to the byte
    memory_tracer_checks.py interface          the compatible names, defaults and formats
    memory_tracer_checks.py restored           all replaced functions are restored, however a trace ends
    memory_tracer_checks.py together           threads, nested tracers, other code that uses __call__
    memory_tracer_checks.py calls              calls behave as untraced, including hooks
    memory_tracer_checks.py script             TorchScript modules
    memory_tracer_checks.py cuda               the caching allocator's own figures, if there is a GPU
    memory_tracer_checks.py soak N             N passes with bounded memory
    memory_tracer_checks.py leak|clean [FILE]  creates a predictor per object; clean: with garbage collection
    memory_tracer_checks.py recorded FILE      records until it is killed
"""
import dataclasses
import gc
import inspect
import json
import os
import signal
import sys
import tempfile
import threading
import warnings
import weakref

import torch
from torch import nn

from headroom_memory import LayerMemoryStats, MemoryEvent, MemoryTracer
from module_calls import check_module_calls
from small_models import FLOAT, Net, check, equal, weights_of


def adds_up(tracer):
    equal(sum(tracer.get_memory_at_peak().values()), tracer.peak_allocated())
    equal(sum(tracer.get_memory_by_use().values()), tracer.peak_allocated())


def run_traced(model, x, tracer=None):
    """Runs the model once in a trace, without gradients. Returns the tracer: a new one of the CPU, unless given."""
    tracer = tracer or MemoryTracer(device="cpu")
    with tracer.trace(model), torch.no_grad():
        model(x)
    return tracer


def figures():
    model, rows, width = Net(), 32, 64
    x = torch.ones(rows, width)
    tracer = MemoryTracer(device="cpu")
    with tracer.trace(model), torch.no_grad():
        output = model(x)
    stats = tracer.get_layer_stats()
    wide, narrow, out = rows * 4 * width * FLOAT, rows * width * FLOAT, rows * 10 * FLOAT
    for block in ("blocks.0", "blocks.1"):
        equal(stats[block + ".up"].allocated_bytes, wide)
        equal(stats[block + ".act"].allocated_bytes, wide)
        equal(stats[block + ".down"].allocated_bytes, narrow)
        equal(stats[block].total_allocations, 0)
        equal(stats[block].calls, 1)
    equal(stats["head"].live_bytes, out)
    check("blocks" not in stats, "a container that is never called is not a layer")
    # The bytes that are live when each layer runs, computed from the shapes. In eager mode a block's input lives as long as the
    # block runs. So at the peak of blocks.1.act, its input, its output and the output of blocks.0 are live.
    weights = weights_of(model)
    peaks = tracer.get_peak_memory_per_layer()
    equal(peaks["blocks.0.up"], weights + wide)
    equal(peaks["blocks.0.act"], weights + 2 * wide)
    equal(peaks["blocks.0.down"], weights + wide + narrow)
    equal(peaks["blocks.1.up"], weights + narrow + wide)
    equal(peaks["blocks.1.act"], weights + narrow + 2 * wide)
    equal(peaks["blocks.1.down"], weights + narrow + wide + narrow)
    equal(peaks["Net"], tracer.peak_allocated())
    equal(tracer.peak_allocated(), weights + narrow + 2 * wide)
    equal(tracer.get_memory_at_peak(),
          {"(before the trace)": weights, "blocks.0.down": narrow, "blocks.1.up": wide, "blocks.1.act": wide})
    adds_up(tracer)
    del output

    # Training: the bytes that stay, by phase, follow from the parameters.
    optimizer = torch.optim.Adam(model.parameters())
    parameters = weights - width * FLOAT
    tracer = MemoryTracer(device="cpu")
    with tracer.trace(model):
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            model(x).sum().backward()
            optimizer.step()
    use = tracer.get_memory_by_use()
    equal(use["weights"], weights)
    equal(tracer.allocated(), weights + parameters + 2 * parameters + len(list(model.parameters())) * FLOAT)
    stats = tracer.get_layer_stats()
    equal(stats["optimizer.step"].live_bytes, 2 * parameters + len(list(model.parameters())) * FLOAT)
    for name, module in [("blocks.0.up", model.blocks[0].up), ("blocks.1.down", model.blocks[1].down), ("head", model.head)]:
        equal(stats["backward/" + name].live_bytes, module.weight.numel() * FLOAT)
    adds_up(tracer)


def interface():
    signature = inspect.signature(MemoryTracer)
    defaults = {name: p.default for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
    equal(defaults, {"max_events": 100000, "device": "cuda:0", "enable_fragmentation_tracking": True})
    equal([f.name for f in dataclasses.fields(LayerMemoryStats)][:7],
          ["layer_name", "peak_allocated", "peak_reserved", "total_allocations", "total_deallocations", "avg_fragmentation", "duration_ms"])
    equal([f.name for f in dataclasses.fields(MemoryEvent)],
          ["timestamp", "event_type", "size_bytes", "layer_name", "allocated_bytes", "reserved_bytes", "fragmentation_ratio"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracer = MemoryTracer(max_events=50)
    equal((tracer.device, len(caught)), ("cuda:0", 0) if torch.cuda.is_available() else ("cpu", 1))
    model = Net()
    with tracer.trace(model):
        for _ in range(20):
            model(torch.ones(8, 64))
    events = tracer.events
    equal(len(events), 50)
    equal({e.event_type for e in events} - {"alloc", "free", "snapshot", "layer_enter", "layer_exit"}, set())
    equal(sorted(e.timestamp for e in events), [e.timestamp for e in events])
    equal(tracer.get_layer_stats()["head"].calls, 20)  # figures count all
    equal(set(tracer.get_fragmentation_stats()), set(tracer.get_layer_stats()))
    equal(MemoryTracer(device="cpu", enable_fragmentation_tracking=False).get_fragmentation_stats(), {})
    with tempfile.TemporaryDirectory() as folder:
        flame, timeline = os.path.join(folder, "flame.json"), os.path.join(folder, "timeline.json")
        tracer.export_flame_graph(flame)
        tracer.export_timeline(timeline)
        with open(timeline) as file:
            data = json.load(file)
        equal(set(data), {"events", "layer_stats", "summary"})
        equal(set(data["events"][0]), {f.name for f in dataclasses.fields(MemoryEvent)})
        equal(data["layer_stats"]["head"]["layer_name"], "head")
        with open(flame) as file:
            profiles = json.load(file)["profiles"]
        equal([p["type"] for p in profiles], ["sampled", "sampled", "evented"])
        equal(sum(profiles[0]["weights"]), tracer.peak_allocated())
        depth = 0
        for event in profiles[2]["events"]:
            depth += 1 if event["type"] == "O" else -1
            check(depth >= 0, "a layer was closed that was not open")
        equal(depth, 0)
        for refused in (lambda: tracer.export_timeline(os.path.join(folder, "no", "x")), lambda: tracer.get_layer_stats("gpu"),
                        lambda: MemoryTracer(max_events=-1), lambda: MemoryTracer(max_events=1.5), lambda: MemoryTracer(max_events="9"),
                        lambda: MemoryTracer(max_events=2**64 + 3), lambda: MemoryTracer(device="cpu").trace(None).__enter__(), lambda: MemoryTracer(device="tpu")):
            try:
                refused()
            except (OSError, ValueError) as error:
                check(len(str(error)) > 20, "the message is too short")
            else:
                check(False, "was accepted")
    tracer.print_summary()


def replaced():
    """The current values of all functions that a trace replaces."""
    steps = [vars(c)["step"] for c in (torch.optim.SGD, torch.optim.Adam)]
    return [vars(nn.Module)["__call__"], torch.autograd.backward, torch.autograd.grad, *steps]


def is_restored(before):
    return all(now is was for now, was in zip(replaced(), before))


def restored():
    before = replaced()
    model, tracer = Net(), MemoryTracer(device="cpu")
    with tracer.trace(model):
        check(all(now is not was for now, was in zip(replaced(), before)), "not replaced")
        with tracer.trace(model):
            model(torch.ones(8, 64))
        check(replaced()[0] is not before[0], "the outer trace must continue")
    check(is_restored(before), "replaced after a trace")
    # torch.fx in another thread puts the stand-in back after the trace has ended.
    with tracer.trace(model):
        stand_in = nn.Module.__call__
    nn.Module.__call__ = stand_in
    model(torch.ones(8, 64))
    calls = tracer.get_layer_stats()["Net"].calls
    with tracer.trace(model):
        model(torch.ones(8, 64))
    equal(tracer.get_layer_stats()["Net"].calls, calls + 1)
    check(is_restored(before), "replaced after a trace that found a stand-in")

    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            self.inner(x)
            raise RuntimeError("out of memory")

    failing, tracer = Failing(), MemoryTracer(device="cpu")
    for _ in range(2):
        try:
            with tracer.trace(failing):
                failing(torch.ones(1, 4))
        except RuntimeError:
            pass
    check(is_restored(before), "replaced after an exception")
    equal(tracer.get_layer_stats()["Failing"].calls, 2)
    equal(tracer.events[-1].layer_name, None)

    # A trace that ends inside a module call, and one that a generator leaves open.
    class Ending(nn.Module):
        def forward(self, trace):
            trace.__exit__(None, None, None)
            return torch.ones(3)

    ending = Ending()
    trace = tracer.trace(ending)
    trace.__enter__()
    ending(trace)
    check(is_restored(before), "replaced after a trace that ended inside a call")
    with tracer.trace(ending):
        torch.ones(5)
    check(tracer.events[-2].layer_name is None, "the layer stayed open")
    equal(model._forward_hooks, {})

    # The first optimizer of its class is created during a trace: then PyTorch wraps step().
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    step = vars(Own)["step"]
    with tracer.trace(model):
        optimizer = Own(model.parameters(), lr=0.1)
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
    equal(tracer.get_layer_stats()["optimizer.step"].calls, 1)
    check(Own.step.hooked and Own.step.__wrapped__ is step, "PyTorch must wrap the class's function", Own.step)
    with tracer.trace(model):
        optimizer.step()
    equal(tracer.get_layer_stats()["optimizer.step"].calls, 2)
    check(Own.step.__wrapped__ is step, "PyTorch's wrapper was lost")
    del optimizer
    alive = weakref.ref(model)
    del model
    gc.collect()
    check(alive() is None, "the tracer keeps the model")


def together():
    model, tracer = Net(), MemoryTracer(device="cpu")
    x = torch.ones(8, 64)
    with tracer.trace(model), torch.no_grad():
        threads = [threading.Thread(target=lambda: [model(x) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    equal(tracer.get_layer_stats()["head"].calls, 200)
    equal(tracer.get_layer_stats()["head"].allocated_bytes, 200 * 8 * 10 * FLOAT)
    equal(tracer.allocated(), weights_of(model))
    adds_up(tracer)

    outer, inner, other = MemoryTracer(device="cpu"), MemoryTracer(device="cpu"), nn.Linear(3, 3)
    with outer.trace(model), torch.no_grad():
        model(x)
        with inner.trace(other):
            model(x)
            other(torch.ones(1, 3))
    equal(outer.get_layer_stats()["Net"].calls, 2)
    check("Linear" not in outer.get_layer_stats() and "head" not in inner.get_layer_stats(), "each its own model")
    # A model whose trace has ended is not a layer of the enclosing trace.
    with outer.trace(model), torch.no_grad():
        with outer.trace(other):
            other(torch.ones(1, 3))
        other(torch.ones(1, 3))
        with outer.trace(model):
            pass
        model(x)
    equal((outer.get_layer_stats()["Linear"].calls, outer.get_layer_stats()["Net"].calls), (1, 3))
    # A second model of another class.
    run_traced(model, x, inner)
    check("Net.head" in inner.get_layer_stats(), inner.get_layer_stats())

    code = nn.Module.__call__.__code__
    with tracer.trace(model), torch.no_grad():
        equal(nn.Module.__call__.__code__, code)
        torch.jit.trace(model, x)
        torch.fx.symbolic_trace(model)
        with torch.profiler.profile(profile_memory=True, with_modules=True) as profile:
            model(x)
        check(len(profile.key_averages()) > 0, "the profiler")
    # In a forked child nothing is traced.
    with tracer.trace(model), torch.no_grad():
        child = os.fork()
        if child == 0:
            model(x)
            os._exit(0)
        equal(os.waitpid(child, 0)[1], 0)


def calls():
    check_module_calls(traced=False)
    model, tracer = Net(), MemoryTracer(device="cpu")
    with tracer.trace(model):
        check_module_calls(traced=True)
        model(torch.ones(8, 64))
    equal(tracer.get_layer_stats()["head"].calls, 1)
    # A __call__ installed by other code is called, also in a later trace.
    original, seen = nn.Module.__call__, []
    nn.Module.__call__ = lambda *arguments, **named: seen.append(1) or original(*arguments, **named)
    with tracer.trace(model):
        nn.Linear(4, 4)(torch.ones(1, 4))
    nn.Module.__call__ = original
    equal(len(seen), 1)


def script():
    model, rows, width = Net().eval(), 8, 64
    x = torch.ones(rows, width)
    wide, narrow = rows * 4 * width * FLOAT, rows * width * FLOAT
    eager = run_traced(model, x)
    expected = {name: stats.allocated_bytes for name, stats in eager.get_layer_stats().items() if stats.allocated_bytes}
    equal(expected["blocks.1.act"], wide)
    scripted = {"traced": torch.jit.trace(model, x), "scripted": torch.jit.script(model), "frozen": torch.jit.freeze(torch.jit.script(model))}
    for name, module in scripted.items():
        # A frozen module has no submodules, so the list that contained "0" is unknown.
        list_name = "" if name == "frozen" else "blocks."
        expected = {layer.replace("blocks.", list_name): size for layer, size in expected.items()}
        for _ in range(3):  # the interpreter profiles in its first passes and then optimizes
            tracer = run_traced(module, x)
            stats = tracer.get_layer_stats()
            found = {layer: s.allocated_bytes for layer, s in stats.items() if s.allocated_bytes}
            check(found == expected, name, found, expected)
            equal(stats["Net"].calls, 1)
            equal(tracer.get_memory_at_peak()[list_name + "0.act"], wide)
            adds_up(tracer)
    # A part of an eager model, and a second model of another class.
    whole = nn.Sequential(scripted["scripted"], nn.ReLU())
    tracer = MemoryTracer(device="cpu")
    with tracer.trace(nn.Identity()), torch.no_grad():
        scripted["traced"](x)  # not the traced model
    run_traced(whole, x, tracer)
    equal(tracer.get_layer_stats()["Sequential.0.blocks.1.down"].allocated_bytes, narrow)
    equal(tracer.get_layer_stats()["Sequential.1"].calls, 1)


def cuda():
    """On a GPU: compares with the caching allocator's own figures."""
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return

    def requested():
        return torch.cuda.memory_stats()["requested_bytes.all.peak"]

    model, x = Net(512).cuda(), torch.ones(256, 512, device="cuda")
    with torch.no_grad():
        model(x)  # the libraries allocate their workspaces in the first pass
        # For each leaf layer: reset the allocator's peak before it, read it after it.
        stepped, hooks = {}, []
        for name, module in model.named_modules():
            if name and not list(module.children()):
                hooks.append(module.register_forward_pre_hook(lambda *_: torch.cuda.reset_peak_memory_stats()))
                hooks.append(module.register_forward_hook(lambda *_, name=name: stepped.update({name: requested()})))
        model(x)
        for hook in hooks:
            hook.remove()
        torch.cuda.synchronize()
        tracer = MemoryTracer()
        torch.cuda.reset_peak_memory_stats()
        with tracer.trace(model):
            model(x)
        equal(tracer.peak_allocated(), requested())
        peaks = tracer.get_peak_memory_per_layer()
        equal({name: peaks[name] for name in stepped}, stepped)
        adds_up(tracer)
        equal(tracer.events[-1].reserved_bytes, torch.cuda.memory_stats()["reserved_bytes.all.current"])
    # Blocks from before the trace are released in it, and between two traces.
    tracer, before, between = MemoryTracer(), torch.ones(1 << 22, device="cuda"), torch.ones(1 << 21, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    with tracer.trace(model), torch.no_grad():
        del before
        model(torch.ones(512, 512, device="cuda"))
    equal(tracer.peak_allocated(), requested())
    equal(tracer.allocated(), torch.cuda.memory_stats()["requested_bytes.all.current"])
    del between
    run_traced(model, x, tracer)
    equal(tracer.allocated(), torch.cuda.memory_stats()["requested_bytes.all.current"])
    adds_up(tracer)
    tracer = MemoryTracer()
    torch.cuda.reset_peak_memory_stats()
    optimizer = torch.optim.Adam(model.parameters())
    model(x).sum().backward()  # makes gradients that the first zero_grad() releases
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    with tracer.trace(model):
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    torch.cuda.synchronize()
    equal(tracer.peak_allocated(), requested())
    check("backward/head" in tracer.get_layer_stats(), "backward nodes of the engine's own thread")
    adds_up(tracer)


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def soak(passes):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    x, tracer = torch.ones(1, 8), MemoryTracer(max_events=1000, device="cpu")
    early = None
    with torch.no_grad():
        for i in range(passes // 100):
            with tracer.trace(model):
                for _ in range(100):
                    model(x)
            if i == passes // 1000:
                early = resident_kib(), tracer.allocated()
    stats = tracer.get_layer_stats()
    equal(stats["0"].calls, passes // 100 * 100)
    equal(stats["0"].allocated_bytes, passes // 100 * 100 * 8 * FLOAT)
    equal(tracer.allocated(), early[1])
    adds_up(tracer)
    grown = resident_kib() - early[0]
    check(grown < 2048, "grew by KiB", grown)
    print(json.dumps({"passes": passes, "grown_kib": grown}))


class Predictor(nn.Module):
    """Like EdgeTAM's: created for each object, and part of a reference cycle that only the garbage collector ends."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(256, 512)
        self.decoder = nn.Linear(512, 64)
        self.hooks = {"predict": self.forward}  # the cycle
        self.memory_bank = []

    def forward(self, frame):
        features = self.encoder(frame)
        self.memory_bank.append(features)
        return self.decoder(features)


def predict(is_cleaned, path=None):
    gc.disable()  # as in a loop with few Python allocations, in which the collector does not run
    tracer, objects, frames = MemoryTracer(device="cpu", record_to=path), 12, 5
    model = nn.Identity()  # the program's model, while predictors are created and deleted
    per_object = (256 * 512 + 512 + 512 * 64 + 64 + frames * 16 * 512) * FLOAT
    for _ in range(objects):
        with tracer.trace(model), torch.no_grad():
            predictor = Predictor()
            with tracer.trace(predictor):
                for _ in range(frames):
                    predictor(torch.ones(16, 256))
        del predictor
        if is_cleaned:
            gc.collect()
    growth = {layer["layer_name"]: layer for layer in tracer.get_growth()}
    print(json.dumps({"growth": growth, "allocated": tracer.allocated(), "per_object": per_object}))
    if is_cleaned:
        equal(growth, {})
        check(tracer.allocated() < 2 * per_object, tracer.allocated())
        return
    bank = growth["Predictor.encoder"]
    equal(bank["bytes_per_trace"], frames * 16 * 512 * FLOAT)
    check(tracer.allocated() >= objects * per_object, tracer.allocated())
    adds_up(tracer)


def recorded(path):
    model, tracer = Net(), MemoryTracer(device="cpu", record_to=path)
    with tracer.trace(model), torch.no_grad():
        for _ in range(10):
            model(torch.ones(32, 64))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    mode, arguments = sys.argv[1], sys.argv[2:]
    if mode in ("leak", "clean"):
        predict(mode == "clean", *arguments)
    elif mode == "soak":
        soak(int(arguments[0]))
    else:
        {f.__name__: f for f in (figures, interface, restored, together, calls, script, cuda, recorded)}[mode](*arguments)

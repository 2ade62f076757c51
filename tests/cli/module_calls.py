"""Checks that calls of PyTorch modules work with any stand-in for nn.Module.__call__: hooks, overrides in classes and objects, tracing,
profilers, exceptions. The tests of both tracers run it, because their stand-ins call `forward` directly if nothing else would run."""
import sys
import threading

import torch
from torch import nn


def check(is_true, *what):
    if not is_true:
        raise SystemExit(f"module_calls: {what}")


class Doubling(nn.Module):
    def forward(self, x, times=2):
        self.caller = sys._getframe(1).f_code.co_name
        return x * times


def called_directly(module, *arguments):
    """Whether no function of PyTorch ran between the caller and forward. Untraced, one always does."""
    module(*arguments)
    return module.caller == "called_directly" or not is_traced


is_traced = False


def hooks(x):
    for register, wanted in (("register_forward_pre_hook", 6), ("register_forward_hook", 5)):
        module, seen = Doubling(), []

        def hook(_, inputs, outputs=None):
            seen.append((len(inputs), outputs is None))
            return (inputs[0] + 2,) if outputs is None else outputs + 3

        check(called_directly(module, x), "before there are hooks")
        handle = getattr(module, register)(hook)
        check(module(x) is not None and module.caller != "called_directly" and len(seen) == 1, register)
        check(module(x).item() == wanted, register, module(x))
        handle.remove()
        check(called_directly(module, x) and len(seen) == 3, "after the hook is gone")
    seen = []
    for register in (nn.modules.module.register_module_forward_pre_hook, nn.modules.module.register_module_forward_hook):
        handle = register(lambda *arguments: seen.append(len(arguments)))
        module = Doubling()
        module(x)
        handle.remove()
        check(called_directly(module, x), "after the hook of all modules is gone")
    check(seen == [2, 3], seen)
    # PyTorch's own tests replace these dictionaries.
    modules, seen = nn.modules.module, []
    before = modules._global_forward_hooks
    modules._global_forward_hooks = type(before)({1: lambda *_: seen.append(1)})
    Doubling()(x)
    modules._global_forward_hooks = before
    check(seen == [1], "a replaced dictionary of hooks was not noticed")
    module, seen = Doubling(), []
    module.register_full_backward_hook(lambda *_: seen.append("backward"))
    module(torch.ones(1, requires_grad=True)).backward()
    check(seen == ["backward"], seen)
    if hasattr(module, "register_full_backward_pre_hook"):
        module = Doubling()
        module.register_full_backward_pre_hook(lambda *_: seen.append("before"))
        module(torch.ones(1, requires_grad=True)).backward()
        check(seen == ["backward", "before"], seen)


def overridden(x):
    module = Doubling()
    module.forward = lambda value: value * 7
    check(module(x).item() == 7, "a forward set on the object")

    class Counting(Doubling):
        calls = 0

        def _call_impl(self, *arguments, **named):
            self.calls += 1
            return super()._call_impl(*arguments, **named)

    # Before PyTorch 2.1 __call__ is _call_impl itself, and overriding one does not affect the other.
    module = Counting()
    check(module(x).item() == 2 and module.calls == int(hasattr(nn.Module, "_wrapped_call_impl")), "_call_impl", module.calls)

    class Looking(Doubling):
        def __getattribute__(self, name):
            return (lambda value: value * 9) if name == "forward" else super().__getattribute__(name)

    check(Looking()(x).item() == 9, "__getattribute__")

    class Computed(Doubling):
        @property
        def forward(self):
            return lambda value: value * 11

    check(Computed()(x).item() == 11, "forward as a property")
    original = Doubling.forward
    Doubling.forward = lambda self, value: value * 13
    check(Doubling()(x).item() == 13, "a forward replaced in the class")
    Doubling.forward = original
    if hasattr(nn.Module, "compile"):
        module, seen = Doubling(), []
        module.compile(backend=lambda graph, _: seen.append(graph) or graph.forward)
        check(module(x).item() == 2 and hasattr(module, "_compiled_call_impl"), "compile()")


def arguments_and_errors(x):
    check(Doubling()(x, times=5).item() == 5 and Doubling()(x, 6).item() == 6 and Doubling()(*[x], **{"times": 3}).item() == 3, "arguments")
    for wrong in (lambda: Doubling()(), lambda: Doubling()(x, factor=1), lambda: nn.Module.__call__(), lambda: nn.Module()(x)):
        try:
            wrong()
        except (TypeError, NotImplementedError):
            continue
        raise SystemExit("module_calls: no error")
    try:
        nn.Module.__call__(3)
    except AttributeError:
        return
    raise SystemExit("module_calls: no error for an object that is not a module")


def watched(x):
    """Code that looks for the functions that PyTorch calls."""
    traced = torch.jit.trace(nn.Sequential(Doubling(), nn.Sequential(Doubling())), x)
    check([name for name, _ in traced.named_modules()] == ["", "0", "1", "1.0"], "modules of torch.jit.trace")
    check("__module.1" in str(traced.inlined_graph) or "1" in str(traced.graph), traced.graph)
    seen = []
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    Doubling()(x)
    sys.setprofile(None)
    check("_call_impl" in seen and "forward" in seen, seen)


def check_module_calls(*, traced):
    global is_traced
    is_traced = traced
    check(sys.getprofile() is None, "a profiler is on")
    x = torch.ones(1)
    hooks(x)
    overridden(x)
    arguments_and_errors(x)
    watched(x)
    threads = [threading.Thread(target=hooks_in_a_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def hooks_in_a_thread():
    module, x = Doubling(), torch.ones(1)
    for _ in range(1000):
        check(module(x).item() == 2, "in a thread")

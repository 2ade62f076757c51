"""Calls modules of the fake PyTorch (tests/cli/fake_torch). Each allocation of interest has a distinct size, so that the
recording shows in which layer it was made: the argument of the function `hold`, in KiB.
Written for Python 3.8 and later."""
import builtins
import gc
import inspect
import os
import sys
import threading
import types
import weakref

KEPT = []


def hold(kibibytes):
    # malloc gets one byte more, and Python's own small allocations are much smaller.
    KEPT.append(bytearray(kibibytes * 1024))


def check(is_true, what):
    if not is_true:
        raise SystemExit(f"traced_modules: {what}")


BUILD_CLASS = builtins.__build_class__
if "late" in sys.argv:
    hold(100)
try:
    os.environ["FAKE_TORCH_FAILS"] = "1" if "failing-first" in sys.argv else ""
    import torch
except ImportError:
    os.environ["FAKE_TORCH_FAILS"] = ""
    import torch
from torch import nn

check(builtins.__build_class__ is BUILD_CLASS, "__build_class__ was replaced")


class Leaf(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, *arguments, extra=0, **named):
        hold(self.size + extra)
        return arguments


class Block(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        for number, size in enumerate(sizes):
            setattr(self, str(number), Leaf(size))

    def forward(self):
        for leaf in list(self._modules.values()):
            leaf()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Leaf(101)
        self.list = Container()
        self.list.first = Block(102, 103)
        self.head = Leaf(104)
        self.alias = self.head
        self.unlisted = [Block(105)]

    def forward(self, value, *, scale=1):
        hold(106)
        self.stem(value, extra=0)
        self.list.first()
        self.head()
        self.alias()
        self.unlisted[0]()
        hold(107)
        return value * scale


class Container(nn.Module):
    pass


class Raising(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Leaf(110)
        self.thrower = Thrower()

    def forward(self):
        self.inner()
        try:
            self.thrower()
        except ValueError:
            hold(111)
        self.thrower()


class Thrower(nn.Module):
    def forward(self):
        hold(112)
        raise ValueError("thrown on purpose")


class Recursive(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf(120)

    def forward(self, depth):
        self.leaf()
        if depth > 0:
            self(depth - 1)
        hold(121)


class OwnCall(nn.Module):
    def __call__(self, *arguments, **named):
        hold(130)
        return super().__call__(*arguments, **named)

    def forward(self):
        hold(131)


class WithoutCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf(133)

    def __call__(self):
        hold(132)
        self.leaf()


def test_names():
    net = Net()
    check(net(3, scale=2) == 6, "arguments or results were changed")
    hold(108)
    net.late = Leaf(109)
    net.forward = types.MethodType(lambda self: self.late(), net)
    net()


def test_exceptions():
    raising = Raising()
    for _ in range(2):
        try:
            raising()
        except ValueError as error:
            check("on purpose" in str(error), "another exception")
            hold(113)
    try:
        nn.Module.__call__()
    except TypeError:
        pass
    else:
        check(False, "a call without a module went through")


def test_recursion():
    Recursive()(5)
    deep = Leaf(122)
    for _ in range(100):
        outer = Container()
        outer.forward = types.MethodType(lambda self: self.inner(), outer)
        outer.inner = deep
        deep = outer
    deep()
    hold(123)


def test_own_calls():
    OwnCall()()
    WithoutCall()()


def test_reuse():
    """Short-lived modules reuse each other's addresses."""
    class First(nn.Module):
        def forward(self):
            hold(140)

    class Second(nn.Module):
        def forward(self):
            hold(141)

    for _ in range(2000):
        First()()
        Second()()
        KEPT.clear()
    one, two, three = Block(142), Block(143), Block(144)
    one()
    two()
    del one
    three()
    blocks = [Block(145) for _ in range(20)]
    for block in blocks:
        block()


def test_threads():
    barrier = threading.Barrier(2)

    class InThread(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.leaf = Leaf(size)

        def forward(self):
            barrier.wait()
            self.leaf()
            barrier.wait()

    class OfOne(InThread):
        pass

    class OfTwo(InThread):
        pass

    def run(module):
        for _ in range(20):
            module()

    threads = [threading.Thread(target=run, args=(module,)) for module in (OfOne(150), OfTwo(151))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_fork():
    net = Block(160)
    net()
    child = os.fork()
    if child == 0:
        net()
        Leaf(161)()
        os._exit(0)
    check(os.waitpid(child, 0)[1] == 0, "the child failed")


def test_phases():
    class Descent(torch.optim.Optimizer):
        def step(self, closure=None):
            hold(170)
            if closure:
                closure()

    class Faster(Descent):
        def step(self, closure=None):
            hold(171)
            return super().step(closure)

    optimizer, faster = Descent(), Faster()
    again = Descent()
    step = optimizer.step
    check(type(step) is types.MethodType and step.__func__.hooked, "step is not a method of a function that is hooked")
    step.__func__.__get__(optimizer, Descent)()
    faster.step(lambda: Leaf(172)())
    again.step()
    tensor = torch.Tensor(10)
    check(tensor.backward(173 * 1024) is tensor, "backward returned another value")
    try:
        tensor.backward("bad")
    except TypeError:
        hold(174)


def test_looks():
    """What other code may do with nn.Module.__call__."""
    call, original = nn.Module.__call__, nn.Module._wrapped_call_impl
    check(call is not original, "it was not replaced")
    check(isinstance(call, types.FunctionType) and inspect.isfunction(call), "it is not a function")
    check(call.__code__ is original.__code__ and call.__name__ == original.__name__, "its code differs")
    check(inspect.signature(call) == inspect.signature(original), "its signature differs")
    check(inspect.getsource(call) == inspect.getsource(original), "its source differs")
    check(repr(call) == repr(original), "its repr differs")
    leaf = Leaf(1)
    bound = leaf.__call__
    check(type(bound) is types.MethodType and bound.__func__ is call and bound.__self__ is leaf, "it binds differently")
    check(call.__get__(None, nn.Module) is call, "it does not bind to a class")
    check(bound() == () and call(leaf, 7) == (7,), "it cannot be called")
    import copy
    check(copy.deepcopy(call) is call, "it is copied")
    if sys.version_info >= (3, 9):
        check(weakref.ref(call)() is call, "it cannot be weakly referenced")
    reference = weakref.ref(leaf)
    del leaf, bound
    check(reference() is None, "a module is kept alive")

    def unreachable():
        class Own(torch.optim.Optimizer):
            def step(self):
                return Own

        Own().step()
        return weakref.ref(Own)

    reference = unreachable()
    gc.collect()
    check(reference() is None, "a class is kept alive")


class Seen(nn.Module):
    def forward(self, *arguments, **named):
        self.callers = [sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name]
        return arguments, named


def test_direct_calls():
    """If only forward would run, no function of PyTorch is called in between."""
    def is_direct(module):
        check(module(1, 2, key=3) == ((1, 2), {"key": 3}), "the arguments are others")
        return module.callers[0] == "is_direct"

    from torch.nn.modules import module as modules
    module = Seen()
    check(is_direct(module), "PyTorch's functions are called")
    for hooks in (module._forward_pre_hooks, modules._global_forward_pre_hooks):
        seen = []
        hooks[1] = lambda *arguments: seen.append(arguments)
        check(not is_direct(module) and seen == [(module, (1, 2))], "a hook was not called")
        hooks.clear()
        check(is_direct(module), "a removed hook still counts")
    for hooks in (module._forward_hooks, module._backward_hooks, module._backward_pre_hooks, modules._global_backward_hooks):
        hooks[1] = None
        check(not is_direct(module) and module.callers == ["_call_impl", "_wrapped_call_impl"], "a hook was not seen")
        hooks.clear()
    module._compiled_call_impl = lambda *arguments, **named: (arguments, dict(named, compiled=True))
    check(module(1) == ((1,), {"compiled": True}), "what compile() made is not called")
    del module.__dict__["_compiled_call_impl"]
    original = module._call_impl
    module._call_impl = lambda *arguments, **named: original(*arguments, **named) + ("patched",)
    check(module(1) == ((1,), {}, "patched"), "a _call_impl of the object's own is not called")
    del module.__dict__["_call_impl"]
    check(is_direct(module), "a removed override still counts")
    seen, before = [], modules._global_forward_pre_hooks
    modules._global_forward_pre_hooks = {1: lambda *arguments: seen.append(arguments)}
    check(not is_direct(module) and len(seen) == 1, "a replaced dictionary of hooks was not noticed")
    modules._global_forward_pre_hooks = before
    module.forward = lambda *arguments, **named: "own"
    check(module(1) == "own", "a forward of the object's own is not called")
    del module.__dict__["forward"], module.__dict__["_backward_hooks"]
    try:
        module(1)
    except AttributeError:
        pass
    else:
        raise SystemExit("traced_modules: a module without hooks' dictionaries is called")

    class Own(Seen):
        def _call_impl(self, *arguments, **named):
            return super()._call_impl(*arguments, **named)

    check(not is_direct(Own()), "the class's own _call_impl was not called")
    for watch in (sys.setprofile, sys.settrace):
        watch(lambda *_: None)
        is_seen = not is_direct(Seen())
        watch(None)
        check(is_seen, "a profiler or debugger does not see PyTorch's functions")


TESTS = [test_names, test_exceptions, test_recursion, test_own_calls, test_reuse, test_threads, test_fork, test_phases,
         test_looks, test_direct_calls]
if "untouched" in sys.argv:
    check(type(nn.Module.__call__) is types.FunctionType, "__call__ is still replaced")
    check(type(torch.Tensor.backward) is types.FunctionType, "backward is still replaced")
    TESTS = [test_names, test_exceptions]
for test in TESTS:
    test()
print("done")

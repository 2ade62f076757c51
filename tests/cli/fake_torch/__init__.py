"""A stand-in for PyTorch, in its shape as far as Headroom's tracer knows it: the extension module first, and then
the classes, under the same names and in the same modules. So the tracer can be tried on any Python."""
import os

from torch import _C

if os.environ.get("FAKE_TORCH_FAILS"):
    raise ImportError("the fake PyTorch was told to fail")
from torch._tensor import Tensor
from torch import nn
from torch import optim

"""A stub of PyTorch with the structure that Headroom's tracer relies on: first the extension module, then the classes,
with the same names and in the same modules. So the tracer can be tested with any Python."""
import os

from torch import _C

if os.environ.get("FAKE_TORCH_FAILS"):
    raise ImportError("the fake PyTorch was told to fail")
from torch._tensor import Tensor
from torch import nn
from torch import optim

"""PyTorch modules whose outputs have known sizes: 4 passes of 32 rows through 64 x 256 and 256 x 10 floats."""
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256, bias=False)
        self.act = nn.ReLU()
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        return self.head(self.act(self.up(x)))


def passes(model):
    with torch.no_grad():
        return [model(torch.ones(32, 64)) for _ in range(4)]


torch.set_num_threads(1)
if len(sys.argv) > 1:
    from headroom import MemoryTracer

    tracer, net = MemoryTracer(device="cpu", record_to=sys.argv[1]), Net()
    with tracer.trace(net):
        passes(net)
else:
    passes(Net())

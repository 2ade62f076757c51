"""Models whose memory follows from their shapes, for the checks of headroom_memory.MemoryTracer."""
import torch
from torch import nn

torch.set_num_threads(1)
FLOAT = 4


def check(is_true, *what):
    if not is_true:
        raise SystemExit(f"memory_tracer_checks: {what}")


def equal(found, wanted):
    check(found == wanted, "found", found, "wanted", wanted)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.act = nn.ReLU()
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 10, bias=False)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def weights_of(model):
    return sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])

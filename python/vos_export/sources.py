"""Opens a model of the packages sam2, edgetam-dimos or transformers, and hands over its weights under sam2's names.

A `Source` also runs the package's own video predictor, frame by frame, so that verify.py can compare with it.
"""
import dataclasses
import re
import types

import torch
from torch import nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HIERA = {"tiny": "t", "small": "s", "base_plus": "b+", "large": "l"}
MODELS = [*HIERA, *(name + "-2.0" for name in HIERA), "edgetam", "narrow"]


class SourceError(Exception):
    """What failed, why, and how to fix it, for one line on stderr."""


@dataclasses.dataclass
class Source:
    weights: dict            # tensors by sam2's names, without the backbone
    backbone: nn.Module      # normalised image -> three maps of C channels, the largest first
    family: str              # sam2, sam2.1 or edgetam
    predictor: object        # see Predictor in official.py and Transformers in hugging.py
    side: int
    heads: int = 8           # of the mask decoder's transformer
    iou_sigmoid: bool = True
    num_maskmem: int = 7
    max_obj_ptrs: int = 16
    multimask: tuple = (0, 1)
    stability: tuple = (0.05, 0.98)
    mask_scale: float = 20.0
    mask_shift: float = -10.0


def randomise(model, seed):
    """Random weights whose signals keep their size from layer to layer, the same for every run of one seed.

    The packages start several parameters at zero (temporal positions, no-object pointer and embedding, fuser scale),
    which would hide faults. So every parameter gets values of its own.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(tensor, scale):
        return torch.randn(tensor.shape, generator=random) * scale

    norms = {name for name, module in model.named_modules()
             if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d)) or type(module).__name__.endswith("LayerNorm2d")
             or "BatchNorm" in type(module).__name__}
    # Each block of RepViT is a sum of three branches. With weights about 1, the last maps of a deep one exceed 65504.
    branches = {name for name, module in model.named_modules() if "BatchNorm" in type(module).__name__}
    of_branch = 0.5 if len(branches) > 100 else 1
    tokens = re.compile(r"embed|token|latents|tpos|pos_enc|position|no_mem|no_obj|no_object|occlusion|gamma|\.scale$")
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.rpartition(".")[0] in norms:
                middle = of_branch if name.rpartition(".")[0] in branches else 1
                value.copy_(normal(value, 0.1) + (middle if name.endswith("weight") else 0))
            elif tokens.search(name) and ".conv" not in name and "proj" not in name:
                value.copy_(normal(value, 0.5))
            elif value.dim() >= 2:
                value.copy_(normal(value, (value[0].numel()) ** -0.5))
            else:
                value.copy_(normal(value, 0.1))
            if re.search(r"pred_obj_score_head\.(layers\.2|proj_out)\.bias$", name):
                value.fill_(0.5)  # most frames show the object
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):
                value.copy_(normal(value, 0.1))
            elif name.endswith("running_var"):
                value.copy_(1 + 0.5 * torch.rand(value.shape, generator=random))
            elif name.endswith("gaussian_matrix") or name.endswith("positional_embedding"):
                value.copy_(normal(value, 1))


def random_seed(checkpoint):
    """The seed of `random` or `random:SEED`; None for a file or folder."""
    match = re.fullmatch(r"random(?::(\d+))?", checkpoint)
    return None if match is None else int(match[1] or 0)


def without_bfloat16(module):
    """The predictors round memories to bfloat16. This makes `module` keep 32 bits, so that one rounding
    does not hide what is compared."""

    class Torch(types.ModuleType):
        bfloat16 = torch.float32

        def __getattr__(self, name):
            return getattr(torch, name)

    module.torch = Torch("torch")


def open_source(source, checkpoint, model, side):
    if source == "transformers":
        from . import hugging
        return hugging.open_model(checkpoint, model, side)
    from . import official
    return official.open_model(source, checkpoint, model, side)

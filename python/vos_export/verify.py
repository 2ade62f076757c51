"""Compares written graphs with the source's own predictor: each stage, then tracked frames."""
import numpy as np

from . import run, tracker
from .sources import MEAN, STD

STAGES = ("image_embed", "high_res_0", "high_res_1", "fused", "memory")


def clip(frames, side):
    """[frames,3,side,side], normalised: a bright square and a disc that move over noise."""
    random = np.random.default_rng(7)
    noise = random.standard_normal((3, side // 16, side // 16)).repeat(16, 1).repeat(16, 2) * 0.5
    y, x = np.mgrid[0:side, 0:side] / side
    result = np.empty((frames, 3, side, side), np.float32)
    for t in range(frames):
        picture = noise.copy()
        picture[:, (abs(x - 0.25 - 0.02 * t) < 0.12) & (abs(y - 0.6) < 0.12)] = [[1.5], [-1.0], [0.5]]
        picture[:, (x - 0.7) ** 2 + (y - 0.3 - 0.01 * t) ** 2 < 0.02] = [[-1.5], [1.0], [1.5]]
        result[t] = picture
    return result


def as_pixels(pictures):
    """The nearest levels, uint8, and the normalised pictures of those."""
    mean, std = (np.float32(values).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    pixels = np.clip(np.rint((pictures * std + mean) * 255), 0, 255).astype(np.uint8)
    return pixels, (pixels.astype(np.float32) / 255 - mean) / std


def prompts(frames, width, height, with_mask):
    """Named prompts by frame: a point and later two points, a box, and a mask."""
    point = {0: tracker.Prompt(points=[(0.25 * width, 0.6 * height, 1)])}
    if frames > 12:
        point[10] = tracker.Prompt(points=[(0.45 * width, 0.6 * height, 1), (0.7 * width, 0.3 * height, 0)])
    cases = {"points": point, "box": {0: tracker.Prompt(box=[0.1 * width, 0.4 * height, 0.4 * width, 0.8 * height])}}
    if with_mask:
        mask = np.zeros((height, width), np.uint8)
        mask[height // 3:height * 2 // 3, width // 8:width // 2] = 1
        cases["mask"] = {0: tracker.Prompt(mask=mask)}
    return cases


class Watch:
    """Keeps what the predictor's methods returned last."""

    def __init__(self, predictor):
        self.seen = {}
        for stage, (owner, name) in predictor.stages().items():
            setattr(owner, name, self.wrap(stage, getattr(owner, name)))

    def wrap(self, stage, method):
        def call(*given, **named):
            result = method(*given, **named)
            self.seen[stage] = result
            return result
        return call

    def value(self, stage):
        """As the graph gives it: fused [1,C,h,h], memory [1,T,D]."""
        if stage not in self.seen:
            return None
        value = self.seen[stage]
        value = value[0] if isinstance(value, tuple) else value
        value = value.detach().float().cpu()
        if stage != "memory":
            return value.numpy()
        if value.dim() == 4:                       # sam2: [B,D,h,h]
            value = value.flatten(2).transpose(1, 2)
        elif value.shape[0] != 1:                  # transformers' sam2_video: [T,B,D]
            value = value.transpose(0, 1)
        return value.numpy()


def rms(values):
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def image_stages(source, frame):
    import torch
    with torch.no_grad():
        device = next(source.backbone.parameters()).device
        fine, middle, coarse = (value.cpu() for value in source.backbone(torch.from_numpy(frame).to(device)))
        s0, s1 = (torch.nn.functional.conv2d(value, source.weights[f"sam_mask_decoder.conv_s{i}.weight"],
                                             source.weights[f"sam_mask_decoder.conv_s{i}.bias"])
                  for i, value in enumerate((fine, middle)))
    return {"image_embed": coarse.numpy(), "high_res_0": s0.numpy(), "high_res_1": s1.numpy()}


def report_seen(seen, compared, report):
    """Prints in how many frames the predictor saw the object (score above 0), and warns below half of them."""
    report(f"the object was seen in {seen} of {compared} frames")
    if 2 * seen < compared:
        report(f"warning: the object score is at most 0 in {compared - seen} of {compared} frames, so their masks are "
               "empty on both sides and prove little; use a trained checkpoint or another seed (--checkpoint random:2)")


def verify(source, manifest, folder, frames=21, report=print, threads=1, device="cpu"):
    """Prints the largest differences, and returns whether they are within the tolerance of the precision.

    A difference is the root mean square over a frame, divided by that of the predictor's values; of a score it is
    plain. In 16 bits a memory carries its rounding from frame to frame. The memory of a prompt's mask changes as a whole
    if one pixel of its logits, about 0, gets the other sign. In both cases the masks count: at least 99 % of the pixels
    agree.
    """
    import torch
    half = manifest["precision"] == "float16"
    if manifest["format"] == "onnx":
        execute = run.onnx_files(folder, manifest, threads)
    else:
        execute = run.torchscript_files(folder, manifest, threads, device)
    if device != "cpu":
        torch.backends.cudnn.allow_tf32 = False  # it would round to 10 bits
        source.predictor.move(device)
    width, height = 160, 96
    pictures = pixels = clip(frames, source.side)
    if manifest["uint8"]:
        pixels, pictures = as_pixels(pictures)
    watch = Watch(source.predictor)
    reference = tracker.Tracker(execute, manifest)
    if not source.predictor.fills_holes:
        reference.fill = lambda logits: logits
    good, seen, compared = True, 0, 0
    for name, given in prompts(frames, width, height, source.predictor.mask_prompts).items():
        source.predictor.start(torch.from_numpy(pictures), width, height)
        reference.start(pixels, width, height)
        stages = dict.fromkeys((*STAGES, "logits", "score"), 0.0)
        agree, hidden, crossed = 1.0, 0, 0
        for t in range(frames):
            watch.seen.clear()
            logits, score = source.predictor.step(t, given.get(t))
            own_logits, own_score = reference.step(t, given.get(t))
            pairs = {"logits": (logits, own_logits), "score": (np.float32(score), np.float32(own_score))}
            if t == 0:
                image = image_stages(source, pictures[:1])
                pairs.update((stage, (image[stage], reference.values[stage])) for stage in image)
            pairs.update((stage, (watch.value(stage), reference.values[stage])) for stage in ("fused", "memory")
                         if watch.value(stage) is not None and stage in reference.values)
            for stage, (theirs, own) in pairs.items():
                scale = 1 if stage == "score" else max(rms(theirs), 1e-6)
                stages[stage] = max(stages[stage], rms(theirs - own) / scale)
            hidden += score <= 0
            if t in given:
                side = source.side
                crossed += int(((tracker.resize(logits, side, side) > 0) !=
                                (tracker.resize(own_logits, side, side) > 0)).sum())
            agree = min(agree, float(((logits > 0) == (own_logits > 0)).mean()))
        ok = agree >= 0.99 if half or crossed else max(stages.values()) <= 1e-3
        good = good and ok
        cut = f", {crossed} pixels cross 0 where the mask of a prompt is cut" if crossed else ""
        report(f"{name}: {'ok' if ok else 'DIFFERS'}: {frames} frames, {hidden} occluded{cut}, masks agree in "
               f"{100 * agree:.3f} % of the pixels; largest differences: "
               + ", ".join(f"{stage} {value:.1e}" for stage, value in stages.items()))
        seen += frames - int(hidden)
        compared += frames
    report_seen(seen, compared, report)
    return good

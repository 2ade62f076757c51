#!/usr/bin/env python3
"""Makes the goldens of one family with the Python predictor: see README.md.

make_goldens.py sam2|edgetam [--seed N] [--search N] [--output DIR]
Needs the environment of python/export_vos.py (docs/export-vos.md) with the package sam2 or edgetam-dimos.
"""
import argparse
import json
import pathlib
import sys
import types

import numpy as np
import torch

torch.set_num_threads(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from vos_export import run, sources, tracker, write  # noqa: E402

FRAMES, GRID, WIDTH, HEIGHT = 24, 32, 160, 96
SIDE = {"sam2": 128, "edgetam": 256}
SEED = {"sam2": 1, "edgetam": 1}
KEPT_FRAMES = {"sam2": [0, 1, 2, 3, 5, 8, 10, 11, 13, 17, 23], "edgetam": [0, 10, 23]}


def video():
    """[FRAMES, GRID, GRID, 3] bytes: a square that passes behind a bar, and a disc, on a gradient."""
    y, x = np.mgrid[0:GRID, 0:GRID]
    frames = np.empty((FRAMES, GRID, GRID, 3), np.uint8)
    for t in range(FRAMES):
        frame = np.stack((4 * x + 20, 3 * y + 60, 2 * (x + y) + 40), axis=-1)
        disc = (x - 24 + t // 3) ** 2 + (y - 8 - t // 2) ** 2 <= 16
        square = (abs(x - 4 - t) <= 3) & (abs(y - 20) <= 3)
        frame[disc] = (230, 60, 40)
        frame[square] = (30, 220, 240 - 4 * t)
        frame[abs(x - 16) <= 3] = (15, 25, 10)
        frames[t] = frame
    return frames


def prompt_mask():
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    mask[(x - 118) ** 2 + (y - 26) ** 2 <= 400] = 1
    mask[20:24, 112:116] = 0
    return mask


def cases():
    """Name, profile, prompts of each object by frame."""
    point = {0: dict(points=[[22, 61, 1]])}
    box = {0: dict(box=[100, 10, 138, 46])}
    later = {0: dict(points=[[22, 61, 1]]), 10: dict(points=[[75, 60, 1], [120, 30, 0]])}
    starts_later = {3: dict(box=[98, 12, 136, 50], points=[[116, 30, 1]])}
    return [
        ("point", "predictor", [point]),
        ("box", "predictor", [box]),
        ("mask", "predictor", [{0: dict(mask=True)}]),
        ("two_objects", "predictor", [later, starts_later]),
        ("evaluation", "evaluation", [later, box, {0: dict(mask=True)}]),
    ]


def to_prompt(given):
    if given is None:
        return None
    return tracker.Prompt(points=given.get("points", []), box=given.get("box"),
                          mask=prompt_mask() if given.get("mask") else None)


def sharpen(model):
    """Makes the output depend on the memory about as much as on the picture."""
    with torch.no_grad():
        for layer in model.memory_attention.layers:
            layer.cross_attn_image.q_proj.weight.mul_(2)
            layer.cross_attn_image.out_proj.weight.mul_(2)
        model.sam_mask_decoder.pred_obj_score_head.layers[-1].weight.mul_(4)
        for head in model.sam_mask_decoder.output_hypernetworks_mlps:
            head.layers[-1].weight.mul_(3)


def track(follower, frames, prompts, first):
    """Logits, scores and the tracker's choices of each frame; None before the first prompt."""
    follower.start(frames, WIDTH, HEIGHT)
    return [follower.step(t, to_prompt(prompts.get(t))) if t >= first else None for t in range(FRAMES)]


def margins(follower, margin, cut):
    """Smallest distances from a decision: score from 0, best IoU from the next, stability from its threshold, and a
    pixel of a prompt's logits from 0, where its mask is cut for the memory."""
    values = follower.values
    ious = np.sort(values["ious"][1:])
    margin["score"] = min(margin["score"], abs(float(values["object_score"][0, 0])))
    margin["iou"] = min(margin["iou"], float(ious[-1] - ious[-2]))
    if "stability" in values:
        margin["stability"] = min(margin["stability"], abs(values["stability"] - 0.98))
    if cut is not None:
        margin["cut"] = min(margin["cut"], float(np.abs(tracker.resize(cut, follower.side, follower.side)).min()))


def scores_of(source, frames, some):
    """Object scores that the decoder decides (not those of mask prompts): of prompt frames, and of the others."""
    scores = [], []
    for profile, prompts in some:
        source.predictor.set_profile(profile)
        steps = track(source.predictor, frames, prompts, min(prompts))
        for t, step in enumerate(steps):
            if step and "mask" not in prompts.get(t, {}):
                scores[t not in prompts].append(step[1])
    return np.array(scores[0]), np.array(scores[1])


def hide_sometimes(source, frames):
    """Moves the object score until a tenth to a third of the tracked frames of one object are occluded.

    First the embedding of frames without memory is scaled until prompt frames score above most others, so that they
    stay visible. An occluded frame changes the memory and so the next scores, hence the bisection. At last 0 goes to
    the middle between the score above and below it, which changes no sign and so nothing else.
    """
    model = source.predictor.model
    bias = model.sam_mask_decoder.pred_obj_score_head.layers[-1].bias
    one = [("predictor", cases()[3][2][0])]
    everything = [(profile, prompts) for _, profile, objects in cases() for prompts in objects]
    embedding = model.no_mem_embed.detach().clone()
    for scale in (1, -1, 2, -2, 4, -4):
        bias.data.fill_(4.0)
        model.no_mem_embed.data.copy_(scale * embedding)
        prompted, tracked = scores_of(source, frames, one)
        if prompted.min() > np.quantile(tracked, 0.4):
            break
    low, high = -4.0, 4.0
    for _ in range(10):
        bias.data.fill_((low + high) / 2)
        hidden = np.mean(scores_of(source, frames, one)[1] < 0)
        if 0.1 <= hidden <= 0.34:
            break
        low, high = ((low + high) / 2, high) if hidden > 0.34 else (low, (low + high) / 2)
    prompted, tracked = scores_of(source, frames, everything)
    scores = np.concatenate((prompted, tracked))
    if (scores > 0).any() and (scores < 0).any():
        bias.data.sub_(float(scores[scores > 0].min() + scores[scores < 0].max()) / 2)
    return bool((prompted > 0).all())


def make(family, seed, folder):
    small = video()
    block = SIDE[family] // GRID
    pictures = small.repeat(block, axis=1).repeat(block, axis=2).transpose(0, 3, 1, 2).astype(np.float32) / 255
    frames = (pictures - np.reshape(sources.MEAN, (3, 1, 1))) / np.reshape(sources.STD, (3, 1, 1))
    frames = frames.astype(np.float32)
    source = sources.open_source(family, f"random:{seed}", "narrow", SIDE[family])
    sharpen(source.predictor.model)
    visible = hide_sometimes(source, torch.from_numpy(frames))
    options = types.SimpleNamespace(format="onnx", fp16=False, fp16_weights=False, uint8=False,
                                    fused_attention=False, device="cpu", static=None, attention_chunks=1, source=family,
                                    model="narrow")
    manifest = write.write(source, options, folder)
    reference = tracker.Tracker(run.onnx_files(folder, manifest), manifest)
    margin = dict(score=1e9, iou=1e9, stability=1e9, cut=1e9)
    worst, masks, logits, listed = 0.0, [], [], []
    for name, profile, objects in cases():
        source.predictor.set_profile(profile)
        reference.predictor = profile == "predictor"
        entries = []
        for prompts in objects:
            first = min(prompts)
            expected = track(source.predictor, torch.from_numpy(frames), prompts, first)
            reference.start(frames, WIDTH, HEIGHT)
            chosen, areas = [], []
            for t in range(FRAMES):
                if expected[t] is None:
                    chosen.append(None)
                    areas.append(0)
                    continue
                low, score = reference.step(t, to_prompt(prompts.get(t)))
                worst = max(worst, float(np.abs(low - expected[t][0]).max()), abs(score - expected[t][1]))
                margins(reference, margin, low if t in prompts and profile == "predictor" and score > 0 else None)
                chosen.append(None if "mask" in prompts.get(t, {}) else reference.values["chosen"])
                mask = tracker.resize(expected[t][0], HEIGHT, WIDTH) > 0
                areas.append(int(mask.sum()))
                if t in KEPT_FRAMES[family]:
                    logits.append(expected[t][0])
                    masks.append(mask)
            entries.append(dict(
                prompts=[dict(frame=t, **given) for t, given in prompts.items()],
                scores=[None if e is None else round(e[1], 6) for e in expected], chosen=chosen, areas=areas,
                kept_frames=[t for t in KEPT_FRAMES[family] if t >= first]))
        listed.append(dict(name=name, profile=profile, objects=entries))
    golden = dict(
        family=family, seed=seed, video=dict(width=WIDTH, height=HEIGHT, frames=FRAMES, grid=GRID, block=block),
        logits=dict(file="logits.f32", width=SIDE[family] // 4, height=SIDE[family] // 4),
        masks=dict(file="masks.bits", bytes_of_one=WIDTH * HEIGHT // 8), prompt_mask="prompt_mask.bits",
        predictor=predictor_version(family), prompt_frames_visible=visible,
        margins={k: round(v, 7) for k, v in margin.items()},
        largest_difference_of_the_reference_tracker=worst, cases=listed)
    (folder / "frames.rgb").write_bytes(small.tobytes())
    (folder / "prompt_mask.bits").write_bytes(np.packbits(prompt_mask()).tobytes())
    (folder / "masks.bits").write_bytes(b"".join(np.packbits(mask).tobytes() for mask in masks))
    (folder / "logits.f32").write_bytes(np.stack(logits).astype("<f4").tobytes())
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    return golden


def predictor_version(family):
    from importlib.metadata import version
    package = "edgetam-dimos" if family == "edgetam" else "sam2"
    return f"{package} {version(package)}, torch {torch.__version__}, memories kept in 32 bits"


def summary(golden):
    scores = [s for case in golden["cases"] for o in case["objects"] for s in o["scores"] if s is not None]
    areas = [a / (WIDTH * HEIGHT) for case in golden["cases"] for o in case["objects"] for a in o["areas"]]
    return (f"seed {golden['seed']}: margins {golden['margins']}, "
            f"{sum(s < 0 for s in scores)} of {len(scores)} scores below 0, prompt frames "
            f"{'visible' if golden['prompt_frames_visible'] else 'hidden'}, mean area {np.mean(areas):.2f}, "
            f"largest difference {golden['largest_difference_of_the_reference_tracker']:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=list(SIDE))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--search", type=int, metavar="N", help="print the margins of the first N seeds")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    folder = options.output or pathlib.Path(__file__).parent / options.family
    seed = SEED[options.family] if options.seed is None else options.seed
    seeds = range(options.search) if options.search else [seed]
    for seed in seeds:
        print(summary(make(options.family, seed, folder)), flush=True)


if __name__ == "__main__":
    main()

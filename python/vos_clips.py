#!/usr/bin/env python3
"""Made clips for video object segmentation: shapes that move, cross and leave the picture, over a textured background.

    python/vos_clips.py --output DIR [--clips 3] [--frames 24] [--side 256] [--seed 1000000]

Writes clips in the layout of SA-V (JPEGImages_24fps, Annotations_6fps, sav_val.txt), with a mask for every frame and object. The same
seed makes the same clips. `train_vos.py` draws from the seeds below 1,000,000. Needs PyTorch and Pillow.
"""
import argparse
import math
import os

import torch

KINDS = 4  # circle, square, triangle, star
FIRST_TEST_SEED = 1_000_000


def uniform(shape, low, high, generator):
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)


def distance(kind, x, y):
    """Signed distance, negative inside, of shapes of radius 1 around (0, 0); `kind` broadcasts with x and y."""
    circle = torch.sqrt(x * x + y * y + 1e-9) - 1
    square = torch.maximum(x.abs(), y.abs()) - 0.8
    triangle = torch.maximum(math.sqrt(3) / 2 * x.abs() + y / 2, -y) - 0.6
    angle, radius = torch.atan2(y, x), torch.sqrt(x * x + y * y + 1e-9)
    star = radius - (0.75 + 0.3 * torch.cos(5 * angle))
    return torch.stack([circle, square, triangle, star]).gather(0, kind.expand(1, *x.shape))[0]


def background(clips, side, generator):
    """Colours [clips, 3, side, side] in 0..1: three octaves of noise around a gradient."""
    device = generator.device
    picture = uniform((clips, 3, 1, 1), 0.15, 0.85, generator).expand(-1, -1, side, side).clone()
    for cells, strength in ((2, 0.25), (8, 0.12), (32, 0.08)):
        noise = uniform((clips, 3, cells, cells), -strength, strength, generator)
        picture += torch.nn.functional.interpolate(noise, size=(side, side), mode="bilinear", align_corners=False)
    return picture.to(device)


def make_clips(clips, frames, side, shapes, generator, most_stride=1):
    """Frames [clips, frames, 3, side, side] in 0..1, and the visible part of each shape, bool [clips, frames, shapes, side, side].

    A later shape lies in front of an earlier one. Each shape is inside the first picture and may leave it later. A clip shows each n-th
    moment, with n from 1 to `most_stride`."""
    device = generator.device
    stride = torch.ones(clips, 1, 1, device=device)
    if most_stride > 1:
        stride = torch.randint(1, most_stride + 1, (clips, 1, 1), generator=generator, device=device).float()
    picture = background(clips, side, generator)
    size = uniform((clips, 1, shapes), 0.10, 0.24, generator)
    start = uniform((clips, 1, shapes, 2), 0.15, 0.85, generator)
    heading = uniform((clips, 1, shapes), 0, 2 * math.pi, generator)
    speed = uniform((clips, 1, shapes), 0.0, 0.045, generator)  # of the side, a frame
    turn = uniform((clips, 1, shapes), -0.12, 0.12, generator)
    spin = uniform((clips, 1, shapes), -0.15, 0.15, generator)
    growth = uniform((clips, 1, shapes), -0.012, 0.012, generator)
    kind = torch.randint(0, KINDS, (clips, 1, shapes), generator=generator, device=device)
    colour = uniform((clips, shapes, 3), 0.0, 1.0, generator)
    stripes = uniform((clips, 1, shapes), 4, 14, generator)
    time = torch.arange(frames, device=device).view(1, frames, 1) * stride
    angle = heading + turn * time
    steps = torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1) * (speed * stride)[..., None]
    centre = start + torch.cumsum(steps, dim=1) - steps
    radius = size * torch.exp(growth * time)

    grid = (torch.arange(side, device=device).float() + 0.5) / side
    visible = torch.zeros(clips, frames, shapes, side, side, dtype=torch.bool, device=device)
    video = picture[:, None].repeat(1, frames, 1, 1, 1)
    for shape in range(shapes):
        dx = grid.view(1, 1, 1, side) - centre[:, :, shape, 0, None, None]
        dy = grid.view(1, 1, side, 1) - centre[:, :, shape, 1, None, None]
        turned = (spin[:, :, shape] * time[..., 0])[..., None, None]
        x = (torch.cos(turned) * dx + torch.sin(turned) * dy) / radius[:, :, shape, None, None]
        y = (-torch.sin(turned) * dx + torch.cos(turned) * dy) / radius[:, :, shape, None, None]
        inside = distance(kind[:, :, shape, None, None], x, y) < 0
        shade = 0.85 + 0.15 * torch.sin(stripes[:, :, shape, None, None] * (x + y))
        paint = colour[:, None, shape, :, None, None] * shade[:, :, None]
        video = torch.where(inside[:, :, None], paint, video)
        visible[:, :, :shape] &= ~inside[:, :, None]
        visible[:, :, shape] = inside
    video = video + 0.03 * torch.randn(video.shape, generator=generator, device=device)
    return video.clamp(0, 1), visible


def write_sav(arguments):
    from PIL import Image
    ids = []
    for clip in range(arguments.clips):
        generator = torch.Generator().manual_seed(arguments.seed + clip)
        video, masks = make_clips(1, arguments.frames, arguments.side, 3, generator)
        name = f"shapes_{clip:03d}"
        objects = [shape for shape in range(3) if masks[0, 0, shape].sum() > arguments.side ** 2 // 200]
        frames = os.path.join(arguments.output, "JPEGImages_24fps", name)
        os.makedirs(frames, exist_ok=True)
        for frame in range(arguments.frames):
            pixels = (video[0, frame].permute(1, 2, 0) * 255).round().byte().numpy()
            Image.fromarray(pixels).save(os.path.join(frames, f"{frame:05d}.jpg"), quality=85)
            for index, shape in enumerate(objects):
                folder = os.path.join(arguments.output, "Annotations_6fps", name, f"{index:03d}")
                os.makedirs(folder, exist_ok=True)
                mask = Image.fromarray(masks[0, frame, shape].byte().numpy() * 255).convert("1")
                mask.save(os.path.join(folder, f"{frame:05d}.png"), optimize=True)
        ids.append(name)
    with open(os.path.join(arguments.output, "sav_val.txt"), "w", encoding="utf-8") as out:
        out.write("".join(f"{name}\n" for name in ids))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", required=True, help="folder for the clips")
    parser.add_argument("--clips", type=int, default=3)
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--side", type=int, default=256, help="pixels")
    parser.add_argument("--seed", type=int, default=FIRST_TEST_SEED, help="of the first clip")
    write_sav(parser.parse_args())


if __name__ == "__main__":
    main()

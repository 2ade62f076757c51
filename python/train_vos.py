#!/usr/bin/env python3
"""Trains a narrow network of EdgeTAM's shape on made clips (vos_clips.py).

    python/train_vos.py --output one --frames 1 --batch 240 --stride 1
    python/train_vos.py --output three --resume one --frames 3
    python/train_vos.py --output six --resume three --frames 6
    python/train_vos.py --output model --resume six --minutes 0

The network has every part of EdgeTAM (RepViT, mask decoder, memory attention, memory encoder, perceiver) at a side of 256 pixels, with
half of the channels. It sees a point, a box or a mask in the first frame and follows the object, as the predictor does. At the
end, and with `--minutes 0`, it is measured on clips that it has not seen: J, F (docs/evaluate.md) and their mean.

Training goes on from `--resume`, in pieces: first pictures, whose steps are short, then longer clips. `--output` gets weights.pt,
training.pt and accuracy.json. `--resume DIR --minutes 0` measures the weights and writes them as a model folder of `transformers`,
which `export_vos.py --source transformers --checkpoint` exports. tests/golden/vos/README.md has the pieces of the net in the tests. Needs PyTorch, transformers, timm and scipy.
"""
import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from transformers import EdgeTamVideoConfig, EdgeTamVideoModel, EdgeTamVisionConfig, TimmWrapperConfig

import vos_clips

SIDE = 256
# Otherwise transformers 5.17 asks a server for the default network when it checks a value.
EdgeTamVisionConfig.has_no_defaults_at_init = True
NO_OBJECT = -1024.0


def narrow_config():
    channels, memory = 128, 64  # transformers fixes the second at 64
    grid = SIDE // 16
    return EdgeTamVideoConfig(
        image_size=SIDE,
        vision_config=EdgeTamVisionConfig(
            fpn_hidden_size=channels, backbone_channel_list=[128, 64, 32, 16],
            backbone_feature_sizes=[[4 * grid, 4 * grid], [2 * grid, 2 * grid], [grid, grid]],
            backbone_config=TimmWrapperConfig(
                architecture="repvit_m1", num_labels=2,
                model_args={"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3], "embed_dim": [16, 32, 64, 128],
                            "depth": [2, 2, 6, 2]})),
        prompt_encoder_config={"hidden_size": channels, "image_size": SIDE, "mask_input_channels": 16},
        mask_decoder_config={"hidden_size": channels, "mlp_dim": 256, "num_attention_heads": 4, "iou_head_hidden_dim": channels},
        enable_occlusion_spatial_embedding=False, enable_temporal_pos_encoding_for_object_pointers=False,
        memory_attention_hidden_size=channels, memory_attention_mlp_hidden_size=256, memory_attention_dropout=0.0,
        memory_attention_rope_dropout=0.0, memory_attention_rope_feat_sizes=[grid, grid], memory_attention_rope_k_sizes=[16, 16],
        perceiver_resampler_hidden_size=memory, perceiver_resampler_attention_head_dim=memory,
        perceiver_resampler_mlp_intermediate_size=4 * memory, memory_encoder_hidden_size=channels,
        memory_encoder_output_channels=memory, mask_downsampler_embed_dim=channels, memory_fuser_embed_dim=channels,
        memory_fuser_intermediate_dim=4 * channels)


def new_model(seed):
    torch.manual_seed(seed)
    model = EdgeTamVideoModel(narrow_config())
    with torch.no_grad():  # transformers starts these with zeros
        for parameter in (model.no_memory_embedding, model.memory_temporal_positional_encoding, model.no_object_pointer):
            parameter.normal_(std=0.02)
        for layer in model.memory_encoder.memory_fuser.layers:
            layer.scale.fill_(0.1)
    return model


def perceive(perceiver, features, positions):
    """EdgeTamVideoPerceiverResampler.forward for several objects at once, which the original can't do."""
    latents, position_1d = perceiver._forward_1d(features, positions)
    batch, channels, height, _ = features.shape
    cells = int(math.sqrt(perceiver.num_latents_2d))
    window = height // cells
    windows = features.permute(0, 2, 3, 1).reshape(batch, cells, window, cells, window, channels)
    windows = windows.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, channels)
    grid = perceiver.latents_2d.unsqueeze(0).repeat(batch, 1, 1).reshape(-1, 1, channels)
    for layer in perceiver.layers:
        grid = layer(grid, windows, positional_encoding=None)
    grid = perceiver.layer_norm(grid.reshape(batch, cells * cells, channels))
    shape = torch.Size((batch, channels, cells, cells))
    position_2d = perceiver.positional_encoding(shape, features.device, features.dtype).to(features.dtype)
    return torch.cat([latents, grid], 1), torch.cat([position_1d, position_2d.permute(0, 2, 3, 1).flatten(1, 2)], 1)


class Call(torch.nn.Module):
    """A function in the place of a module."""

    def __init__(self, function):
        super().__init__()
        self.__dict__["function"] = function

    def forward(self, **inputs):
        return self.__dict__["function"](**inputs)


class Follower:
    """The predictor's steps for a batch of clips with one object each."""

    def __init__(self, model, video):
        self.model = model
        clips, frames = video.shape[:2]
        mean = video.new_tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        deviation = video.new_tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
        seen = model.get_image_features(((video - mean) / deviation).flatten(0, 1), return_dict=True)
        self.maps, self.positions = [], seen.fpn_position_encoding[-1][:, :1].expand(-1, clips, -1)
        for level, (height, width) in zip(seen.fpn_hidden_states, model.backbone_feature_sizes):
            level = level.permute(1, 2, 0).reshape(clips, frames, -1, height, width)
            self.maps.append(level)
        self.clips = clips
        self.memories, self.pointers = [], []  # of each frame; the first is the prompt's

    def embedding(self, frame):
        return self.maps[2][:, frame]

    def fused(self, frame):
        """The picture's features after memory attention."""
        model = self.model
        spatial = [(0, self.memories[0])]  # the age counts back; the prompt's frame has 0
        spatial += [(frame - other, self.memories[other]) for other in range(max(1, frame - model.num_maskmem + 1), frame)]
        tokens = [memory.transpose(0, 1) for _, (memory, _) in spatial]
        places = [place.transpose(0, 1) + model.memory_temporal_positional_encoding[age - 1] for age, (_, place) in spatial]
        recent = range(max(1, frame - model.config.max_object_pointers_in_encoder + 1), frame)
        pointers = torch.stack([self.pointers[0]] + [self.pointers[other] for other in reversed(recent)])
        size = model.mem_dim
        split = pointers.reshape(len(pointers), self.clips, -1, size).permute(0, 2, 1, 3).flatten(0, 1)
        tokens.append(split)
        places.append(torch.zeros_like(split))
        current = self.embedding(frame).flatten(2).permute(2, 0, 1)
        out = model.memory_attention(current_vision_features=current, current_vision_position_embeddings=self.positions,
                                     memory=torch.cat(tokens), memory_posision_embeddings=torch.cat(places),
                                     num_object_pointer_tokens=len(split), num_spatial_memory_tokens=len(spatial))
        height, width = model.backbone_feature_sizes[-1]
        return out.reshape(self.clips, height * width, -1).transpose(1, 2).reshape(self.clips, -1, height, width)

    def decode(self, embedding, frame, points=None, labels=None):
        """Masks [B,4,h,w], expected IoUs [B,4], tokens [B,4,C] and object scores [B]."""
        model = self.model
        if points is None:
            points = embedding.new_zeros(self.clips, 1, 1, 2)
            labels = -torch.ones(self.clips, 1, 1, dtype=torch.int32, device=embedding.device)
        sparse, dense = model.prompt_encoder(input_points=points, input_labels=labels, input_boxes=None, input_masks=None)
        place = model.get_image_wide_positional_embeddings().repeat(self.clips, 1, 1, 1)
        maps = [self.maps[0][:, frame], self.maps[1][:, frame]]
        results = []
        # The decoder returns token 0 or tokens 1 to 3; both have one transformer run, so it is asked for all by a small detour.
        decoder = model.mask_decoder
        hidden, tokens = {}, decoder.transformer
        def remember(**inputs):
            if "out" not in hidden:
                hidden["out"] = tokens(**inputs)
            return hidden["out"]
        decoder.__dict__["_modules"]["transformer"] = Call(remember)
        try:
            for several in (False, True):
                results.append(decoder(image_embeddings=embedding, image_positional_embeddings=place, sparse_prompt_embeddings=sparse,
                                       dense_prompt_embeddings=dense, multimask_output=several, high_resolution_features=maps))
        finally:
            decoder.__dict__["_modules"]["transformer"] = tokens
        (one, one_iou, one_token, score), (three, three_iou, three_tokens, _) = results
        return (torch.cat([one, three], 2)[:, 0].float(), torch.cat([one_iou, three_iou], 2)[:, 0].float(),
                torch.cat([one_token, three_tokens], 2)[:, 0], score.reshape(self.clips).float())

    def pointer(self, token, score):
        """The object pointer of a token; that of no object where the score says so."""
        there = (score > 0).to(token.dtype).unsqueeze(-1)
        return there * self.model.object_pointer_proj(token) + (1 - there) * self.model.no_object_pointer

    def remember(self, frame, mask, pointer, is_prompt):
        """`mask`: logits [B,h,w] of a quarter of the side. Binarised for a prompt's frame."""
        model = self.model
        large = F.interpolate(mask.unsqueeze(1), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        large = (large > 0).float() if is_prompt else torch.sigmoid(large)
        large = large * model.config.sigmoid_scale_for_mem_enc + model.config.sigmoid_bias_for_mem_enc
        features, positions = model.memory_encoder(self.embedding(frame), large)
        self.memories.append(perceive(model.spatial_perceiver, features, positions.to(features.dtype)))
        self.pointers.append(pointer)


def prompts(masks, kind, generator):
    """Points [B,1,P,2] in pixels and labels [B,1,P] from the object's mask: a pixel inside it, or its box."""
    clips, height, width = masks.shape
    if kind == "points":
        noise = torch.rand(masks.shape, generator=generator, device=masks.device)
        pixel = (noise * masks).flatten(1).argmax(1)
        points = torch.stack([pixel % width, pixel // width], -1).float().view(clips, 1, 1, 2)
        return points, torch.ones(clips, 1, 1, dtype=torch.int32, device=masks.device)
    columns, rows = masks.any(1), masks.any(2)
    left, top = columns.float().argmax(1), rows.float().argmax(1)
    right = width - 1 - columns.flip(1).float().argmax(1)
    bottom = height - 1 - rows.flip(1).float().argmax(1)
    points = torch.stack([torch.stack([left, top], -1), torch.stack([right, bottom], -1)], 1).float().view(clips, 1, 2, 2)
    labels = torch.tensor([2, 3], dtype=torch.int32, device=masks.device).expand(clips, 1, 2)
    return points, labels


def choose(kind, masks, scores):
    """The index of the mask that the predictor takes: token 0 for a box, otherwise the best of 1 to 3 by its own judgement."""
    if kind == "box":
        return torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return 1 + scores[:, 1:].argmax(1)


def follow(model, video, first_mask, kind, generator, after=None):
    """Low-resolution logits of each frame [B, frames, h, w]. `after(frame, masks, scores, object_score, taken)` sees each decoding."""
    follower = Follower(model, video)
    clips = torch.arange(len(video), device=video.device)
    chosen = []
    for frame in range(video.shape[1]):
        if frame == 0 and kind == "mask":
            binary = first_mask.float().unsqueeze(1)
            logits = F.interpolate(binary * 20 - 10, scale_factor=0.25, mode="bilinear", antialias=True, align_corners=False)
            dense = model.mask_downsample(binary)
            token = decode_with_mask(follower, frame, dense)
            score = first_mask.flatten(1).any(1).float() * 20 - 10
            follower.remember(frame, logits[:, 0], follower.pointer(token, score), True)
            chosen.append(logits[:, 0])
            continue
        if frame == 0:
            points, labels = prompts(first_mask, kind, generator)
            embedding = follower.embedding(frame) + model.no_memory_embedding.view(1, -1, 1, 1)
            masks, scores, tokens, there = follower.decode(embedding, frame, points, labels)
            taken = choose(kind, masks, scores)
        else:
            masks, scores, tokens, there = follower.decode(follower.fused(frame), frame)
            taken = choose("points", masks, scores)
        if after is not None:
            after(frame, masks, scores, there, taken)
        mask = torch.where((there > 0)[:, None, None], masks[clips, taken], torch.full_like(masks[:, 0], NO_OBJECT))
        token = tokens[:, 0] if frame == 0 and kind == "box" else tokens[clips, taken]
        if frame + 1 < video.shape[1]:
            follower.remember(frame, mask, follower.pointer(token, there), frame == 0)
        chosen.append(mask)
    return torch.stack(chosen, 1)


def decode_with_mask(follower, frame, dense_mask):
    """The token of a mask prompt: the decoder sees the mask, and the picture without no_memory_embedding."""
    model = follower.model
    points = dense_mask.new_zeros(follower.clips, 1, 1, 2)
    labels = -torch.ones(follower.clips, 1, 1, dtype=torch.int32, device=dense_mask.device)
    sparse, dense = model.prompt_encoder(input_points=points, input_labels=labels, input_boxes=None, input_masks=dense_mask)
    place = model.get_image_wide_positional_embeddings().repeat(follower.clips, 1, 1, 1)
    _, _, tokens, _ = model.mask_decoder(
        image_embeddings=follower.embedding(frame), image_positional_embeddings=place, sparse_prompt_embeddings=sparse,
        dense_prompt_embeddings=dense, multimask_output=False,
        high_resolution_features=[follower.maps[0][:, frame], follower.maps[1][:, frame]])
    return tokens[:, 0, 0]


def loss_of(masks, scores, there, truth):
    """Cross-entropy and dice loss of the masks (the best of tokens 1 to 3 alone), of their expected IoU, and of the object's presence."""
    large = F.interpolate(masks, size=truth.shape[-2:], mode="bilinear", align_corners=False)
    target = truth.float().unsqueeze(1).expand_as(large)
    chance = torch.sigmoid(large)
    entropy = F.binary_cross_entropy_with_logits(large, target, reduction="none").mean((2, 3))
    dice = 1 - (2 * (chance * target).sum((2, 3)) + 1) / (chance.sum((2, 3)) + target.sum((2, 3)) + 1)
    each = 2 * entropy + dice
    present = truth.flatten(1).any(1).float()
    with torch.no_grad():
        binary, wanted = large > 0, target > 0
        iou = (binary & wanted).sum((2, 3)) / (binary | wanted).sum((2, 3)).clamp(min=1)
    of_masks = each[:, 0] + each[:, 1:].min(1).values
    of_scores = (scores - iou).abs().mean(1)
    of_presence = F.binary_cross_entropy_with_logits(there, present, weight=4 - 3 * present)  # an object is seldom absent
    return ((of_masks + of_scores) * present).mean() + of_presence


def draw_clips(clips, frames, seed, device, most_stride=1):
    """A batch with one object each that is well visible in the first picture."""
    generator = torch.Generator(device=device).manual_seed(seed)
    video, masks = vos_clips.make_clips(2 * clips, frames, SIDE, 3, generator, most_stride)
    area = masks[:, 0].flatten(2).sum(2)
    order = torch.rand(area.shape, generator=generator, device=device) * (area > SIDE * SIDE // 200)
    shape = order.argmax(1)
    usable = order.max(1).values.argsort(descending=True)[:clips]
    return video[usable], masks[usable, :, shape[usable]], generator


def train(model, arguments, state):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, weight_decay=0.01, fused=arguments.device == "cuda")
    if "optimizer" in state:
        optimizer.load_state_dict(state["optimizer"])
    step = state.get("step", 0)
    begin, last, average = time.monotonic(), 0.0, None
    model.train()
    # Frozen statistics would differ from those of training, so the decoder alone is asked as in evaluation.
    model.mask_decoder.dynamic_multimask_via_stability = False
    total = 60 * arguments.minutes
    while (spent := time.monotonic() - begin) < total and (arguments.steps == 0 or step < state.get("step", 0) + arguments.steps):
        progress = max(spent / total, (step - state.get("step", 0)) / arguments.steps if arguments.steps else 0)
        for group in optimizer.param_groups:
            warm = min(1.0, (step + 1) / 100)
            group["lr"] = arguments.rate * warm * max(0.02, 0.5 * (1 + math.cos(math.pi * progress)))
        video, truth, generator = draw_clips(arguments.batch, arguments.frames, step, arguments.device, arguments.stride)
        kind = ("points", "box", "mask", "points")[step % (2 if arguments.frames == 1 else 4)]
        losses = []
        with torch.autocast(arguments.device, dtype=torch.bfloat16, enabled=arguments.device == "cuda"):
            follow(model, video, truth[:, 0], kind, generator,
                   lambda frame, masks, scores, there, taken: losses.append(loss_of(masks, scores, there, truth[:, frame])))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        average = loss.item() if average is None else 0.95 * average + 0.05 * loss.item()
        if spent - last > 15 or step < 3:
            last = spent
            print(f"train_vos: step {step}, {spent:.0f} s, loss {average:.4f}", flush=True)
    return {"optimizer": optimizer.state_dict(), "step": step}


def halved(state):
    """The optimizer's averages as 16-bit floats: a file of half the size."""
    if isinstance(state, dict):
        return {key: halved(value) for key, value in state.items()}
    if isinstance(state, torch.Tensor) and state.dtype == torch.float32 and state.numel() > 1:
        return state.to(torch.bfloat16)
    return state


def boundary_score(prediction, truth):
    """F of two masks (numpy, bool), by the definition of DAVIS."""
    import numpy
    from scipy.ndimage import distance_transform_edt
    def edges(mask):
        out = numpy.zeros_like(mask)
        out[:-1, :] |= mask[:-1, :] ^ mask[1:, :]
        out[:, :-1] |= mask[:, :-1] ^ mask[:, 1:]
        out[:-1, :-1] |= mask[:-1, :-1] ^ mask[1:, 1:]
        return out
    a, b = edges(prediction), edges(truth)
    if not a.any() or not b.any():
        return float(a.any() == b.any())
    radius = math.ceil(0.008 * math.hypot(*truth.shape))
    precision = (distance_transform_edt(~b)[a] <= radius).mean()
    recall = (distance_transform_edt(~a)[b] <= radius).mean()
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


@torch.no_grad()
def measure(model, arguments):
    """J and F on clips that were not seen, for each kind of prompt."""
    import numpy
    model.eval()
    figures = {}
    for kind in ("points", "box", "mask"):
        video, truth, generator = draw_clips(arguments.test_clips, 24, vos_clips.FIRST_TEST_SEED, arguments.device)
        logits = follow(model, video, truth[:, 0], kind, generator)
        large = F.interpolate(logits, size=(SIDE, SIDE), mode="bilinear", align_corners=False) > 0
        overlaps, boundaries = [], []
        first = (large[:, 0] & truth[:, 0]).flatten(1).sum(1) / (large[:, 0] | truth[:, 0]).flatten(1).sum(1).clamp(min=1)
        for clip in range(len(video)):
            for frame in range(1, 23):
                found, wanted = large[clip, frame].cpu().numpy(), truth[clip, frame].cpu().numpy()
                union = (found | wanted).sum()
                overlaps.append((found & wanted).sum() / union if union else 1.0)
                boundaries.append(boundary_score(found, wanted))
        j, f = float(numpy.mean(overlaps)), float(numpy.mean(boundaries))
        figures[kind] = {"j_mean": round(j, 4), "f_mean": round(f, 4), "j_and_f": round((j + f) / 2, 4)}
        print(f"train_vos: {kind}: J {j:.3f}, F {f:.3f}, J&F {(j + f) / 2:.3f} on {len(video)} clips of 24 frames; "
              f"J of the first {first.mean():.3f}", flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", required=True, help="folder for the model")
    parser.add_argument("--resume", help="folder of an earlier run, to go on from")
    parser.add_argument("--minutes", type=float, default=9, help="of training; 0: measure only")
    parser.add_argument("--steps", type=int, default=0, help="at most; 0: as many as fit")
    parser.add_argument("--batch", type=int, default=64, help="clips")
    parser.add_argument("--frames", type=int, default=8, help="of a clip")
    parser.add_argument("--stride", type=int, default=6, help="at most, from frame to frame: objects leave the picture in a short clip")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test-clips", type=int, default=32, help="clips to measure it on; 0: do not measure")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    model, state = new_model(arguments.seed), {}
    if arguments.resume:
        weights = os.path.join(arguments.resume, "weights.pt")
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        state = torch.load(os.path.join(arguments.resume, "training.pt"), map_location=arguments.device, weights_only=True)
    model.to(arguments.device)
    print(f"train_vos: {sum(parameter.numel() for parameter in model.parameters()):,} parameters", flush=True)
    if arguments.minutes > 0:
        state = train(model, arguments, state)
    os.makedirs(arguments.output, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(arguments.output, "weights.pt"))
    torch.save(halved(state), os.path.join(arguments.output, "training.pt"))
    if arguments.minutes == 0:
        model.mask_decoder.dynamic_multimask_via_stability = True
        model.save_pretrained(arguments.output)
        model.mask_decoder.dynamic_multimask_via_stability = False
    if arguments.test_clips == 0:
        return
    figures = measure(model, arguments)
    with open(os.path.join(arguments.output, "accuracy.json"), "w", encoding="utf-8") as out:
        json.dump({"steps": state.get("step", 0), "unseen_clips": arguments.test_clips, **figures}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()

"""The tracker around the four graphs, for one object, in plain NumPy: the reference for verify.py and for goldens.

Profiles. predictor: what build_sam2_video_predictor makes (stability fallback, prompt masks cut at 0 for the memory,
holes filled). evaluation: what vos_inference.py uses (all three off).
"""
import dataclasses

import numpy as np

NO_OBJECT = -1024.0


@dataclasses.dataclass
class Prompt:
    """Of one frame. Coordinates are pixels of the video."""
    points: list = dataclasses.field(default_factory=list)  # (x, y, label), label 1 or 0
    box: list | None = None                                 # left, top, right, bottom
    mask: np.ndarray | None = None                          # [height, width], > 0 inside


@dataclasses.dataclass
class Memory:
    features: np.ndarray | None  # [T, D]
    pointer: np.ndarray          # [C]


def components(mask):
    """8-connected components of a bool tensor [N,1,H,W]: labels from 1 and the area at each pixel."""
    import torch
    labels, areas = np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64)
    for n, plane in enumerate(np.asarray(mask)[:, 0]):
        height, width = plane.shape
        label = 0
        for start in zip(*np.nonzero(plane)):
            if labels[n, 0][start]:
                continue
            label += 1
            labels[n, 0][start] = label
            members, at = [start], 0
            while at < len(members):
                y, x = members[at]
                at += 1
                for b in range(max(y - 1, 0), min(y + 2, height)):
                    for a in range(max(x - 1, 0), min(x + 2, width)):
                        if plane[b, a] and not labels[n, 0][b, a]:
                            labels[n, 0][b, a] = label
                            members.append((b, a))
            areas[n, 0][tuple(np.transpose(members))] = len(members)
    return torch.from_numpy(labels), torch.from_numpy(areas)


def fill_holes(logits):
    """Background components of at most 8 pixels become 0.1. logits [h, w]."""
    labels, areas = components((logits <= 0)[None, None])
    return np.where((labels.numpy()[0, 0] > 0) & (areas.numpy()[0, 0] <= 8), np.float32(0.1), logits)


def resize(plane, height, width, antialias=False):
    import torch
    import torch.nn.functional as F
    wide = torch.from_numpy(np.ascontiguousarray(plane, np.float32))[None, None]
    return F.interpolate(wide, (height, width), mode="bilinear", align_corners=False, antialias=antialias)[0, 0].numpy()


class Tracker:
    def __init__(self, run, manifest, profile="predictor", memory_type=np.float32):
        """run(graph, inputs by name) -> outputs by name."""
        self.run, self.manifest, self.memory_type = run, manifest, memory_type
        self.predictor = profile == "predictor"
        self.side = manifest["size"]
        self.fill = fill_holes

    def start(self, frames, width, height):
        """frames: [N,3,S,S], normalised, NumPy."""
        self.frames, self.width, self.height = frames, width, height
        self.prompted, self.tracked = {}, {}
        self.values = {}  # of the last frame, for comparison

    def step(self, frame, prompt=None):
        """Low-resolution logits [4h,4h] after holes are filled, and the object score."""
        image = self.run("image_encoder", {"image": self.frames[frame:frame + 1]})
        self.values = {"image_embed": image["image_embed"], "high_res_0": image["high_res_0"],
                       "high_res_1": image["high_res_1"]}
        if prompt is None:
            embed = self._attend(frame, image["image_embed"])
            self.values["fused"] = embed
            logits, pointer, score = self._decode(image, embed, [(0.0, 0.0, -1)], 0)
        elif prompt.mask is not None:
            logits, pointer, score = self._mask_prompt(image, prompt.mask)
        else:
            scale = (self.side / self.width, self.side / self.height)
            corners = [] if prompt.box is None else [(*prompt.box[:2], 2), (*prompt.box[2:], 3)]
            points = [(x * scale[0], y * scale[1], label) for x, y, label in corners + list(prompt.points)]
            logits, pointer, score = self._decode(image, image["image_embed"], points, len(points), no_memory=1)
        filled = self.fill(logits) if self.predictor else logits
        # A prompt's memory is made when propagation starts, from the filled logits; a tracked frame's at once.
        for_memory = filled if prompt is not None else logits
        cut = float(self.predictor and prompt is not None)
        memory = self.run("memory_encoder", {
            "image_embed": image["image_embed"], "mask_logits": for_memory[None, None],
            "binarize": np.full((1, 1, 1, 1), cut, np.float32), "object_score": np.full((1, 1), score, np.float32)})
        self.values["memory"] = memory["mem_features"]
        bank = self.tracked if prompt is None else self.prompted
        bank[frame] = Memory(memory["mem_features"][0].astype(self.memory_type), pointer)
        return filled, score

    def mask(self, logits):
        return resize(logits, self.height, self.width) > 0

    def _attend(self, frame, embed):
        manifest = self.manifest
        slots = [(manifest["num_maskmem"] - 1, memory) for memory in self.prompted.values()]
        slots += [(back - 1, self.tracked[frame - back]) for back in range(manifest["num_maskmem"] - 1, 0, -1)
                  if frame - back in self.tracked]
        count = min(len(self.frames), manifest["max_obj_ptrs"])
        pointers = [(frame - at, memory) for at, memory in self.prompted.items() if at <= frame]
        pointers += [(back, self.tracked[frame - back]) for back in range(1, count) if frame - back in self.tracked]
        inputs = {
            "image_embed": embed,
            "mem_features": np.stack([memory.features for _, memory in slots]).astype(np.float32)[None],
            "mem_slot": np.array([[slot for slot, _ in slots]], np.int64),
            "obj_ptrs": np.stack([memory.pointer for _, memory in pointers])[None],
            "ptr_age": np.array([[age / max(count - 1, 1) for age, _ in pointers]], np.float32)}
        if manifest["static"]:
            inputs = padded(inputs, manifest["static"]["memories"], manifest["static"]["pointers"])
        return self.run("memory_attention", inputs)["fused"]

    def _decode(self, image, embed, points, count, no_memory=0, mask=None):
        low = self.side // 4
        out = self.run("mask_decoder", {
            "image_embed": embed, "high_res_0": image["high_res_0"], "high_res_1": image["high_res_1"],
            "point_coords": np.array([[point[:2] for point in points]], np.float32),
            "point_labels": np.array([[point[2] for point in points]], np.int32),
            "mask_input": np.zeros((1, 1, low, low), np.float32) if mask is None else mask[None, None],
            "mask_on": np.full((1, 1, 1, 1), mask is not None, np.float32),
            "no_memory": np.full((1, 1, 1, 1), no_memory, np.float32)})
        masks, ious, pointers = out["masks"][0], out["ious"][0], out["obj_ptrs"][0]
        score = float(out["object_score"][0, 0])
        self.values.update(masks=masks, ious=ious, object_score=out["object_score"])
        best = 1 + int(np.argmax(ious[1:]))
        least, most = self.manifest["multimask_min_points"], self.manifest["multimask_max_points"]
        chosen = pointer = best if mask is None and least <= count <= most else 0
        if chosen == 0 and self.predictor and not self._stable(masks[0]):
            chosen = best
        self.values["chosen"] = chosen
        return masks[chosen] if score > 0 else np.full_like(masks[0], NO_OBJECT), pointers[pointer], score

    def _stable(self, logits):
        delta, threshold = self.manifest["stability"]["delta"], self.manifest["stability"]["threshold"]
        inner, outer = int((logits > delta).sum()), int((logits > -delta).sum())
        self.values["stability"] = inner / outer if outer else 1.0
        return outer == 0 or np.float32(inner) / np.float32(outer) >= np.float32(threshold)

    def _mask_prompt(self, image, mask):
        inside = (mask > 0).astype(np.float32)
        if inside.shape != (self.side, self.side):
            inside = (resize(inside, self.side, self.side, antialias=True) >= 0.5).astype(np.float32)
        logits = resize(inside * 20 - 10, self.side // 4, self.side // 4, antialias=True)
        blocks = inside.reshape(self.side // 4, 4, self.side // 4, 4).transpose(0, 2, 1, 3).reshape(
            self.side // 4, self.side // 4, 16)
        numbers = np.array(self.manifest["mask_downsample"], np.float32)
        _, pointer, _ = self._decode(image, image["image_embed"], [(0.0, 0.0, -1)], 0, mask=blocks @ numbers[:16]
                                     + numbers[16])
        return logits, pointer, 10.0 if inside.any() else -10.0


def padded(inputs, memories, pointers):
    """Fixed shapes: what is missing is zeros, and mem_valid and ptr_valid say so."""
    result = {"image_embed": inputs["image_embed"]}
    for names, valid, size in ((("mem_features", "mem_slot"), "mem_valid", memories),
                               (("obj_ptrs", "ptr_age"), "ptr_valid", pointers)):
        have = inputs[names[0]].shape[1]
        if have > size:
            raise ValueError(f"{have} of {names[0]} do not fit the {size} of --static")
        for name in names:
            value = inputs[name]
            result[name] = np.concatenate((value, np.zeros((1, size - have, *value.shape[2:]), value.dtype)), axis=1)
        result[valid] = np.array([[1.0] * have + [0.0] * (size - have)], np.float32)
    return result

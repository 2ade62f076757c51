"""The four graphs of `headroom.vos=1` as PyTorch modules, for SAM2, SAM2.1 and EdgeTAM.

One implementation serves every source: sources.py hands over the weights under the names of the sam2 package.
It holds to what exporters and old runtimes handle well:
- Rotary positions are real. The rows of the q and k projections are reordered so that a pair of channels (2i, 2i+1)
  becomes (i, i + C/2). A dot product does not depend on the order of channels, so this is exact and saves gathers.
- Attention is a product, a softmax and a product, so LibTorch 1.13 runs it and the queries can be split.
- Nothing is assigned in place. Sizes that vary (B, M, K, P) are -1 or a size of the very tensor that is reshaped,
  which write.py turns into 0 (copy); all others are Python numbers, so hardly any arithmetic on shapes is exported.

Shapes: S pixels of the square image, h = S/16, C channels of the image features, D channels of a memory,
T tokens of a memory (h*h, EdgeTAM: 512), B objects, M memories, K pointers, P points.
"""
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn


class Weights:
    """Tensors by name. `unused()` shows what no graph took, so that nothing is dropped in silence."""

    def __init__(self, tensors):
        self.tensors = {name: tensor.detach().float() for name, tensor in tensors.items()}
        self.taken = set()

    def __contains__(self, name):
        return name in self.tensors

    def take(self, name):
        self.taken.add(name)
        return self.tensors[name]

    def unused(self):
        return sorted(set(self.tensors) - self.taken)


def _filled(layer, w, name):
    layer.weight.data = w.take(name + ".weight").clone()
    if layer.bias is not None:
        layer.bias.data = w.take(name + ".bias").clone()
    return layer


def linear(w, name, order=None):
    """A Linear; `order` rearranges its output channels."""
    weight = w.tensors[name + ".weight"]
    layer = _filled(nn.Linear(weight.shape[1], weight.shape[0], bias=name + ".bias" in w), w, name)
    if order is not None:
        layer.weight.data = layer.weight.data[order]
        layer.bias.data = layer.bias.data[order]
    return layer


def joined(first, second):
    """One linear layer for two in a row."""
    layer = nn.Linear(first.in_features, second.out_features)
    layer.weight.data = second.weight.data @ first.weight.data
    layer.bias.data = second.weight.data @ first.bias.data + second.bias.data
    return layer


def convolution(w, name, stride=1, padding=0, groups=1):
    weight = w.tensors[name + ".weight"]
    layer = nn.Conv2d(weight.shape[1] * groups, weight.shape[0], weight.shape[2:], stride, padding, groups=groups)
    return _filled(layer, w, name)


def transposed_convolution(w, name):
    weight = w.tensors[name + ".weight"]
    return _filled(nn.ConvTranspose2d(weight.shape[0], weight.shape[1], 2, 2), w, name)


def norm(w, name, eps=1e-5):
    return _filled(nn.LayerNorm(w.tensors[name + ".weight"].shape[0], eps=eps), w, name)


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of [B,C,y,x].

    PyTorch's kernels for GPUs take a block of threads a row, however short the row is. So few channels are
    normalised by simple operators in 32 bits; ONNX has the operator alone.
    """

    def __init__(self, w, name):
        super().__init__()
        self.norm = norm(w, name, eps=1e-6)
        self.channels = self.norm.weight.numel()

    def forward(self, x):
        if self.channels > 64 or torch.onnx.is_in_onnx_export():
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        variance, mean = torch.var_mean(x.float(), dim=1, keepdim=True, correction=0)
        shape = (1, self.channels, 1, 1)
        scaled = (x - mean) * torch.rsqrt(variance + self.norm.eps)
        return (scaled * self.norm.weight.reshape(shape) + self.norm.bias.reshape(shape)).to(x.dtype)


class Mlp(nn.Module):
    def __init__(self, w, name):
        super().__init__()
        self.layers = nn.ModuleList()
        while f"{name}.layers.{len(self.layers)}.weight" in w:
            self.layers.append(linear(w, f"{name}.layers.{len(self.layers)}"))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


fused_attention = False  # True: PyTorch's own operator, which never has all scores in memory (write.py sets it)
_fused = F.scaled_dot_product_attention  # write.py replaces the name while it traces


def attend(q, k, v, width, bias=None):
    """[.., N, width], [.., L, width], [.., L, e] -> [.., N, e]. Scaling q first keeps 16-bit scores small."""
    if fused_attention:
        if q.dim() == 3:  # the fused kernels want a dimension for heads
            return attend(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), width,
                          None if bias is None else bias.unsqueeze(1)).squeeze(1)
        if bias is None and q.shape[-1] == v.shape[-1] and has_flash_kernel(q, int(q.shape[-1])):
            return flash_operator()(q.expand(k.shape[0], -1, -1, -1), k, v, width ** -0.5)
        return _fused(q, k, v, attn_mask=bias, scale=width ** -0.5)
    scores = torch.matmul(q * (width ** -0.5), k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def _flash(q, k, v, scale: float):
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, False, False, scale=scale)[0]


@functools.cache
def flash_operator():
    """A trace cannot record the operator itself, but a script that calls it."""
    return torch.jit.script(_flash)


def has_flash_kernel(tensor, width):
    """Whether the graph names PyTorch's flash kernel, and so runs on GPUs alone.

    On Hopper GPUs, PyTorch 2.11 prefers cuDNN's kernel, which is slower here and takes gigabytes for several objects.
    """
    return fused_attention and tensor.is_cuda and tensor.element_size() == 2 and width <= 256 and width % 8 == 0


def sine_2d(side, channels):
    """[side*side, channels]: y half first, positions from 1, normalised to 2 pi."""
    half = channels // 2
    at = torch.arange(1, side + 1, dtype=torch.float32) / (side + 1e-6) * (2 * math.pi)
    period = 10000 ** (2 * (torch.arange(half, dtype=torch.float32) // 2) / half)
    angles = at[:, None] / period
    code = torch.stack((angles[:, 0::2].sin(), angles[:, 1::2].cos()), dim=2).flatten(1)
    y = code[:, None, :].expand(side, side, half)
    x = code[None, :, :].expand(side, side, half)
    return torch.cat((y, x), dim=2).reshape(side * side, channels)


def axial_angles(side, channels):
    """[side*side, channels/2] angles of the rotary positions: those of x, then those of y."""
    frequency = 10000.0 ** (-torch.arange(0, channels, 4, dtype=torch.float32) / channels)
    token = torch.arange(side * side)
    x = torch.outer((token % side).float(), frequency)
    y = torch.outer(torch.div(token, side, rounding_mode="floor").float(), frequency)
    return torch.cat((x, y), dim=1)


class RotaryLinear(nn.Module):
    """A linear layer whose result is rotated: the pairs (i, i + C/2) of [.., N, C] by the angles of [N, C/2].

    A second half of the layer's rows gives the result with the pairs swapped, so nothing is sliced or joined.
    """

    def __init__(self, w, name):
        super().__init__()
        width = self.width = w.tensors[name + ".weight"].shape[0]
        order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
        self.layer = linear(w, name, order)
        half = width // 2
        for part in (self.layer.weight, self.layer.bias):
            part.data = torch.cat((part.data, -part.data[half:], part.data[:half]))

    def forward(self, x, cos, sin):
        """cos, sin: [N, C], twice those of the angles."""
        y = self.layer(x)
        return torch.addcmul(y[..., :self.width] * cos, y[..., self.width:], sin)


class ImageEncoder(nn.Module):
    """image [1,3,S,S], normalised -> image_embed [1,C,h,h], high_res_0 [1,C/8,4h,4h], high_res_1 [1,C/4,2h,2h]."""

    def __init__(self, w, backbone):
        super().__init__()
        self.backbone = backbone  # image -> three maps of C channels, the largest first
        self.reduce_0 = convolution(w, "sam_mask_decoder.conv_s0")
        self.reduce_1 = convolution(w, "sam_mask_decoder.conv_s1")

    def forward(self, image):
        fine, middle, coarse = self.backbone(image)
        return coarse, self.reduce_0(fine), self.reduce_1(middle)


class PixelEncoder(nn.Module):
    """An ImageEncoder whose image is uint8, the levels of RGB. It normalises them in 32 bits."""

    def __init__(self, encoder, mean, std):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("pixel_mean", torch.tensor(mean).reshape(1, 3, 1, 1))
        self.register_buffer("pixel_std", torch.tensor(std).reshape(1, 3, 1, 1))

    def forward(self, image):
        image = (image.float() / 255 - self.pixel_mean) / self.pixel_std
        return self.encoder(image.to(self.encoder.reduce_0.weight.dtype))


class HeadAttention(nn.Module):
    def __init__(self, w, name, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k = linear(w, name + ".q_proj"), linear(w, name + ".k_proj")
        self.v, self.out = linear(w, name + ".v_proj"), linear(w, name + ".out_proj")
        self.width = self.q.out_features

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, self.width // self.heads).transpose(1, 2)

    def forward(self, q, k, v):
        q, k, v = self.split(self.q(q)), self.split(self.k(k)), self.split(self.v(v))
        mixed = attend(q, k, v, self.width // self.heads).transpose(1, 2)
        return self.out(mixed.reshape(mixed.shape[0], mixed.shape[1], self.width))


class TwoWayLayer(nn.Module):
    def __init__(self, w, name, heads, first):
        super().__init__()
        self.first = first
        self.self_attention = HeadAttention(w, name + ".self_attn", heads)
        self.to_image = HeadAttention(w, name + ".cross_attn_token_to_image", heads)
        self.to_tokens = HeadAttention(w, name + ".cross_attn_image_to_token", heads)
        self.mlp = Mlp(w, name + ".mlp")
        self.norms = nn.ModuleList(norm(w, f"{name}.norm{i}") for i in (1, 2, 3, 4))

    def forward(self, tokens, image, token_code, image_code):
        if self.first:
            tokens = self.self_attention(tokens, tokens, tokens)
        else:
            q = tokens + token_code
            tokens = tokens + self.self_attention(q, q, tokens)
        tokens = self.norms[0](tokens)
        tokens = self.norms[1](tokens + self.to_image(tokens + token_code, image + image_code, image))
        tokens = self.norms[2](tokens + self.mlp(tokens))
        image = self.norms[3](image + self.to_tokens(image + image_code, tokens + token_code, tokens))
        return tokens, image


class MaskDecoder(nn.Module):
    """image_embed [B,C,h,h], high_res_0, high_res_1, point_coords [B,P,2] in pixels of the S x S image,
    point_labels [B,P] (-1 none, 0, 1, box 2 and 3), mask_input [B,1,4h,4h], mask_on [B,1,1,1] (0: no mask),
    no_memory [B,1,1,1] (1: adds no_mem_embed) -> masks [B,4,4h,4h] (logits, as decoded), ious [B,4],
    obj_ptrs [B,4,C] (no_obj_ptr where the score is at most 0), object_score [B,1].
    """

    def __init__(self, w, side, heads, iou_sigmoid):
        super().__init__()
        self.side, self.iou_sigmoid = side, iou_sigmoid
        self.channels = w.tensors["no_obj_ptr"].numel()
        prompt, decoder = "sam_prompt_encoder", "sam_mask_decoder"
        points = w.take(prompt + ".pe_layer.positional_encoding_gaussian_matrix")
        dense = w.take(prompt + ".dense_pe_matrix") if prompt + ".dense_pe_matrix" in w else points
        self.register_buffer("point_matrix", points.clone())
        h = side // 16
        centre = (torch.arange(h, dtype=torch.float32) + 0.5) / h
        grid = torch.stack((centre[None, :].expand(h, h), centre[:, None].expand(h, h)), dim=-1)
        self.register_buffer("image_code", self.code(grid, dense).reshape(1, h * h, -1))
        kinds = [prompt + ".not_a_point_embed"] + [f"{prompt}.point_embeddings.{i}" for i in range(4)]
        self.register_buffer("kinds", torch.cat([w.take(k + ".weight") for k in kinds]))
        self.mask_1 = convolution(w, prompt + ".mask_downscaling.0", stride=2)
        self.mask_norm_1 = ChannelNorm(w, prompt + ".mask_downscaling.1")
        self.mask_2 = convolution(w, prompt + ".mask_downscaling.3", stride=2)
        self.mask_norm_2 = ChannelNorm(w, prompt + ".mask_downscaling.4")
        self.mask_3 = convolution(w, prompt + ".mask_downscaling.6")
        self.register_buffer("no_mask", w.take(prompt + ".no_mask_embed.weight").reshape(1, -1, 1, 1).clone())
        self.register_buffer("no_mem", w.take("no_mem_embed").reshape(1, -1, 1, 1).clone())
        tokens = [w.take(f"{decoder}.{name}.weight") for name in ("obj_score_token", "iou_token", "mask_tokens")]
        self.register_buffer("tokens", torch.cat(tokens)[None])
        layers = 0
        while f"{decoder}.transformer.layers.{layers}.norm1.weight" in w:
            layers += 1
        self.layers = nn.ModuleList(
            TwoWayLayer(w, f"{decoder}.transformer.layers.{i}", heads, i == 0) for i in range(layers))
        self.final = HeadAttention(w, decoder + ".transformer.final_attn_token_to_image", heads)
        self.final_norm = norm(w, decoder + ".transformer.norm_final_attn")
        self.up_1 = transposed_convolution(w, decoder + ".output_upscaling.0")
        self.up_norm = ChannelNorm(w, decoder + ".output_upscaling.1")
        self.up_2 = transposed_convolution(w, decoder + ".output_upscaling.3")
        self.hyper = nn.ModuleList(Mlp(w, f"{decoder}.output_hypernetworks_mlps.{i}") for i in range(4))
        self.iou_head = Mlp(w, decoder + ".iou_prediction_head")
        self.score_head = Mlp(w, decoder + ".pred_obj_score_head")
        self.pointer = Mlp(w, "obj_ptr_proj")
        self.register_buffer("no_pointer", w.take("no_obj_ptr").reshape(1, 1, -1).clone())

    @staticmethod
    def code(at, matrix):
        angles = (2 * math.pi) * torch.matmul(2 * at - 1, matrix)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def encode_points(self, coords, labels):
        pad = coords[:, :1] * 0 - 0.5  # (0, 0) after the shift to pixel centres
        coords = torch.cat((coords, pad), dim=1)
        labels = torch.cat((labels, labels[:, :1] * 0 - 1), dim=1)
        code = self.code((coords + 0.5) / self.side, self.point_matrix).to(self.kinds.dtype)
        return code * (labels >= 0).to(code.dtype).unsqueeze(-1) + self.kinds[(labels + 1).long()]

    def forward(self, image_embed, high_res_0, high_res_1, point_coords, point_labels, mask_input, mask_on, no_memory):
        kind = self.kinds.dtype
        prompts = self.encode_points(point_coords, point_labels)
        mask = F.gelu(self.mask_norm_1(self.mask_1(mask_input.to(kind))))
        mask = self.mask_3(F.gelu(self.mask_norm_2(self.mask_2(mask))))
        on = mask_on.to(kind)
        image = image_embed + no_memory.to(kind) * self.no_mem + (on * mask + (1 - on) * self.no_mask)
        channels, h = self.channels, self.side // 16
        image = image.reshape(-1, channels, h * h).transpose(1, 2)
        code = torch.cat((self.tokens + prompts[:, :1] * 0, prompts), dim=1)
        tokens = code
        for layer in self.layers:
            tokens, image = layer(tokens, image, code, self.image_code)
        tokens = self.final_norm(tokens + self.final(tokens + code, image + self.image_code, image))

        image = image.transpose(1, 2).reshape(-1, channels, h, h)
        up = F.gelu(self.up_norm(self.up_1(image) + high_res_1))
        up = F.gelu(self.up_2(up) + high_res_0)
        hyper = torch.stack([head(tokens[:, 2 + i]) for i, head in enumerate(self.hyper)], dim=1)
        masks = torch.matmul(hyper, up.reshape(-1, channels // 8, 16 * h * h)).reshape(-1, 4, 4 * h, 4 * h)
        ious = self.iou_head(tokens[:, 1])
        if self.iou_sigmoid:
            ious = torch.sigmoid(ious)
        score = self.score_head(tokens[:, 0])
        seen = (score > 0).to(kind).unsqueeze(-1)
        pointers = seen * self.pointer(tokens[:, 2:6]) + (1 - seen) * self.no_pointer
        return masks.float(), ious.float(), pointers, score.float()


class MemoryAttentionLayer(nn.Module):
    def __init__(self, w, name, count, chunks):
        super().__init__()
        self.count, self.chunks = count, chunks  # tokens of the picture
        self.width = w.tensors[name + ".self_attn.q_proj.weight"].shape[0]
        own, cross = name + ".self_attn", name + ".cross_attn_image"
        self.own_q, self.own_k = RotaryLinear(w, own + ".q_proj"), RotaryLinear(w, own + ".k_proj")
        self.own_v, self.own_out = linear(w, own + ".v_proj"), linear(w, own + ".out_proj")
        self.q, self.k = RotaryLinear(w, cross + ".q_proj"), RotaryLinear(w, cross + ".k_proj")
        self.out = joined(linear(w, cross + ".v_proj"), linear(w, cross + ".out_proj"))
        self.up, self.down = linear(w, name + ".linear1"), linear(w, name + ".linear2")
        self.norms = nn.ModuleList(norm(w, f"{name}.norm{i}") for i in (1, 2, 3))

    def attend(self, q, k, v, bias=None):
        """Splitting the queries is exact, and the scores of one part at a time are in memory."""
        if self.chunks == 1:
            return attend(q, k, v, self.width, bias)
        edges = [self.count * i // self.chunks for i in range(self.chunks + 1)]
        return torch.cat([attend(q[:, a:b], k, v, self.width, bias) for a, b in zip(edges, edges[1:])], dim=1)

    def forward(self, x, memory_keys, pointer_keys, values, angles, memory_angles, bias):
        """values: [B, M*T + pointers, D or more], as remembered. The weights of a query's values add up to 1, so the values'
        projection may follow the attention. It is part of `out`."""
        y = self.norms[0](x)
        x = x + self.own_out(self.attend(self.own_q(y, *angles), self.own_k(y, *angles), self.own_v(y)))
        q = self.q(self.norms[1](x), *angles)
        keys = self.k(memory_keys, *memory_angles)
        keys = torch.cat((keys.reshape(keys.shape[0], -1, self.width), self.k.layer(pointer_keys)[..., :self.width]),
                         dim=1)
        x = x + self.out(self.attend(q, keys, values, bias)[..., :self.out.in_features])
        return x + self.down(F.relu(self.up(self.norms[2](x))))


class MemoryAttention(nn.Module):
    """image_embed [1,C,h,h], mem_features [B,M,T,D], mem_slot [B,M] (row of maskmem_tpos_enc: 6 for prompt frames,
    r-1 for frame t-r), obj_ptrs [B,K,C], ptr_age [B,K] (frames since, divided by min(N,16)-1); with fixed M and K
    also mem_valid [B,M] and ptr_valid [B,K] (0: leave out) -> fused [B,C,h,h].
    The first self-attention sees no memory, so it runs once for all objects.
    """

    def __init__(self, w, side, chunks, perceiver_side):
        super().__init__()
        self.h = side // 16
        tpos = w.take("maskmem_tpos_enc")
        channels = w.tensors["memory_attention.norm.weight"].shape[0]
        self.channels, self.depth, self.parts = channels, tpos.shape[-1], channels // tpos.shape[-1]
        self.register_buffer("tpos", tpos.reshape(-1, self.depth).clone())
        self.register_buffer("image_code", 0.1 * sine_2d(self.h, channels)[None])
        angles = axial_angles(self.h, channels)
        if perceiver_side == 0:
            code, memory_angles = sine_2d(self.h, self.depth), angles
        else:  # EdgeTAM: global latents have no position, those of the grid have
            count = w.tensors["spatial_perceiver.latents"].shape[0]
            code = torch.cat((torch.zeros(count, self.depth), sine_2d(perceiver_side, self.depth)))
            memory_angles = torch.cat((torch.zeros(count, channels // 2), axial_angles(perceiver_side, channels)))
        self.tokens = code.shape[0]  # of a memory
        self.register_buffer("memory_code", code)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))
        self.register_buffer("memory_cos", memory_angles.cos().repeat(1, 2))
        self.register_buffer("memory_sin", memory_angles.sin().repeat(1, 2))
        self.age = linear(w, "obj_ptr_tpos_proj") if "obj_ptr_tpos_proj.weight" in w else None
        half = channels // 2
        period = 10000 ** (2 * (torch.arange(half, dtype=torch.float32) // 2) / half)
        self.register_buffer("age_frequency", 1 / period)
        layers = 0
        while f"memory_attention.layers.{layers}.norm1.weight" in w:
            layers += 1
        self.layers = nn.ModuleList(
            MemoryAttentionLayer(w, f"memory_attention.layers.{i}", self.h ** 2, chunks) for i in range(layers))
        self.norm = norm(w, "memory_attention.norm")

    def pointer_code(self, ptr_age):
        """[B,K,D]"""
        angles = ptr_age.unsqueeze(-1) * self.age_frequency
        return self.age(torch.cat((angles.sin(), angles.cos()), dim=-1).to(self.age.weight.dtype))

    def forward(self, image_embed, mem_features, mem_slot, obj_ptrs, ptr_age, mem_valid=None, ptr_valid=None):
        memory_keys = mem_features + (self.memory_code + self.tpos[mem_slot].unsqueeze(2))
        pointers = pointer_keys = obj_ptrs.reshape(obj_ptrs.shape[0], -1, self.depth)
        values = torch.cat((mem_features.reshape(mem_features.shape[0], -1, self.depth), pointers), dim=1)
        if self.age is not None:  # a pointer is several tokens with one position
            apart = obj_ptrs.reshape(obj_ptrs.shape[0], obj_ptrs.shape[1], self.parts, self.depth)
            apart = apart + self.pointer_code(ptr_age).unsqueeze(2)
            pointer_keys = apart.reshape(apart.shape[0], -1, self.depth)
        bias = None
        if mem_valid is None and has_flash_kernel(values, self.channels):  # it wants values as wide as keys
            values = F.pad(values, (0, self.channels - self.depth))
        if mem_valid is not None:
            of_memories = mem_valid.unsqueeze(2) * torch.ones(1, 1, self.tokens, device=mem_valid.device)
            of_pointers = ptr_valid.unsqueeze(2) * torch.ones(1, 1, self.parts, device=mem_valid.device)
            tokens = torch.cat((of_memories.reshape(of_memories.shape[0], -1),
                                of_pointers.reshape(of_pointers.shape[0], -1)), dim=1)
            bias = ((tokens - 1) * 30000.0).to(mem_features.dtype).unsqueeze(1)  # -30000 is finite in 16 bits
        x = image_embed.reshape(-1, self.channels, self.h ** 2).transpose(1, 2) + self.image_code
        for layer in self.layers:
            x = layer(x, memory_keys, pointer_keys, values, (self.cos, self.sin), (self.memory_cos, self.memory_sin),
                      bias)
        return self.norm(x).transpose(1, 2).reshape(-1, self.channels, self.h, self.h)


class FuserBlock(nn.Module):
    def __init__(self, w, name):
        super().__init__()
        weight = w.tensors[name + ".dwconv.weight"]
        self.depthwise = convolution(w, name + ".dwconv", padding=weight.shape[2] // 2, groups=weight.shape[0])
        self.norm = norm(w, name + ".norm", eps=1e-6)
        self.up, self.down = linear(w, name + ".pwconv1"), linear(w, name + ".pwconv2")
        self.register_buffer("gamma", w.take(name + ".gamma").clone())

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class PerceiverAttention(nn.Module):
    """One head. `pos` is added to keys and values after their projection."""

    def __init__(self, w, name):
        super().__init__()
        self.q, self.kv, self.out = linear(w, name + ".to_q"), linear(w, name + ".to_kv"), linear(w, name + ".to_out")

    def forward(self, latents, x, pos=None):
        half = self.q.out_features
        kv = self.kv(x)
        k, v = kv[..., :half], kv[..., half:]
        if pos is not None:
            k, v = k + pos, v + pos
        return self.out(attend(self.q(latents), k, v, half))


class PerceiverLayer(nn.Module):
    def __init__(self, w, name):
        super().__init__()
        self.norm_x, self.norm_latents = norm(w, name + ".attn.norm_x"), norm(w, name + ".attn.norm_latents")
        self.cross, self.norm_own = PerceiverAttention(w, name + ".attn"), norm(w, name + ".self_attn.norm")
        self.own = PerceiverAttention(w, name + ".self_attn")
        self.norms = nn.ModuleList(norm(w, f"{name}.{part}.0") for part in ("ff", "self_ff"))
        self.ups = nn.ModuleList(linear(w, f"{name}.{part}.1") for part in ("ff", "self_ff"))
        self.downs = nn.ModuleList(linear(w, f"{name}.{part}.3") for part in ("ff", "self_ff"))

    def feed_forward(self, i, x):
        return x + self.downs[i](F.gelu(self.ups[i](self.norms[i](x))))

    def forward(self, latents, x, pos=None):
        latents = latents + self.cross(self.norm_latents(latents), self.norm_x(x), pos)
        latents = self.feed_forward(0, latents)
        y = self.norm_own(latents)
        return self.feed_forward(1, latents + self.own(y, y))


class Perceiver(nn.Module):
    """[B,D,h,h] -> [B,T,D]: latents that see the whole map, then one latent for each window of a grid.

    The latents have batch 1 until the first attention broadcasts them.
    """

    def __init__(self, w, h):
        super().__init__()
        name = "spatial_perceiver"
        self.register_buffer("latents", w.take(name + ".latents").clone())
        self.register_buffer("latents_2d", w.take(name + ".latents_2d").clone())
        self.depth, self.grid = self.latents.shape[1], math.isqrt(self.latents_2d.shape[0])
        self.window = h // self.grid
        self.register_buffer("pos", sine_2d(h, self.latents.shape[1])[None])
        layers = 0
        while f"{name}.layers.{layers}.attn.to_q.weight" in w:
            layers += 1
        self.layers = nn.ModuleList(PerceiverLayer(w, f"{name}.layers.{i}") for i in range(layers))
        self.norm = norm(w, name + ".norm")

    def forward(self, x):
        depth, grid, window = self.depth, self.grid, self.window
        x = x.permute(0, 2, 3, 1)
        windows = x.reshape(-1, grid, window, grid, window, depth).permute(0, 1, 3, 2, 4, 5)
        windows = windows.reshape(-1, grid * grid, window * window, depth)
        everywhere = x.reshape(-1, grid * window * grid * window, depth)
        whole, local = self.latents[None], self.latents_2d[None, :, None]
        for layer in self.layers:
            whole = layer(whole, everywhere, self.pos)
            local = layer(local, windows)
        return self.norm(torch.cat((whole, local.reshape(-1, grid * grid, depth)), dim=1))


class MemoryEncoder(nn.Module):
    """image_embed [1,C,h,h] (before memory attention), mask_logits [B,1,4h,4h], binarize [B,1,1,1] (1: the mask is
    cut at 0, for prompt frames of the predictor), object_score [B,1] -> mem_features [B,T,D]."""

    def __init__(self, w, side, scale, shift):
        super().__init__()
        self.side, self.scale, self.shift = side, scale, shift
        name = "memory_encoder"
        self.downs, self.norms = nn.ModuleList(), nn.ModuleList()
        while f"{name}.mask_downsampler.encoder.{3 * len(self.downs) + 1}.weight" in w:
            at = 3 * len(self.downs)
            self.downs.append(convolution(w, f"{name}.mask_downsampler.encoder.{at}", stride=2, padding=1))
            self.norms.append(ChannelNorm(w, f"{name}.mask_downsampler.encoder.{at + 1}"))
        self.mask_out = convolution(w, f"{name}.mask_downsampler.encoder.{3 * len(self.downs)}")
        self.image_in = convolution(w, name + ".pix_feat_proj")
        blocks = 0
        while f"{name}.fuser.layers.{blocks}.gamma" in w:
            blocks += 1
        self.blocks = nn.ModuleList(FuserBlock(w, f"{name}.fuser.layers.{i}") for i in range(blocks))
        self.out = convolution(w, name + ".out_proj")
        occluded = w.take("no_obj_embed_spatial").reshape(1, -1, 1, 1) if "no_obj_embed_spatial" in w else None
        self.register_buffer("occluded", occluded)
        self.perceiver = Perceiver(w, side // 16) if "spatial_perceiver.latents" in w else None

    def forward(self, image_embed, mask_logits, binarize, object_score):
        kind = self.mask_out.weight.dtype
        mask = F.interpolate(mask_logits, size=(self.side, self.side), mode="bilinear", align_corners=False)
        mask = binarize * (mask > 0).to(mask.dtype) + (1 - binarize) * torch.sigmoid(mask)
        mask = (mask * self.scale + self.shift).to(kind)
        for down, mask_norm in zip(self.downs, self.norms):
            mask = F.gelu(mask_norm(down(mask)))
        x = self.image_in(image_embed) + self.mask_out(mask)
        for block in self.blocks:
            x = block(x)
        x = self.out(x)
        if self.occluded is not None:
            x = x + (object_score <= 0).to(kind).reshape(-1, 1, 1, 1) * self.occluded
        if self.perceiver is not None:
            return self.perceiver(x)
        return x.reshape(-1, self.out.out_channels, (self.side // 16) ** 2).transpose(1, 2)

"""Builds the four graphs from a Source and writes them with their manifest."""
import copy
import hashlib
import json
import warnings

import torch
import torch.nn.functional as F

from . import graphs
from .sources import MEAN, STD

GRAPHS = ("image_encoder", "mask_decoder", "memory_attention", "memory_encoder")
INPUTS = {
    "image_encoder": ["image"],
    "mask_decoder": ["image_embed", "high_res_0", "high_res_1", "point_coords", "point_labels", "mask_input", "mask_on",
                     "no_memory"],
    "memory_attention": ["image_embed", "mem_features", "mem_slot", "obj_ptrs", "ptr_age"],
    "memory_encoder": ["image_embed", "mask_logits", "binarize", "object_score"],
}
OUTPUTS = {
    "image_encoder": ["image_embed", "high_res_0", "high_res_1"],
    "mask_decoder": ["masks", "ious", "obj_ptrs", "object_score"],
    "memory_attention": ["fused"],
    "memory_encoder": ["mem_features"],
}
# Names of the sizes that vary, by graph and tensor.
VARIES = {
    "image_encoder": {},
    "mask_decoder": {
        "image_embed": "B", "point_coords": "BP", "point_labels": "BP", "mask_input": "B", "mask_on": "B",
        "no_memory": "B", "masks": "B", "ious": "B", "obj_ptrs": "B", "object_score": "B"},
    "memory_attention": {
        "mem_features": "BM", "mem_slot": "BM", "obj_ptrs": "BK", "ptr_age": "BK", "mem_valid": "BM",
        "ptr_valid": "BK", "fused": "B"},
    "memory_encoder": {"mask_logits": "B", "binarize": "B", "object_score": "B", "mem_features": "B"},
}
# With --fp16 these are 16-bit; coordinates, masks, scores and ages stay 32-bit.
# 16 bits would move points by half a pixel.
IN_32_BITS = ("point_matrix", "age_frequency", "pixel_mean", "pixel_std")
HALF = {"image", "image_embed", "high_res_0", "high_res_1", "mem_features", "obj_ptrs", "fused"}


def build(source, chunks=1):
    """The four modules by name, in 32 bits. Fails if a weight of the model is in none of them."""
    w = graphs.Weights(source.weights)
    mask_downsample = [*w.take("mask_downsample.weight").flatten().tolist(), *w.take("mask_downsample.bias").tolist()]
    perceiver_side = 0
    if "spatial_perceiver.latents_2d" in w:
        perceiver_side = int(w.tensors["spatial_perceiver.latents_2d"].shape[0] ** 0.5)
    modules = {
        "image_encoder": graphs.ImageEncoder(w, merged_branches(copy.deepcopy(source.backbone))),
        "mask_decoder": graphs.MaskDecoder(w, source.side, source.heads, source.iou_sigmoid),
        "memory_attention": graphs.MemoryAttention(w, source.side, chunks, perceiver_side),
        "memory_encoder": graphs.MemoryEncoder(w, source.side, source.mask_scale, source.mask_shift),
    }
    if w.unused():
        raise ValueError("weights that no graph uses: " + ", ".join(w.unused()[:8]))
    for module in modules.values():
        module.eval().requires_grad_(False)
    return modules, mask_downsample


def manifest_of(source, mask_downsample, options):
    return {
        "headroom.vos": 1,
        "family": source.family,
        "size": source.side,
        "mean": list(MEAN),
        "std": list(STD),
        "num_maskmem": source.num_maskmem,
        "max_obj_ptrs": source.max_obj_ptrs,
        "multimask_min_points": source.multimask[0],
        "multimask_max_points": source.multimask[1],
        "stability": {"delta": source.stability[0], "threshold": source.stability[1]},
        "ptr_tpos": "obj_ptr_tpos_proj.weight" in source.weights,
        "mask_downsample": mask_downsample,
        "format": options.format,
        "precision": "float16" if options.fp16 else "float32",
        "uint8": options.uint8,
        "static": {"memories": options.static[0], "pointers": options.static[1]} if options.static else None,
        "attention_chunks": options.attention_chunks,
        "source": options.source,
        "model": options.model,
    }


def examples(source, modules, static):
    """Inputs of each graph, in 32 bits. Sizes that vary are neither 1 nor equal."""
    side, h = source.side, source.side // 16
    random = torch.Generator().manual_seed(1)

    def values(*shape):
        return torch.randn(shape, generator=random)

    tpos = source.weights["maskmem_tpos_enc"]
    slots, depth = tpos.shape[0], tpos.shape[-1]
    channels = source.weights["memory_attention.norm.weight"].numel()
    tokens = modules["memory_attention"].memory_code.shape[0]
    batch = 2
    memories, pointers = static or (3, 5)
    embed = values(1, channels, h, h)
    score = torch.tensor([[1.0], [-1.0]])
    result = {
        "image_encoder": {"image": values(1, 3, side, side)},
        "mask_decoder": {
            "image_embed": values(batch, channels, h, h), "high_res_0": values(1, channels // 8, 4 * h, 4 * h),
            "high_res_1": values(1, channels // 4, 2 * h, 2 * h), "point_coords": torch.rand(batch, 3, 2) * side,
            "point_labels": torch.tensor([[1, 0, -1], [2, 3, 1]], dtype=torch.int32),
            "mask_input": values(batch, 1, 4 * h, 4 * h), "mask_on": torch.tensor([1.0, 0.0]).reshape(2, 1, 1, 1),
            "no_memory": torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1)},
        "memory_attention": {
            "image_embed": embed, "mem_features": values(batch, memories, tokens, depth),
            "mem_slot": torch.arange(memories).remainder(slots).expand(batch, -1).contiguous(),
            "obj_ptrs": values(batch, pointers, channels),
            "ptr_age": torch.rand(batch, pointers, generator=random)},
        "memory_encoder": {"image_embed": embed, "mask_logits": 4 * values(batch, 1, 4 * h, 4 * h),
                           "binarize": torch.tensor([1.0, 0.0]).reshape(2, 1, 1, 1), "object_score": score},
    }
    if static:
        valid = torch.ones(batch, memories), torch.ones(batch, pointers)
        valid[0][0, -1] = valid[1][1, -1] = 0
        result["memory_attention"].update(mem_valid=valid[0], ptr_valid=valid[1])
    return result


def halved(inputs):
    return {name: value.half() if name in HALF and value.is_floating_point() else value
            for name, value in inputs.items()}


def exported_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):
    """Stands for F.scaled_dot_product_attention while a backbone is traced."""
    width = int(q.shape[-1]) if scale is None else scale ** -2
    return graphs.attend(q, k, v, width, attn_mask)


def merged_branches(backbone):
    """RepViT's parallel convolutions and norms become one convolution each, which is exact in eval mode."""
    for name, module in list(backbone.named_modules()):
        if hasattr(module, "fuse") and type(module).__module__.startswith("timm."):
            owner, _, child = name.rpartition(".")
            setattr(backbone.get_submodule(owner), child, module.fuse())
    return backbone


def fixed_positions(backbone, side):
    """Computes Hiera's positions once, so that no bicubic resize is in the graph."""
    for module in backbone.modules():
        if hasattr(module, "_get_pos_embed") and hasattr(module, "pos_embed"):
            with torch.no_grad():
                positions = module._get_pos_embed((side // 4, side // 4)).clone()
            module.register_buffer("fixed_positions", positions, persistent=False)
            module._get_pos_embed = lambda *_, owner=module: owner.fixed_positions


def write(source, options, folder):
    """Writes the graphs and manifest.json; returns the manifest."""
    modules, mask_downsample = build(source, options.attention_chunks)
    fixed_positions(modules["image_encoder"], source.side)
    manifest = manifest_of(source, mask_downsample, options)
    inputs = examples(source, modules, options.static)
    device = options.device
    if options.uint8:
        modules["image_encoder"] = graphs.PixelEncoder(modules["image_encoder"], MEAN, STD).eval()
        inputs["image_encoder"] = {"image": torch.randint(256, (1, 3, source.side, source.side), dtype=torch.uint8)}
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    attention = F.scaled_dot_product_attention
    graphs.fused_attention = options.fused_attention
    F.scaled_dot_product_attention = exported_attention
    try:
        for name in GRAPHS:
            module, given = modules[name], inputs[name]
            if options.fp16:
                kept = {buffer: value.clone() for buffer, value in module.named_buffers() if buffer in IN_32_BITS}
                module, given = module.half(), halved(given)
                for buffer, value in kept.items():
                    setattr(module, buffer, value)
            module, given = module.to(device), {key: value.to(device) for key, value in given.items()}
            path = folder / f"{name}.{'onnx' if options.format == 'onnx' else 'pt'}"
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if options.format == "onnx":
                    write_onnx(name, module, given, path, manifest, options.fp16_weights)
                else:
                    write_torchscript(name, module, given, path, manifest)
            files[name] = path
    finally:
        F.scaled_dot_product_attention = attention
        graphs.fused_attention = False
    manifest["graphs"] = {name: {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
                          for name, path in files.items()}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def write_onnx(name, module, inputs, path, manifest, fp16_weights):
    import logging

    import onnx
    from onnxscript import optimizer
    logging.getLogger("onnxscript").setLevel(logging.ERROR)  # it logs each node that it leaves as it is
    axes = {}
    for tensor in [*inputs, *OUTPUTS[name]]:
        letters = VARIES[name].get(tensor, "")
        if manifest["static"]:
            letters = letters.replace("M", "").replace("K", "")
        if letters:
            axes[tensor] = dict(enumerate(letters))
    torch.onnx.export(module, tuple(inputs.values()), str(path), input_names=list(inputs),
                      output_names=OUTPUTS[name], dynamic_axes=axes, opset_version=17, dynamo=False)
    model = copied_sizes(optimizer.optimize(onnx.load(str(path))))
    have = [value.name for value in model.graph.input]
    for tensor, value in inputs.items():  # an input that this family does not use is still in the contract
        if tensor not in have:
            kind = onnx.TensorProto.FLOAT if value.dtype == torch.float32 else onnx.TensorProto.INT64
            shape = [axes.get(tensor, {}).get(i, size) for i, size in enumerate(value.shape)]
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor, kind, shape))
    with torch.no_grad():
        outputs = module(*inputs.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for value, example in zip(model.graph.output, outputs):  # readers take the sizes that do not vary from here
        dims = value.type.tensor_type.shape.dim
        for i, size in enumerate(example.shape):
            if i not in axes.get(value.name, {}):
                dims[i].dim_value = size
    if fp16_weights:
        store_halves(model)
    onnx.helper.set_model_props(model, {"headroom.vos": "1", "headroom.vos.manifest": json.dumps(manifest)})
    onnx.save(model, str(path))


def store_halves(model):
    """Large 32-bit weights become 16-bit ones that are cast when the model is loaded."""
    import onnx
    casts = []
    for value in list(model.graph.initializer):
        numbers = onnx.numpy_helper.to_array(value)
        if numbers.dtype == "float32" and numbers.size >= 256:
            model.graph.initializer.remove(value)
            model.graph.initializer.append(onnx.numpy_helper.from_array(numbers.astype("float16"), value.name + "_16"))
            casts.append(onnx.helper.make_node("Cast", [value.name + "_16"], [value.name], to=onnx.TensorProto.FLOAT))
    nodes = casts + list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def copied_sizes(model):
    """A Reshape to sizes of its own input has 0 (copy) for them; what computed them goes."""
    import onnx
    maker = {output: node for node in model.graph.node for output in node.output}
    numbers = {value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            numbers[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)

    def size_of(name, tensor):
        """The axis, if `name` is Unsqueeze(Gather(Shape(tensor), axis))."""
        steps = []
        for kind in ("Unsqueeze", "Gather", "Shape"):
            node = maker.get(name)
            if node is None or node.op_type != kind:
                return None
            steps.append(node)
            name = node.input[0]
        return int(numbers[steps[1].input[1]].item()) if name == tensor and steps[1].input[1] in numbers else None

    for node in model.graph.node:
        source = maker.get(node.input[1]) if node.op_type == "Reshape" else None
        if source is None or source.op_type != "Concat":
            continue
        sizes = []
        for place, name in enumerate(source.input):
            if name in numbers:
                sizes += numbers[name].flatten().tolist()
            elif size_of(name, node.input[0]) == place:
                sizes.append(0)
        if len(sizes) == len(source.input):
            name = node.output[0] + "_sizes"
            model.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(sizes)], sizes))
            node.input[1] = name
    while True:
        used = {name for node in model.graph.node for name in node.input} | {v.name for v in model.graph.output}
        idle = [node for node in model.graph.node if not used.intersection(node.output)]
        if not idle:
            break
        for node in idle:
            model.graph.node.remove(node)
    for value in [value for value in model.graph.initializer if value.name not in used]:
        model.graph.initializer.remove(value)
    return model


def recorded_inputs(name, inputs, manifest):
    """What Headroom's LibTorch plug-in needs to know of a module with several inputs; -1 varies."""
    result = []
    for tensor, value in inputs.items():
        letters = VARIES[name].get(tensor, "")
        if manifest["static"]:
            letters = letters.replace("M", "").replace("K", "")
        dims = [-1 if i < len(letters) else size for i, size in enumerate(value.shape)]
        result.append({"name": tensor, "type": str(value.dtype).removeprefix("torch."), "dims": dims})
    return result


def with_known_sizes(traced):
    """Replaces the sizes that a trace reads from tensors by their values, for a graph in which no size varies.

    Arithmetic on sizes (the windows of Hiera) mixes them with constants, which a GPU's module holds on the GPU. The
    result would be read back in each run, which waits for the GPU and cannot be captured as a CUDA graph.
    """
    graph = traced.graph
    torch._C._jit_pass_inline(graph)  # the shapes of the trace are in the graphs of its parts
    for node in list(graph.findAllNodes("aten::size")):
        given = list(node.inputs())
        sizes = given[0].type().sizes() if given[0].type().kind() == "TensorType" else None
        if sizes is None or len(given) != 2:
            continue
        graph.setInsertPoint(node)
        node.output().replaceAllUsesWith(graph.insertConstant(sizes[given[1].toIValue()]))
        node.destroy()


def require_no_reads(graph):
    """Fails if a run would read a tensor's value on the host."""
    reads = {kind for kind in ("aten::Int", "aten::Float", "aten::Bool", "aten::item", "aten::ScalarImplicit",
                               "aten::IntImplicit", "aten::nonzero") if graph.findAllNodes(kind)}
    if reads:
        raise ValueError("the graph reads tensors on the host: " + ", ".join(sorted(reads)))


def without_devices(graph):
    """A trace records the device of a call such as x.to(device, dtype), which would move a GPU's tensors to the CPU.

    Such a call becomes x.to(dtype). Any other use of a device is an error, because the graph would run on one only.
    """
    for node in list(graph.findAllNodes("aten::to")):
        given = list(node.inputs())
        if len(given) != 6 or given[1].type().kind() != "DeviceObjType":
            continue
        plain = graph.create("aten::to", [given[0], *given[2:]], 1)
        plain.insertBefore(node)
        plain.output().setType(node.output().type())
        node.output().replaceAllUsesWith(plain.output())
        node.destroy()
    torch._C._jit_pass_dce(graph)
    users = {use.user.kind() for node in graph.findAllNodes("prim::Constant")
             if node.output().type().kind() == "DeviceObjType" for use in node.output().uses()}
    if users:
        raise ValueError("the graph makes tensors on the device of the trace: " + ", ".join(sorted(users)))


def write_torchscript(name, module, inputs, path, manifest):
    traced = torch.jit.trace(module, tuple(inputs.values()), check_trace=False)
    if not VARIES[name]:
        with_known_sizes(traced)
    traced = torch.jit.freeze(traced.eval())
    without_devices(traced.graph)
    require_no_reads(traced.graph)
    torch.jit.save(traced, str(path), _extra_files={
        "headroom.vos.manifest": json.dumps(manifest),
        "headroom.inputs.json": json.dumps(recorded_inputs(name, inputs, manifest))})

"""Models of the package transformers: sam2_video and edgetam_video."""
import re

import torch
from torch import nn

from .sources import Source, SourceError, random_seed, randomise, without_bfloat16

SIZES = {  # Hiera: channels, heads, blocks, blocks with global attention, side of the positions, windows
    "tiny": (96, 1, [1, 2, 7, 2], [5, 7, 9], 7, [8, 4, 14, 7]),
    "small": (96, 1, [1, 2, 11, 2], [7, 10, 13], 7, [8, 4, 14, 7]),
    "base_plus": (112, 2, [2, 3, 16, 3], [12, 16, 20], 14, [8, 4, 14, 7]),
    "large": (144, 2, [2, 6, 36, 4], [23, 33, 43], 7, [8, 4, 16, 8]),
    "narrow": (8, 1, [1, 1, 2, 1], [3], 7, [8, 4, 4, 2]),
}
RENAMED = [(re.compile(pattern), name) for pattern, name in [
    (r"^no_memory_embedding$", "no_mem_embed"),
    (r"^memory_temporal_positional_encoding$", "maskmem_tpos_enc"),
    (r"^no_object_pointer$", "no_obj_ptr"),
    (r"^occlusion_spatial_embedding_parameter$", "no_obj_embed_spatial"),
    (r"^object_pointer_proj\.", "obj_ptr_proj."),
    (r"^temporal_positional_encoding_projection_layer\.", "obj_ptr_tpos_proj."),
    (r"^shared_image_embedding\.positional_embedding$", "sam_prompt_encoder.dense_pe_matrix"),
    (r"^prompt_encoder\.shared_embedding\.positional_embedding$",
     "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"),
    (r"^prompt_encoder\.mask_embed\.conv1", "sam_prompt_encoder.mask_downscaling.0"),
    (r"^prompt_encoder\.mask_embed\.layer_norm1", "sam_prompt_encoder.mask_downscaling.1"),
    (r"^prompt_encoder\.mask_embed\.conv2", "sam_prompt_encoder.mask_downscaling.3"),
    (r"^prompt_encoder\.mask_embed\.layer_norm2", "sam_prompt_encoder.mask_downscaling.4"),
    (r"^prompt_encoder\.mask_embed\.conv3", "sam_prompt_encoder.mask_downscaling.6"),
    (r"^prompt_encoder\.", "sam_prompt_encoder."),
    (r"^mask_decoder\.upscale_conv1", "sam_mask_decoder.output_upscaling.0"),
    (r"^mask_decoder\.upscale_layer_norm", "sam_mask_decoder.output_upscaling.1"),
    (r"^mask_decoder\.upscale_conv2", "sam_mask_decoder.output_upscaling.3"),
    (r"^mask_decoder\.", "sam_mask_decoder."),
    (r"layer_norm_final_attn", "norm_final_attn"),
    (r"(layers\.\d+)\.layer_norm([1-4])\.", r"\1.norm\2."),
    (r"^memory_attention\.layer_norm\.", "memory_attention.norm."),
    (r"^(memory_attention\.layers\.\d+)\.mlp\.up_proj", r"\1.linear1"),
    (r"^(memory_attention\.layers\.\d+)\.mlp\.down_proj", r"\1.linear2"),
    (r"^memory_encoder\.feature_projection", "memory_encoder.pix_feat_proj"),
    (r"^memory_encoder\.projection", "memory_encoder.out_proj"),
    (r"^memory_encoder\.memory_fuser\.(layers\.\d+)\.scale", r"memory_encoder.fuser.\1.gamma"),
    (r"^memory_encoder\.memory_fuser\.(layers\.\d+)\.depthwise_conv", r"memory_encoder.fuser.\1.dwconv"),
    (r"^memory_encoder\.memory_fuser\.(layers\.\d+)\.layer_norm", r"memory_encoder.fuser.\1.norm"),
    (r"^memory_encoder\.memory_fuser\.(layers\.\d+)\.pointwise_conv", r"memory_encoder.fuser.\1.pwconv"),
    (r"^spatial_perceiver\.latents_1d$", "spatial_perceiver.latents"),
    (r"^spatial_perceiver\.layer_norm\.", "spatial_perceiver.norm."),
    (r"^(spatial_perceiver\.layers\.\d+)\.layer_norm_latents", r"\1.attn.norm_latents"),
    (r"^(spatial_perceiver\.layers\.\d+)\.layer_norm_input", r"\1.attn.norm_x"),
    (r"^(spatial_perceiver\.layers\.\d+)\.layer_norm_self", r"\1.self_attn.norm"),
    (r"^(spatial_perceiver\.layers\.\d+)\.cross_attention\.q_proj", r"\1.attn.to_q"),
    (r"^(spatial_perceiver\.layers\.\d+)\.cross_attention\.o_proj", r"\1.attn.to_out"),
    (r"^(spatial_perceiver\.layers\.\d+)\.self_attention\.q_proj", r"\1.self_attn.to_q"),
    (r"^(spatial_perceiver\.layers\.\d+)\.self_attention\.o_proj", r"\1.self_attn.to_out"),
    (r"^(spatial_perceiver\.layers\.\d+)\.(self_)?mlp\.layer_norm", r"\1.\2ff.0"),
    (r"^(spatial_perceiver\.layers\.\d+)\.(self_)?mlp\.up_proj", r"\1.\2ff.1"),
    (r"^(spatial_perceiver\.layers\.\d+)\.(self_)?mlp\.down_proj", r"\1.\2ff.3"),
    (r"\.o_proj\.", ".out_proj."),
]]
NOT_USED = re.compile(r"^vision_encoder\.|^no_memory_positional_encoding$")


def official_names(state):
    """transformers' weights under the names of the sam2 package."""
    state = {name: value for name, value in state.items() if not NOT_USED.search(name)}
    for name in [name for name in state if re.search(r"(cross|self)_attention\.k_proj", name)]:
        both = torch.cat((state.pop(name), state.pop(name.replace("k_proj", "v_proj"))))
        part = "attn" if "cross_attention" in name else "self_attn"
        state[re.sub(r"(cross|self)_attention\.k_proj", part + ".to_kv", name)] = both
    for i, row in enumerate(state.pop("prompt_encoder.point_embed.weight")):
        state[f"prompt_encoder.point_embeddings.{i}.weight"] = row[None]
    conv = re.compile(r"memory_encoder\.mask_downsampler\.layers\.\d+\.conv\.bias")
    stages = sum(conv.fullmatch(name) is not None for name in state)
    renamed = {}
    for name, value in state.items():
        chain = re.fullmatch(r"(.*)\.(proj_in|layers\.\d+|proj_out)\.(weight|bias)", name)
        if chain and f"{chain[1]}.proj_in.weight" in state:
            inner = sum(key.startswith(chain[1] + ".layers.") and key.endswith(".weight") for key in state)
            place = {"proj_in": 0, "proj_out": inner + 1}.get(chain[2])
            place = 1 + int(chain[2].split(".")[1]) if place is None else place
            name = f"{chain[1]}.layers.{place}.{chain[3]}"
        down = re.fullmatch(
            r"memory_encoder\.mask_downsampler\.(layers\.(\d+)\.(conv|layer_norm)|final_conv)\.(.*)", name)
        if down:
            place = 3 * stages if down[1] == "final_conv" else 3 * int(down[2]) + (down[3] == "layer_norm")
            name = f"memory_encoder.mask_downsampler.encoder.{place}.{down[4]}"
        for pattern, new in RENAMED:
            name = pattern.sub(lambda match: re.sub(r"\\(\d)", lambda n: match[int(n[1])] or "", new), name)
        renamed[name] = value
    return renamed


class Backbone(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        if hasattr(encoder.backbone, "blocks"):  # Hiera; write.py decides how F.scaled_dot_product_attention is exported
            encoder.backbone.config._attn_implementation = "sdpa"

    def forward(self, image):
        maps = self.encoder(image, return_dict=True).fpn_hidden_states
        return maps[0], maps[1], maps[2]


def set_side(config, side):
    """The size of the picture is in several places of a configuration."""
    h = side // 16
    config.image_size = config.prompt_encoder_config.image_size = side
    config.memory_attention_rope_feat_sizes = [h, h]
    config.vision_config.backbone_feature_sizes = [[4 * h, 4 * h], [2 * h, 2 * h], [h, h]]
    if hasattr(config.vision_config.backbone_config, "image_size"):
        config.vision_config.backbone_config.image_size = [side, side]


def narrow(config):
    """128 channels: the package fixes those of a memory at 64, and a pointer has to be larger."""
    for part in (config.vision_config, config.prompt_encoder_config, config.mask_decoder_config):
        for name in ("fpn_hidden_size", "hidden_size"):
            if hasattr(part, name):
                setattr(part, name, 128)
    config.mask_decoder_config.mlp_dim = config.mask_decoder_config.iou_head_hidden_dim = 64
    for name in ("memory_attention_hidden_size", "memory_encoder_hidden_size", "mask_downsampler_embed_dim",
                 "memory_fuser_embed_dim"):
        setattr(config, name, 128)
    config.memory_fuser_intermediate_dim = 128
    config.memory_attention_num_layers = 2
    for name in ("memory_attention_feed_forward_hidden_size", "memory_attention_mlp_hidden_size"):
        if hasattr(config, name):
            setattr(config, name, 128)


def configuration(model, edgetam):
    import transformers
    if edgetam:
        # Otherwise transformers 5.17 asks a server for the default network when it checks a value.
        transformers.EdgeTamVisionConfig.has_no_defaults_at_init = True
        small = model == "narrow"
        arguments = {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]}
        if small:
            arguments.update(embed_dim=[8, 8, 16, 16], depth=[1, 1, 1, 1])
        # The package's default has another backbone, and positions of pointers, which EdgeTAM has not.
        vision = transformers.EdgeTamVisionConfig(
            backbone_config=transformers.TimmWrapperConfig(architecture="repvit_m1", do_pooling=False,
                                                           model_args=arguments),
            backbone_channel_list=[16, 16, 8, 8] if small else [384, 192, 96, 48])
        config = transformers.EdgeTamVideoConfig(
            vision_config=vision, enable_temporal_pos_encoding_for_object_pointers=False,
            enable_occlusion_spatial_embedding=False)
    else:
        size, _, old = model.partition("-")
        channels, heads, blocks, everywhere, grid, windows = SIZES[size]
        widths = [channels << i for i in range(4)]
        backbone = transformers.Sam2HieraDetConfig(
            hidden_size=channels, num_attention_heads=heads, blocks_per_stage=blocks, embed_dim_per_stage=widths,
            num_attention_heads_per_stage=[heads << i for i in range(4)], window_size_per_stage=windows,
            global_attention_blocks=everywhere, window_positional_embedding_background_size=[grid, grid])
        vision = transformers.Sam2VisionConfig(backbone_config=backbone, backbone_channel_list=widths[::-1])
        config = transformers.Sam2VideoConfig(
            vision_config=vision, enable_temporal_pos_encoding_for_object_pointers=not old,
            enable_occlusion_spatial_embedding=not old)
    if model == "narrow":
        narrow(config)
    return config


def open_model(checkpoint, model, side):
    try:
        import transformers
        from transformers.models.edgetam_video import modeling_edgetam_video
        from transformers.models.sam2_video import modeling_sam2_video
    except ImportError as error:
        raise SourceError(f"--source transformers needs the Python package transformers with sam2_video and "
                          f"edgetam_video: {error}; pip install 'transformers>=5' timm") from error
    seed = random_seed(checkpoint)
    if seed is None:
        config = transformers.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
        edgetam = config.model_type == "edgetam_video"
    else:
        edgetam = model.startswith("edgetam")
        config = configuration("narrow" if model.endswith("narrow") else model, edgetam)
    set_side(config, side)
    config._attn_implementation = "eager"
    package = modeling_edgetam_video if edgetam else modeling_sam2_video
    kind = package.EdgeTamVideoModel if edgetam else package.Sam2VideoModel
    if seed is None:
        network = kind.from_pretrained(checkpoint, config=config, local_files_only=True,
                                       attn_implementation="eager").float()
    else:
        network = kind(config)
        randomise(network, seed)
    network.eval()
    if edgetam:
        family = "edgetam"
    else:
        family = "sam2.1" if config.enable_occlusion_spatial_embedding else "sam2"
    session = package.EdgeTamVideoInferenceSession if edgetam else package.Sam2VideoInferenceSession
    without_bfloat16(package)
    decoder = config.mask_decoder_config
    return Source(
        weights=official_names(network.state_dict()), backbone=Backbone(network.vision_encoder), family=family,
        predictor=Predictor(network, session), side=side, heads=decoder.num_attention_heads,
        num_maskmem=config.num_maskmem, max_obj_ptrs=config.max_object_pointers_in_encoder,
        multimask=(config.multimask_min_pt_num, config.multimask_max_pt_num),
        stability=(decoder.dynamic_multimask_stability_delta, decoder.dynamic_multimask_stability_thresh),
        mask_scale=config.sigmoid_scale_for_mem_enc, mask_shift=config.sigmoid_bias_for_mem_enc)


class Predictor:
    """The package's video model for one object, frame by frame. It cuts the masks of prompts and fills no holes.

    For mask prompts it differs from the original (the pointer comes from the best of three masks, the memory from
    the mask at full resolution), so those are not compared.
    """

    mask_prompts = False
    fills_holes = False

    def __init__(self, model, session):
        self.model, self.session_type, self.device = model, session, "cpu"

    def move(self, device):
        self.model.to(device)
        self.device = device

    def set_profile(self, profile):
        if profile != "predictor":
            raise SourceError("transformers has the predictor profile alone")

    def start(self, frames, width, height):
        self.scale = (self.model.config.image_size / width, self.model.config.image_size / height)
        self.session = self.session_type(video=frames, video_height=height, video_width=width, dtype=torch.float32,
                                         inference_device=self.device, inference_state_device=self.device)
        self.session.obj_id_to_idx(1)

    def step(self, frame, prompt=None):
        """Low-resolution logits [4h,4h], and the object score."""
        if prompt is not None:
            corners = [] if prompt.box is None else [(*prompt.box[:2], 2), (*prompt.box[2:], 3)]
            points = corners + list(prompt.points)
            coords = torch.tensor([[[[x * self.scale[0], y * self.scale[1]] for x, y, _ in points]]],
                                  device=self.device)
            labels = torch.tensor([[[label for _, _, label in points]]], dtype=torch.int32, device=self.device)
            self.session.add_point_inputs(0, frame, {"point_coords": coords, "point_labels": labels})
            self.session.obj_with_new_inputs = [1]
        out = self.model(inference_session=self.session, frame_idx=frame)
        return out.pred_masks[0, 0].cpu().numpy(), float(out.object_score_logits.flatten()[0])

    def stages(self):
        return {"fused": (self.model, "_prepare_memory_conditioned_features"),
                "memory": (self.model, "_encode_new_memory")}

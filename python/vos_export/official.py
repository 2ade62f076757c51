"""Models of the packages sam2 and edgetam-dimos.

Both install a module named sam2, so one environment has one of them.
"""
import importlib.util

import torch
from torch import nn

from .sources import HIERA, Source, SourceError, random_seed, randomise, without_bfloat16


def _package(source):
    """Checks that the installed sam2 is the package that `source` needs."""
    need = "edgetam-dimos" if source == "edgetam" else "sam2"
    if importlib.util.find_spec("sam2") is None:
        raise SourceError(f"--source {source} needs the Python package {need}: not installed; pip install {need}")
    has_perceiver = importlib.util.find_spec("sam2.modeling.perceiver") is not None
    if has_perceiver != (source == "edgetam"):
        raise SourceError(f"--source {source} needs the Python package {need}: the installed module sam2 is another "
                          f"one; use an environment of its own")


def _from_configuration(source, model, side):
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from hydra.utils import instantiate

    changes = [
        "++model._target_=sam2.sam2_video_predictor.SAM2VideoPredictor",
        f"++model.image_size={side}",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_via_stability=true",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_stability_delta=0.05",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_stability_thresh=0.98",
        "++model.binarize_mask_from_pts_for_mem_enc=true",
        "++model.fill_hole_area=8",
    ]
    if source == "edgetam":
        name = "configs/edgetam.yaml"
        changes.append(f"++model.memory_attention.layer.cross_attention.q_sizes=[{side // 16},{side // 16}]")
    else:
        size, _, old = model.partition("-")
        version = "sam2" if old else "sam2.1"
        name = f"configs/{version}/{version}_hiera_{HIERA[size]}.yaml"
    GlobalHydra.instance().clear()
    with initialize_config_module("sam2", version_base="1.2"):
        return instantiate(compose(config_name=name, overrides=changes).model, _recursive_=True)


def _narrow(source, side):
    """The same structure with 32 channels, for tests: about 0.1 million weights."""
    from sam2.modeling.backbones.image_encoder import FpnNeck, ImageEncoder
    from sam2.modeling.memory_attention import MemoryAttention, MemoryAttentionLayer
    from sam2.modeling.memory_encoder import CXBlock, Fuser, MaskDownSampler, MemoryEncoder
    from sam2.modeling.position_encoding import PositionEmbeddingSine
    from sam2.modeling.sam import transformer
    from sam2.modeling.sam2_utils import MLP, LayerNorm2d
    from sam2.sam2_video_predictor import SAM2VideoPredictor

    edgetam = source == "edgetam"
    wide, deep, h = 32, 8, side // 16

    def sine(channels):
        return PositionEmbeddingSine(channels, normalize=True)

    rope = dict(rope_theta=10000.0, embedding_dim=wide, num_heads=1, downsample_rate=1, dropout=0.0)
    own = transformer.RoPEAttention(feat_sizes=(h, h), **rope)
    if edgetam:
        cross = transformer.RoPEAttentionv2(q_sizes=(h, h), k_sizes=(16, 16), kv_in_dim=deep, **rope)
    else:
        cross = transformer.RoPEAttention(feat_sizes=(h, h), rope_k_repeat=True, kv_in_dim=deep, **rope)
    layer = MemoryAttentionLayer("relu", cross, wide, 2 * wide, 0.0, False, True, False, own)
    encoder = MemoryEncoder(deep, MaskDownSampler(wide, 3, 2, 1), Fuser(CXBlock(wide), 2), sine(deep), in_dim=wide)
    channels, layers = [1, 2, 4, 8, 16], []
    for a, b in zip(channels, channels[1:]):
        layers += [nn.Conv2d(a, b, 3, 2, 1), LayerNorm2d(b), nn.GELU()]
    encoder.mask_downsampler.encoder = nn.Sequential(*layers, nn.Conv2d(channels[-1], wide, 1))
    flags = dict(add_tpos_enc_to_obj_ptrs=not edgetam)
    if edgetam:
        import timm
        from sam2.modeling.backbones.timm import TimmBackbone
        from sam2.modeling.perceiver import PerceiverResampler
        trunk = TimmBackbone.__new__(TimmBackbone)
        nn.Module.__init__(trunk)
        trunk.body = timm.create_model("repvit_m1", pretrained=False, features_only=True, out_indices=(0, 1, 2, 3),
                                       embed_dim=(8, 8, 16, 16), depth=(1, 1, 1, 1))
        trunk.channel_list = trunk.body.feature_info.channels()[::-1]
        flags["spatial_perceiver"] = PerceiverResampler(
            dim=deep, depth=2, dim_head=deep, heads=1, num_latents=256, num_latents_2d=256, hidden_dropout_p=0.0,
            attention_dropout_p=0.0, pos_enc_at_key_value=True, position_encoding=sine(deep), use_self_attn=True)
    else:
        from sam2.modeling.backbones.hieradet import Hiera
        trunk = Hiera(4, 1, stages=(1, 1, 2, 1), window_spec=(8, 4, 4, 2), global_att_blocks=(3,),
                      window_pos_embed_bkg_spatial_size=(7, 7))
        flags.update(no_obj_embed_spatial=True, proj_tpos_enc_in_obj_ptrs=True, use_signed_tpos_enc_to_obj_ptrs=True)
    neck = FpnNeck(sine(wide), wide, list(trunk.channel_list), fpn_top_down_levels=[2, 3], fpn_interp_model="nearest")
    predictor = SAM2VideoPredictor(
        image_encoder=ImageEncoder(trunk, neck, scalp=1), memory_attention=MemoryAttention(wide, True, layer, 2),
        memory_encoder=encoder, image_size=side, num_maskmem=7, sigmoid_scale_for_mem_enc=20.0,
        sigmoid_bias_for_mem_enc=-10.0, use_mask_input_as_output_without_sam=True, directly_add_no_mem_embed=True,
        use_high_res_features_in_sam=True, multimask_output_in_sam=True, iou_prediction_use_sigmoid=True,
        use_obj_ptrs_in_encoder=True, only_obj_ptrs_in_the_past_for_eval=True, pred_obj_scores=True,
        pred_obj_scores_mlp=True, fixed_no_obj_ptr=True, multimask_output_for_tracking=True,
        use_multimask_token_for_obj_ptr=True, multimask_min_pt_num=0, multimask_max_pt_num=1,
        use_mlp_for_obj_ptr_proj=True, binarize_mask_from_pts_for_mem_enc=True, fill_hole_area=8,
        sam_mask_decoder_extra_args=dict(dynamic_multimask_via_stability=True, dynamic_multimask_stability_delta=0.05,
                                         dynamic_multimask_stability_thresh=0.98), **flags)
    predictor.sam_mask_decoder.transformer = transformer.TwoWayTransformer(2, wide, 8, 2 * wide)
    predictor.sam_mask_decoder.iou_prediction_head = MLP(wide, wide, 4, 3, sigmoid_output=True)
    return predictor


class Backbone(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, image):
        maps = self.encoder(image)["backbone_fpn"]
        return maps[0], maps[1], maps[2]


def open_model(source, checkpoint, model, side):
    _package(source)
    if (model == "edgetam") != (source == "edgetam") and model != "narrow":
        raise SourceError(f"--model {model} does not belong to --source {source}")
    if source == "edgetam":  # the package would download weights of the backbone
        import timm.models
        import sam2.modeling.backbones.timm as backbones
        backbones.create_model = lambda *names, **options: timm.models.create_model(
            *names, **{**options, "pretrained": False})
    seed = random_seed(checkpoint)
    state = None
    if seed is None:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        state = state.get("model", state)
        if source == "sam2" and model != "narrow" and "no_obj_embed_spatial" not in state:
            model = model.removesuffix("-2.0") + "-2.0"
    predictor = _narrow(source, side) if model == "narrow" else _from_configuration(source, model, side)
    if state is None:
        randomise(predictor, seed)
    else:
        try:
            predictor.load_state_dict(state)
        except RuntimeError as error:
            raise SourceError(f"checkpoint {checkpoint} does not fit --model {model}: {error}") from error
    predictor.eval()
    weights = {name: value for name, value in predictor.state_dict().items()
               if not name.startswith("image_encoder.")}
    for name in ("no_mem_pos_enc",):  # used only without directly_add_no_mem_embed
        weights.pop(name, None)
    family = "edgetam" if source == "edgetam" else ("sam2.1" if predictor.no_obj_embed_spatial is not None else "sam2")
    decoder = predictor.sam_mask_decoder
    return Source(
        weights=weights, backbone=Backbone(predictor.image_encoder), family=family,
        predictor=Predictor(predictor), side=side, heads=decoder.transformer.num_heads,
        num_maskmem=predictor.num_maskmem, max_obj_ptrs=predictor.max_obj_ptrs_in_encoder,
        multimask=(predictor.multimask_min_pt_num, predictor.multimask_max_pt_num),
        stability=(decoder.dynamic_multimask_stability_delta, decoder.dynamic_multimask_stability_thresh),
        mask_scale=predictor.sigmoid_scale_for_mem_enc, mask_shift=predictor.sigmoid_bias_for_mem_enc)


class Predictor:
    """SAM2VideoPredictor for one object, frame by frame."""

    mask_prompts = True
    fills_holes = True

    def __init__(self, model):
        import sam2.sam2_video_predictor as module
        self.model, self.module = model, module
        without_bfloat16(module)
        module.tqdm = lambda frames, **_: frames
        self.set_profile("predictor")

    def set_profile(self, profile):
        on = profile == "predictor"
        self.model.binarize_mask_from_pts_for_mem_enc = on
        self.model.fill_hole_area = 8 if on else 0
        self.model.sam_mask_decoder.dynamic_multimask_via_stability = on

    def start(self, frames, width, height):
        """frames: [N,3,S,S], normalised."""
        from .tracker import components
        import sam2.utils.misc as misc
        misc.get_connected_components = components  # the package's own needs CUDA
        self.module.load_video_frames = lambda **_: (frames, height, width)
        self.state = self.model.init_state(video_path=None)

    def step(self, frame, prompt=None):
        """Low-resolution logits [4h,4h] after holes are filled, and the object score."""
        if prompt is not None and prompt.mask is not None:
            self.model.add_new_mask(self.state, frame, 1, torch.from_numpy(prompt.mask > 0))
        elif prompt is not None:
            points = [(x, y) for x, y, _ in prompt.points] or None
            labels = [label for _, _, label in prompt.points] or None
            self.model.add_new_points_or_box(self.state, frame, 1, points=points, labels=labels, box=prompt.box)
        for _ in self.model.propagate_in_video(self.state, start_frame_idx=frame, max_frame_num_to_track=0):
            pass
        outputs = self.state.get("output_dict") or self.state["output_dict_per_obj"][0]
        out = outputs["cond_frame_outputs"].get(frame) or outputs["non_cond_frame_outputs"][frame]
        return out["pred_masks"][0, 0].numpy(), float(out["object_score_logits"][0, 0])

    def stages(self):
        """Names of the stages and the methods whose results to compare."""
        return {"fused": (self.model, "_prepare_memory_conditioned_features"),
                "memory": (self.model, "_encode_new_memory")}

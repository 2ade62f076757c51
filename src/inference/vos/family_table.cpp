// The table of families. The names are those of the projects' export scripts (docs/video-segmentation.md has
// the commits).
#include "inference/vos/families.h"

namespace headroom::inference::vos {
namespace {

constexpr std::size_t kMemories = 7, kPointers = 16;

constexpr std::string_view kSigmoidTwice =
    "the mask for the memory passes the scaled sigmoid twice; the mask is always one of three, also for a "
    "box";

// Feeds of the families whose attention takes memory_0 (pointers) and memory_1 (features).
std::vector<FamilyFeed> two_memories(std::string_view fused, std::string_view vision, std::string_view embed,
                                     std::vector<FamilyFeed> others) {
  std::vector<FamilyFeed> feeds{
      {"memory attention", "current_vision_feat", "image encoder", vision},
      {"memory attention", "current_vision_pos_embed", "image encoder", "vision_pos_embed"},
      {"memory attention", "memory_0", "mask decoder", "obj_ptr", kPointers},
      {"memory attention", "memory_1", "memory encoder", "maskmem_features", kMemories},
      {"memory attention", "memory_pos_embed", {}, {}, 0, {"memory_0", "memory_1"}},
      {"mask decoder", "image_embed", "memory attention", fused},
      {"mask decoder", "image_embed", "image encoder", embed},
      {"memory encoder", "mask_for_mem", "mask decoder", "mask_for_mem"},
      {"memory encoder", "pix_feat", "image encoder", embed},
      {"memory encoder", "occ_logit", "mask decoder", "occ_logit"}};
  feeds.insert(feeds.end(), others.begin(), others.end());
  return feeds;
}

std::vector<FamilyFeed> maps(std::string_view first, std::string_view second) {
  return {{"mask decoder", "high_res_feats_0", "image encoder", first},
          {"mask decoder", "high_res_feats_1", "image encoder", second}};
}

std::vector<FamilyGraph> graphs_of_a(bool has_maps, std::vector<std::string_view> decoder_outputs,
                                     std::vector<std::string_view> more_of_attention,
                                     std::vector<std::string_view> memory_inputs) {
  std::vector<std::string_view> encoder{"pix_feat", "vision_feats", "vision_pos_embed"};
  std::vector<std::string_view> decoder{"point_coords", "point_labels", "image_embed"};
  if (has_maps) {
    encoder.insert(encoder.end(), {"high_res_feat0", "high_res_feat1"});
    decoder.insert(decoder.end(), {"high_res_feats_0", "high_res_feats_1"});
  }
  std::vector<std::string_view> attention{"current_vision_feat", "current_vision_pos_embed", "memory_0",
                                          "memory_1", "memory_pos_embed"};
  attention.insert(attention.end(), more_of_attention.begin(), more_of_attention.end());
  return {{"image encoder", {"image"}, encoder},
          {"memory attention", attention, {"image_embed"}, true},
          {"mask decoder", decoder, std::move(decoder_outputs)},
          {"memory encoder", std::move(memory_inputs), {"maskmem_features"}}};
}

std::vector<Family> make_families() {
  std::vector<Family> table;
  // C before A, and A before E: each has what the next one has, and more.
  table.push_back(
      {"C", "SAM2-ONNX-TRT (DeepStream)",
       graphs_of_a(true, {"obj_ptr", "mask_for_mem", "pred_mask", "iou", "occ_logit"}, {"cond_frame_id_diff"},
                   {"mask_for_mem", "pix_feat", "occ_logit"}),
       two_memories("image_embed", "vision_feats", "pix_feat", maps("high_res_feat0", "high_res_feat1")),
       kSigmoidTwice});
  table.push_back(
      {"A", "SAM2Export",
       graphs_of_a(true, {"obj_ptr", "mask_for_mem", "pred_mask"}, {}, {"mask_for_mem", "pix_feat"}),
       two_memories("image_embed", "vision_feats", "pix_feat", maps("high_res_feat0", "high_res_feat1")),
       "the mask for the memory passes the scaled sigmoid twice; the mask is always one of three, also for "
       "a box; an absent object is not recognised; the memory of the prompt is evicted"});
  table.push_back(
      {"E", "trt-efficientTAM",
       graphs_of_a(false, {"obj_ptr", "mask_for_mem", "pred_mask"}, {}, {"mask_for_mem", "pix_feat"}),
       two_memories("image_embed", "vision_feats", "pix_feat", {}), kSigmoidTwice});
  table.push_back(
      {"B",
       "sam2-onnx-cpp",
       {{"image encoder",
         {"input"},
         {"image_embeddings", "high_res_features1", "high_res_features2", "current_vision_feat",
          "vision_pos_embed"}},
        {"memory attention",
         {"current_vision_feat", "current_vision_pos_embed", "memory_0", "memory_1", "memory_pos_embed"},
         {"fused_feat"},
         true},
        {"mask decoder",
         {"point_coords", "point_labels", "image_embed", "high_res_feats_0", "high_res_feats_1"},
         {"obj_ptr", "mask_for_mem", "pred_mask"}},
        {"memory encoder", {"mask_for_mem", "pix_feat"}, {"maskmem_features"}}},
       two_memories("fused_feat", "current_vision_feat", "image_embeddings",
                    maps("high_res_features1", "high_res_features2")),
       "the mask for the memory passes the scaled sigmoid twice; the mask is always one of three, also for a "
       "box; the "
       "object score is always 10"});
  table.push_back({"D",
                   "ailia segment-anything-2",
                   {{"image encoder",
                     {},
                     {"vision_features", "vision_pos_enc_0", "vision_pos_enc_1", "vision_pos_enc_2",
                      "backbone_fpn_0", "backbone_fpn_1", "backbone_fpn_2"}},
                    {"memory attention",
                     {"curr", "memory_1", "memory_2", "curr_pos", "memory_pos_1", "memory_pos_2"},
                     {"pix_feat"},
                     true},
                    {"prompt encoder", {"coords", "labels", "masks", "masks_enable"}, {}},
                    {"mask decoder", {}, {"masks", "iou_pred", "sam_tokens_out", "object_score_logits"}},
                    {"pointer", {"x"}, {}},
                    {"memory encoder", {"pix_feat", "masks"}, {}}},
                   {{"memory attention", "curr", "image encoder", "vision_features"},
                    {"memory attention", "curr_pos", "image encoder", "vision_pos_enc_2"},
                    {"memory attention", "memory_1", "memory encoder", {}, kMemories},
                    {"memory attention", "memory_2", "pointer", {}, kPointers},
                    {"memory attention", "memory_pos_1", {}, {}, 0, {"memory_1"}},
                    {"memory attention", "memory_pos_2", {}, {}, 0, {"memory_2"}},
                    {"mask decoder", "image_embeddings", "memory attention", "pix_feat"},
                    {"mask decoder", "image_embeddings", "image encoder", "vision_features"},
                    {"mask decoder", "high_res_features1", "image encoder", "backbone_fpn_0"},
                    {"mask decoder", "high_res_features2", "image encoder", "backbone_fpn_1"},
                    {"pointer", "x", "mask decoder", "sam_tokens_out"},
                    {"memory encoder", "pix_feat", "image encoder", "vision_features"},
                    {"memory encoder", "masks", "mask decoder", "masks"}},
                   "the steps between its graphs lie in its own program, which Headroom does not repeat"});
  table.push_back(
      {"F",
       "EdgeTAM (qqice)",
       {{"image encoder", {"image"}, {"high_res_feats_0", "high_res_feats_1", "image_embed"}},
        {"mask decoder",
         {"image_embed", "high_res_feats_0", "high_res_feats_1", "mask_input", "has_mask_input"},
         {"masks", "iou_predictions", "obj_ptr", "object_score_logits"}},
        {"memory encoder", {"pix_feat", "pred_mask"}, {}}},
       {{"mask decoder", "image_embed", "image encoder", "image_embed"},
        {"mask decoder", "high_res_feats_0", "image encoder", "high_res_feats_0"},
        {"mask decoder", "high_res_feats_1", "image encoder", "high_res_feats_1"},
        {"memory encoder", "pix_feat", "image encoder", "image_embed"},
        {"memory encoder", "pred_mask", "mask decoder", "masks"}},
       "memory attention is not among its files, so no frame sees an earlier one, and time and memory lack "
       "a large part"});
  table.push_back({"G",
                   "mono_edgetam",
                   {{"step", {}, {}}},
                   {},  // memories in and out have the same shape, by which they are found
                   "one graph holds the step of one object; its memories move on by its own rule"});
  return table;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = make_families();
  return kFamilies;
}

}  // namespace headroom::inference::vos

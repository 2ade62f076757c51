#include "inference/vos/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/inference/results.h"

namespace headroom::inference::vos {
namespace {

using test::error_of;
using test::value_of;
using testing::HasSubstr;

TEST(VosManifest, ReadsAllKeys) {
  const Manifest manifest = value_of(parse_manifest(R"({"headroom.vos": 1, "family": "edgetam", "size": 512,
    "mean": [0.1, 0.2, 0.3], "std": [1, 2, 3], "num_maskmem": 5, "max_obj_ptrs": 9, "multimask_min_points": 1,
    "multimask_max_points": 2, "stability": {"delta": 0.5, "threshold": 0.75}, "ptr_tpos": false,
    "mask_downsample": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17], "new_key": {},
    "graphs": {"image_encoder": {"file": "a.onnx", "sha256": "00"}}})",
                                                    "m.json"));
  EXPECT_EQ(manifest.family, "edgetam");
  EXPECT_EQ(manifest.size, 512);
  EXPECT_EQ(manifest.mean[2], 0.3F);
  EXPECT_EQ(manifest.std[1], 2);
  EXPECT_EQ(manifest.num_maskmem, 5);
  EXPECT_EQ(manifest.max_obj_ptrs, 9);
  EXPECT_EQ(manifest.multimask_min_points, 1);
  EXPECT_EQ(manifest.multimask_max_points, 2);
  EXPECT_EQ(manifest.stability_delta, 0.5F);
  EXPECT_EQ(manifest.stability_threshold, 0.75F);
  EXPECT_FALSE(manifest.ptr_tpos);
  EXPECT_EQ(manifest.mask_downsample.value()[16], 17);
  EXPECT_EQ(manifest.files.at(Part::image_encoder), "a.onnx");
  EXPECT_EQ(manifest.files.size(), 1U);
}

TEST(VosManifest, MissingKeysHaveTheValuesOfSam2) {
  const Manifest manifest = value_of(parse_manifest(R"({"headroom.vos": 1})", "m.json"));
  EXPECT_EQ(manifest.mean[0], 0.485F);
  EXPECT_EQ(manifest.num_maskmem, 7);
  EXPECT_EQ(manifest.max_obj_ptrs, 16);
  EXPECT_EQ(manifest.multimask_max_points, 1);
  EXPECT_EQ(manifest.stability_threshold, 0.98F);
  EXPECT_FALSE(manifest.mask_downsample.has_value());
}

struct BadManifest {
  const char *name, *json, *why;
};
class VosManifestErrors : public testing::TestWithParam<BadManifest> {};

TEST_P(VosManifestErrors, NamesTheKey) {
  EXPECT_THAT(error_of(parse_manifest(GetParam().json, "m.json")).sentence(), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    All, VosManifestErrors,
    testing::Values(
        BadManifest{"NoJson", "{", "m.json"}, BadManifest{"NoObject", "[1]", "not a JSON object"},
        BadManifest{"NoVersion", "{}", "no integer 'headroom.vos'"},
        BadManifest{"OtherVersion", R"({"headroom.vos": 2})", "headroom.vos=2"},
        BadManifest{"Size", R"({"headroom.vos": 1, "size": "big"})", "'size' is not an integer"},
        BadManifest{"HugeSize", R"({"headroom.vos": 1, "size": 1000000000})",
                    "'size' is not an integer from 16 to 4096"},
        BadManifest{"LargeSize", R"({"headroom.vos": 1, "size": 4112})",
                    "'size' is not an integer from 16 to 4096"},
        BadManifest{"Bank", R"({"headroom.vos": 1, "num_maskmem": 0})", "'num_maskmem' is not"},
        BadManifest{"Mean", R"({"headroom.vos": 1, "mean": [1, 2]})", "'mean' is not a list of 3"},
        BadManifest{"Std", R"({"headroom.vos": 1, "std": [1, 0, 1]})",
                    "'std' is not a list of numbers above 0"},
        BadManifest{"Stability", R"({"headroom.vos": 1, "stability": {"delta": []}})",
                    "'stability.delta' is not a number"},
        BadManifest{"Flag", R"({"headroom.vos": 1, "ptr_tpos": 1})", "'ptr_tpos' is not true or false"},
        BadManifest{"Weights", R"({"headroom.vos": 1, "mask_downsample": [1, 2, "3"]})",
                    "'mask_downsample' is not a list of 17"},
        BadManifest{"Path", R"({"headroom.vos": 1, "graphs": {"mask_decoder": {"file": "../x.onnx"}}})",
                    "'graphs.mask_decoder.file' is not the name of a file"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace headroom::inference::vos

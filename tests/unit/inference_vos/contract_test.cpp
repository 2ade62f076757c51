#include "inference/vos/contract.h"

#include <fmt/format.h>

#include "tracer_fixture.h"
#include "unit/inference/tiny_onnx.h"

namespace headroom::inference::vos {
namespace {
namespace fs = std::filesystem;

using test::error_of;
using test::value_of;
using testing::HasSubstr;

class ContractTest : public TracerTest {
 protected:
  // A copy of tracer graphs that a test may damage.
  fs::path copy(const std::string& kind) {
    fs::copy(test::source_path("tests/golden/vos/tracer/" + kind), folder_.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return folder_.path();
  }
  static std::string error(const fs::path& model) {
    return error_of(open_contract(*backend_, model, one_thread())).sentence();
  }
  test::TemporaryFolder folder_;
};

TEST_F(ContractTest, ReadsTheManifestBesideTheFilesOrInThem) {
  EXPECT_EQ(value_of(open_contract(*backend_, copy("half"), one_thread())).manifest.family, "edgetam");
  EXPECT_EQ(value_of(open_contract(*backend_, folder_ / "manifest.json", one_thread())).manifest.family,
            "edgetam");
  fs::remove(folder_ / "manifest.json");
  EXPECT_FALSE(value_of(open_contract(*backend_, folder_.path(), one_thread())).manifest.ptr_tpos);
}

TEST_F(ContractTest, ReadsTheSizesFromTheGraphs) {
  const ContractModel dynamic = value_of(open_contract(*backend_, copy("dynamic"), one_thread()));
  EXPECT_EQ(dynamic.side, 64);
  EXPECT_FALSE(dynamic.fixed.objects || dynamic.fixed.points || dynamic.fixed.memories ||
               dynamic.fixed.pointers);
  const ContractModel fixed = value_of(open_contract(*backend_, copy("fixed"), one_thread()));
  EXPECT_EQ(fixed.fixed.objects, 2);
  EXPECT_EQ(fixed.fixed.points, 3);
  EXPECT_EQ(fixed.fixed.memories, 8);
  EXPECT_EQ(fixed.fixed.pointers, 17);
}

// A page can be pinned only once, so two large inputs must not share one.
TEST_F(ContractTest, LargeInputsHavePagesOfTheirOwn) {
  std::vector<std::byte, OwnPages<std::byte>> small(100), large(OwnPages<std::byte>::kPage + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % OwnPages<std::byte>::kPage, 0U);
  ContractModel model = value_of(open_contract(*backend_, copy("dynamic"), one_thread()));
  ASSERT_TRUE(model.memory.shape_input(model.memory_inputs.mask_logits, {64, 1, 16, 16}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model.memory.buffer(model.memory_inputs.mask_logits)) %
                OwnPages<std::byte>::kPage,
            0U);
}

TEST_F(ContractTest, NamesAMissingGraph) {
  fs::remove(copy("dynamic") / "memory_attention.onnx");
  EXPECT_THAT(error(folder_.path()), HasSubstr("finds no file for memory_attention"));
  EXPECT_THAT(error(folder_ / "nothing"), HasSubstr("no such file or folder"));
}

TEST_F(ContractTest, NamesMissingInputs) {
  fs::copy_file(copy("dynamic") / "memory_encoder.onnx", folder_ / "mask_decoder.onnx",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(error(folder_.path()),
              HasSubstr("mask_decoder.onnx is not the mask_decoder of headroom.vos=1: it lacks "
                        "the inputs high_res_0, high_res_1, point_coords"));
}

TEST_F(ContractTest, RejectsOtherSizesInTheManifest) {
  copy("fixed");
  test::write_text(folder_ / "manifest.json", R"({"headroom.vos": 1, "size": 128})");
  EXPECT_THAT(error(folder_.path()), HasSubstr("side is 64 in the graph and 128 in the manifest"));
  test::write_text(folder_ / "manifest.json", R"({"headroom.vos": 1, "num_maskmem": 9})");
  EXPECT_THAT(error(folder_.path()),
              HasSubstr("takes 8 memories and 17 pointers, the manifest needs 9 and 16"));
}

// The tracer graphs with another image encoder, whose picture has this side.
TEST_F(ContractTest, RejectsHugePicturesBeforeTheyAreAllocated) {
  copy("fixed");
  test::write_text(folder_ / "manifest.json", R"({"headroom.vos": 1})");
  for (const char* side : {"4112", "1000000000"}) {
    const test::OnnxValue image{"image", test::OnnxType::float32, {"1", "3", side, side}};
    const test::OnnxValue same{"image_embed", test::OnnxType::float32, image.dims};
    test::write_text(folder_ / "image_encoder.onnx", test::onnx_model({"Identity", {image}, {same}}));
    EXPECT_THAT(error(folder_.path()), HasSubstr(fmt::format("the image's side is {}, and Headroom supports "
                                                             "at most 4096",
                                                             side)));
  }
}

TEST_F(ContractTest, OneGraphMayFixTheNumberOfObjects) {
  const fs::path fixed = test::source_path("tests/golden/vos/tracer/fixed");
  fs::copy_file(fixed / "memory_encoder.onnx", copy("dynamic") / "memory_encoder.onnx",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(value_of(open_contract(*backend_, folder_.path(), one_thread())).fixed.objects, 2);
}

TEST_F(ContractTest, NeedsAManifest) {
  test::TemporaryFolder empty;
  for (const Part part : kParts)
    test::write_text(empty / (std::string(name_of(part)) + ".onnx"),
                     test::read_text(test::source_path("tests/golden/vos/tracer/half/memory_encoder.onnx")));
  EXPECT_THAT(error(empty.path()), HasSubstr("is not the image_encoder"));
  test::write_text(empty / "manifest.json", "{}");
  EXPECT_THAT(error(empty.path()), HasSubstr("no integer 'headroom.vos'"));
}

}  // namespace
}  // namespace headroom::inference::vos

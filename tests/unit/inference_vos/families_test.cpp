#include "inference/vos/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/inference/results.h"

namespace headroom::inference::vos {
namespace {

using test::error_of;
using test::value_of;
using testing::HasSubstr;

TensorSpec tensor(std::string_view name, std::vector<std::int64_t> dims = {1}) {
  return {std::string(name), ElementType::float32, std::move(dims), {}};
}

NamedSignature file_of(const std::string& name, const std::vector<std::string_view>& inputs,
                       const std::vector<std::string_view>& outputs) {
  NamedSignature file{name, {}};
  for (const std::string_view input : inputs) file.description.inputs.push_back(tensor(input));
  for (const std::string_view output : outputs) file.description.outputs.push_back(tensor(output));
  return file;
}

// Files with the names by which a family is recognised, in another order than they run.
std::vector<NamedSignature> files_of(const Family& family) {
  std::vector<NamedSignature> files;
  for (const FamilyGraph& graph : family.graphs)
    files.insert(files.begin(), file_of(std::string(graph.name) + ".onnx", graph.inputs, graph.outputs));
  if (family.id == "G") {
    files[0].description.inputs.push_back(tensor("memory", {7, 1, 512, 64}));
    files[0].description.outputs.push_back(tensor("new_memory", {7, 1, 512, 64}));
  }
  return files;
}

class VosFamilies : public testing::TestWithParam<std::size_t> {};

TEST_P(VosFamilies, IsRecognisedByItsSignatures) {
  const Family& family = families()[GetParam()];
  const auto files = files_of(family);
  const RecognisedFamily recognised = value_of(recognise_family(files, "folder"));
  EXPECT_EQ(recognised.family->id, family.id);
  ASSERT_EQ(recognised.files.size(), family.graphs.size());
  for (std::size_t i = 0; i < family.graphs.size(); ++i)
    EXPECT_EQ(files[recognised.files[i]].file, std::string(family.graphs[i].name) + ".onnx");
  EXPECT_THAT(label_of(family), testing::StartsWith("not the reference algorithm: "));
}

TEST_P(VosFamilies, NeedsAllItsFiles) {
  const Family& family = families()[GetParam()];
  auto files = files_of(family);
  files.erase(files.begin());
  const auto recognised = recognise_family(files, "folder");
  EXPECT_TRUE(!recognised || recognised->family->id != family.id);
}

TEST_P(VosFamilies, ItsFeedsNameItsGraphs) {
  const Family& family = families()[GetParam()];
  const auto has_graph = [&](std::string_view name) {
    return std::ranges::find(family.graphs, name, &FamilyGraph::name) != family.graphs.end();
  };
  for (const FamilyFeed& feed : family.feeds) {
    EXPECT_TRUE(has_graph(feed.graph)) << feed.graph;
    EXPECT_TRUE(!feed.zeros_like.empty() || has_graph(feed.from)) << feed.from;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, VosFamilies, testing::Range<std::size_t>(0, families().size()),
                         [](const auto& tested) { return std::string(families()[tested.param].id); });

TEST(VosFamiliesErrors, FilesForPicturesAreRefusedWithTheReason) {
  const std::vector<NamedSignature> samexporter{
      file_of("encoder.onnx", {"image"}, {"high_res_feats_0", "high_res_feats_1", "image_embed"}),
      file_of("decoder.onnx",
              {"image_embed", "high_res_feats_0", "high_res_feats_1", "point_coords", "point_labels",
               "mask_input", "has_mask_input"},
              {"masks", "iou_predictions"})};
  const std::string sentence = error_of(recognise_family(samexporter, "folder")).sentence();
  EXPECT_THAT(sentence, HasSubstr("single pictures: there is no memory attention"));
  EXPECT_THAT(sentence, HasSubstr("export_vos.py"));
}

TEST(VosFamiliesErrors, OtherFilesAreNamed) {
  EXPECT_THAT(
      error_of(recognise_family(std::vector{file_of("yolo.onnx", {"images"}, {"output0"})}, "f")).sentence(),
      HasSubstr("of no known kind: yolo.onnx"));
  EXPECT_THAT(error_of(recognise_family({}, "f")).sentence(), HasSubstr("it holds no models"));
}

}  // namespace
}  // namespace headroom::inference::vos

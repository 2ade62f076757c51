#include "cli/model_flags.h"

#include <gtest/gtest.h>

#include "cli/bench_flags.h"
#include "support/test_support.h"

namespace headroom::cli {
namespace {
namespace fs = std::filesystem;

class ModelFlags : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "size=s");
    for (const char* name : {"a.onnx", "b.onnx", "size=s/m.onnx"}) test::write_text(folder_ / name, "x");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string error_of(const std::string& text) {
    const auto model = parse_model(text);
    return model ? "" : model.error().sentence();
  }
  std::string error_of_both(const std::string& one, const std::string& other) {
    BenchOptions options;
    const auto values = parse_flags(
        bench_verb(), {"--model", one + "=" + path("a.onnx"), "--model", other + "=" + path("b.onnx")});
    const auto read = read_models(*values, options);
    return read ? "" : read.error().sentence();
  }
  test::TemporaryFolder folder_;
};

TEST_F(ModelFlags, ReadsNameAndPath) {
  const auto named = parse_model("face v1.0=" + path("a.onnx"));
  ASSERT_TRUE(named) << named.error().sentence();
  EXPECT_EQ(named->name, "face v1.0");
  EXPECT_EQ(named->path, path("a.onnx"));
  EXPECT_EQ(parse_model(path("a.onnx"))->name, "a");
  EXPECT_EQ(parse_model(path("size=s/m.onnx"))->path, path("size=s/m.onnx")) << "a path may hold '='";
  EXPECT_EQ(parse_model("/nowhere/size=s/m.onnx")->path, "/nowhere/size=s/m.onnx");
}

TEST_F(ModelFlags, ReadsSettingsAfterThePath) {
  const auto model = parse_model("m=a.onnx,task=yolox,conf=0.6,backend=onnxruntime,iou=1");
  ASSERT_TRUE(model) << model.error().sentence();
  EXPECT_EQ(model->path, "a.onnx");
  EXPECT_EQ(model->task, "yolox");
  EXPECT_EQ(model->backend, "onnxruntime");
  EXPECT_EQ(model->confidence, 0.6);
  EXPECT_EQ(model->iou, 1.0);
  EXPECT_EQ(parse_model("m=a.onnx")->confidence, std::nullopt);
  EXPECT_EQ(parse_model("m=odd,name.onnx")->path, "odd,name.onnx");
  EXPECT_EQ(parse_model("m=x,task=y/m.onnx")->path, "x,task=y/m.onnx") << "part of a path";
  EXPECT_EQ(parse_model("m=a.onnx")->every, 1);
  EXPECT_EQ(parse_model("m=a.onnx,every=5")->every, 5);
  EXPECT_EQ(words_of(*parse_model("m=a.onnx,every=5")), "m=a.onnx,every=5");
  EXPECT_FALSE(parse_model("m=a.onnx")->isolated);
  EXPECT_FALSE(parse_model("m=a.onnx,isolated=off")->isolated);
  EXPECT_EQ(words_of(*parse_model("m=a.onnx,isolated=on")), "m=a.onnx,isolated=on");
  EXPECT_EQ(
      error_of("m=a.onnx,isolated=yes"),
      "invalid setting isolated=yes of model m; use on or off; isolated=on runs the model in a separate "
      "process in --pool");
  EXPECT_EQ(error_of("m=a.onnx,every=0"),
            "invalid setting every=0 of model m; use a whole number of at least 1; every=5 runs the model on "
            "every fifth frame of --pool");
  EXPECT_EQ(error_of("m=a.onnx,conf=high"), "invalid setting conf=high of model m; use a number from 0 to 1");
  EXPECT_EQ(error_of("m=a.onnx,iou=1.5"), "invalid setting iou=1.5 of model m; use a number from 0 to 1");
  EXPECT_EQ(error_of("a.onnx,precision=int8"),
            "invalid setting precision=int8 of model a; use fp32, fp16 or bf16");
}

TEST_F(ModelFlags, ReadsRuntimeSettingsAfterThePath) {
  const auto model = parse_model("m=a.onnx,arena=off,conf=0.6,prepack=off,threads=2");
  ASSERT_TRUE(model) << model.error().sentence();
  EXPECT_EQ(model->path, "a.onnx");
  EXPECT_EQ(model->settings, "arena=off,prepack=off,threads=2");
  EXPECT_EQ(words_of(*model), "m=a.onnx,conf=0.6,arena=off,prepack=off,threads=2");
}

TEST_F(ModelFlags, NamesTheValuesOfAnInvalidSetting) {
  EXPECT_EQ(error_of("m=a.onnx,arena=maybe,conf=0.5"),
            "invalid setting arena=maybe of model m; use on or off");
  EXPECT_EQ(error_of("/x/a.onnx,threads=9999"),
            "invalid setting threads=9999 of model a; use 0 to 1024, or auto");
  EXPECT_EQ(error_of("m=a.onnx,graph=3"), "invalid setting graph=3 of model m; use 0, 1, 2 or all");
  for (const std::string_view name : setting_names()) EXPECT_FALSE(values_of_setting(name).empty()) << name;
}

TEST_F(ModelFlags, RejectsInvalidNames) {
  EXPECT_EQ(error_of("../x=" + path("a.onnx")),
            "invalid model name '../x': a name can have letters, digits, spaces, '.', '_' and '-', but no "
            "slash; write --model NAME=PATH");
  EXPECT_THAT(error_of("a b/c=" + path("a.onnx")), testing::HasSubstr("invalid model name 'a b/c'"));
  EXPECT_THAT(error_of("a:b=" + path("a.onnx")), testing::HasSubstr("invalid model name 'a:b'"));
  EXPECT_EQ(error_of("=" + path("a.onnx")), "a model's name is empty; write --model NAME=PATH");
  EXPECT_EQ(error_of("m="), "the model 'm' has no path; write --model NAME=PATH");
  EXPECT_EQ(error_of("größe=" + path("a.onnx")), "");
}

TEST_F(ModelFlags, ANameFromAFileIsAlwaysValid) {
  EXPECT_EQ(model_name_of("/x/yolo (1).onnx"), "yolo _1_");
  EXPECT_EQ(model_name_of("/"), "model");
  EXPECT_TRUE(check_model_name(model_name_of("/x/a\nb:c.onnx")));
}

TEST_F(ModelFlags, RejectsEqualNamesAndFileNames) {
  EXPECT_EQ(error_of_both("m", "m"),
            "two models are named 'm'; give each model a different name with --model NAME=PATH");
  EXPECT_EQ(error_of_both("a b", "a_b"),
            "the model names 'a b' and 'a_b' conflict: both would write files named 'a_b'; rename one of "
            "them with --model NAME=PATH");
  EXPECT_EQ(error_of_both("a b", "a-b"), "");
}

}  // namespace
}  // namespace headroom::cli

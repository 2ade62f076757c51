#include "cli/bench_flags.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
}

TEST_F(ModelFlags, ReadsRuntimeSettingsAfterThePath) {
  const auto model = parse_model("m=a.onnx,arena=off,conf=0.6,prepack=off,threads=2");
  ASSERT_TRUE(model) << model.error().sentence();
  EXPECT_EQ(model->path, "a.onnx");
  EXPECT_EQ(model->settings, "arena=off,prepack=off,threads=2");
  EXPECT_EQ(words_of(*model), "m=a.onnx,conf=0.6,arena=off,prepack=off,threads=2");
}

TEST_F(ModelFlags, NamesTheValuesOfAnInvalidSetting) {
  for (const auto& [setting, values] :
       {std::pair{"isolated=yes", "on or off; isolated=on runs the model in a separate process in --pool"},
        {"every=0", "a whole number of at least 1; every=5 runs the model on every fifth frame of --pool"},
        {"conf=high", "a number from 0 to 1"},
        {"iou=1.5", "a number from 0 to 1"},
        {"precision=int8", "fp32, fp16 or bf16"},
        {"arena=maybe", "on or off"},
        {"threads=9999", "0 to 1024, or auto"},
        {"graph=3", "0, 1, 2 or all"}}) {
    const std::string error = fmt::format("invalid setting {} of model a; use {}", setting, values);
    EXPECT_EQ(error_of(fmt::format("/x/a.onnx,{}", setting)), error);
    EXPECT_EQ(error_of(fmt::format("a=m.onnx,{},device=cpu", setting)), error);
  }
  for (const std::string_view name : setting_names()) EXPECT_FALSE(values_of_setting(name).empty()) << name;
}

TEST_F(ModelFlags, RejectsInvalidNames) {
  for (const char* name : {"../x", "a b/c", "a:b"})
    EXPECT_EQ(error_of(name + ("=" + path("a.onnx"))),
              fmt::format("invalid model name '{}': a name can have letters, digits, spaces, '.', '_' and "
                          "'-', but no slash; write --model NAME=PATH",
                          name));
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

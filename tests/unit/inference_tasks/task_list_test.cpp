// Tests which task a model gets, the errors of forced tasks, and that no shape or value can crash a task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "inference/tasks/task_base.h"
#include "made_model.h"

namespace headroom::inference {
namespace {

using test::model;
using test::picture_model;
using test::spec;

// The name of the task that a model gets, or "none".
std::string task_of(const ModelDescription& description, const std::string& forced = "") {
  TaskOptions options;
  options.forced = forced;
  const auto task = test::value_of(create_task(description, options));
  return task ? std::string(task->name()) : "none";
}

// One model per task, as small as the task allows.
struct Example {
  std::string task;
  ModelDescription model;
};

std::vector<Example> examples() {
  std::vector<TensorSpec> yunet;
  for (const char* kind : {"cls", "obj", "bbox", "kps"})
    for (const std::int64_t stride : {8, 16, 32}) {
      const std::int64_t columns = kind[0] == 'b' ? 4 : kind[0] == 'k' ? 10 : 1;
      yunet.push_back(spec(std::string(kind) + "_" + std::to_string(stride),
                           {1, (64 / stride) * (64 / stride), columns}));
    }
  const auto small = [](std::vector<TensorSpec> outputs, test::Metadata metadata = {}) {
    return model({spec("images", {1, 3, 64, 64})}, std::move(outputs), std::move(metadata));
  };
  return {
      {"blazeface",
       model({spec("input", {1, 128, 128, 3})}, {spec("a", {1, 512, 1}), spec("b", {1, 384, 1}),
                                                 spec("c", {1, 512, 16}), spec("d", {1, 384, 16})})},
      {"yunet", small(yunet)},
      {"ultraface", small({spec("scores", {1, 100, 2}), spec("boxes", {1, 100, 4})})},
      {"db_text", model({spec("x", {1, 3, 64, 64})}, {spec("sigmoid_0.tmp_0", {1, 1, 64, 64})})},
      {"yolo_end2end", small({spec("output0", {1, 300, 6})})},
      {"yolov5", small({spec("output0", {1, 252, 85})})},
      {"yolov5", small({spec("output0", {1, 252, 6})})},  // one class: as narrow as an end-to-end export
      {"yolox", small({spec("output", {1, 84, 6})})},
      {"yolox", small({spec("output", {1, 84, 85})})},
      {"yolov8", small({spec("output0", {1, 6, 84})})},
      {"yolo_segmentation", small({spec("output0", {1, 38, 84}), spec("output1", {1, 32, 16, 16})})},
      {"mlsd", model({spec("in", {1, 64, 64, 4})},
                     {spec("offsets", {1, 32, 32, 4}), spec("scores", {1, 32, 32, 1})})},
      {"fastestdet", small({spec("758", {1, 85, 4, 4})})},
      {"segmentation", small({spec("segment", {1, 1, 32, 32})})},
      {"segmentation", small({spec("out", {1, 21, 64, 64})})},
      {"classification", small({spec("output0", {1, 10})}, {{"task", "classify"}})},
  };
}

TEST(TaskList, RecognisesAModelOfEveryTask) {
  std::set<std::string> seen{"none"};
  for (const Example& example : examples()) {
    EXPECT_EQ(task_of(example.model), example.task);
    EXPECT_EQ(task_of(example.model, example.task), example.task) << "forcing it changes nothing";
    EXPECT_EQ(task_of(example.model, "none"), "none");
    seen.insert(example.task);
  }
  for (const TaskName& name : task_names()) {
    EXPECT_TRUE(seen.contains(std::string(name.name))) << name.name << " has no example";
    EXPECT_FALSE(name.help.empty());
  }
}

TEST(TaskList, OtherModelsHaveNoTask) {
  const ModelDescription others[] = {
      {},
      model({spec("audio", {1, 512})}, {spec("o", {1, 1})}),
      picture_model({}),
      picture_model({spec("embedding", {1, 512})}),
      picture_model({spec("logits", {1, 10, 6625})}),
      picture_model({spec("output0", {1, 56, 8400})}, {{"task", "pose"}}),
      picture_model({spec("depth", {1, 1, 640, 640})}),
      model({spec("images", {8, 3, 640, 640})}, {spec("o", {8, 84, 8400})}),  // a batch
      model({spec("images", {1, 3, 640, 640}, ElementType::int64)}, {spec("o", {1, 84, 8400})})};
  for (const ModelDescription& other : others) EXPECT_EQ(task_of(other), "none");
}

TEST(TaskList, RejectsForcedTaskThatDoesNotExistOrFit) {
  TaskOptions options;
  const auto error = [&](const char* forced) {
    options.forced = forced;
    return test::error_of(create_task(picture_model({spec("o", {1, 84, 8400})}), options));
  };
  EXPECT_EQ(error("yolox8").kind, ErrorKind::usage);
  EXPECT_THAT(error("yolox8").sentence(), testing::HasSubstr("did you mean \"yolox\"?"));
  EXPECT_THAT(error("blazeface").sentence(), testing::HasSubstr("does not fit the task blazeface"));
}

TEST(TaskList, ImpossibleShapesNeverCrash) {
  const std::int64_t odd[] = {-1, 0, 1, 3, 4, 6, 84, 85, 640, std::numeric_limits<std::int64_t>::max()};
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    const auto any_spec = [&](const char* name) {
      test::Dims dims(random() % 6);
      for (auto& dim : dims) dim = odd[random() % std::size(odd)];
      return spec(name, dims, static_cast<ElementType>(random() % 15));
    };
    ModelDescription made = round % 2 == 0 ? picture_model({}) : ModelDescription{};
    for (auto i = random() % 3; i > 0; --i) made.inputs.push_back(any_spec("x"));
    for (auto i = random() % 5; i > 0; --i) made.outputs.push_back(any_spec("segments"));
    TaskOptions options;
    options.image_size = static_cast<int>(random());
    (void)create_task(made, options);
    for (const TaskName& name : task_names()) {
      options.forced = name.name;
      const auto task = create_task(made, options);
      EXPECT_TRUE(!task || *task || name.name == "none");
    }
  }
}

// Outputs that contradict the model's signature: missing, of other types, ranks and sizes, empty, or full
// of NaN.
TEST(TaskList, InvalidOutputsGiveNoFindings) {
  const FrameTransform transform{1, 1, 0, 0, 64, 64};
  for (const Example& example : examples()) {
    const auto task = test::make_task(example.model);
    FrameFindings findings;
    const std::vector<test::Output> outputs = test::outputs_of(example.model, NAN);
    const std::vector<TensorView> views = test::views_of(outputs);
    task->decode(views, transform, findings);
    EXPECT_EQ(findings.count(), 0) << example.task << " on NaN";
    task->decode({}, transform, findings);
    task->decode(std::span(views).first(views.size() - 1), transform, findings);
    EXPECT_EQ(findings.count(), 0) << example.task << " without its last output";
    const std::int64_t tiny[] = {1, 1, 1, 1, 1};
    for (std::size_t rank = 0; rank <= 5; ++rank)
      for (const ElementType type : {ElementType::float32, ElementType::int64}) {
        float one = 1;
        std::vector<TensorView> wrong(views.size(), TensorView{&one, type, tiny, rank});
        task->decode(wrong, transform, findings);
        for (TensorView& view : wrong) view.data = nullptr;
        task->decode(wrong, transform, findings);
      }
    const std::int64_t zero[] = {1, 0, 85, 1};
    std::vector<TensorView> empty(views.size(), TensorView{&transform, ElementType::float32, zero, 4});
    task->decode(empty, transform, findings);
  }
}

bool finite(const FrameFindings& findings) {
  bool all = true;
  const auto check = [&](auto... values) { all = all && (std::isfinite(values) && ...); };
  for (const Detection& found : findings.detections) {
    check(found.left, found.top, found.right, found.bottom, found.score);
    for (const float value : found.landmarks) check(value);
  }
  for (const Quad& quad : findings.quads) {
    check(quad.score);
    for (const float value : quad.corners) check(value);
  }
  for (const LineSegment& line : findings.lines) check(line.x0, line.y0, line.x1, line.y1, line.score);
  for (const Mask& mask : findings.masks) check(mask.left, mask.top, mask.right, mask.bottom);
  return all;
}

TEST(TaskList, AnyNumbersGiveFiniteFindings) {
  const float wild[] = {NAN, INFINITY, -INFINITY, 1e38F, -1e38F, 0, 0.5F, 1, -1, 300};
  std::mt19937 random(8);
  for (const Example& example : examples()) {
    const auto task = test::make_task(example.model);
    std::vector<test::Output> outputs = test::outputs_of(example.model);
    for (int round = 0; round < 20; ++round) {
      for (test::Output& output : outputs)
        for (float& value : output.values()) value = wild[random() % std::size(wild)];
      const int width = 1 + static_cast<int>(random() % 2000), height = 1 + static_cast<int>(random() % 2000);
      EXPECT_TRUE(finite(test::decode(*task, test::views_of(outputs), width, height))) << example.task;
    }
  }
}

// Exports of public reports that ran on made inputs, in silence: ultralytics/ultralytics#22271 and #18677
// (half precision), YunghuiHsu/deepstream-yolo-pose#2 (poses), ultralytics/ultralytics#18470 (oriented
// boxes).
TEST(CreateTask, SaysWhyAPictureModelHasNone) {
  using testing::HasSubstr;
  const auto half = [](std::string name, test::Dims dims) {
    return spec(std::move(name), std::move(dims), ElementType::float16);
  };
  const auto picture = half("images", {1, 3, 640, 640});
  const auto why = [](const ModelDescription& description) {
    EXPECT_EQ(task_of(description), "none");
    return why_without_task(description);
  };
  EXPECT_THAT(why(model({picture}, {half("output0", {1, 84, 8400})}, {{"task", "detect"}})),
              HasSubstr("float16[1,3,640,640], but tasks need float32 or uint8"));
  EXPECT_THAT(why(model({picture}, {half("output0", {1, 300, 6})})), HasSubstr("without half=True"));
  EXPECT_THAT(why(picture_model({half("output0", {1, 84, 8400})})), HasSubstr("its output is"));
  EXPECT_THAT(why(picture_model({spec("output0", {1, 56, 8400})}, {{"task", "pose"}})),
              HasSubstr("no task for exports of Ultralytics' task 'pose'"));
  EXPECT_THAT(why(picture_model({spec("output0", {1, 20, 8400})}, {{"task", "obb"}})), HasSubstr("'obb'"));
  EXPECT_THAT(why(picture_model({spec("depth", {1, 2, 3, 4, 5})})), HasSubstr("its outputs fit no task"));
  EXPECT_EQ(why(model({spec("tokens", {1, 512}, ElementType::int64)}, {spec("logits", {1, 512, 32000})})),
            "");
}

TEST(ParseNames, ReadsPythonAndRejectsOtherText) {
  using testing::ElementsAre;
  EXPECT_THAT(parse_names("{0: 'person', 1: 'bicycle'}"), ElementsAre("person", "bicycle"));
  EXPECT_THAT(parse_names("{1: 'b', 0: 'a'}"), ElementsAre("a", "b"));
  EXPECT_THAT(parse_names("['a', \"it's\"]"), ElementsAre("a", "it's"));
  EXPECT_THAT(parse_names(R"({"0": "a, b", "1": "c: d"})"), ElementsAre("a, b", "c: d"));
  EXPECT_THAT(parse_names(R"({0: 'a\'b'})"), ElementsAre("a'b"));
  for (const char* broken : {"", "{", "{}", "[]", "person", "{0: 'a'", "{0: a}", "{x: 'a'}", "{0: 'a}",
                             "{-1: 'a'}", "{99999999: 'a'}", "[1, 2]", "{0 'a'}"})
    EXPECT_TRUE(parse_names(broken).empty()) << broken;
}

}  // namespace
}  // namespace headroom::inference

#include "planning/budget_reader.h"

#include <gmock/gmock.h>

#include "planning/devices.h"

namespace headroom::planning {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string sentence_of(const std::string& text) {
  const auto budget = parse_budget(text, "b.toml");
  return budget ? "(no error)" : budget.error().sentence();
}

TEST(BudgetReader, ReadsAllKeys) {
  const auto budget = parse_budget(R"(
title = "All"
units = "decimal"
start = "together"
[device]
profile = "orin-nx-16gb"
system = "600MB"
headless = true
[rules]
most_used = "80 %"
healthy_used = 0.6
buffer = "1GiB"
[[component]]
name = "camera"
memory = "100MB"
frames = [ { resolution = "1920x1080", channels = 3, depth = 8, count = 10 },
           { resolution = "640x480", channels = 1, depth = 16 } ]
[[component]]
name = "yolo"
load_peak = "900MB"
run_mean = "500MB"
run_peak = "600MB"
transient = "50MB"
precision = "fp16"
value = 2.5
required = true
needs = ["camera"]
group = "detectors"
pipeline = "front"
[[component.variant]]
precision = "int8"
memory = "300MB"
estimate = "half"
[[component]]
name = "vlm"
model = "vila"
lazy = true
)",
                                   "b.toml");
  ASSERT_TRUE(budget) << budget.error().sentence();
  EXPECT_TRUE(budget->is_decimal);
  EXPECT_EQ(budget->start, StartMode::together);
  EXPECT_EQ(budget->device.id, "orin-nx-16gb");
  EXPECT_EQ(budget->device.total, mebibytes(15388));
  EXPECT_EQ(budget->device.system, Bytes{600'000'000});
  EXPECT_FALSE(budget->has_desktop);
  EXPECT_DOUBLE_EQ(budget->rules.most_used, 0.8);
  EXPECT_DOUBLE_EQ(budget->rules.healthy_used, 0.6);
  EXPECT_EQ(budget->rules.buffer, gibibytes(1));
  ASSERT_EQ(budget->components.size(), 3U);
  EXPECT_EQ(budget->components[0].need.frame_bytes(), (Bytes{1920 * 1080 * 3 * 10 + 640 * 480 * 2}));
  const BudgetComponent& yolo = budget->components[1];
  EXPECT_EQ(yolo.line, 18);
  EXPECT_EQ(yolo.need.load_peak, Bytes{900'000'000});
  EXPECT_EQ(yolo.need.run_mean, Bytes{500'000'000});
  EXPECT_THAT(yolo.needs, ElementsAre("camera"));
  ASSERT_EQ(yolo.variants.size(), 1U);
  EXPECT_EQ(yolo.variants[0].need.origin, (FigureOrigin{FigureOrigin::Kind::estimate, "half"}));
  EXPECT_FALSE(budget->components[2].need.run_peak);
  EXPECT_EQ(budget->components[2].need.line, 36);
}

TEST(BudgetReader, ReportsErrorsWithTheirLine) {
  struct Case {
    std::string text, error;
  };
  const std::string a = "[[component]]\nname = \"a\"\n", with_memory = a + "memory = \"5MB\"\n";
  const Case cases[] = {
      {a + "memory = \"-5MB\"\n", "b.toml:3: 'memory' is not a valid size"},
      {a + "memory = 500\n", "b.toml:3: 'memory' must be a size in quotes with its unit"},
      {a + "memory = \"5 parsecs\"\n", "b.toml:3: 'memory' is not a valid size"},
      {a + "memry = \"5MB\"\n", "b.toml:3: there is no setting 'memry'; did you mean 'memory'?"},
      {a, "b.toml:1: the component 'a' has no memory"},
      {"[[component]]\nmemory = \"5MB\"\n", "b.toml:1: a component has no name"},
      {with_memory + "\n" + with_memory, "b.toml:5: duplicate component 'a'; the first one is in line 1"},
      {with_memory + "run_peak = \"5MB\"\n", "b.toml:3: both 'memory' and 'run_peak' are set"},
      {a + "load_peak = \"5MB\"\n", "b.toml:1: load_peak and run_mean need"},
      {a + "run_peak = \"5MB\"\nrun_mean = \"6MB\"\n", "b.toml:1: run_mean is above run_peak"},
      {with_memory + "model = \"x\"\n", "b.toml:1: both a measured footprint and sizes"},
      {with_memory + "frames = { resolution = \"12\" }\n", "b.toml:4: invalid resolution '12'"},
      {with_memory + "frames = { resolution = \"2x2\", depth = 12 }\n",
       "b.toml:4: 'depth' must be the bits per channel"},
      {with_memory + "frames = { resolution = \"2x2\", count = 0 }\n",
       "b.toml:4: 'count' must be a whole number"},
      {with_memory + "value = -1\n", "b.toml:4: 'value' must be"},
      {with_memory + "lazy = 1\n", "b.toml:4: 'lazy' must be true or"},
      {with_memory + "after = [\"b\"]\n", "b.toml:1: 'a' depends on 'b', which does not exist"},
      {with_memory + "[[component.variant]]\nmemory = \"1MB\"\n", "b.toml:4: the variant changes no setting"},
      {"[device]\nprofile = \"orin-nx-16g\"\n",
       "b.toml:2: unknown device 'orin-nx-16g'; did you mean 'orin-nx-16gb'?"},
      {"[device]\nname = \"x\"\n", "b.toml:1: the device has no total memory"},
      {"[rules]\nmost_used = \"120%\"\n", "b.toml:2: 'most_used' is not a valid share"},
      {"units = \"furlongs\"\n", "b.toml:1: invalid units 'furlongs'"},
      {"start = \"later\"\n", "b.toml:1: invalid start 'later'"},
      {"title = \"x\"\n", "b.toml:1: no [[component]] in the budget"},
      {"component = 3\n", "b.toml:1: 'component' must be a list of tables"},
  };
  for (const Case& each : cases) EXPECT_THAT(sentence_of(each.text), StartsWith(each.error));
  EXPECT_THAT(sentence_of("[[component]\n"),
              AllOf(StartsWith("b.toml:1: this is not valid TOML: "),
                    EndsWith("; write tables of KEY = VALUE, as docs/plan.md shows")));
}

TEST(BudgetReader, ReportsACycleWithItsLine) {
  const std::string text =
      "[[component]]\nname = \"x\"\nmemory = \"1MB\"\nafter = [\"a\"]\n"
      "[[component]]\nname = \"a\"\nmemory = \"1MB\"\nafter = [\"b\"]\n"
      "[[component]]\nname = \"b\"\nmemory = \"1MB\"\nneeds = [\"c\"]\n"
      "[[component]]\nname = \"c\"\nmemory = \"1MB\"\nafter = [\"a\"]\n";
  EXPECT_EQ(sentence_of(text),
            "b.toml:5: the start order has a cycle: 'a' after 'b' after 'c' after 'a'; remove one of them "
            "from after or needs");
}

TEST(BudgetReader, StartOrderFollowsFileAndDependencies) {
  const auto names = [](const std::string& head) {
    const auto budget = parse_budget(head +
                                         "[[component]]\nname = \"a\"\nmemory = \"1MB\"\nafter = [\"b\"]\n"
                                         "[[component]]\nname = \"b\"\nmemory = \"1MB\"\n"
                                         "[[component]]\nname = \"c\"\nmemory = \"1MB\"\n",
                                     "b.toml");
    std::vector<std::string> all;
    if (budget)
      for (const BudgetComponent& each : budget->components) all.push_back(each.name);
    else
      all.push_back(budget.error().sentence());
    return all;
  };
  EXPECT_THAT(names(""), ElementsAre("b", "a", "c"));
  EXPECT_THAT(names("order = [\"c\", \"b\"]\n"), ElementsAre("c", "b", "a"));
  EXPECT_THAT(names("order = [\"a\", \"b\"]\n"),
              ElementsAre(HasSubstr("'order' starts 'a' before its dependencies")));
  EXPECT_THAT(names("order = [\"b\", \"b\"]\n"),
              ElementsAre(StartsWith("b.toml:1: 'b' is twice in 'order'")));
  EXPECT_THAT(names("order = [\"z\"]\n"), ElementsAre(StartsWith("b.toml:1: unknown component 'z'")));
}

TEST(DeviceProfiles, HaveNamesAndSources) {
  for (const DeviceProfile& profile : device_profiles()) {
    EXPECT_EQ(*device_profile(profile.id), profile);
    EXPECT_GT(profile.total, profile.system + profile.desktop) << profile.id;
    EXPECT_FALSE(profile.source.empty()) << profile.id;
  }
  EXPECT_EQ(device_profile("Orin_NX_16GB")->id, "orin-nx-16gb");
}

// As budgets and questions name them: asierarranz/Cool_Demos#4, NVIDIA-AI-IOT/jetson-ai-lab#237,
// MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47, rossumai/nvgpu#37.
TEST(DeviceProfiles, HaveOtherNames) {
  for (const char* name : {"gb10", "dgx-spark", "NVIDIA DGX Spark", "NVIDIA-GB10", "gx10"}) {
    ASSERT_TRUE(device_profile(name)) << name;
    EXPECT_EQ(device_profile(name)->id, "dgx-spark") << name;
  }
  EXPECT_EQ(device_profile("gb10")->total, mebibytes(124'610));  // 121.69 GiB
  for (const char* name : {"orin-nano-super", "Jetson Orin Nano Super", "jetson_orin_nano_super_8gb"}) {
    ASSERT_TRUE(device_profile(name)) << name;
    EXPECT_EQ(device_profile(name)->id, "orin-nano-8gb") << name;
  }
  EXPECT_EQ(device_profile("jetson-agx-thor")->id, "agx-thor");
  // Two modules have this name, so it is a question.
  EXPECT_FALSE(device_profile("orin-nano"));
}

}  // namespace
}  // namespace headroom::planning

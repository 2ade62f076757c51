// The views of small comparisons against their golden files. After an intended change:
//   HEADROOM_UPDATE_GOLDEN=1 build/release/tests/recording_report_test --gtest_filter='*DiffGolden*'
// and read the difference with git before you commit it.
#include "report/comparison/recording_diff.h"

#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

using comparison::DiffBy;
using test::RecordingBuilder;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kBase = 0x400000, kMillisecond = 1'000'000;

std::vector<comparison::NamedFrame> names_of(std::uint64_t return_address) {
  const std::string program = "detector";
  switch (return_address - kBase) {
    case 0x1011:
      return {{"std::vector<float>::resize(unsigned long)", program},
              {"Weights::read(std::string const&)", program}};
    case 0x2021:
      return {{"Session::load()", program}};
    case 0x2055:
      return {{"Session::run(Tensor const&) const", program}, {"main", program}};
    case 0x3031:
      return {{"(anonymous namespace)::workspace(long)", program}};
    case 0x4041:
      return {{"Log::append(char const*)", program}};
    default:
      return {{"detector+0x5050", program, false}};
  }
}

// A model that allocates `weights`. Each run needs `workspace` in a layer and leaks `log`.
struct Model {
  std::uint64_t weights = 12 << 20, workspace = 2 << 20, log = 3000, runs = 12;
  bool has_cache = false;
};

void run_model(RecordingBuilder& builder, const Model& model) {
  builder.module("/opt/app/bin/detector", std::string(20, '\x11'), kBase, kBase + 0x100000, kBase);
  const auto session = builder.scope("detector.onnx", 0, recording::ScopeSource::session);
  const auto run = builder.scope("Run", session, recording::ScopeSource::run);
  const auto conv = builder.scope("conv1", run, recording::ScopeSource::node);
  std::uint64_t time = kMillisecond;
  builder.allocate(0, time, 0x7f0000000010, model.weights, {kBase + 0x1011, kBase + 0x2021});
  if (model.has_cache) builder.allocate(0, time, 0x7f2000000010, 1 << 20, {kBase + 0x5051});
  for (std::uint64_t i = 0; i < model.runs; ++i) {
    builder.enter_scope(0, time += kMillisecond, conv);
    builder.allocate(0, time += kMillisecond, 0x7f0001000010, model.workspace,
                     {kBase + 0x3031, kBase + 0x2055});
    builder.allocate(0, time += kMillisecond, 0x500010 + 0x100000 * i, model.log,
                     {kBase + 0x4041, kBase + 0x2055});
    builder.release(0, time += kMillisecond, 0x7f0001000010);
    builder.enter_scope(0, time += kMillisecond, 0);
  }
}

using Fill = std::function<void(RecordingBuilder&)>;

class Comparison {
 public:
  Comparison(const Fill& before, const Fill& after, test::RecordingOptions a = {},
             test::RecordingOptions b = {}) {
    before_.emplace(open("a.hrec", before, std::move(a)));
    after_.emplace(open("b.hrec", after, std::move(b)));
    const auto same = comparison::modules_of_one_build(before_->info(), after_->info());
    grouped_before_ = comparison::group_recording(*before_, names_of, same);
    grouped_after_ = comparison::group_recording(*after_, names_of, same);
    diff_ = comparison::diff_recordings(grouped_before_, grouped_after_);
  }
  Comparison(const Model& before, const Model& after)
      : Comparison([=](RecordingBuilder& builder) { run_model(builder, before); },
                   [=](RecordingBuilder& builder) { run_model(builder, after); }) {}

  DiffReport report(DiffChoice choice = {}) const {
    return {{"a.hrec", before_->info(), grouped_before_, {}},
            {"b.hrec", after_->info(), grouped_after_, {}},
            diff_,
            choice};
  }

 private:
  recording::Recording open(const std::string& name, const Fill& fill, test::RecordingOptions options) {
    RecordingBuilder builder(folder_ / name, std::move(options));
    fill(builder);
    auto opened = recording::Recording::open(builder.finish());
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }

  test::TemporaryFolder folder_;
  std::optional<recording::Recording> before_, after_;
  comparison::GroupedRecording grouped_before_, grouped_after_;
  comparison::RecordingDiff diff_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

const Model kGrown{.workspace = 9 << 20, .log = 60'000, .has_cache = true};

TEST(RecordingDiffGolden, EachView) {
  const Comparison grown(Model{}, kGrown);
  test::compare_with_golden("recording_diff/grown.txt", diff_to_terminal(grown.report(), false, 80));
  test::compare_with_golden("recording_diff/grown_by_stack.txt",
                            diff_to_terminal(grown.report({.by = DiffBy::stack}), false, 80));
  test::compare_with_golden("recording_diff/grown.json", to_text(diff_to_json(grown.report())));
  test::compare_with_golden("recording_diff/grown.csv", diff_to_csv(grown.report()));
}
TEST(RecordingDiffGolden, TreesAndMissingParts) {
  test::RecordingOptions killed;
  killed.full = killed.closed = false;
  const Comparison comparison([](RecordingBuilder& builder) { run_model(builder, {}); },
                              [](RecordingBuilder& builder) {
                                run_model(builder, {});
                                builder.gap(1, 90 * kMillisecond, 250);
                              },
                              {}, killed);
  DiffReport report = comparison.report({.add_others = true});
  const ProcessFigures compiler{
      .file = "a.hrec.d/1-0.hrec", .command = "cc1plus a.cpp", .pid = 1, .peak_bytes = 5000};
  ProcessFigures grown = compiler, other = compiler;
  grown.file = "b.hrec.d/9-0.hrec";
  grown.peak_bytes = 5 << 20;
  other.file = "b.hrec.d/10-0.hrec";
  other.command = "as";
  report.before.others = {compiler};
  report.after.others = {grown, other, {.file = "c", .problem = "cannot read c: its header is damaged"}};
  test::compare_with_golden("recording_diff/trees.txt", diff_to_terminal(report, false, 80));
  test::compare_with_golden("recording_diff/trees.json", to_text(diff_to_json(report)));
}

TEST(RecordingDiffVerdict, NamesTheCauseInOneSentence) {
  const auto verdict = [](const Model& before, const Model& after) {
    return first_line(diff_to_terminal(Comparison(before, after).report(), false, 200));
  };
  EXPECT_EQ(verdict({}, {}), "B peaks as high as A, at 14.0 MiB.");
  EXPECT_EQ(verdict({}, {.workspace = 4 << 20}),
            "B peaks 2.0 MiB higher (+14.3 %); 100 % of it is detector.onnx/Run/conv1.");
  EXPECT_EQ(verdict({.workspace = 4 << 20}, {}),
            "B peaks 2.0 MiB lower (-12.5 %); 100 % of it is detector.onnx/Run/conv1.");
  // Outside of any layer, the function is named.
  EXPECT_THAT(verdict({}, {.weights = 24 << 20}), HasSubstr("100 % of it is Weights::read."));
  // One place grew by more than the sum.
  EXPECT_THAT(verdict({}, {.weights = 10 << 20, .workspace = 5 << 20}),
              HasSubstr("; detector.onnx/Run/conv1 alone holds 3.0 MiB more."));
  EXPECT_THAT(verdict({}, {.log = 100'000}), HasSubstr(" At its end, 1.1 MiB more is live."));
}

TEST(RecordingDiffVerdict, GivesNoPercentageOfZero) {
  const Comparison comparison([](RecordingBuilder&) {},
                              [](RecordingBuilder& builder) { run_model(builder, {}); });
  const std::string text = diff_to_terminal(comparison.report(), false, 80);
  EXPECT_THAT(text, StartsWith("B peaks 14.0 MiB higher; 86 % of it is"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  EXPECT_FALSE(diff_to_json(comparison.report())["change"].contains("peak_percent"));
}

TEST(RecordingDiffTable, OmitsCountsOfSampledNodes) {
  for (const bool full : {false, true}) {
    const test::RecordingOptions options{.full = full};
    const auto fill = [](RecordingBuilder& builder) { run_model(builder, {}); };
    const auto fill_more = [](RecordingBuilder& builder) { run_model(builder, kGrown); };
    const Comparison comparison(fill, fill_more, options, options);
    const DiffReport report = comparison.report({.by = DiffBy::layer});
    const Json json = diff_to_json(report);
    const auto node = std::find_if(json["layers"].begin(), json["layers"].end(), [](const Json& row) {
      return row["layer_name"] == "detector.onnx/Run/conv1";
    });
    ASSERT_NE(node, json["layers"].end());
    for (const char* side : {"change", "before", "after"})
      for (const char* key : {"allocations", "allocated_bytes"})
        EXPECT_EQ((*node)[side].contains(key), full) << side << ' ' << key;
    const std::string none = "; allocated –; own peak", text = diff_to_terminal(report, false, 200);
    EXPECT_EQ(text.find(none) == std::string::npos, full) << text;
    const std::string csv = diff_to_csv(report);
    const std::size_t row = csv.find("layer,detector.onnx/Run/conv1,");
    ASSERT_NE(row, std::string::npos);
    EXPECT_EQ(csv.substr(row, csv.find('\r', row) - row).find(",,,,") == std::string::npos, full) << csv;
  }
}

// A large decrease is selected before a small growth, but is listed below it.
TEST(RecordingDiffTable, SelectsTheRowsThatChangedMost) {
  const Comparison comparison(Model{}, Model{.weights = 1 << 20, .log = 3001});
  const Json top = diff_to_json(comparison.report({.by = DiffBy::stack, .top = 1}));
  EXPECT_EQ(top["stacks"][0]["change"]["at_peak_bytes"], -(11 << 20));
}

TEST(RecordingDiffTerminal, FitsTheScreenAndRemovesControlCharacters) {
  const Comparison comparison([](RecordingBuilder& builder) { run_model(builder, {}); },
                              [](RecordingBuilder& builder) {
                                builder.enter_scope(0, 1, builder.scope("evil\033[31m\nlayer"));
                                builder.allocate(0, 2, 0x10000, 64 << 20, {kBase + 0x3031});
                              });
  for (const int width : {40, 80, 200}) {
    const std::string text = diff_to_terminal(comparison.report(), false, width);
    EXPECT_EQ(text.find('\033'), std::string::npos);
    EXPECT_LE(std::ranges::count(text, '\n'), 45);
  }
  EXPECT_THAT(diff_to_terminal(comparison.report(), true, 80), StartsWith("\033[31m"));
}

}  // namespace
}  // namespace headroom::report

// headroom_memory.MemoryTracer in Debian's Python with Debian's PyTorch. tests/cli/memory_tracer_checks.py
// checks its figures; this file also checks its recordings.
#include <csignal>
#include <map>

#include "cli/command.h"
#include "recording/recording.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;

const std::string kChecks = test::source_path("tests/cli/memory_tracer_checks.py");

CommandOptions with_package() {
  CommandOptions options;
  options.environment = {{"PYTHONPATH", test::built_path("python")}, {"PYTHONDONTWRITEBYTECODE", "1"}};
  return options;
}

CommandResult python(const std::vector<std::string>& arguments) {
  CommandOptions options = with_package();
  options.binary = HEADROOM_SYSTEM_PYTHON;
  return run_headroom(arguments, options);
}

class PythonMemoryTracer : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HEADROOM_SANITIZED
    GTEST_SKIP() << "Python is built without a sanitizer";
#endif
    if (!fs::exists(test::built_path("python/headroom_memory/libheadroom_memory_tracer.so")))
      GTEST_SKIP() << "the memory tracer was not built: apt-get install libtorch-dev";
    // Not by importing it: that takes seconds, and each test is a separate process.
    static const CommandResult torch =
        python({"-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"});
    if (torch.exit_code != 0) GTEST_SKIP() << "PyTorch is absent: apt-get install python3-torch";
  }
  static CommandResult run_checks(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kChecks);
    CommandResult result = python(arguments);
    return result;
  }
  static void expect_content(const std::vector<std::string>& arguments) {
    const CommandResult result = run_checks(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  Json report() const {
    const CommandResult result = run_headroom({"report", "--json", recording()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto json = parse_json(result.out);
    return json ? *json : Json();
  }
  // A layer's bytes at the end of the recording.
  std::int64_t left_in(const std::string& name) const {
    const Json json = report();
    for (const Json& layer : get_member(json, "layers"))
      if (get_text(layer, "layer_name") == name) return get_integer(layer, "at_end_bytes").value_or(-1);
    return -1;
  }
  std::string recording() const { return (folder_ / "a.hrec").string(); }
  TemporaryFolder folder_;
};

TEST_F(PythonMemoryTracer, FiguresMatchTheShapes) { expect_content({"figures"}); }
TEST_F(PythonMemoryTracer, KeepsCompatibleNamesDefaultsAndFormats) { expect_content({"interface"}); }
TEST_F(PythonMemoryTracer, RestoresReplacedFunctions) { expect_content({"restored"}); }
TEST_F(PythonMemoryTracer, WorksWithThreadsNestedTracersAndOtherCode) { expect_content({"together"}); }
TEST_F(PythonMemoryTracer, CallsBehaveAsUntraced) { expect_content({"calls"}); }
TEST_F(PythonMemoryTracer, TorchScriptModulesAreLayers) { expect_content({"script"}); }
TEST_F(PythonMemoryTracer, GpuFiguresMatchTheCachingAllocator) {
  const CommandResult result = run_checks({"cuda"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  if (result.out.find("skipped") != std::string::npos) GTEST_SKIP() << "no GPU";
}
// A million of them: benchmarks/memory_tracer.py.
TEST_F(PythonMemoryTracer, MemoryDoesNotGrowWithPasses) { expect_content({"soak", "50000"}); }

TEST_F(PythonMemoryTracer, FiguresAreTheSameUnderHeadroomTrace) {
  const CommandResult result = run_headroom(
      {"trace", "--out", recording(), "--", HEADROOM_SYSTEM_PYTHON, kChecks, "figures"}, with_package());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::map<std::string, std::string> sources;
  const Json json = report();
  for (const Json& layer : get_member(json, "layers"))
    sources[get_text(layer, "layer_name")] = get_text(layer, "source");
  EXPECT_EQ(sources["Net/blocks/0/up"], "module");
}

TEST_F(PythonMemoryTracer, RecordingSurvivesAKilledProcess) {
  const CommandResult result = run_checks({"recorded", recording()});
  EXPECT_EQ(result.signal, SIGKILL) << result.out << result.err;
  auto opened = recording::Recording::open(recording());
  ASSERT_TRUE(opened.has_value());
  std::map<std::string, std::uint64_t> bytes;
  opened->for_each_event([&](const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::allocate) bytes[opened->path_of(event.scope)] += event.size;
  });
  // Ten passes, 32 rows, 4 × 64 columns of floats.
  EXPECT_EQ(bytes["Net/blocks/0/up"], 10u * 32 * 256 * 4);
  EXPECT_EQ(bytes["Net/head"], 10u * 32 * 10 * 4);
  const CommandResult exported =
      run_headroom({"export", recording(), "--to", "speedscope", "--out", (folder_ / "a.json").string()});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(folder_ / "a.json"));
}

// reference/gpu-allocation-fixes.md: a predictor that is made for each object and not released.
TEST_F(PythonMemoryTracer, FindsTheLeakOfAPredictorPerObject) {
  expect_content({"leak", recording()});
  // Twelve objects with five frames of 16 × 512 floats each.
  EXPECT_EQ(left_in("Predictor/encoder"), 12 * 5 * 16 * 512 * 4);
  const Json leaking = report();
  EXPECT_EQ(get_text(get_member(leaking, "leaks"), "verdict"), "leak");
  EXPECT_EQ(get_text(get_member(leaking, "leaks"), "cycle"), "Predictor");
  fs::remove(recording());
  expect_content({"clean", recording()});
  EXPECT_EQ(left_in("Predictor/encoder"), 0);
  const Json clean = report();
  EXPECT_NE(get_text(get_member(clean, "leaks"), "verdict"), "leak");
}

TEST_F(PythonMemoryTracer, OldImportWarnsOnce) {
  const CommandResult result =
      python({"-c", "from headroom import MemoryTracer; print(MemoryTracer.__module__)"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "headroom_memory.memory_tracer\n");
  const std::size_t first = result.err.find("DeprecationWarning");
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("DeprecationWarning", first + 1), std::string::npos) << result.err;
}

// In a wheel, whose module has neither PyTorch nor the library beside it.
TEST(PythonPackage, ImportsWithoutTheLibraryAndNamesTheWayToGetIt) {
  TemporaryFolder home;
  CommandOptions options;
  options.binary = HEADROOM_SYSTEM_PYTHON;
  options.environment = {{"PYTHONPATH", test::source_path("python")},
                         {"PYTHONDONTWRITEBYTECODE", "1"},
                         {"HOME", home.path().string()},
                         {"HEADROOM_MEMORY_TRACER_LIBRARY", ""}};
  const CommandResult result = run_headroom({"-c", "import headroom_memory.library as l; l.find()"}, options);
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("run `headroom build-plugin libtorch`"));
}

}  // namespace
}  // namespace headroom::test

// Layers of real PyTorch, where Debian's python3-torch is installed: compares their bytes with the tensors'
// shapes. Tests that do not need real PyTorch are in tests/unit/preload/torch_test.cpp.
#include <map>

#include "base/subprocess.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "recording/recording.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

// Blocks of at least this size are tensors, never Python's own objects.
constexpr std::uint64_t kTensorBytes = 64 << 10;

bool has_torch() {
  static const bool it_has = [] {
    SpawnOptions spawn;
    spawn.command = {HEADROOM_SYSTEM_PYTHON, "-c",
                     "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"};
    auto process = Subprocess::spawn(spawn);
    return process && process->wait().success();
  }();
  return it_has;
}

class TraceRealTorch : public testing::Test {
 protected:
  void SetUp() override {
#ifdef HEADROOM_SANITIZED
    GTEST_SKIP() << "a sanitizer's allocator precedes the tracer";
#endif
    if (!has_torch()) GTEST_SKIP() << "PyTorch is absent: apt-get install python3-torch";
  }
  CommandResult trace(const std::string& mode, const std::vector<std::string>& flags = {}) {
    const std::string script = test::source_path("tests/cli/traced_torch.py");
    const Words words = joined(
        {{"trace"}, flags, {"--out", recording().string(), "--", HEADROOM_SYSTEM_PYTHON, script, mode}});
    CommandOptions options;
    options.folder = folder_.path();
    options.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}};
    return run_headroom(words, options);
  }
  Json report() { return json_of(run_headroom({"report", "--json", recording().string()})); }
  std::map<std::string, std::string> layer_sources() {
    std::map<std::string, std::string> sources;
    const Json json = report();
    for (const Json& layer : get_member(json, "layers"))
      sources[get_text(layer, "layer_name")] = get_text(layer, "source");
    return sources;
  }
  fs::path recording() const { return folder_ / "a.hrec"; }

  // Per layer: bytes allocated for tensors, and what remains at the end.
  struct Tensors {
    std::map<std::string, std::uint64_t> given, left;
  };
  static Tensors tensors_of(const fs::path& path) {
    Tensors tensors;
    auto opened = recording::Recording::open(path);
    EXPECT_TRUE(opened.has_value());
    if (!opened) return tensors;
    std::map<std::uint64_t, std::pair<std::string, std::uint64_t>> live;
    opened->for_each_event([&](const MemoryEvent& event) {
      if (event.kind == MemoryEventKind::release) live.erase(event.address);
      if (event.kind != MemoryEventKind::allocate || event.size < kTensorBytes) return;
      const std::string layer = opened->path_of(event.scope);
      tensors.given[layer] += event.size;
      live[event.address] = {layer, event.size};
    });
    for (const auto& [address, block] : live) tensors.left[block.first] += block.second;
    return tensors;
  }

  TemporaryFolder folder_;
};

TEST_F(TraceRealTorch, LayerBytesMatchTensorShapes) {
  const CommandResult result = trace("layers");
  ASSERT_THAT(result, Ends(0));
  const Json expected = json_of(result);
  const Tensors tensors = tensors_of(recording());
  std::map<std::string, std::uint64_t> given, wanted;
  for (const auto& [layer, bytes] : tensors.given)
    if (layer.starts_with("Classifier") && !layer.ends_with("(weights)")) given[layer] = bytes;
  for (const auto& [layer, bytes] : get_member(expected, "layers").items())
    wanted[layer] = bytes.get<std::uint64_t>();
  EXPECT_EQ(given, wanted);
  // Gradients, and Adam's two moments.
  const auto parameters = static_cast<std::uint64_t>(get_integer(expected, "parameters").value_or(0));
  EXPECT_EQ(tensors.left.at("backward"), parameters);
  EXPECT_EQ(tensors.left.at("optimizer.step"), 2 * parameters);
  auto sources = layer_sources();
  EXPECT_EQ(sources["Classifier/blocks/0/body/0"], "module");
  EXPECT_EQ(sources["backward"], "phase");
}

TEST_F(TraceRealTorch, AssignsWeightsToLayersAndAutogradCallsToPhases) {
  const CommandResult result = trace("weights");
  ASSERT_THAT(result, Ends(0));
  const Json expected = json_of(result);
  const Tensors tensors = tensors_of(recording());
  std::map<std::string, std::uint64_t> left, wanted;
  for (const auto& [layer, bytes] : tensors.left)
    if (layer.ends_with("(weights)")) left[layer] = bytes;
  for (const auto& [layer, bytes] : get_member(expected, "weights").items())
    wanted[layer] = bytes.get<std::uint64_t>();
  EXPECT_EQ(left, wanted);
  EXPECT_EQ(tensors.left.at("backward"),
            static_cast<std::uint64_t>(get_integer(expected, "backward").value_or(0)));
  const Json json = report();
  std::map<std::string, std::int64_t> uses;
  std::int64_t sum = 0;
  for (const Json& use : get_member(json, "peak_uses"))
    sum += uses[get_text(use, "use")] = get_integer(use, "bytes").value_or(0);
  EXPECT_EQ(sum, get_integer(json, "peak_bytes"));
  EXPECT_GT(uses["weights"], 1'000'000);
  EXPECT_GT(uses["gradients"], 1'000'000);
  for (const Json& layer : get_member(json, "layers"))
    if (get_text(layer, "source") == "weights") {
      EXPECT_EQ(get_integer(layer, "entries"), 0);
    }
  EXPECT_THAT(run_headroom({"report", recording().string()}).out, HasSubstr("By use: weights "));
}

TEST_F(TraceRealTorch, NamesTheModuleThatLeaks) {
  ASSERT_EQ(trace("leak").exit_code, 0);
  const Json json = report();
  const Json& leaks = get_member(json, "leaks");
  EXPECT_EQ(get_text(leaks, "verdict"), "leak");
  EXPECT_EQ(get_text(leaks, "cycle"), "Keeping");
  std::map<std::string, std::int64_t> left;
  for (const Json& layer : get_member(json, "layers"))
    left[get_text(layer, "layer_name")] = get_integer(layer, "at_peak_bytes").value_or(0);
  constexpr std::int64_t kKept = 40 * 64 * 2048 * 4;
  EXPECT_GE(left["Keeping/memory"], kKept);
  EXPECT_LT(left["Keeping/linear"] - left["Keeping/linear/(weights)"], kKept / 10);
}

TEST_F(TraceRealTorch, RecordsLayersInDataLoaderWorkers) {
  ASSERT_THAT(trace("loader"), Ends(0));
  int workers = 0;
  for (const auto& entry : fs::directory_iterator(recording().string() + ".d")) {
    if (entry.path().extension() != ".hrec") continue;
    const Tensors tensors = tensors_of(entry.path());
    if (tensors.given.contains("Augment")) {
      ++workers;
      // Two items, each with its zeros and the sum.
      EXPECT_EQ(tensors.given.at("Augment"), 2u * 2 * 256 * 1024 * 4);
    }
  }
  EXPECT_EQ(workers, 4) << "two forked, two spawned";
}

TEST_F(TraceRealTorch, OtherCodeThatInspectsModulesStillWorks) {
  EXPECT_THAT(trace("looks"), Ends(0, "done\n"));
}

// If the call would only run forward, the tracer calls forward directly, without PyTorch's functions in
// between.
TEST_F(TraceRealTorch, CallsBehaveAsUntraced) { EXPECT_THAT(trace("calls"), Ends(0, "done\n")); }

TEST_F(TraceRealTorch, RecordsNoLayersIfDisabled) {
  ASSERT_EQ(trace("leak", {"--layers", "off"}).exit_code, 0);
  EXPECT_THAT(tensors_of(recording()).given, Not(Contains(Key(HasSubstr("Keeping")))));
}

// Module layers would be the only cost.
TEST_F(TraceRealTorch, OnlyGpuRecordsPhasesButNotModules) {
  ASSERT_THAT(trace("layers", {"--only", "gpu"}), Ends(0));
  auto sources = layer_sources();
  EXPECT_EQ(sources.count("Classifier"), 0u);
  EXPECT_EQ(sources["backward"], "phase");
  EXPECT_EQ(sources["optimizer.step"], "phase");
}

}  // namespace
}  // namespace headroom::test

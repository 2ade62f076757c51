// Layers of PyTorch modules, with a stub of PyTorch (tests/cli/fake_torch). Runs on this machine's Python and
// on those that HEADROOM_TEST_PYTHONS lists, separated by colons. For real PyTorch see
// tests/cli/trace_torch_test.cpp.
#include <cstdlib>

#include "unit/preload/traced_program.h"

namespace headroom::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> pythons() {
  std::vector<std::string> found;
  if (std::filesystem::exists(HEADROOM_SYSTEM_PYTHON)) found.emplace_back(HEADROOM_SYSTEM_PYTHON);
  const char* const others = std::getenv("HEADROOM_TEST_PYTHONS");
  std::string path;
  for (const char* at = others; at != nullptr; ++at) {
    if (*at != ':' && *at != 0) {
      path += *at;
      continue;
    }
    if (!path.empty()) found.push_back(path);
    path.clear();
    if (*at == 0) break;
  }
  return found;
}

class TraceTorch : public testing::TestWithParam<std::string> {
 protected:
  SeenRecording run(const std::vector<std::string>& arguments, const std::string& options = "full=1") {
    traced_.emplace(options);
    traced_->set_environment("PYTHONPATH", test::built_path("tests/fake_torch"));
    traced_->set_environment("PYTHONDONTWRITEBYTECODE", "1");
    std::vector<std::string> command{GetParam()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProgramRun result = traced_->run(command);
    EXPECT_TRUE(result.status.success()) << result.output;
    output_ = result.output;
    return traced_->root();
  }
  static std::string script() { return test::source_path("tests/cli/traced_modules.py"); }
  // The layers in which a bytearray of this size was created.
  static std::vector<std::string> layers_of(const SeenRecording& seen, std::uint64_t kibibytes) {
    return seen.scopes_of(kibibytes * 1024 + 1);
  }
  static std::size_t count_of(const SeenRecording& seen, std::uint64_t kibibytes) {
    return seen.allocations_of(kibibytes * 1024 + 1);
  }

  std::optional<TracedProgram> traced_;
  std::string output_;
};

TEST_P(TraceTorch, EveryModuleCallIsALayer) {
  const SeenRecording seen = run({script(), "late"});
  EXPECT_EQ(output_, "done\n");
  EXPECT_THAT(seen.problems, IsEmpty());
  EXPECT_THAT(layers_of(seen, 100), ElementsAre(""));
  // Modules have their names in the outermost module. A module with two names has the first; one in a plain
  // list has its class name.
  EXPECT_THAT(layers_of(seen, 101), ElementsAre("Net/stem"));
  EXPECT_THAT(layers_of(seen, 102), ElementsAre("Net/list/first/0"));
  EXPECT_THAT(layers_of(seen, 103), ElementsAre("Net/list/first/1"));
  EXPECT_THAT(layers_of(seen, 104), ElementsAre("Net/head"));
  EXPECT_EQ(count_of(seen, 104), 2u);
  EXPECT_THAT(layers_of(seen, 105), ElementsAre("Net/Block/0"));
  EXPECT_THAT(layers_of(seen, 106), ElementsAre("Net"));
  EXPECT_THAT(layers_of(seen, 107), ElementsAre("Net"));
  EXPECT_THAT(layers_of(seen, 108), ElementsAre(""));
  EXPECT_THAT(layers_of(seen, 109), ElementsAre("Net/late")) << "it came after the first call";
  // Exceptions.
  EXPECT_THAT(layers_of(seen, 110), ElementsAre("Raising/inner"));
  EXPECT_THAT(layers_of(seen, 111), ElementsAre("Raising"));
  EXPECT_THAT(layers_of(seen, 112), ElementsAre("Raising/thrower"));
  EXPECT_EQ(count_of(seen, 112), 4u);
  EXPECT_THAT(layers_of(seen, 113), ElementsAre(""));
  // A module called inside its own call is one layer. Beyond 64 layers, the innermost gets the rest.
  EXPECT_THAT(layers_of(seen, 120), ElementsAre("Recursive/leaf"));
  EXPECT_THAT(layers_of(seen, 121), ElementsAre("Recursive"));
  EXPECT_EQ(count_of(seen, 121), 6u);
  EXPECT_THAT(layers_of(seen, 122),
              ElementsAre(AllOf(HasSubstr("Container/inner/inner/"), Not(HasSubstr("Leaf")))));
  EXPECT_THAT(layers_of(seen, 123), ElementsAre(""));
  // Classes that override __call__.
  EXPECT_THAT(layers_of(seen, 130), ElementsAre(""));
  EXPECT_THAT(layers_of(seen, 131), ElementsAre("OwnCall"));
  EXPECT_THAT(layers_of(seen, 132), ElementsAre(""));
  EXPECT_THAT(layers_of(seen, 133), ElementsAre("Leaf"));
}

TEST_P(TraceTorch, DistinguishesModulesThatReuseAnAddress) {
  const SeenRecording seen = run({script()});
  EXPECT_EQ(count_of(seen, 140), 2000u);
  EXPECT_THAT(layers_of(seen, 140), ElementsAre("First"));
  EXPECT_THAT(layers_of(seen, 141), ElementsAre("Second"));
  // Living roots of one class are numbered, up to a limit.
  EXPECT_THAT(layers_of(seen, 142), ElementsAre("Block/0"));
  EXPECT_THAT(layers_of(seen, 143), ElementsAre("Block 2/0"));
  EXPECT_THAT(layers_of(seen, 144), ElementsAre("Block/0"));
  EXPECT_THAT(layers_of(seen, 145), ElementsAre("Block 3/0", "Block 4/0", "Block 5/0", "Block 6/0",
                                                "Block 7/0", "Block 8/0", "Block 9+/0"));
}

TEST_P(TraceTorch, ThreadsAndForkedChildrenHaveTheirOwnLayers) {
  const SeenRecording seen = run({script()});
  EXPECT_THAT(layers_of(seen, 150), ElementsAre("OfOne/leaf"));
  EXPECT_THAT(layers_of(seen, 151), ElementsAre("OfTwo/leaf"));
  EXPECT_EQ(count_of(seen, 151), 20u);
  EXPECT_THAT(layers_of(seen, 160), ElementsAre("Block/0"));
  EXPECT_EQ(count_of(seen, 161), 0u);
  const auto others = traced_->others();
  ASSERT_EQ(others.size(), 1u);
  const SeenRecording& child = others.begin()->second;
  EXPECT_THAT(layers_of(child, 160), ElementsAre("Block/0"));
  EXPECT_THAT(layers_of(child, 161), ElementsAre("Leaf"));
}

TEST_P(TraceTorch, BackwardAndTheOptimisersStepAreLayers) {
  const SeenRecording seen = run({script()});
  EXPECT_THAT(layers_of(seen, 170), ElementsAre("optimizer.step"));
  EXPECT_EQ(count_of(seen, 170), 3u);
  EXPECT_THAT(layers_of(seen, 171), ElementsAre("optimizer.step"));
  EXPECT_THAT(layers_of(seen, 172), ElementsAre("optimizer.step/Leaf"));
  EXPECT_THAT(layers_of(seen, 173), ElementsAre("backward"));
  EXPECT_THAT(layers_of(seen, 174), ElementsAre(""));
  for (const recording::Scope& scope : seen.info.scopes) {
    if (scope.name.empty()) continue;  // the root
    const bool is_phase = scope.name == "backward" || scope.name == "optimizer.step";
    EXPECT_EQ(scope.source, is_phase ? recording::ScopeSource::phase : recording::ScopeSource::module)
        << scope.name;
  }
}

TEST_P(TraceTorch, WorksAfterAFailedImport) {
  const SeenRecording seen = run({script(), "failing-first"});
  EXPECT_THAT(layers_of(seen, 101), ElementsAre("Net/stem"));
}

TEST_P(TraceTorch, ChangesNothingWithoutLayers) {
  const SeenRecording seen = run({script(), "untouched"}, "full=1,layers=off");
  EXPECT_THAT(layers_of(seen, 101), ElementsAre(""));
  EXPECT_THAT(seen.info.notes, IsEmpty());
}

TEST_P(TraceTorch, IgnoresOtherExtensionModules) {
  const SeenRecording seen = run({"-c",
                                  "import builtins; before = builtins.__build_class__\n"
                                  "import _ctypes, _struct, _json\n"
                                  "assert builtins.__build_class__ is before"});
  EXPECT_THAT(seen.info.notes, IsEmpty());
}

TEST_P(TraceTorch, IgnoresSubInterpreters) {
  const SeenRecording seen = run({"-c",
                                  "try: import _xxsubinterpreters as interpreters\n"
                                  "except ImportError: import _interpreters as interpreters\n"
                                  "import torch\n"
                                  "class Outside(torch.nn.Module):\n"
                                  "  def forward(self): return bytearray(181 * 1024)\n"
                                  "Outside()()\n"
                                  "code = 'import torch\\nclass Inside(torch.nn.Module):\\n'"
                                  "       ' def forward(self): return bytearray(180 * 1024)\\nInside()()'\n"
                                  "inside = interpreters.create()\n"
                                  "try: interpreters.run_string(inside, code)\n"
                                  "except Exception as error: assert 'ImportError' in str(error), error\n"
                                  "interpreters.destroy(inside)\n"
                                  "Outside()()\n"
                                  "print('done')"});
  EXPECT_EQ(output_, "done\n");
  EXPECT_THAT(layers_of(seen, 180), Each(""));
  EXPECT_THAT(layers_of(seen, 181), ElementsAre("Outside"));
  EXPECT_EQ(count_of(seen, 181), 2u);
}

TEST_P(TraceTorch, SurvivesARestartOfPython) {
  run({"-c",
       "import os, sys, sysconfig\n"
       "library = os.path.join(sysconfig.get_config_var('LIBDIR'), sysconfig.get_config_var('INSTSONAME'))\n"
       "print(library if os.path.exists(library) else '', sys.base_prefix, sep='\\n')"});
  const std::string library = output_.substr(0, output_.find('\n'));
  std::string home = output_.substr(library.size() + 1);
  home.pop_back();
  if (!library.ends_with(".so.1.0")) GTEST_SKIP() << "this Python has no shared library";
  TracedProgram traced;
  traced.set_environment("PYTHONPATH", test::built_path("tests/fake_torch"));
  traced.set_environment("PYTHONDONTWRITEBYTECODE", "1");
  traced.set_environment("PYTHONHOME", home);
  ASSERT_TRUE(traced
                  .run({program_path("traced_python"), library,
                        "import torch\n"
                        "class Inside(torch.nn.Module):\n"
                        "  def forward(self): return bytearray(190 * 1024)\n"
                        "kept = Inside()\n"
                        "kept()\n"})
                  .status.success());
  const SeenRecording seen = traced.root();
  EXPECT_THAT(layers_of(seen, 190), ElementsAre("Inside"));
  EXPECT_EQ(count_of(seen, 190), 3u);
}

INSTANTIATE_TEST_SUITE_P(Pythons, TraceTorch, testing::ValuesIn(pythons()),
                         [](const auto& python) { return "python" + std::to_string(python.index); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TraceTorch);

}  // namespace
}  // namespace headroom::test

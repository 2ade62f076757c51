// Libraries that use the same addresses one after another.
#include <fmt/format.h>

#include <map>
#include <set>

#include "unit/recording/events.h"

namespace headroom::recording {
namespace {

using test::RecordingBuilder;

constexpr std::uint64_t kProgram = 0x400000, kLibrary = 0x7f0000000000, kBytes = 0x10000;
const std::string kBuildA(20, '\xaa'), kBuildB(20, '\xbb');

class ModulePlacesTest : public testing::Test {
 protected:
  ModulePlacesTest() : builder_(folder_ / "a.hrec") {
    builder_.module("/app", std::string(20, '\x11'), kProgram, kProgram + kBytes, kProgram);
  }
  void load(const std::string& path, const std::string& build, std::uint64_t time,
            std::uint64_t at = kLibrary) {
    builder_.module(path, build, at, at + kBytes, at, time);
  }
  // An allocation of `size` by the library's code at `offset`, called by the program.
  void allocate(std::uint64_t time, std::uint64_t size, std::uint64_t offset = 0x100) {
    builder_.allocate(0, time, 0x1000 * size, size, {kLibrary + offset, kProgram + 0x50});
  }
  void open() {
    auto opened = Recording::open(builder_.finish());
    ASSERT_TRUE(opened.has_value());
    recording_.emplace(std::move(*opened));
  }
  // Callers by size of the allocation: "liba.so+0x100 app+0x50".
  std::map<std::uint64_t, std::string> callers() {
    std::map<std::uint64_t, std::string> callers;
    for (const MemoryEvent& event : read_events(*recording_).events) {
      std::string& words = callers[event.size];
      for (const std::uint64_t frame : recording_->stacks().frames(event.stack))
        words += (words.empty() ? "" : " ") + name_of(frame);
    }
    return callers;
  }
  // The address alone must identify the module.
  std::string name_of(std::uint64_t frame) const {
    std::set<std::string> names;
    for (const Module& module : recording_->info().modules)
      if (frame > module.start && frame <= module.end)
        names.insert(fmt::format("{}+{:#x}", module.path.substr(1), frame - module.load_bias));
    return names.size() == 1 ? *names.begin() : fmt::format("{} modules", names.size());
  }

  test::TemporaryFolder folder_;
  RecordingBuilder builder_;
  std::optional<Recording> recording_;
};

TEST_F(ModulePlacesTest, AssignsFramesToTheModuleLoadedAtThatTime) {
  load("/liba.so", kBuildA, 5);
  allocate(10, 1);
  builder_.module_gone(kLibrary, 20);
  load("/libb.so", kBuildB, 20);
  allocate(30, 2);
  allocate(40, 3, 0x200);
  open();
  for (int pass = 0; pass < 2; ++pass)
    EXPECT_EQ(callers(), (std::map<std::uint64_t, std::string>{{1, "liba.so+0x100 app+0x50"},
                                                               {2, "libb.so+0x100 app+0x50"},
                                                               {3, "libb.so+0x200 app+0x50"}}))
        << pass;
}

TEST_F(ModulePlacesTest, HandlesModulesLoadedInTurns) {
  std::map<std::uint64_t, std::string> expected;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const bool is_a = i % 2 == 0;
    load(is_a ? "/liba.so" : "/libb.so", is_a ? kBuildA : kBuildB, 100 * i);
    allocate(100 * i + 50, i + 1);
    builder_.module_gone(kLibrary, 100 * i + 90);
    expected[i + 1] = is_a ? "liba.so+0x100 app+0x50" : "libb.so+0x100 app+0x50";
  }
  allocate(5000, 100);  // no module is there now: the last one counts
  expected[100] = "libb.so+0x100 app+0x50";
  open();
  EXPECT_EQ(callers(), expected);
  EXPECT_LE(recording_->stacks().size(), 4U) << "no stack, the recorded one, and one of each library";
}

TEST_F(ModulePlacesTest, DistinguishesPartlyOverlappingModules) {
  load("/liba.so", kBuildA, 5, kLibrary - kBytes / 2);
  allocate(10, 1);
  builder_.module_gone(kLibrary - kBytes / 2, 20);
  load("/libb.so", kBuildB, 20);
  allocate(30, 2);
  open();
  EXPECT_EQ(callers(), (std::map<std::uint64_t, std::string>{{1, "liba.so+0x8100 app+0x50"},
                                                             {2, "libb.so+0x100 app+0x50"}}));
}

TEST_F(ModulePlacesTest, KeepsAFileThatIsReloadedAtTheSamePlace) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    load("/liba.so", kBuildA, 100 * i);
    allocate(100 * i + 50, i + 1);
    builder_.module_gone(kLibrary, 100 * i + 90);
  }
  open();
  for (const auto& [size, words] : callers()) EXPECT_EQ(words, "liba.so+0x100 app+0x50") << size;
  for (const Module& module : recording_->info().modules)
    if (module.path == "/liba.so") {
      EXPECT_EQ(module.start, kLibrary);
    }
  EXPECT_EQ(recording_->stacks().size(), 2U);
}

// A damaged file may contain any module records.
TEST_F(ModulePlacesTest, SurvivesInvalidModules) {
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  builder_.module("/backwards", "", kLibrary + 1, kLibrary, 0);
  builder_.module("/everything", "", 0, kTop, 0);
  builder_.module("/top", "", kTop - 4096, kTop, kTop);
  builder_.module("/top2", "", kTop - 8192, kTop, 1);
  builder_.module_gone(kTop, 3);
  load("/liba.so", kBuildA, 5);
  load("/libb.so", kBuildB, 5);  // both at once, and neither is ever unloaded
  allocate(10, 1);
  builder_.allocate(0, 20, 0x100000, 2, {kTop, 0, 1});
  open();
  EXPECT_EQ(read_events(*recording_).events.size(), 2U);
}

}  // namespace
}  // namespace headroom::recording

#include "types/runtime_settings.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(RuntimeSettings, SetsEachSettingByName) {
  RuntimeSettings wanted;
  wanted.threads = 2;
  wanted.arena = false;
  wanted.arena_extend = ArenaExtend::same_as_requested;
  wanted.memory_pattern = false;
  wanted.prepacking = false;
  wanted.graph_level = 1;
  wanted.spinning = false;
  wanted.mapped = true;
  wanted.conv_search = ConvSearch::heuristic;
  wanted.conv_small_workspace = true;
  wanted.device_graph = true;
  const std::string words = changed_settings({}, wanted);
  EXPECT_EQ(
      words,
      "threads=2,arena=off,extend=same_as_requested,pattern=off,prepack=off,graph=1,spinning=off,mapped=on,"
      "convolutions=heuristic,workspace=small,capture=on");
  RuntimeSettings read;
  EXPECT_TRUE(set_settings(read, words));
  EXPECT_EQ(read, wanted);
  EXPECT_TRUE(set_settings(read, changed_settings(wanted, {})));
  EXPECT_EQ(read, RuntimeSettings{});
  EXPECT_EQ(changed_settings(wanted, wanted), "");
}

TEST(RuntimeSettings, RejectsUnknownNamesAndValues) {
  RuntimeSettings settings;
  for (const char* words : {"arena", "arena=maybe", "arenas=off", "graph=3", "threads=-1", "threads=100000",
                            "extend=twice", "workspace=1GiB", ",", "arena=off,"})
    EXPECT_FALSE(set_settings(settings, words)) << words;
  EXPECT_TRUE(set_settings(settings, ""));
}

TEST(RuntimeSettings, DescribesSettingsByName) {
  RuntimeSettings settings;
  settings.mapped = true;
  for (const std::string_view name : {"threads", "arena", "extend", "pattern", "prepack", "graph", "mapped"})
    EXPECT_NE(settings.describe().find(std::string(name) + "="), std::string::npos) << name;
}

}  // namespace
}  // namespace headroom

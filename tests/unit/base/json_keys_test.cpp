#include "base/json_keys.h"

#include <gtest/gtest.h>

#include <sstream>

namespace headroom::test {
namespace {

TEST(JsonKeys, ReadsTheFirstLevelOnly) {
  const JsonKeys keys = read_json_keys(std::string_view(
      R"({"a": 1, "b": [{"c": 2}], "d": {"e": []}, "f": null, "g": "x", "h": 1.5, "i": true, "j": -3})"));
  EXPECT_TRUE(keys.is_whole);
  EXPECT_EQ(keys.lists.size(), 8U);
  EXPECT_TRUE(keys.has("a"));
  EXPECT_FALSE(keys.has("c"));
  EXPECT_FALSE(keys.has("e"));
  EXPECT_TRUE(keys.has_list("b"));
  EXPECT_FALSE(keys.has_list("d"));
  EXPECT_FALSE(keys.has_list("nowhere"));
}

TEST(JsonKeys, ReadsADamagedDocumentUpToTheDamage) {
  std::istringstream stream(R"({"a": 1, "b": [1, 2)");
  const JsonKeys keys = read_json_keys(stream);
  EXPECT_FALSE(keys.is_whole);
  EXPECT_TRUE(keys.has("a"));
  EXPECT_TRUE(keys.has_list("b"));
  EXPECT_FALSE(read_json_keys(std::string_view("{\"a\": 1}\n{\"a\": 1}")).is_whole) << "two of them";
  EXPECT_FALSE(read_json_keys(std::string_view("")).is_whole);
  EXPECT_TRUE(read_json_keys(std::string_view(" [1, {\"a\": 2}] \n")).lists.empty());
}

TEST(JsonKeys, BoundsDepthAndNumberOfKeys) {
  std::string deep(1 << 20, '[');
  EXPECT_FALSE(read_json_keys(std::string_view("{\"a\": " + deep)).is_whole);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\": 1,";
  EXPECT_EQ(read_json_keys(std::string_view(many)).lists.size(), 1000U);
}

}  // namespace
}  // namespace headroom::test

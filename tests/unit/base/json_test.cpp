#include "base/json.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Json, ParseErrorsNameTheDocumentAndTheOffset) {
  const auto document = parse_json("{\"a\": }", "report.json");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().what, "report.json is not valid JSON");
  EXPECT_NE(document.error().why.find("column 7"), std::string::npos) << document.error().why;
}

TEST(Json, RejectsDeepNesting) {
  EXPECT_FALSE(parse_json(std::string(200'000, '[')));
  EXPECT_FALSE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
}

TEST(Json, TypedLookUpsTreatOtherTypesAsAbsent) {
  const auto document =
      *parse_json(R"({"i": 3, "d": 1.5, "s": "x", "big": 18446744073709551615, "b": true})");
  EXPECT_EQ(get_integer(document, "i"), 3);
  EXPECT_FALSE(get_integer(document, "d"));
  EXPECT_FALSE(get_integer(document, "big"));
  EXPECT_EQ(get_number(document, "d"), 1.5);
  EXPECT_EQ(get_text(document, "s"), "x");
  EXPECT_EQ(get_text(document, "i"), "");
  EXPECT_EQ(get_bool(document, "b"), true);
  EXPECT_TRUE(get_member(document, "absent").is_null());
  EXPECT_FALSE(get_integer(Json::array(), "i"));
}

TEST(Json, OmitsMissingFiguresAndNan) {
  Json object = Json::object();
  set_if(object, "a", std::optional<double>());
  set_if(object, "b", std::optional<double>(std::nan("")));
  set_if(object, "c", std::optional<Bytes>(Bytes{7}));
  EXPECT_EQ(to_line(object), R"({"c":7})");
}

TEST(Json, ReplacesInvalidUtf8InFileNames) {
  Json object;
  object["name"] = std::string("a\xff");
  EXPECT_EQ(to_line(object), "{\"name\":\"a\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace headroom

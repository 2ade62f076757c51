#include "media/vos/prompts_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom::media::vos {
namespace {

using testing::HasSubstr;

std::vector<PromptEntry> parse(std::string_view text, PromptsFormat format) {
  auto entries = parse_prompts(text, format, "p");
  EXPECT_TRUE(entries) << entries.error().sentence();
  return entries ? std::move(*entries) : std::vector<PromptEntry>{};
}

std::string error_of(std::string_view text, PromptsFormat format) {
  const auto entries = parse_prompts(text, format, "clip/prompts");
  return entries ? "no error" : entries.error().sentence();
}
std::string json_error(std::string_view text) { return error_of(text, PromptsFormat::json); }
std::string csv_error(std::string_view text) { return error_of(text, PromptsFormat::csv); }

void expect_two_objects(const std::vector<PromptEntry>& entries) {
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].video, "clip");
  EXPECT_EQ(entries[0].object, "1");
  EXPECT_EQ(entries[0].prompt.frame, 0);
  ASSERT_EQ(entries[0].prompt.points.size(), 2U);
  EXPECT_EQ(entries[0].prompt.points[1].x, 30);
  EXPECT_EQ(entries[0].prompt.points[1].y, 40.5F);
  EXPECT_TRUE(entries[0].prompt.points[0].positive);
  EXPECT_FALSE(entries[0].prompt.points[1].positive);
  EXPECT_FALSE(entries[0].prompt.box);
  EXPECT_EQ(entries[1].object, "dog");
  EXPECT_EQ(entries[1].prompt.frame, 7);
  ASSERT_TRUE(entries[1].prompt.box);
  EXPECT_EQ(entries[1].prompt.box->left, 1);
  EXPECT_EQ(entries[1].prompt.box->bottom, 4);
}

TEST(PromptsFile, ReadsJson) {
  const char* list = R"([{"video": "clip", "object": "dog", "frame": 7, "box": [1, 2, 3, 4]},
                         {"video": "clip", "object": 1, "frame": 0, "points": [[10, 20], [30, 40.5]],
                          "labels": [1, 0]}])";
  expect_two_objects(parse(list, PromptsFormat::json));
  expect_two_objects(parse(std::string("{\"prompts\": ") + list + "}", PromptsFormat::json));
}

TEST(PromptsFile, ReadsCsv) {
  expect_two_objects(
      parse("video,object,frame,points,labels,box\nclip,1,0,10 20 30 40.5,1 0,\nclip,dog,7,,,1 2 3 4\n",
            PromptsFormat::csv));
  // Columns in another order, quotes, other separators, CRLF, an empty line, a byte order mark.
  expect_two_objects(
      parse("\xEF\xBB\xBFObject,video,Frame,box,points,labels\r\n\r\n\"dog\",clip,7,\"[1, 2, 3, 4]\"\r\n"
            "1,\"clip\",0,,\"(10,20);(30,40.5)\",1;0",
            PromptsFormat::csv));
}

TEST(PromptsFile, JoinsLinesOfTheSameObjectAndFrame) {
  const auto entries =
      parse("object,frame,points,labels,box\n1,0,1 2,1,\n2,0,5 6,,\n1,0,3 4,0,\n1,0,,,0 0 9 9\n1,3,7 8,,\n",
            PromptsFormat::csv);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].prompt.points.size(), 2U);
  EXPECT_TRUE(entries[0].prompt.box);
  EXPECT_EQ(entries[1].object, "2");
  EXPECT_EQ(entries[2].prompt.frame, 3);
}

TEST(PromptsFile, NamesTheProblemOfAnEntry) {
  EXPECT_EQ(
      csv_error("object,frame,points\n1,0,1 2\n1,x,1 2\n"),
      "cannot read the prompts clip/prompts: line 3: invalid frame 'x'; write a number, counted from 0");
  EXPECT_EQ(json_error(R"([{"object": 1, "frame": 0, "box": [1, 2, 3, 4]}, {"object": 1, "frame": 1}])"),
            "cannot read the prompts clip/prompts: prompt 2: it has neither points nor a box; give points, a "
            "box, or both");
  EXPECT_THAT(csv_error("frame,points\n0,1 2\n"), HasSubstr("line 2: it has no object"));
  EXPECT_THAT(csv_error("object,points\n1,1 2\n"), HasSubstr("line 2: it has no frame"));
  EXPECT_THAT(csv_error("object,frame,points\n1,-1,1 2\n"), HasSubstr("line 2: frame -1 is below 0; count"));
  EXPECT_THAT(csv_error("object,frame,points\n1,0,1 2 3\n"), HasSubstr("points has 3 numbers"));
  EXPECT_THAT(csv_error("object,frame,points\n1,0,1 two\n"), HasSubstr("invalid points '1 two'"));
  EXPECT_THAT(csv_error("object,frame,points\n1,0,1 nan\n"), HasSubstr("nan is not a place in a picture"));
  EXPECT_THAT(csv_error("object,frame,points\n1,0,1,2\n"), HasSubstr("it has 4 fields, the first line 3"));
  EXPECT_THAT(csv_error("object,frame,points,labels\n1,0,1 2 3 4,1\n"),
              HasSubstr("the number of labels is 1, of points 2"));
  EXPECT_THAT(csv_error("object,frame,points,labels\n1,0,1 2,2\n"), HasSubstr("a label is neither 1 nor 0"));
  EXPECT_THAT(csv_error("object,frame,box\n1,0,1 2 3\n"), HasSubstr("box has 3 numbers"));
  EXPECT_THAT(csv_error("object,frame,box\n1,0,9 2 3 4\n"), HasSubstr("the box ends before it begins"));
  EXPECT_THAT(csv_error("object,frame,box\n1,0,1 1 2 2\n1,0,1 1 3 3\n"),
              HasSubstr("object 1 has a second box in frame 0"));
  EXPECT_THAT(csv_error("object,frame,point\n1,0,1 2\n"),
              HasSubstr("unknown column 'point'; did you mean 'points'?"));
  EXPECT_THAT(csv_error("object,frame,frame\n"), HasSubstr("the column frame is there twice"));
  EXPECT_THAT(json_error(R"([{"object": 1, "frame": 0, "boxes": []}])"),
              HasSubstr("prompt 1: unknown key 'boxes'; did you mean 'box'?"));
  EXPECT_THAT(json_error(R"([{"object": [], "frame": 0}])"), HasSubstr("prompt 1: invalid object"));
  EXPECT_THAT(json_error(R"([{"object": 1, "frame": 0.5}])"), HasSubstr("prompt 1: invalid frame"));
  EXPECT_THAT(json_error(R"([{"object": 1, "frame": 0, "points": ["a"]}])"),
              HasSubstr("prompt 1: invalid points"));
  EXPECT_THAT(json_error("[1]"), HasSubstr("prompt 1: it is not an object"));
}

TEST(PromptsFile, NamesTheProblemOfTheFile) {
  EXPECT_THAT(json_error("{\"prompts\": 1}"), HasSubstr("it has no list of prompts"));
  EXPECT_THAT(json_error("{"), HasSubstr("cannot read the prompts clip/prompts: "));
  EXPECT_THAT(json_error("[]"), HasSubstr("it has no prompts; write one for each object"));
  EXPECT_THAT(csv_error(""), HasSubstr("it has no prompts"));
  EXPECT_THAT(csv_error("object,frame\n\xff,0\n"), HasSubstr("it is not UTF-8"));
}

TEST(PromptsFile, ExtensionChoosesTheFormat) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "a.CSV", "object,frame,points\n1,0,1 2\n");
  test::write_text(folder / "a.json", R"([{"object": 1, "frame": 0, "points": [1, 2]}])");
  EXPECT_TRUE(read_prompts(folder / "a.CSV"));
  EXPECT_TRUE(read_prompts(folder / "a.json"));
  EXPECT_FALSE(read_prompts(folder / "none.json"));
}

}  // namespace
}  // namespace headroom::media::vos

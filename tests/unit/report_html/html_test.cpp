#include <fmt/format.h>

#include <fstream>

#include "base/json.h"
#include "page_text.h"
#include "report/page.h"
#include "report/run/report_json.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "samples.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

using test::element_text;

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

TEST(HtmlReport, ContainsTheSameJsonAsReportJson) {
  test::TemporaryFolder folder;
  const BenchResult run = test::sample_run();
  const std::string html = to_html(run, folder.path(), "");
  const Result<Json> embedded = parse_json(element_text(html, "report"));
  ASSERT_TRUE(embedded) << embedded.error().sentence();
  EXPECT_EQ(to_text(*embedded), to_text(to_json(run)));
}

TEST(HtmlReport, ContainsTheSameVerdictAsTheOtherReports) {
  test::TemporaryFolder folder;
  const BenchResult run = test::sample_run();
  const auto embedded = parse_json(element_text(to_html(run, folder.path(), ""), "verdict"));
  ASSERT_TRUE(embedded);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(get_text(*embedded, "tone"), "bad");
  EXPECT_EQ(get_text(*embedded, "sentence"), verdict.sentence);
  EXPECT_EQ(get_member(*embedded, "details").size(), verdict.details.size());
}

TEST(HtmlReport, DescribesTheLimitAsReportMdDoes) {
  test::TemporaryFolder folder;
  BenchResult run = test::sample_run();
  const auto embedded = parse_json(element_text(to_html(run, folder.path(), ""), "verdict"));
  ASSERT_TRUE(embedded);
  EXPECT_EQ(get_text(get_member(*embedded, "limit"), "meaning"), meaning_of(*run.limit));
  EXPECT_EQ(get_text(get_member(*embedded, "limit"), "notes"), run.limit->note);
  run.limit.reset();
  EXPECT_EQ(to_html(run, folder.path(), "").find("\"meaning\""), std::string::npos);
}

TEST(HtmlReport, EscapesData) {
  test::TemporaryFolder folder;
  BenchResult run = test::sample_run();
  run.host.hostname = "<img src=x onerror=alert(1)>";
  const std::string html = to_html(run, folder.path(), "{\"model\":\"</script><b>\"}\n");
  // The page's own tags and the four data elements, and nothing else.
  EXPECT_EQ(occurrences(html, "<script"), occurrences(empty_page(Page::report), "<script") + 4);
  EXPECT_EQ(occurrences(html, "</script"), occurrences(empty_page(Page::report), "</script") + 4);
  EXPECT_EQ(occurrences(html, "<!--"),
            occurrences(empty_page(Page::report), "<!--") - 1);  // the marker was replaced
  EXPECT_EQ(occurrences(html, "<img"), occurrences(empty_page(Page::report), "<img"));
  EXPECT_THAT(element_text(html, "report"),
              testing::HasSubstr(R"(\u003c/script>\u003c!--\u003cscript>alert(1))"));
}

TEST(HtmlReport, AcceptsNamesThatAreNotUtf8) {
  test::TemporaryFolder folder;
  BenchResult run = test::sample_run();
  run.source->skipped.push_back({"\xff\xfe.jpg", "truncated JPEG"});
  EXPECT_TRUE(parse_json(element_text(to_html(run, folder.path(), ""), "report")));
}

TEST(HtmlReport, EmbedsExistingPictures) {
  test::TemporaryFolder folder;
  test::write_sample_images(folder.path());
  const auto images = parse_json(element_text(to_html(test::sample_run(), folder.path(), ""), "images"));
  ASSERT_TRUE(images);
  EXPECT_EQ(images->size(), 2u);  // the third one is missing; the report is written anyway
  EXPECT_THAT(get_text(*images, "samples/yolox_nano_416/000.png"),
              testing::StartsWith("data:image/png;base64,iVBORw0KGgo"));
}

TEST(HtmlReport, EmbedsOnlyPicturesOfTheRunFolder) {
  test::TemporaryFolder outside;
  test::write_sample_images(outside.path());
  const std::filesystem::path folder = outside / "run";
  std::filesystem::create_directories(folder);
  test::write_text(folder / "notes.png", "not a picture");
  BenchResult run = test::sample_run();
  run.models[0].annotated_images = {"../samples/yolox_nano_416/000.png",
                                    (outside / "samples/yolox_nano_416/000.png").string(),
                                    "x/../../samples/yolox_nano_416/000.png", "notes.png", ""};
  EXPECT_EQ(element_text(to_html(run, folder, ""), "images"), "{}");
}

TEST(HtmlReport, EncodesEveryRemainderOfBase64) {
  test::TemporaryFolder folder;
  BenchResult run = test::sample_run();
  const std::string jpeg = "\xff\xd8\xff";
  test::write_text(folder / "0", jpeg);
  test::write_text(folder / "1", jpeg + "a");
  test::write_text(folder / "2", jpeg + "ab");
  run.models[0].annotated_images = {"0", "1", "2"};
  const auto images = parse_json(element_text(to_html(run, folder.path(), ""), "images"));
  ASSERT_TRUE(images);
  EXPECT_EQ(get_text(*images, "0"), "data:image/jpeg;base64,/9j/");
  EXPECT_EQ(get_text(*images, "1"), "data:image/jpeg;base64,/9j/YQ==");
  EXPECT_EQ(get_text(*images, "2"), "data:image/jpeg;base64,/9j/YWI=");
}

TEST(HtmlReport, KeepsShortSeriesAndThinsLongOnesEvenly) {
  test::TemporaryFolder folder;
  const BenchResult run = test::sample_run();
  const std::string brief = test::sample_metrics(30);
  const std::string whole = to_html(run, folder.path(), brief);
  EXPECT_EQ(element_text(whole, "metrics"), brief);
  EXPECT_THAT(whole, testing::HasSubstr("id=\"metrics\" data-every=\"1\""));

  std::string day;
  for (int i = 0; i < 100'000; ++i) day += fmt::format("{{\"time_ns\":{:0120}}}\n", i);
  ASSERT_GT(day.size(), 12'000'000u);
  const std::string html = to_html(run, folder.path(), day);
  const std::string kept = element_text(html, "metrics");
  EXPECT_THAT(html, testing::HasSubstr("id=\"metrics\" data-every=\"4\""));
  EXPECT_LE(kept.size(), 4'000'000u);
  EXPECT_EQ(occurrences(kept, "\n"), 25'001u);  // every fourth line, and the last
  EXPECT_THAT(kept, testing::EndsWith("99999}\n"));
}

TEST(Pages, AreSelfContainedAndSmall) {
  for (const Page page :
       {Page::report, Page::recording, Page::snapshot, Page::plan, Page::live, Page::history, Page::watch}) {
    const std::string_view html = empty_page(page);
    EXPECT_LT(html.size(), 250'000u);
    EXPECT_TRUE(html.ends_with("</html>\n"));
    EXPECT_EQ(occurrences(html, "<!--headroom:data-->"), 1u);
    EXPECT_EQ(occurrences(html, "<script"), 1u);
    EXPECT_EQ(occurrences(html, " src="), 0u);
    EXPECT_EQ(occurrences(html, "@import"), 0u);
    EXPECT_EQ(occurrences(html, "https://"), 0u);
    EXPECT_THAT(std::string(html), testing::HasSubstr("default-src 'none'"));
  }
}

TEST(HtmlReport, CreatesAPageForAnEmptyRun) {
  test::TemporaryFolder folder;
  const std::string html = to_html(BenchResult{}, folder.path(), "");
  EXPECT_TRUE(parse_json(element_text(html, "report")));
  EXPECT_EQ(element_text(html, "metrics"), "");
}

}  // namespace
}  // namespace headroom::report

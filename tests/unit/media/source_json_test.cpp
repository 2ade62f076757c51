#include "media/source_json.h"

#include <fmt/format.h>

#include "base/json.h"
#include "support/test_support.h"

namespace headroom::media {
namespace {

SourceMetadata example() {
  SourceMetadata metadata;
  metadata.spec = {SourceKind::image_dir, "/data/images", 0};
  SourceSequence sequence;
  sequence.name = "bear";
  sequence.path = "/data/images/bear";
  sequence.images = {"00000.jpg", "größe.png"};
  sequence.frames = 2;
  sequence.width = 854;
  sequence.height = 480;
  sequence.objects = {{"1", "/data/masks/bear/00000.png"}, {"2", "/data/masks/bear/00000.png"}};
  metadata.sequences = {sequence};
  metadata.skipped = {{"IMG_3.jpg", "truncated JPEG: it ends before its end marker"}};
  metadata.total_frames = 2;
  metadata.largest_frame = {854 * 480 * 3};
  metadata.fingerprint = "0123456789abcdef";
  return metadata;
}

TEST(SourceJson, SurvivesARoundTrip) {
  const Json document = *parse_json(to_text(to_json(example())));
  const auto back = source_from_json(document);
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_EQ(back->spec.describe(), "image_dir=/data/images");
  ASSERT_EQ(back->sequences.size(), 1U);
  EXPECT_EQ(back->sequences[0].images, example().sequences[0].images);
  EXPECT_EQ(back->sequences[0].objects[1].id, "2");
  EXPECT_EQ(back->skipped[0].reason, example().skipped[0].reason);
  EXPECT_EQ(back->largest_frame, example().largest_frame);
  EXPECT_EQ(to_text(to_json(*back)), to_text(to_json(example())));
}

TEST(SourceJson, KeepsTheCameraNumber) {
  SourceMetadata metadata = example();
  metadata.spec = {SourceKind::camera, "", 3};
  const auto back = source_from_json(to_json(metadata));
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_EQ(back->spec.describe(), "camera=3");
}

std::string error_after(const std::function<void(Json&)>& change) {
  Json document = to_json(example());
  change(document);
  const auto back = source_from_json(document);
  return back ? "accepted" : back.error().sentence();
}

TEST(SourceJson, NamesTheInvalidKey) {
  EXPECT_EQ(error_after([](Json& d) { d["schema_version"] = 2; }),
            "invalid metadata.json: schema_version is not 1; run the setup phase again");
  EXPECT_EQ(error_after([](Json& d) { d["sequences"][0]["width"] = -1; }),
            "invalid metadata.json: sequences[0].width is not a whole number from 0 to 134217728; run "
            "the setup "
            "phase again");
  EXPECT_EQ(error_after([](Json& d) { d["source"]["kind"] = "film"; }),
            "invalid metadata.json: source.kind is not image_dir, video or camera; run the setup phase "
            "again");
}

TEST(SourceJson, RejectsMalformedDocuments) {
  const std::vector<std::function<void(Json&)>> changes = {
      [](Json& d) { d = Json::array(); },
      [](Json& d) { d = nullptr; },
      [](Json& d) { d.erase("schema_version"); },
      [](Json& d) { d["source"] = 7; },
      [](Json& d) { d["source"].erase("path"); },
      [](Json& d) { d["source"]["path"] = std::string("/a\0b", 4); },
      [](Json& d) {
        d["source"] = {{"kind", "camera"}, {"camera_index", 1LL << 40}};
      },
      [](Json& d) { d["total_frames"] = 1e30; },
      [](Json& d) { d["total_frames"] = -1; },
      [](Json& d) { d["total_frames"] = "2"; },
      [](Json& d) { d["largest_frame_bytes"] = 1LL << 50; },
      [](Json& d) { d["sequences"] = "none"; },
      [](Json& d) { d["sequences"][0] = 1; },
      [](Json& d) { d["sequences"][0]["frames"] = 1ULL << 63; },
      [](Json& d) { d["sequences"][0]["images"] = Json::object(); },
      [](Json& d) { d["sequences"][0]["images"][0] = "../../etc/passwd"; },
      [](Json& d) { d["sequences"][0]["images"][0] = std::string("a\0.jpg", 6); },
      [](Json& d) { d["sequences"][0]["images"][1] = 3; },
      [](Json& d) { d["sequences"][0]["objects"][0].erase("id"); },
      [](Json& d) { d["skipped"][0]["reason"] = true; },
      [](Json& d) { d.erase("fingerprint"); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i)
    EXPECT_THAT(error_after(changes[i]), testing::StartsWith("invalid metadata.json: ")) << "change " << i;
}

}  // namespace
}  // namespace headroom::media

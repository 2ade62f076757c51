#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "base/json.h"
#include "media/source_scan.h"
#include "support/test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

using testing::ElementsAre;

class SourceList : public testing::Test {
 protected:
  void touch(const std::string& name, const std::string& content = "x") {
    fs::create_directories((folder_ / name).parent_path());
    test::write_text(folder_ / name, content);
  }
  std::vector<SourceSequence> list(const ScanLimits& limits = {}) const {
    auto sequences = list_image_folder(folder_.path().string(), limits);
    EXPECT_TRUE(sequences) << sequences.error().sentence();
    return sequences ? *sequences : std::vector<SourceSequence>();
  }
  std::string fingerprint() const {
    return *source_fingerprint({SourceKind::image_dir, folder_.path().string(), 0});
  }
  test::TemporaryFolder folder_;
};

std::vector<std::string> names_of(const std::vector<SourceSequence>& sequences) {
  std::vector<std::string> names;
  for (const SourceSequence& sequence : sequences) names.push_back(sequence.name);
  return names;
}

TEST_F(SourceList, ListsImagesInNaturalOrder) {
  for (const char* name : {"frame10.jpg", "frame9.jpg", "Frame1.png", "frame2.JPEG", "frame02.jpg", "x.tiff"})
    touch(name);
  const auto sequences = list();
  ASSERT_EQ(sequences.size(), 1U);
  EXPECT_EQ(sequences[0].name, folder_.path().filename());
  EXPECT_EQ(sequences[0].path, folder_.path());
  EXPECT_EQ(sequences[0].frames, 6);
  EXPECT_THAT(sequences[0].images,
              ElementsAre("Frame1.png", "frame2.JPEG", "frame02.jpg", "frame9.jpg", "frame10.jpg", "x.tiff"));
  ASSERT_EQ(sequences[0].objects.size(), 1U);
  EXPECT_EQ(sequences[0].objects[0].id, "");
}

TEST_F(SourceList, IgnoresHiddenAndForeignFiles) {
  for (const char* name : {"a.jpg", ".hidden.jpg", "._a.jpg", "notes.txt", "a.gif", "clip.mp4"}) touch(name);
  fs::create_directory(folder_ / "folder.jpg");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.jpg").c_str(), 0600), 0);  // opening it would block forever
  fs::create_symlink("a.jpg", folder_ / "link.jpg");
  fs::create_symlink("nowhere.jpg", folder_ / "broken.jpg");  // is listed, so that decoding reports it
  EXPECT_THAT(list()[0].images, ElementsAre("a.jpg", "broken.jpg", "link.jpg"));
}

TEST_F(SourceList, ListsSubfoldersAfterTheFoldersOwnImages) {
  for (const char* name :
       {"b10/1.jpg", "b9/2.jpg", "b9/1.jpg", "own.jpg", "without/notes.txt", "deep/er/1.jpg"})
    touch(name);
  const auto sequences = list();
  EXPECT_THAT(names_of(sequences), ElementsAre(folder_.path().filename().string(), "b9", "b10"));
  EXPECT_THAT(sequences[1].images, ElementsAre("1.jpg", "2.jpg"));
  EXPECT_EQ(sequences[1].path, folder_ / "b9");
}

TEST_F(SourceList, AppliesLimits) {
  for (const char* name : {"a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1.jpg", "c/1.jpg"}) touch(name);
  const auto sequences = list({2, 0, 2});
  EXPECT_THAT(names_of(sequences), ElementsAre("a", "b"));
  EXPECT_THAT(sequences[0].images, ElementsAre("1.jpg", "2.jpg"));
  EXPECT_EQ(sequences[0].frames, 2);
}

TEST_F(SourceList, ListsSaVObjectsByFolder) {
  for (const char* name :
       {"JPEGImages_24fps/sav_000002/00001.jpg", "JPEGImages_24fps/sav_000002/00000.jpg",
        "JPEGImages_24fps/sav_000010/00000.jpg", "Annotations_6fps/sav_000002/000/00004.png",
        "Annotations_6fps/sav_000002/000/00000.png", "Annotations_6fps/sav_000002/001/00008.png"})
    touch(name);
  fs::create_directories(folder_ / "Annotations_6fps/sav_000002/002");
  const auto sequences = list();
  EXPECT_THAT(names_of(sequences), ElementsAre("sav_000002", "sav_000010"));
  EXPECT_THAT(sequences[0].images, ElementsAre("00000.jpg", "00001.jpg"));
  ASSERT_EQ(sequences[0].objects.size(), 3U);
  EXPECT_EQ(sequences[0].objects[0].id, "000");
  EXPECT_EQ(sequences[0].objects[0].mask_path, folder_ / "Annotations_6fps/sav_000002/000/00000.png");
  EXPECT_EQ(sequences[0].objects[1].mask_path, folder_ / "Annotations_6fps/sav_000002/001/00008.png");
  EXPECT_EQ(sequences[0].objects[2].mask_path, "");
  ASSERT_EQ(sequences[1].objects.size(), 1U);  // one unnamed object, because there are no annotations
  EXPECT_EQ(sequences[1].objects[0].id, "");
  EXPECT_EQ(list({1, 2, 0})[0].objects.size(), 2U);
}

TEST_F(SourceList, PrefersTheBenchmarkResolutionOfDavis) {
  for (const char* name : {"JPEGImages/1080p/bear/00000.jpg", "JPEGImages/480p/bear/00000.jpg",
                           "JPEGImages/480p/camel/00000.jpg", "Annotations/480p/bear/00001.png",
                           "Annotations/480p/bear/00000.png", "Annotations_unsupervised/480p/bear/1.png",
                           "ImageSets/2017/val.txt"})
    touch(name);
  const auto sequences = list();
  EXPECT_THAT(names_of(sequences), ElementsAre("bear", "camel"));
  EXPECT_EQ(sequences[0].path, folder_ / "JPEGImages/480p/bear");
  ASSERT_EQ(sequences[0].objects.size(), 1U);
  EXPECT_EQ(sequences[0].objects[0].mask_path, folder_ / "Annotations/480p/bear/00000.png");
}

TEST_F(SourceList, ReportsMissingContent) {
  touch("notes.txt");
  const std::string folder = folder_.path().string();
  EXPECT_EQ(list_image_folder(folder, {}).error().sentence(),
            "the folder " + folder +
                " contains no images; use a folder with jpg, jpeg, png, bmp, webp, tiff, tif files");
  EXPECT_EQ(list_source({SourceKind::video, folder, 0}, {}).error().sentence(),
            "the folder " + folder +
                " contains no videos; use a folder with mp4, avi, mkv, mov, webm, m4v, mpg, mpeg, ts files");
  touch("a.mp4");
  EXPECT_EQ(list_image_folder(folder, {}).error().sentence(),
            "the folder " + folder + " contains no images: it contains videos; use video=" + folder);
  EXPECT_EQ(list_image_folder(folder + "/absent", {}).error().sentence(),
            "cannot list the folder " + folder + "/absent: No such file or directory; check the path");
  EXPECT_EQ(list_source({SourceKind::image_dir, folder + "/absent.jpg", 0}, {}).error().why,
            "no such file or folder");
}

TEST_F(SourceList, ListsSingleImagesVideosAndCameras) {
  for (const char* name : {"b.mp4", "a.avi", "c.jpg"}) touch(name);
  const auto image = list_source({SourceKind::image_dir, (folder_ / "c.jpg").string(), 0}, {});
  EXPECT_THAT((*image)[0].images, ElementsAre("c.jpg"));
  EXPECT_EQ((*image)[0].path, folder_.path());
  EXPECT_THAT(names_of(*list_source({SourceKind::video, folder_.path().string(), 0}, {})),
              ElementsAre("a.avi", "b.mp4"));
  EXPECT_THAT(names_of(*list_source({SourceKind::video, folder_.path().string(), 0}, {1, 0, 0})),
              ElementsAre("a.avi"));
  EXPECT_THAT(names_of(*list_source({SourceKind::camera, "", 4}, {})), ElementsAre("camera 4"));
}

TEST_F(SourceList, FingerprintDependsOnNamesSizesAndTimes) {
  touch("a.jpg");
  touch("b.jpg");
  touch("notes.txt");
  const std::string before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  touch("notes.txt", "longer");  // this file is not part of the source
  EXPECT_EQ(fingerprint(), before);

  fs::rename(folder_ / "b.jpg", folder_ / "c.jpg");
  EXPECT_NE(fingerprint(), before);
  fs::rename(folder_ / "c.jpg", folder_ / "b.jpg");
  EXPECT_EQ(fingerprint(), before);

  const auto time = fs::last_write_time(folder_ / "b.jpg");
  fs::last_write_time(folder_ / "b.jpg", time + std::chrono::seconds(1));
  EXPECT_NE(fingerprint(), before);
  touch("b.jpg", "yy");
  fs::last_write_time(folder_ / "b.jpg", time);
  EXPECT_NE(fingerprint(), before);
  touch("b.jpg");
  fs::last_write_time(folder_ / "b.jpg", time);
  EXPECT_EQ(fingerprint(), before);
}

TEST_F(SourceList, FingerprintDependsOnMasks) {
  touch("JPEGImages/v/1.jpg");
  touch("Annotations/v/1/1.png");
  const std::string before = fingerprint();
  touch("Annotations/v/1/1.png", "other");
  EXPECT_NE(fingerprint(), before);
}

std::string error_of(const std::string& text) {
  const auto spec = parse_source(text);
  return spec ? "no error: " + spec->describe() : spec.error().sentence();
}

class SourceParse : public testing::Test {
 protected:
  SourceParse() {
    for (const char* name :
         {"photos/a.jpg", "videos/a.mp4", "nested/one/a.png", "empty/notes.txt", "a=b.png"}) {
      fs::create_directories((folder_ / name).parent_path());
      test::write_text(folder_ / name, "x");
    }
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  test::TemporaryFolder folder_;
};

TEST_F(SourceParse, AcceptsExplicitKinds) {
  EXPECT_EQ(parse_source("image_dir=" + path("photos"))->describe(), "image_dir=" + path("photos"));
  EXPECT_EQ(parse_source("IMAGE-DIR=" + path("photos") + "/")->describe(), "image_dir=" + path("photos"));
  EXPECT_EQ(parse_source("video=" + path("videos/a.mp4"))->describe(), "video=" + path("videos/a.mp4"));
  EXPECT_EQ(parse_source("video=" + path("videos"))->describe(), "video=" + path("videos"));
  EXPECT_EQ(parse_source("camera=2")->describe(), "camera=2");
  EXPECT_EQ(parse_source("camera=/dev/video3")->camera_index, 3);
  EXPECT_EQ(parse_source("csi=1")->describe(), "csi=1");
  EXPECT_EQ(parse_source("gst=v4l2src device=/dev/video0")->path, "v4l2src device=/dev/video0");
  test::write_text(folder_ / "a,b.rgb", "x");
  EXPECT_EQ(parse_source("raw=" + path("./a,b.rgb") + ",640X480,RGB")->path,
            path("a,b.rgb") + ",640X480,RGB");
}

TEST_F(SourceParse, KeepsAddressesWholeButHidesThePassword) {
  for (const std::string prefix : {"", "stream="}) {
    const auto spec = parse_source(prefix + "rtsp://admin:secret@10.0.0.5:554/stream?id=a@b");
    ASSERT_TRUE(spec) << spec.error().sentence();
    EXPECT_EQ(spec->kind, SourceKind::stream);
    EXPECT_EQ(spec->path, "rtsp://admin:secret@10.0.0.5:554/stream?id=a@b");
    EXPECT_EQ(spec->describe(), "rtsp://10.0.0.5:554/stream?id=a@b");
    EXPECT_EQ(list_source(*spec, {})->front().name, "rtsp://10.0.0.5:554/stream?id=a@b");
  }
  EXPECT_EQ(parse_source("http://host/a@b.mp4")->describe(), "http://host/a@b.mp4");
}

TEST_F(SourceParse, HidesThePasswordsOfAPipeline) {
  const auto spec = parse_source(
      "gst=rtspsrc location=rtsp://a:p@ss@cam/1@2 ! x. uridecodebin uri=\"http://b:q@cam\" ! x. "
      "rtspsrc location=rtsp://cam2 ! x. filesrc location=c@d name=x");
  ASSERT_TRUE(spec) << spec.error().sentence();
  EXPECT_THAT(spec->secrets(), ElementsAre("a:p@ss@", "b:q@"));
  EXPECT_EQ(spec->describe(),
            "gst=rtspsrc location=rtsp://cam/1@2 ! x. uridecodebin uri=\"http://cam\" ! x. "
            "rtspsrc location=rtsp://cam2 ! x. filesrc location=c@d name=x");
}

TEST_F(SourceParse, GuessesTheKindOfPlainPaths) {
  EXPECT_EQ(parse_source(path("photos"))->describe(), "image_dir=" + path("photos"));
  EXPECT_EQ(parse_source(path("nested"))->describe(), "image_dir=" + path("nested"));
  EXPECT_EQ(parse_source(path("photos/a.jpg"))->describe(), "image_dir=" + path("photos/a.jpg"));
  EXPECT_EQ(parse_source(path("a=b.png"))->describe(), "image_dir=" + path("a=b.png"));
  EXPECT_EQ(parse_source(path("videos"))->describe(), "video=" + path("videos"));
  EXPECT_EQ(parse_source(path("videos/a.mp4"))->describe(), "video=" + path("videos/a.mp4"));
  EXPECT_EQ(parse_source("/dev/video1")->describe(), "camera=1");
}

TEST_F(SourceParse, NormalizesPaths) {
  const std::string expected = "image_dir=" + path("photos");
  EXPECT_EQ(parse_source(path("photos") + "///")->describe(), expected);
  EXPECT_EQ(parse_source(path("./videos/../photos/."))->describe(), expected);
  // ".." after a link leads to the parent of the link's target.
  fs::create_directory_symlink(path("nested/one"), path("link"));
  EXPECT_EQ(parse_source(path("link/../one"))->describe(),
            "image_dir=" + fs::canonical(path("nested/one")).string());
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const auto relative = parse_source("photos");
  fs::current_path(before);
  EXPECT_EQ(fs::canonical(relative->path), fs::canonical(path("photos")));
  EXPECT_TRUE(fs::path(relative->path).is_absolute());
}

TEST_F(SourceParse, ReportsErrorsInOneSentenceWithAFix) {
  EXPECT_EQ(error_of("vidoe=" + path("videos")),
            "unknown kind of source 'vidoe'; did you mean video=" + path("videos") + "?");
  EXPECT_EQ(
      error_of("quux=1"),
      "unknown kind of source 'quux'; use image_dir=FOLDER, video=FILE, camera=NUMBER, csi=NUMBER, an "
      "address such as rtsp://HOST/PATH, gst=PIPELINE, raw=FILE,SIZE,FORMAT, or the path of a folder, video "
      "or image");
  EXPECT_EQ(error_of("camera=front"),
            "cannot use the source camera=front: not a camera number; use camera=0 for /dev/video0");
  EXPECT_EQ(error_of("camera=-1"),
            "cannot use the source camera=-1: not a camera number; use camera=0 for /dev/video0");
  EXPECT_EQ(error_of("csi=left"),
            "cannot use the source csi=left: not a camera number; use csi=0 for the first camera");
  EXPECT_EQ(error_of("stream=host"),
            "cannot use the source stream=host: not an address; use image_dir=FOLDER, video=FILE, "
            "camera=NUMBER, csi=NUMBER, an address such as rtsp://HOST/PATH, gst=PIPELINE, "
            "raw=FILE,SIZE,FORMAT, or the path of a folder, video or image");
  EXPECT_EQ(error_of("ftp://u:p@host/a.mp4"),
            "cannot use the source ftp://host/a.mp4: unknown protocol 'ftp'; use rtsp, rtsps, http, https, "
            "rtmp, rtmps, udp, tcp, srt");
  EXPECT_EQ(error_of("http://host/a b"),
            "cannot use the source http://host/a b: it has a blank, a quote, a backslash or a control "
            "character; write such characters as %20, %22, %5C");
  EXPECT_EQ(error_of("gst="),
            "the source gst= has no pipeline; use gst=\"v4l2src device=/dev/video0\", without a sink at the "
            "end");
  EXPECT_EQ(
      error_of("raw=" + path("photos/a.jpg")),
      "cannot use the source raw=" + path("photos/a.jpg") +
          ": it lacks the file, the size or the pixel format; use raw=FILE,WIDTHxHEIGHT,FORMAT, such as "
          "raw=frames.rgb,1280x720,rgb");
  EXPECT_EQ(error_of("raw=a,1280x0,rgb"),
            "cannot use the source raw=a,1280x0,rgb: '1280x0' is not a frame size; use WIDTHxHEIGHT, such as "
            "1280x720, of at most 134217728 pixels");
  EXPECT_EQ(error_of("raw=a,1280x720,yuv"),
            "cannot use the source raw=a,1280x720,yuv: unknown pixel format 'yuv'; use rgb, bgr or gray");
  EXPECT_EQ(error_of("raw=/no/such,64x48,rgb"),
            "cannot use the source raw=/no/such,64x48,rgb: no such file or FIFO; check the path");
  EXPECT_EQ(error_of("raw=" + path("photos") + ",64x48,rgb"),
            "cannot use the source raw=" + path("photos") +
                ",64x48,rgb: it is neither a file nor a FIFO; use a file, or create a FIFO with mkfifo");
  EXPECT_EQ(error_of("/no/such/place"),
            "cannot use the source /no/such/place: no such file or folder; check the path");
  EXPECT_EQ(error_of("image_dir=/no/such/place"),
            "cannot use the source /no/such/place: no such file or folder; check the path");
  EXPECT_EQ(error_of("0"), "cannot use the source 0: no such file or folder; use camera=0 for a camera");
  EXPECT_EQ(error_of(path("empty")),
            "the folder " + path("empty") +
                " contains no images or videos; use a folder with images (jpg, jpeg, png, "
                "bmp, webp, tiff, tif) or videos (mp4, avi, mkv, mov, webm, m4v, mpg, mpeg, "
                "ts)");
  EXPECT_EQ(error_of("video=" + path("photos/a.jpg")),
            "cannot use " + path("photos/a.jpg") +
                " as video: it is an image; use image_dir=" + path("photos/a.jpg"));
  EXPECT_EQ(error_of("image_dir=" + path("videos/a.mp4")),
            "cannot use " + path("videos/a.mp4") +
                " as image_dir: it is a video; use video=" + path("videos/a.mp4"));
  EXPECT_EQ(error_of(path("empty/notes.txt")),
            "cannot use the source " + path("empty/notes.txt") +
                ": unknown file extension; use an image (jpg, jpeg, png, bmp, webp, tiff, tif) or a video "
                "(mp4, avi, mkv, mov, webm, m4v, mpg, mpeg, ts)");
  for (const std::string text : {"", "  ", "video=", "image_dir=", "=", "camera="})
    EXPECT_EQ(parse_source(text).error().kind, ErrorKind::usage) << text;
  EXPECT_FALSE(parse_source(std::string("camera=0\0", 9)));
}

TEST_F(SourceParse, RecognizesExtensionsInAnyCase) {
  for (const char* name : {"a.jpg", "a.JPG", "a.b.Jpeg", "a.png", "a.bmp", "a.webp", "a.tiff", "a.TIF"})
    EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.gif", "jpg", ".jpg", "a.jpg~", "a", "", "a.", "a.jp"})
    EXPECT_FALSE(is_image_name(name)) << name;
  for (const char* name : {"a.mp4", "a.AVI", "a.mkv", "a.mov", "a.webm", "a.m4v", "a.mpg", "a.mpeg", "a.ts"})
    EXPECT_TRUE(is_video_name(name)) << name;
  EXPECT_FALSE(is_video_name("a.mp3"));
}

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
            "invalid metadata.json: source.kind is not a kind of source; run the setup phase again");
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

#include <filesystem>

#include "media/source_scan.h"
#include "support/test_support.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

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
      "unknown kind of source 'quux'; use image_dir=FOLDER, video=FILE, camera=NUMBER, or the path of a "
      "folder, video or image");
  EXPECT_EQ(error_of("camera=front"),
            "cannot use the source camera=front: not a camera number; use camera=0 for /dev/video0");
  EXPECT_EQ(error_of("camera=-1"),
            "cannot use the source camera=-1: not a camera number; use camera=0 for /dev/video0");
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

}  // namespace
}  // namespace headroom::media

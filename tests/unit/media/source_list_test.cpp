#include <sys/stat.h>

#include <chrono>
#include <filesystem>

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

}  // namespace
}  // namespace headroom::media

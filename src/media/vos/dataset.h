// Finds the videos and objects of a data set for video object segmentation (docs/evaluate.md).
//
//   SA-V       JPEGImages_24fps/VIDEO/00000.jpg, Annotations_6fps/VIDEO/OBJECT/00000.png
//   DAVIS      JPEGImages/480p/VIDEO/00000.jpg, Annotations/480p/VIDEO/00000.png
//   pairs      VIDEO/frames/00000.jpg, VIDEO/gt/00000.png (as DAVIS), or frames/ and gt/ of one video
//   a folder   VIDEO/00000.jpg, or 00000.jpg, and a prompts file (media/vos/prompts_file.h)
//
// A list of videos (sav_val.txt, sav_test.txt, ImageSets/2017/val.txt, ImageSets/2016/val.txt,
// ImageSets/480p/val.txt) chooses videos and their order; without one, all folders count.
//
// Masks belong to the frame of the same name without extension. An indexed PNG has the objects 1 to the
// largest value of the video's first mask, as in davis2017-evaluation. There 255 is void, unless it is the
// only value: then the file is of DAVIS 2016, and the one object is every pixel that is not 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "media/media_engine.h"
#include "types/vos.h"

namespace headroom::media::vos {

struct DatasetOptions {
  std::string prompts{};           // a prompts file; empty: prompts.json or prompts.csv in the folder
  std::int64_t limit_videos = 0;   // usable ones; 0: all
  std::int64_t limit_objects = 0;  // usable ones of each video; 0: all
  bool check_first_masks = true;   // leave out objects whose first mask is empty or damaged
};

// Reads the names of all files, the header of each video's first frame, and the first masks. Videos and
// objects that cannot be used are in `left_out` with the reason. Fails if nothing can be used, or if the
// folder, a list or the prompts file cannot be read.
Result<VosDataset> scan_dataset(MediaEngine& engine, const std::filesystem::path& folder,
                                const DatasetOptions& options = {});

}  // namespace headroom::media::vos

// Masks of objects: taken from the pixels of a mask file, read, and written.
//
// A file has the mask of one object (SA-V: every pixel that is not 0), or of several (DAVIS: the value of a
// pixel is the number of its object).
#pragma once

#include <string>

#include "base/result.h"
#include "media/media_engine.h"
#include "types/vos.h"

namespace headroom::media::vos {

// The pixels of this value; with value 0, every pixel that is not 0.
BinaryMask mask_of(const LabelPicture& labels, int value);

// Reads the mask of one object. `value` as in VosObject.
Result<BinaryMask> read_mask(MediaEngine& engine, const std::string& path, int value);

// Writes the mask as a PNG of 1 bit with DAVIS's palette.
Status write_mask(MediaEngine& engine, const BinaryMask& mask, const std::string& path);

// Gives the pixels of the mask the value, for a file with several objects. A picture without pixels becomes
// one of the mask's size. Fails if the sizes differ, or if the value is not 1 to 255.
Status add_mask(LabelPicture& labels, const BinaryMask& mask, int value);

bool is_empty(const BinaryMask& mask);

}  // namespace headroom::media::vos

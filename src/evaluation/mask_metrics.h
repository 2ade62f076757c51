// How well a predicted mask agrees with the ground truth in one frame. Values are 0 to 1.
//
// F compares boundaries. A boundary pixel of one mask matches if a boundary pixel of the other is within a
// radius r. The search does not dilate: it marks the pixels within r of each run of boundary pixels in a
// bitmap, a row at a time, and then looks up the other mask's boundary pixels. Its time grows with the length
// of the boundaries times r, and its memory is 2.25 bytes a pixel.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "types/vos.h"

namespace headroom::evaluation {

// Memory that frames and objects share, so that scoring allocates only when a frame is larger than before.
struct MetricScratch {
  std::array<std::vector<std::uint8_t>, 2> edges{};  // 1 on a boundary; a byte a pixel
  std::vector<std::uint64_t> near{};                 // a bit a pixel, rows padded to 64
  std::vector<std::uint8_t> rows{};
  BinaryMask empty{};  // in place of a missing prediction
};

// Both masks of all functions have the same size and width × height pixels.

bool has_pixels(const BinaryMask& mask);

// J, the Jaccard index: intersection / union; 1 if both masks are empty.
double region_similarity(const BinaryMask& truth, const BinaryMask& prediction);

// F of DAVIS and SA-V (davis2017-evaluation, metrics.py; sam2, sav_benchmark.py). A pixel is on the boundary
// if it differs from its right, lower or lower right neighbour; the last row and column have one neighbour.
// r = ceil(0.008 × diagonal), as a disk: dx² + dy² ≤ r². F = 2PR / (P + R), where the precision P is the
// share of the prediction's boundary that matches, and the recall R that of the truth's. If one boundary is
// empty, F is 0; if both are, 1.
double boundary_measure(const BinaryMask& truth, const BinaryMask& prediction, MetricScratch& scratch);

// The reference benchmark's proxy for F (VideoSegmentationComparison, sav_benchmark/metrics.py). A pixel is
// on the boundary if the 3 × 3 pixels around it differ. r = max(1, round(0.008 × diagonal)), as a square. If
// one mask or one boundary is empty, F is 0; if both are, 1.
double reference_boundary_measure(const BinaryMask& truth, const BinaryMask& prediction,
                                  MetricScratch& scratch);

}  // namespace headroom::evaluation

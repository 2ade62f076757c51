#include "evaluation/mask_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace headroom::evaluation {
namespace {

constexpr double kRadiusShare = 0.008;  // of the picture's diagonal

double diagonal_of(const BinaryMask& mask) {
  return std::sqrt(double{1} * mask.width * mask.width + double{1} * mask.height * mask.height);
}

std::size_t columns_of(const BinaryMask& mask) { return static_cast<std::size_t>(mask.width); }
std::size_t rows_of(const BinaryMask& mask) { return static_cast<std::size_t>(mask.height); }

// How far a boundary pixel reaches to the left and right, r rows above to r rows below.
using Reach = std::vector<std::ptrdiff_t>;

Reach disk(std::ptrdiff_t radius) {
  Reach reach;
  for (std::ptrdiff_t dy = -radius; dy <= radius; ++dy) {
    std::ptrdiff_t half = radius;
    while (half * half + dy * dy > radius * radius) --half;
    reach.push_back(half);
  }
  return reach;
}

Reach square(std::ptrdiff_t radius) { return Reach(static_cast<std::size_t>(2 * radius + 1), radius); }

// The boundary to the right and below.
void find_edges(const BinaryMask& mask, std::vector<std::uint8_t>& edges) {
  const std::size_t width = columns_of(mask), height = rows_of(mask), last = width - 1;
  edges.resize(mask.pixels.size());
  for (std::size_t y = 0; y + 1 < height; ++y) {
    const std::uint8_t* row = &mask.pixels[y * width];
    const std::uint8_t* below = row + width;
    std::uint8_t* edge = &edges[y * width];
    for (std::size_t x = 0; x < last; ++x)
      edge[x] =
          static_cast<std::uint8_t>((row[x] ^ row[x + 1]) | (row[x] ^ below[x]) | (row[x] ^ below[x + 1]));
    edge[last] = row[last] ^ below[last];
  }
  const std::uint8_t* row = &mask.pixels[(height - 1) * width];
  std::uint8_t* edge = &edges[(height - 1) * width];
  for (std::size_t x = 0; x < last; ++x) edge[x] = row[x] ^ row[x + 1];
  edge[last] = 0;
}

// The 3 × 3 morphological gradient: the pixels outside the picture do not count.
void find_gradient(const BinaryMask& mask, std::vector<std::uint8_t>& edges,
                   std::vector<std::uint8_t>& rows) {
  const std::size_t width = columns_of(mask), height = rows_of(mask);
  edges.resize(mask.pixels.size());
  rows.resize(2 * (width + 2));
  std::uint8_t* any = rows.data();  // one more element on each side
  std::uint8_t* all = any + width + 2;
  any[0] = any[width + 1] = 0;
  all[0] = all[width + 1] = 1;
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* row = &mask.pixels[y * width];
    const std::uint8_t* above = y > 0 ? row - width : row;
    const std::uint8_t* below = y + 1 < height ? row + width : row;
    for (std::size_t x = 0; x < width; ++x) {
      any[x + 1] = above[x] | row[x] | below[x];
      all[x + 1] = above[x] & row[x] & below[x];
    }
    std::uint8_t* edge = &edges[y * width];
    for (std::size_t x = 0; x < width; ++x) {
      const int is_any = any[x] | any[x + 1] | any[x + 2], is_all = all[x] & all[x + 1] & all[x + 2];
      edge[x] = static_cast<std::uint8_t>(is_any & ~is_all);
    }
  }
}

// Calls each(y, first, last) for the runs of 1 in a picture of 0 and 1.
template <class Each>
void for_each_run(const std::vector<std::uint8_t>& edges, std::size_t width, std::size_t height,
                  const Each& each) {
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* row = &edges[y * width];
    const std::uint8_t* end = row + width;
    const auto find = [end](const std::uint8_t* from, int value) {
      const void* found = std::memchr(from, value, static_cast<std::size_t>(end - from));
      return found != nullptr ? static_cast<const std::uint8_t*>(found) : end;
    };
    for (const std::uint8_t* at = find(row, 1); at != end; at = find(at, 1)) {
      const std::uint8_t* after = find(at, 0);
      each(y, static_cast<std::size_t>(at - row), static_cast<std::size_t>(after - row) - 1);
      at = after;
    }
  }
}

// The bits of a word from `from` to 63, or from 0 to `to`.
std::uint64_t bits_from(std::size_t from) { return ~std::uint64_t{0} << from; }
std::uint64_t bits_to(std::size_t to) { return ~std::uint64_t{0} >> (63 - to); }

void set_bits(std::uint64_t* words, std::size_t from, std::size_t to) {
  const std::size_t first = from / 64, last = to / 64;
  if (first == last) {
    words[first] |= bits_from(from % 64) & bits_to(to % 64);
    return;
  }
  words[first] |= bits_from(from % 64);
  for (std::size_t i = first + 1; i < last; ++i) words[i] = ~std::uint64_t{0};
  words[last] |= bits_to(to % 64);
}

std::int64_t count_bits(const std::uint64_t* words, std::size_t from, std::size_t to) {
  const std::size_t first = from / 64, last = to / 64;
  if (first == last) return std::popcount(words[first] & bits_from(from % 64) & bits_to(to % 64));
  std::int64_t count = std::popcount(words[first] & bits_from(from % 64));
  for (std::size_t i = first + 1; i < last; ++i) count += std::popcount(words[i]);
  return count + std::popcount(words[last] & bits_to(to % 64));
}

struct Matches {
  std::int64_t pixels = 0, matched = 0;
  double share() const { return static_cast<double>(matched) / static_cast<double>(pixels); }
};

// How many of the boundary pixels `edges` are within reach of one of `others`.
Matches match(const std::vector<std::uint8_t>& edges, const std::vector<std::uint8_t>& others,
              std::size_t width, std::size_t height, const Reach& reach, std::vector<std::uint64_t>& near) {
  const std::size_t words = (width + 63) / 64;
  const auto right = static_cast<std::ptrdiff_t>(width) - 1, bottom = static_cast<std::ptrdiff_t>(height) - 1;
  const auto radius = static_cast<std::ptrdiff_t>(reach.size() / 2);
  near.assign(words * height, 0);
  for_each_run(others, width, height, [&](std::size_t y, std::size_t first, std::size_t last) {
    const auto middle = static_cast<std::ptrdiff_t>(y);
    const std::ptrdiff_t top = std::max<std::ptrdiff_t>(0, middle - radius);
    for (std::ptrdiff_t row = top; row <= std::min(bottom, middle + radius); ++row) {
      const std::ptrdiff_t half = reach[static_cast<std::size_t>(row - middle + radius)];
      set_bits(
          &near[static_cast<std::size_t>(row) * words],
          static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(first) - half)),
          static_cast<std::size_t>(std::min(right, static_cast<std::ptrdiff_t>(last) + half)));
    }
  });
  Matches found;
  for_each_run(edges, width, height, [&](std::size_t y, std::size_t first, std::size_t last) {
    found.pixels += static_cast<std::int64_t>(last - first + 1);
    found.matched += count_bits(&near[y * words], first, last);
  });
  return found;
}

// F of the boundaries of truth and prediction in scratch.edges.
double harmonic_mean_of_matches(const BinaryMask& mask, const Reach& reach, MetricScratch& scratch) {
  const auto& [truth, prediction] = scratch.edges;
  const Matches recall = match(truth, prediction, columns_of(mask), rows_of(mask), reach, scratch.near);
  const Matches precision = match(prediction, truth, columns_of(mask), rows_of(mask), reach, scratch.near);
  if (recall.pixels == 0 || precision.pixels == 0) return recall.pixels == precision.pixels ? 1 : 0;
  const double sum = precision.share() + recall.share();
  return sum == 0 ? 0 : 2 * precision.share() * recall.share() / sum;
}

bool is_blank(const BinaryMask& mask) {
  return std::memchr(mask.pixels.data(), 1, mask.pixels.size()) == nullptr;
}

}  // namespace

bool has_pixels(const BinaryMask& mask) { return !is_blank(mask); }

double region_similarity(const BinaryMask& truth, const BinaryMask& prediction) {
  std::int64_t both = 0, either = 0;
  for (std::size_t i = 0; i < truth.pixels.size(); ++i) {
    both += truth.pixels[i] & prediction.pixels[i];
    either += truth.pixels[i] | prediction.pixels[i];
  }
  return either == 0 ? 1 : static_cast<double>(both) / static_cast<double>(either);
}

double boundary_measure(const BinaryMask& truth, const BinaryMask& prediction, MetricScratch& scratch) {
  find_edges(truth, scratch.edges[0]);
  find_edges(prediction, scratch.edges[1]);
  const double radius = std::ceil(kRadiusShare * diagonal_of(truth));
  return harmonic_mean_of_matches(truth, disk(static_cast<std::ptrdiff_t>(radius)), scratch);
}

double reference_boundary_measure(const BinaryMask& truth, const BinaryMask& prediction,
                                  MetricScratch& scratch) {
  const bool no_truth = is_blank(truth), no_prediction = is_blank(prediction);
  if (no_truth || no_prediction) return no_truth == no_prediction ? 1 : 0;
  find_gradient(truth, scratch.edges[0], scratch.rows);
  find_gradient(prediction, scratch.edges[1], scratch.rows);
  // Halves are rounded to the even neighbour, as Python's round() does.
  const double radius = std::max(1.0, std::nearbyint(kRadiusShare * diagonal_of(truth)));
  return harmonic_mean_of_matches(truth, square(static_cast<std::ptrdiff_t>(radius)), scratch);
}

}  // namespace headroom::evaluation

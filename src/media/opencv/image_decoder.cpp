#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <set>
#include <span>

#include "base/files.h"
#include "media/image_header.h"
#include "media/opencv/opencv_engine.h"

namespace headroom::media {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& content) {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

tl::unexpected<Error> cannot_decode(const std::string& path, std::string why) {
  return input_error(fmt::format("cannot decode {}", path), std::move(why), "remove or replace the file");
}

// libjpeg warnings after which pixels are made up. Harmless warnings ("extraneous bytes before marker"),
// which files of some cameras always cause, are not included.
std::string damage_in(const std::string& messages) {
  constexpr std::string_view kDamage[] = {"Premature end of JPEG file",
                                          "premature end of data segment",
                                          "bad Huffman code",
                                          "found marker",
                                          "Inconsistent progression sequence",
                                          "Corrupt JPEG data: bad arithmetic code"};
  for (const std::string_view damage : kDamage)
    if (messages.find(damage) != std::string::npos) return fmt::format("damaged JPEG: {}", damage);
  return {};
}

// A readable reason. OpenCV's own messages contain template parameters and source lines; the first line of
// libjpeg or libpng names the problem.
std::string reason_in(const std::string& messages) {
  const std::string line = messages.substr(0, messages.find('\n'));
  const bool is_opencv = line.find("OpenCV") != std::string::npos || line.find(".cpp") != std::string::npos;
  return line.empty() || is_opencv ? "OpenCV cannot read this kind of image" : line;
}

std::string reason_of(const cv::Exception& problem) {
  return problem.code == cv::Error::StsNoMem ? "there is not enough memory to decode it"
                                             : "OpenCV cannot convert this kind of image";
}

// Decodes into `image`, in place if its memory fits. OpenCV reports failures in four ways: an exception, an
// empty matrix, text on stderr, or a wrong picture.
Status decode(const std::string& path, const std::string& content, int flags, cv::Mat& image) {
  QuietStderr quiet;
  const cv::Mat encoded(1, static_cast<int>(content.size()), CV_8UC1,
                        const_cast<char*>(content.data()));  // OpenCV only reads it
  try {
    cv::imdecode(encoded, flags, &image);
  } catch (const cv::Exception& problem) {
    return cannot_decode(path,
                         problem.code == cv::Error::StsNoMem ? reason_of(problem) : reason_in(quiet.text()));
  }
  const std::string messages = quiet.text();
  if (image.empty()) return cannot_decode(path, reason_in(messages));
  if (const std::string damage = damage_in(messages); !damage.empty()) return cannot_decode(path, damage);
  return {};
}

template <class Value>
void scale_rows(const cv::Mat& image, cv::Mat& scaled) {
  scaled.create(image.rows, image.cols, CV_MAKETYPE(CV_8U, image.channels()));
  const std::size_t count = image.total() * static_cast<std::size_t>(image.channels());
  scale_to_8_bit(std::span(image.ptr<Value>(), count), scaled.ptr<std::uint8_t>());
}

// Converts to 8 bits and then to three channels. Alpha is dropped before scaling, because it is not
// brightness.
cv::Mat to_8_bit_bgr(cv::Mat image) {
  if (image.channels() == 4) cv::cvtColor(image, image, cv::COLOR_BGRA2BGR);
  if (image.channels() == 2) cv::extractChannel(image, image, 0);
  if (!image.isContinuous()) image = image.clone();
  cv::Mat scaled;
  if (image.depth() == CV_8U) {
    scaled = image;
  } else if (image.depth() == CV_16U) {
    scale_rows<std::uint16_t>(image, scaled);
  } else {
    cv::Mat floats;
    image.convertTo(floats, CV_32F);
    scale_rows<float>(floats, scaled);
  }
  if (scaled.channels() == 1) cv::cvtColor(scaled, scaled, cv::COLOR_GRAY2BGR);
  return scaled;
}

Result<Decoded> copy_to_target(const cv::Mat& image, const AllocateFrame& allocate_frame) {
  std::uint8_t* memory = allocate_frame({image.cols, image.rows});
  if (memory == nullptr) return Decoded::no_space;
  cv::Mat target(image.rows, image.cols, CV_8UC3, memory);
  image.copyTo(target);
  return Decoded::frame;
}

struct ImageFile {
  std::string content;
  ImageHeader header;
};

tl::unexpected<Error> too_large(const std::string& path, const std::string& what, Bytes needed, Bytes bound) {
  return cannot_decode(path, fmt::format("{} needs {} to decode, but --workspace leaves only {}; "
                                         "raise --workspace",
                                         what, format_bytes(needed), format_bytes(bound)));
}

// `extra_bytes_per_pixel`: memory that the caller needs in addition to decoding.
Result<ImageFile> read_image(const std::string& path, const std::optional<Bytes>& bound,
                             std::int64_t extra_bytes_per_pixel = 0) {
  std::error_code unknown;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, unknown));
  if (bound && !unknown && size > bound->count) return too_large(path, "the file alone", {size}, *bound);
  auto content = read_file(path);
  if (!content) return forward_error(content);
  auto header = inspect_image(bytes_of(*content));
  if (!header) return cannot_decode(path, header.error().what);
  const Bytes needed = decoding_memory(*header, {static_cast<std::int64_t>(content->size())}) +
                       Bytes{std::int64_t{header->width} * header->height * extra_bytes_per_pixel};
  if (bound && needed > *bound)
    return too_large(path,
                     fmt::format("an image of {} x {} pixels of {} bits", header->width, header->height,
                                 header->bits * header->channels),
                     needed, *bound);
  return ImageFile{std::move(*content), *header};
}

// An alpha channel, the extracted channel, and its values as 32-bit numbers.
constexpr std::int64_t kMaskBytesPerPixel = 6;

}  // namespace

Result<Decoded> OpenCvEngine::decode_image_into(const std::string& path,
                                                const AllocateFrame& allocate_frame) {
  auto file = read_image(path, memory_bound_);
  if (!file) return forward_error(file);
  std::uint8_t* memory = allocate_frame({file->header.width, file->header.height});
  if (memory == nullptr) return Decoded::no_space;

  const bool deep = file->header.bits > 8;
  cv::Mat image;
  if (!deep) image = cv::Mat(file->header.height, file->header.width, CV_8UC3, memory);
  if (auto decoded = decode(path, file->content, deep ? cv::IMREAD_UNCHANGED : cv::IMREAD_COLOR, image);
      !decoded)
    return forward_error(decoded);
  // OpenCV allocates other memory if the picture has another shape than announced: turned by EXIF, or
  // damaged.
  if (image.data == memory && image.rows == file->header.height && image.cols == file->header.width)
    return Decoded::frame;
  try {
    return copy_to_target(to_8_bit_bgr(std::move(image)), allocate_frame);
  } catch (const cv::Exception& problem) {
    return cannot_decode(path, reason_of(problem));
  }
}

Result<std::vector<int>> OpenCvEngine::read_mask_ids(const std::string& path) {
  auto file = read_image(path, memory_bound_, kMaskBytesPerPixel);
  if (!file) return forward_error(file);
  cv::Mat image;
  if (auto decoded = decode(path, file->content, cv::IMREAD_UNCHANGED, image); !decoded)
    return forward_error(decoded);

  std::set<int> ids;
  const auto palette = png_palette(bytes_of(file->content));
  if (!palette.empty() && image.type() == CV_8UC3) {
    // OpenCV returns the colours of a palette image; the ids are the palette indices of these colours.
    const auto index_of = [&](const cv::Vec3b& bgr) {
      const auto found = std::ranges::find(palette, std::array{bgr[2], bgr[1], bgr[0]});
      return static_cast<int>(found - palette.begin());
    };
    cv::Vec3b last(0, 0, 0);  // neighbouring pixels usually have the same colour
    ids.insert(index_of(last));
    for (const cv::Vec3b& pixel : cv::Mat_<cv::Vec3b>(image)) {
      if (pixel == last) continue;
      last = pixel;
      ids.insert(index_of(pixel));
    }
  } else {
    try {
      if (image.channels() > 1) cv::extractChannel(image, image, 0);
      cv::Mat values;
      image.convertTo(values, CV_32S);
      for (const int value : cv::Mat_<int>(values)) ids.insert(value);
    } catch (const cv::Exception& problem) {
      return cannot_decode(path, reason_of(problem));
    }
  }
  ids.erase(0);
  return std::vector<int>(ids.begin(), ids.end());
}

}  // namespace headroom::media

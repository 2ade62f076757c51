#include "media/opencv/image_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <set>
#include <span>

#include "base/files.h"
#include "media/depth_scaling.h"
#include "media/image_header.h"
#include "media/image_memory.h"
#include "media/opencv/quiet_stderr.h"

namespace headroom::media {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& content) {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

tl::unexpected<Error> cannot_decode(const std::string& path, std::string why) {
  return input_error(fmt::format("cannot decode {}", path), std::move(why), "remove or replace the file");
}

// Warnings of libjpeg after which pixels are made up. Harmless ones ("extraneous bytes before marker"), which
// some cameras' files always give, are not among them.
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

// A failure in words for a person. OpenCV's own speak of template parameters and source lines; libjpeg's and
// libpng's first line says what is wrong.
std::string reason_in(const std::string& messages) {
  const std::string line = messages.substr(0, messages.find('\n'));
  const bool is_opencv = line.find("OpenCV") != std::string::npos || line.find(".cpp") != std::string::npos;
  return line.empty() || is_opencv ? "OpenCV cannot read this kind of picture" : line;
}

std::string reason_of(const cv::Exception& problem) {
  return problem.code == cv::Error::StsNoMem ? "there is not enough memory to decode it"
                                             : "OpenCV cannot convert this kind of picture";
}

// Into `image`, in place if its memory fits. OpenCV reports failures in four ways: by an exception, an empty
// matrix, text on stderr, and a picture that is wrong.
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

// 8 bits, then three channels; alpha goes before the scaling, as it is no brightness.
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

Result<Decoded> place(const cv::Mat& image, const TakeRoom& take_room) {
  std::uint8_t* room = take_room({image.cols, image.rows});
  if (room == nullptr) return Decoded::no_room;
  cv::Mat target(image.rows, image.cols, CV_8UC3, room);
  image.copyTo(target);
  return Decoded::frame;
}

struct ImageFile {
  std::string content;
  ImageHeader header;
};

tl::unexpected<Error> too_large(const std::string& path, const std::string& what, Bytes needed, Bytes bound) {
  return cannot_decode(path, fmt::format("{} takes {} to decode, more than the {} that --workspace leaves "
                                         "for it; raise --workspace",
                                         what, format_bytes(needed), format_bytes(bound)));
}

// `more_a_pixel`: what the caller holds beside the decoding.
Result<ImageFile> read_image(const std::string& path, const std::optional<Bytes>& bound,
                             std::int64_t more_a_pixel = 0) {
  std::error_code unknown;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, unknown));
  if (bound && !unknown && size > bound->count) return too_large(path, "the file alone", {size}, *bound);
  auto content = read_file(path);
  if (!content) return forward_error(content);
  auto header = inspect_image(bytes_of(*content));
  if (!header) return cannot_decode(path, header.error().what);
  const Bytes needed = decoding_memory(*header, {static_cast<std::int64_t>(content->size())}) +
                       Bytes{std::int64_t{header->width} * header->height * more_a_pixel};
  if (bound && needed > *bound)
    return too_large(path,
                     fmt::format("a picture of {} x {} pixels of {} bits", header->width, header->height,
                                 header->bits * header->channels),
                     needed, *bound);
  return ImageFile{std::move(*content), *header};
}

// An alpha channel, the extracted channel and its values as 32-bit numbers.
constexpr std::int64_t kMaskBytesAPixel = 6;

}  // namespace

Result<Decoded> decode_image_file(const std::string& path, const TakeRoom& take_room,
                                  const std::optional<Bytes>& bound) {
  auto file = read_image(path, bound);
  if (!file) return forward_error(file);
  std::uint8_t* room = take_room({file->header.width, file->header.height});
  if (room == nullptr) return Decoded::no_room;

  const bool deep = file->header.bits > 8;
  cv::Mat image;
  if (!deep) image = cv::Mat(file->header.height, file->header.width, CV_8UC3, room);
  if (auto decoded = decode(path, file->content, deep ? cv::IMREAD_UNCHANGED : cv::IMREAD_COLOR, image);
      !decoded)
    return forward_error(decoded);
  // OpenCV takes other memory if the picture's shape is not the announced one: turned by EXIF, or damaged.
  if (image.data == room && image.rows == file->header.height && image.cols == file->header.width)
    return Decoded::frame;
  try {
    return place(to_8_bit_bgr(std::move(image)), take_room);
  } catch (const cv::Exception& problem) {
    return cannot_decode(path, reason_of(problem));
  }
}

Result<std::vector<int>> read_mask_file(const std::string& path, const std::optional<Bytes>& bound) {
  auto file = read_image(path, bound, kMaskBytesAPixel);
  if (!file) return forward_error(file);
  cv::Mat image;
  if (auto decoded = decode(path, file->content, cv::IMREAD_UNCHANGED, image); !decoded)
    return forward_error(decoded);

  std::set<int> ids;
  const auto palette = png_palette(bytes_of(file->content));
  if (!palette.empty() && image.type() == CV_8UC3) {
    // OpenCV gives a palette image's colours; the ids are the indices of these colours.
    const auto index_of = [&](const cv::Vec3b& bgr) {
      const auto found = std::find(palette.begin(), palette.end(), std::array{bgr[2], bgr[1], bgr[0]});
      return static_cast<int>(found - palette.begin());
    };
    cv::Vec3b last(0, 0, 0);  // neighbours mostly have the same colour
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

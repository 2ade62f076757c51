#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>

#include "base/files.h"
#include "media/pictures/decode_picture.h"
#include "media/pictures/picture_engine.h"

namespace headroom::media {
namespace {

EncodedBytes bytes_of(const std::string& content) {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

tl::unexpected<Error> cannot_decode(const std::string& path, std::string why) {
  return input_error(fmt::format("cannot decode {}", path), std::move(why), "remove or replace the file");
}

tl::unexpected<Error> too_large(const std::string& path, const std::string& what, Bytes needed, Bytes bound) {
  return cannot_decode(path, fmt::format("{} needs {} to decode, but --workspace leaves only {}; "
                                         "raise --workspace",
                                         what, format_bytes(needed), format_bytes(bound)));
}

struct PictureFile {
  std::string content;
  ImageHeader header;
};

Result<PictureFile> read_picture(const std::string& path, const std::optional<Bytes>& bound) {
  std::error_code unknown;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, unknown));
  if (bound && !unknown && size > bound->count) return too_large(path, "the file alone", {size}, *bound);
  auto content = read_file(path);
  if (!content) return forward_error(content);
  auto header = inspect_image(bytes_of(*content));
  if (!header) return cannot_decode(path, header.error().what);
  const Bytes needed = decoding_memory(*header, {static_cast<std::int64_t>(content->size())});
  if (bound && needed > *bound)
    return too_large(path,
                     fmt::format("an image of {} x {} pixels of {} bits", header->width, header->height,
                                 header->bits * header->channels),
                     needed, *bound);
  return PictureFile{std::move(*content), *header};
}

// Runs a decoder. The standard library reports missing memory by an exception.
template <class Decode>
auto decoded_or_error(const std::string& path, const Decode& decode) -> decltype(decode()) {
  try {
    auto decoded = decode();
    if (!decoded) return cannot_decode(path, decoded.error().what);
    return decoded;
  } catch (const std::bad_alloc&) {
    return cannot_decode(path, "there is not enough memory to decode it");
  }
}

}  // namespace

Result<Decoded> PictureEngine::decode_image_into(const std::string& path,
                                                 const AllocateFrame& allocate_frame) {
  auto file = read_picture(path, memory_bound_);
  if (!file) return forward_error(file);
  std::uint8_t* memory = allocate_frame(shown_size(file->header));
  if (memory == nullptr) return Decoded::no_space;
  auto decoded =
      decoded_or_error(path, [&] { return decode_picture(bytes_of(file->content), file->header, memory); });
  if (!decoded) return forward_error(decoded);
  return Decoded::frame;
}

Result<std::vector<int>> PictureEngine::read_mask_ids(const std::string& path) {
  auto file = read_picture(path, memory_bound_);
  if (!file) return forward_error(file);
  return decoded_or_error(path, [&] { return decode_mask_ids(bytes_of(file->content), file->header); });
}

Result<LabelPicture> PictureEngine::read_labels(const std::string& path) {
  auto file = read_picture(path, memory_bound_);
  if (!file) return forward_error(file);
  return decoded_or_error(path, [&] { return decode_labels(bytes_of(file->content), file->header); });
}

Status PictureEngine::write_labels(const LabelPicture& labels, const std::string& path) {
  const PictureSize size{labels.width, labels.height};
  if (labels.width <= 0 || labels.height <= 0 || labels.values.size() * 3 != size.bytes())
    return internal_error(fmt::format("cannot write {}", path), "the mask has no pixels");
  const int bits = *std::ranges::max_element(labels.values) > 1 ? 8 : 1;
  auto file = encode_indexed_png(labels.values.data(), size, bits);
  if (!file) return failure(fmt::format("cannot write {}", path), file.error().what);
  return write_file_atomically(path, *file);
}

}  // namespace headroom::media

#include "media/pictures/tiff_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace headroom::media {
namespace {

// libtiff before 4.5 has only handlers of the whole process.
thread_local std::string first_tiff_message;

void note_tiff_message(const char*, const char* format, std::va_list arguments) {
  if (!first_tiff_message.empty()) return;
  std::array<char, 200> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  first_tiff_message = text.data();
}

}  // namespace

struct TiffCalls {
  static TiffFile& file(thandle_t handle) { return *static_cast<TiffFile*>(handle); }

  static tmsize_t read(thandle_t handle, void* buffer, tmsize_t count) {
    TiffFile& from = file(handle);
    const std::uint64_t left = from.bytes_.size() - std::min<std::uint64_t>(from.at_, from.bytes_.size());
    const auto taken = static_cast<tmsize_t>(std::min(left, static_cast<std::uint64_t>(count)));
    if (taken > 0) std::memcpy(buffer, from.bytes_.data() + from.at_, static_cast<std::size_t>(taken));
    from.at_ += static_cast<std::uint64_t>(taken);
    return taken;
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    TiffFile& in = file(handle);
    if (whence == SEEK_CUR) offset += in.at_;
    if (whence == SEEK_END) offset += in.bytes_.size();
    return in.at_ = offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return file(handle).bytes_.size(); }
  // With this, libtiff takes the encoded pixels from the file's memory instead of a copy.
  static int map(thandle_t handle, void** base, toff_t* size) {
    *base = const_cast<std::uint8_t*>(file(handle).bytes_.data());  // libtiff only reads it
    *size = file(handle).bytes_.size();
    return 1;
  }
  static void unmap(thandle_t, void*, toff_t) {}
};

TiffFile::~TiffFile() {
  if (tiff_ != nullptr) TIFFClose(tiff_);
}

std::uint16_t TiffFile::field(std::uint32_t tag) const {
  std::uint16_t value = 0;
  return TIFFGetFieldDefaulted(tiff_, tag, &value) != 0 ? value : std::uint16_t{0};
}

tl::unexpected<Error> TiffFile::damaged() const {
  if (first_tiff_message.empty()) return input_error("this kind of TIFF is not supported");
  return input_error(fmt::format("damaged TIFF: {}", first_tiff_message));
}

bool TiffFile::read_pieces() {
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff_, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff_, TIFFTAG_IMAGELENGTH, &height);
  if (width != static_cast<std::uint32_t>(width_) || height != static_cast<std::uint32_t>(height_))
    return false;
  tiled_ = TIFFIsTiled(tiff_) != 0;
  if (tiled_) {
    TIFFGetField(tiff_, TIFFTAG_TILEWIDTH, &width);
    TIFFGetField(tiff_, TIFFTAG_TILELENGTH, &height);
  } else {
    std::uint32_t rows = 0;
    if (TIFFGetFieldDefaulted(tiff_, TIFFTAG_ROWSPERSTRIP, &rows) != 0 && rows > 0)
      height = std::min(height, rows);
  }
  if (width == 0 || height == 0 || std::uint64_t{width} * height > static_cast<std::uint64_t>(kMaximumPixels))
    return false;
  piece_width_ = static_cast<int>(width);
  piece_height_ = static_cast<int>(height);
  return true;
}

Result<std::unique_ptr<TiffFile>> TiffFile::open(EncodedBytes bytes, int width, int height) {
  first_tiff_message.clear();
  TIFFSetErrorHandler(note_tiff_message);
  TIFFSetWarningHandler(nullptr);
  std::unique_ptr<TiffFile> file(new TiffFile(bytes));
  file->width_ = width;
  file->height_ = height;
  file->tiff_ = TIFFClientOpen("", "r", file.get(), TiffCalls::read, TiffCalls::write, TiffCalls::seek,
                               TiffCalls::close, TiffCalls::size, TiffCalls::map, TiffCalls::unmap);
  if (file->tiff_ == nullptr) return file->damaged();
  if (!file->read_pieces()) return input_error("damaged TIFF: its sizes do not fit together");
  return file;
}

}  // namespace headroom::media

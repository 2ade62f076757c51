// An engine's file in memory. Some tools write metadata in front of the engine; parts_of() separates the
// two.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace headroom::tensorrt {

// The parts of an engine file.
struct EngineParts {
  std::span<const std::byte> engine;
  // Metadata of a file exported by Ultralytics: "task", "names", "imgsz", …
  std::vector<std::pair<std::string, std::string>> metadata;
};
// Splits a file. Ultralytics writes four bytes with the length of a JSON text, the text, then the engine.
// Any other file is an engine as a whole.
EngineParts parts_of(std::span<const std::byte> file);

// A read-only mapping of a file. It avoids a second copy in memory, because TensorRT copies the engine
// anyway.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  MappedFile(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  void* memory_;
  std::size_t size_;
};

}  // namespace headroom::tensorrt

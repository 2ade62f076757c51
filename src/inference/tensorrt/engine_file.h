// An engine's file in memory. What other tools put before the engine is told apart from it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace headroom::tensorrt {

// The parts of a file's bytes.
struct EngineParts {
  std::span<const std::byte> engine;
  // Of files that Ultralytics exports: "task", "names", "imgsz", …, as a model's metadata.
  std::vector<std::pair<std::string, std::string>> metadata;
};
// Ultralytics writes four bytes with the length of a JSON text, the text, and then the engine. Anything else
// is an engine as a whole.
EngineParts parts_of(std::span<const std::byte> file);

// Mapped, not read: TensorRT copies what it needs, and no second copy is ever in memory.
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

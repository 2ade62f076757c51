#include "inference/tensorrt/engine_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/files.h"
#include "base/json.h"

namespace headroom::tensorrt {
namespace {

constexpr std::size_t kLengthBytes = 4;
// A thousand class names are 20 KB.
constexpr std::uint32_t kLongestMetadata = 4 << 20;

}  // namespace

EngineParts parts_of(std::span<const std::byte> file) {
  EngineParts whole{file, {}};
  std::uint32_t length = 0;
  if (file.size() <= kLengthBytes) return whole;
  std::memcpy(&length, file.data(), kLengthBytes);  // little-endian, like all machines that TensorRT supports
  const auto rest = file.subspan(kLengthBytes);
  if (length < 2 || length > kLongestMetadata || length >= rest.size()) return whole;
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), length);
  if (text.front() != '{' || text.back() != '}') return whole;
  const auto document = parse_json(text, "the engine's metadata");
  if (!document || !document->is_object()) return whole;
  EngineParts parts{rest.subspan(length), {}};
  for (const auto& [key, value] : document->items())
    parts.metadata.emplace_back(key, value.is_string() ? value.get<std::string>() : to_line(value));
  return parts;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno), "check the path");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return input_error(fmt::format("{} is empty", path.string()), "", "build the engine again");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return failure(fmt::format("cannot map {}", path.string()), errno_text(errno));
  return MappedFile(memory, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

}  // namespace headroom::tensorrt

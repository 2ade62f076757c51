#include "symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace headroom::symbols {
namespace fs = std::filesystem;
namespace {

// Opens regular files only: opening a FIFO would block.
Result<UniqueFd> open_regular_file(const fs::path& path) {
  const std::string what = fmt::format("cannot open {}", path.string());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return input_error(what, errno_text(errno));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return input_error(what, errno_text(errno));
  if (!S_ISREG(status.st_mode)) return input_error(what, "not a regular file");
  return fd;
}

}  // namespace

Result<ElfFile> ElfFile::open(const fs::path& path) {
  static const unsigned library_version = elf_version(EV_CURRENT);
  auto fd = open_regular_file(path);
  if (!fd) return forward_error(fd);
  Elf* elf = library_version == EV_NONE ? nullptr : elf_begin(fd->get(), ELF_C_READ_MMAP, nullptr);
  if (elf == nullptr || elf_kind(elf) != ELF_K_ELF) {
    elf_end(elf);
    return input_error(fmt::format("cannot read {}", path.string()), "not an ELF file");
  }
  return ElfFile(std::move(*fd), elf);
}

ElfFile::ElfFile(ElfFile&& other) noexcept
    : fd_(std::move(other.fd_)), elf_(std::exchange(other.elf_, nullptr)) {}

ElfFile::~ElfFile() { elf_end(elf_); }

std::string ElfFile::build_id() const {
  const void* bytes = nullptr;
  const ssize_t count = dwelf_elf_gnu_build_id(elf_, &bytes);
  return count > 0 ? hex_digits(bytes, static_cast<std::size_t>(count)) : std::string();
}

std::optional<DebugLink> ElfFile::debug_link() const {
  DebugLink link;
  const char* name = dwelf_elf_gnu_debuglink(elf_, &link.crc);
  if (name == nullptr || *name == '\0') return std::nullopt;
  link.file_name = name;
  return link;
}

// The section contains a file name, a zero byte, and the bytes of the build id.
std::string ElfFile::shared_debug_id() const {
  const Elf_Data* data = elf_rawdata(section(".gnu_debugaltlink"), nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  const std::string_view content(static_cast<const char*>(data->d_buf), data->d_size);
  const std::size_t end_of_name = content.find('\0');
  if (end_of_name == std::string_view::npos) return {};
  const std::string_view id = content.substr(end_of_name + 1);
  return hex_digits(id.data(), id.size());
}

Elf_Scn* ElfFile::section(std::string_view name) const {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return nullptr;
  for (Elf_Scn* candidate = elf_nextscn(elf_, nullptr); candidate != nullptr;
       candidate = elf_nextscn(elf_, candidate)) {
    GElf_Shdr header;
    if (gelf_getshdr(candidate, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* text = elf_strptr(elf_, names, header.sh_name);
    if (text != nullptr && name == text) return candidate;
  }
  return nullptr;
}

std::optional<std::uint32_t> file_crc32(const fs::path& path) {
  auto fd = open_regular_file(path);
  if (!fd) return std::nullopt;
  std::vector<std::uint8_t> buffer(256 * 1024);
  uLong crc = ::crc32(0, nullptr, 0);
  ssize_t got = 0;
  while ((got = ::read(fd->get(), buffer.data(), buffer.size())) > 0)
    crc = ::crc32(crc, buffer.data(), static_cast<uInt>(got));
  if (got < 0) return std::nullopt;
  return static_cast<std::uint32_t>(crc);
}

std::string hex_digits(const void* bytes, std::size_t count) {
  std::string digits;
  digits.reserve(count * 2);
  for (std::size_t i = 0; i < count; ++i)
    digits += fmt::format("{:02x}", static_cast<const std::uint8_t*>(bytes)[i]);
  return digits;
}

}  // namespace headroom::symbols

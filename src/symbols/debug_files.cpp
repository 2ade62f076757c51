#include "symbols/debug_files.h"

#include <elfutils/libdwelf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gelf.h>
#include <unistd.h>
#include <zlib.h>
#include <optional>
#include <utility>
#include <vector>

namespace headroom::symbols {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostIndexedFiles = 200'000;
constexpr const char* kDebugFolder = "/usr/lib/debug";

bool has_build_id(const fs::path& path, const std::string& build_id) {
  const auto file = ElfFile::open(path);
  return file && file->build_id() == build_id;
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
  const auto* at = static_cast<const std::uint8_t*>(bytes);
  return fmt::format("{:02x}", fmt::join(at, at + count, ""));
}

bool is_build_id(const std::string& text) {
  return text.size() > 2 && text.size() <= 128 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

fs::path code_path(const std::string& build_id) {
  return fs::path(".build-id") / build_id.substr(0, 2) / build_id.substr(2);
}

fs::path debug_path(const std::string& build_id) { return code_path(build_id) += ".debug"; }

bool is_vdso(const std::string& path) {
  return path == "[vdso]" || path.starts_with("linux-vdso.so") || path.starts_with("linux-gate.so");
}

DebugFiles::DebugFiles(std::vector<fs::path> symbol_folders, fs::path sysroot)
    : symbol_folders_(std::move(symbol_folders)), sysroot_(std::move(sysroot)) {
  for (const fs::path& folder : symbol_folders_)
    if (std::error_code ignored; !fs::is_directory(folder, ignored))
      problems_.push_back(fmt::format("symbol folder {} not found", folder.string()));
}

fs::path DebugFiles::under_sysroot(const fs::path& path) const {
  return sysroot_.empty() ? path : sysroot_ / path.relative_path();
}

ModuleFiles DebugFiles::files_of(const recording::Module& module) {
  ModuleFiles files;
  const bool identified = is_build_id(module.build_id);
  std::optional<ElfFile> own;
  if (!is_vdso(module.path)) {
    const fs::path path = under_sysroot(module.path);
    if (auto file = ElfFile::open(path); !file) {
      files.problem = file.error().sentence();
    } else if (identified && file->build_id() != module.build_id) {
      files.problem = fmt::format("{} has changed since the recording (its build id was {} and is now {})",
                                  path.string(), module.build_id, file->build_id());
    } else {
      files.code = path;
      own.emplace(std::move(*file));
    }
  }
  if (!own && identified) {
    files.code = file_in(symbol_folders_, code_path(module.build_id), module.build_id, &Identified::code);
    if (!files.code.empty())
      if (auto file = ElfFile::open(files.code)) own.emplace(std::move(*file));
  }
  if (own && own->has_debug_info()) {
    files.problem.clear();
    return files;
  }
  if (identified) files.debug = debug_file_of(module.build_id);
  if (files.debug.empty() && own) files.debug = linked_debug_file(files.code, *own, module.build_id);
  if (files.found())
    files.problem.clear();
  else if (!files.problem.empty() && identified)
    files.problem += fmt::format(
        "; its functions have no names until a folder with the file of build id {} is passed with --symbols",
        module.build_id);
  return files;
}

fs::path DebugFiles::debug_file_of(const std::string& build_id) {
  if (!is_build_id(build_id)) return {};
  std::vector<fs::path> folders = symbol_folders_;
  folders.push_back(under_sysroot(kDebugFolder));
  return file_in(folders, debug_path(build_id), build_id, &Identified::debug);
}

fs::path DebugFiles::file_in(const std::vector<fs::path>& folders, const fs::path& name,
                             const std::string& build_id, fs::path Identified::*indexed) {
  for (const fs::path& folder : folders)
    if (fs::path path = folder / name; has_build_id(path, build_id)) return path;
  index_symbol_folders();
  const auto found = by_build_id_.find(build_id);
  return found == by_build_id_.end() ? fs::path() : found->second.*indexed;
}

// The places that gdb searches: next to the file, in .debug next to it, and under /usr/lib/debug.
fs::path DebugFiles::linked_debug_file(const fs::path& code, const ElfFile& file,
                                       const std::string& build_id) {
  const auto link = file.debug_link();
  if (!link) return {};
  const fs::path name = fs::path(link->file_name).filename();  // a hostile file may contain any path
  const fs::path folder = code.parent_path();
  const fs::path inside = sysroot_.empty() ? folder : folder.lexically_relative(sysroot_);
  for (const fs::path& path : {folder / name, folder / ".debug" / name,
                               under_sysroot(kDebugFolder) / inside.relative_path() / name}) {
    std::error_code ignored;
    if (path == code || !fs::is_regular_file(path, ignored)) continue;
    if (is_build_id(build_id) ? has_build_id(path, build_id) : file_crc32(path) == link->crc) return path;
  }
  return {};
}

void DebugFiles::index_symbol_folders() {
  if (std::exchange(indexed_, true)) return;
  std::size_t files = 0;
  for (const fs::path& folder : symbol_folders_) {
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      if (!entry->is_regular_file(ignored)) continue;
      if (++files > kMostIndexedFiles) {
        problems_.push_back(
            fmt::format("{} has more than {} files, and the others were not searched; pass a smaller folder",
                        folder.string(), kMostIndexedFiles));
        return;
      }
      index_file(entry->path());
    }
  }
}

void DebugFiles::index_file(const fs::path& path) {
  const auto file = ElfFile::open(path);
  if (!file) return;
  const std::string build_id = file->build_id();
  if (!is_build_id(build_id)) return;
  Identified& known = by_build_id_[build_id];
  if (file->has_code() && known.code.empty()) known.code = path;
  // A file with full symbols but without debug information is still better than a stripped one.
  if (!file->has_code() || file->has_debug_info() || (file->has_symbols() && known.debug.empty()))
    known.debug = path;
}

}  // namespace headroom::symbols

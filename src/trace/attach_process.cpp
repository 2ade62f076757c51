#include "trace/attach_process.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

std::uint64_t hex_number(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

struct DynamicTables {
  std::uint64_t hash = 0, symbols = 0, names = 0;
};

}  // namespace

// "7f00-7fff r-xp 0001000 08:01 12   /usr/lib/libc.so.6"
std::vector<Mapping> parse_mappings(std::string_view text) {
  std::vector<Mapping> mappings;
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 5) continue;
    const std::size_t dash = words[0].find('-');
    if (dash == std::string_view::npos) continue;
    Mapping mapping;
    mapping.start = hex_number(words[0].substr(0, dash));
    mapping.end = hex_number(words[0].substr(dash + 1));
    mapping.offset = hex_number(words[2]);
    if (words.size() > 5) mapping.path = line.substr(static_cast<std::size_t>(words[5].data() - line.data()));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

std::optional<std::int64_t> status_number(std::string_view status, std::string_view key, int base) {
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::string_view value = trim(line.substr(key.size()));
    std::uint64_t number = 0;  // a signal mask has 64 bits
    const auto result = std::from_chars(value.data(), value.data() + value.size(), number, base);
    if (result.ec == std::errc()) return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

fs::path RemoteProcess::folder() const { return fmt::format("/proc/{}", pid_); }

std::vector<pid_t> RemoteProcess::threads() const {
  std::vector<pid_t> threads;
  std::error_code code;
  for (fs::directory_iterator at(folder() / "task", code), end; !code && at != end; at.increment(code))
    if (const auto number = parse_number<pid_t>(at->path().filename().string())) threads.push_back(*number);
  std::ranges::sort(threads);
  const auto main = std::ranges::find(threads, pid_);
  if (main != threads.end()) std::rotate(threads.begin(), main, std::next(main));
  return threads;
}

std::vector<Mapping> RemoteProcess::mappings() const {
  const auto text = read_file(folder() / "maps");
  return text ? parse_mappings(*text) : std::vector<Mapping>{};
}

int RemoteProcess::memory() const {
  if (!memory_) memory_ = UniqueFd(::open((folder() / "mem").c_str(), O_RDWR | O_CLOEXEC));
  return memory_.get();
}

bool RemoteProcess::read(std::uint64_t address, void* to, std::size_t bytes) const {
  return ::pread(memory(), to, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
}

bool RemoteProcess::write(std::uint64_t address, const void* from, std::size_t bytes) const {
  return ::pwrite(memory(), from, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
}

std::string RemoteProcess::read_text(std::uint64_t address, std::size_t most) const {
  std::string text;
  for (char c = 0; text.size() < most && read(address + text.size(), &c, 1) && c != 0;) text += c;
  return text;
}

std::uint64_t RemoteProcess::base_of(std::string_view file_name) const {
  for (const Mapping& mapping : mappings())
    if (mapping.offset == 0 && fs::path(mapping.path).filename().string().starts_with(file_name))
      return mapping.start;
  return 0;
}

// Reads the loader's own tables in memory, because the file may have been replaced since the process started.
std::uint64_t RemoteProcess::address_of(std::uint64_t base, std::string_view symbol) const {
  ElfW(Ehdr) header{};
  if (base == 0 || !read(base, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phnum > 64)
    return 0;
  std::vector<ElfW(Phdr)> parts(header.e_phnum);
  if (!read(base + header.e_phoff, parts.data(), parts.size() * sizeof(ElfW(Phdr)))) return 0;
  const auto first = std::ranges::find(parts, PT_LOAD, &ElfW(Phdr)::p_type);
  const auto dynamic = std::ranges::find(parts, PT_DYNAMIC, &ElfW(Phdr)::p_type);
  if (first == parts.end() || dynamic == parts.end() || dynamic->p_memsz > (1 << 20)) return 0;
  const std::uint64_t bias = base - (first->p_vaddr & ~std::uint64_t{4095});
  std::vector<ElfW(Dyn)> entries(dynamic->p_memsz / sizeof(ElfW(Dyn)));
  if (!read(bias + dynamic->p_vaddr, entries.data(), entries.size() * sizeof(ElfW(Dyn)))) return 0;
  DynamicTables tables;
  for (const ElfW(Dyn) & entry : entries) {
    const std::uint64_t value = entry.d_un.d_ptr;
    const std::uint64_t address = value < bias ? value + bias : value;
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH) tables.hash = address;
    if (entry.d_tag == DT_SYMTAB) tables.symbols = address;
    if (entry.d_tag == DT_STRTAB) tables.names = address;
  }
  if (tables.hash == 0 || tables.symbols == 0 || tables.names == 0) return 0;

  std::uint32_t counts[4] = {};  // buckets, first symbol, words of the filter, shift
  if (!read(tables.hash, counts, sizeof counts) || counts[0] == 0) return 0;
  const std::uint64_t buckets = tables.hash + sizeof counts + std::uint64_t{counts[2]} * 8;
  const std::uint64_t hashes = buckets + std::uint64_t{counts[0]} * 4;
  const std::uint32_t wanted = gnu_hash(symbol);
  std::uint32_t index = 0, hash = 0;
  if (!read(buckets + std::uint64_t{wanted % counts[0]} * 4, &index, sizeof index) || index < counts[1])
    return 0;
  for (;; ++index) {
    if (!read(hashes + std::uint64_t{index - counts[1]} * 4, &hash, sizeof hash)) return 0;
    ElfW(Sym) entry{};
    if ((hash | 1) == (wanted | 1) && read(tables.symbols + index * sizeof entry, &entry, sizeof entry) &&
        entry.st_shndx != SHN_UNDEF && read_text(tables.names + entry.st_name, symbol.size() + 1) == symbol)
      return bias + entry.st_value;
    if ((hash & 1) != 0) return 0;
  }
}

}  // namespace headroom::trace

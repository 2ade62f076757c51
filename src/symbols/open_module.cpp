#include "symbols/open_module.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "symbols/demangle.h"

namespace headroom::symbols {
namespace {

// libdwfl's default callbacks search more places than files_of() does, and ask debuginfod servers. A
// symbolizer must not access the network unexpectedly, so only files that DebugFiles found are opened.
int find_no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }
int no_section_address(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, GElf_Word,
                       const GElf_Shdr*, Dwarf_Addr* address) {
  *address = 0;
  return 0;
}

}  // namespace

int OpenModule::find_debug_file(Dwfl_Module*, void** user_data, const char*, Dwarf_Addr, const char*,
                                const char*, GElf_Word, char** found) {
  auto* self = static_cast<OpenModule*>(*user_data);
  if (self == nullptr || self->debug_path_.empty()) return -1;
  // The second call asks for dwz's shared file; load_debug_info() finds that by its build id.
  const std::filesystem::path path = std::exchange(self->debug_path_, {});
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) *found = ::strdup(path.c_str());
  return fd;
}

Result<std::unique_ptr<OpenModule>> OpenModule::open(const ModuleFiles& files, DebugFiles& debug_files) {
  static const Dwfl_Callbacks kCallbacks = {find_no_elf, find_debug_file, no_section_address, nullptr};
  const std::filesystem::path& path = files.code.empty() ? files.debug : files.code;
  const auto refuse = [&] {
    return input_error(fmt::format("cannot read {}", path.string()), dwfl_errmsg(-1),
                       "it may be damaged; pass a folder with an intact copy with --symbols");
  };
  std::unique_ptr<OpenModule> opened(new OpenModule());
  if (!files.code.empty()) opened->debug_path_ = files.debug;
  opened->dwfl_ = dwfl_begin(&kCallbacks);
  if (opened->dwfl_ == nullptr) return refuse();
  dwfl_report_begin(opened->dwfl_);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return input_error(fmt::format("cannot open {}", path.string()), errno_text(errno));
  // Load at base 0, so that addresses equal those in the file.
  opened->module_ = dwfl_report_elf(opened->dwfl_, "module", path.c_str(), fd, 0, true);
  if (opened->module_ == nullptr) {
    auto error = refuse();
    ::close(fd);
    return error;
  }
  dwfl_report_end(opened->dwfl_, nullptr, nullptr);
  void** user_data = nullptr;
  dwfl_module_info(opened->module_, &user_data, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  *user_data = opened.get();
  opened->load_debug_info(debug_files);
  return opened;
}

OpenModule::~OpenModule() {
  debug_info_.reset();
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
  if (shared_ != nullptr) dwarf_end(shared_);
  if (shared_fd_ >= 0) ::close(shared_fd_);
}

void OpenModule::load_debug_info(DebugFiles& debug_files) {
  Dwarf_Addr bias = 0;
  Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
  if (dwarf == nullptr) return;
  const char* name = nullptr;
  const void* id = nullptr;
  if (const ssize_t id_bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id); id_bytes > 0) {
    const auto path = debug_files.debug_file_of(hex_digits(id, static_cast<std::size_t>(id_bytes)));
    shared_fd_ = path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (shared_fd_ >= 0) shared_ = dwarf_begin(shared_fd_, DWARF_C_READ);
    if (shared_ != nullptr) dwarf_setalt(dwarf, shared_);
  }
  debug_info_.emplace(dwarf);
}

const SymbolTable& OpenModule::symbols() {
  if (!symbols_) symbols_.emplace(module_);
  return *symbols_;
}

std::vector<ModuleFrame> OpenModule::frames_at(std::uint64_t address) {
  std::vector<ModuleFrame> frames;
  bool has_linkage_name = false;
  if (debug_info_)
    for (SourcePlace& place : debug_info_->find(address)) {
      has_linkage_name = place.has_linkage_name;
      frames.push_back(
          {std::move(place.function), has_linkage_name, std::move(place.file), place.line, place.inlined, 0});
    }
  if (frames.empty()) frames.emplace_back();
  if (!has_linkage_name) name_by_symbol(address, frames.back());
  return frames;
}

// Names the outermost function by its symbol. A mangled symbol is better than debug information without a
// linkage name, because it contains namespaces and parameters. In C, symbols only add aliases and suffixes
// (__libc_malloc, foo.cold).
void OpenModule::name_by_symbol(std::uint64_t address, ModuleFrame& frame) {
  const auto symbol = symbols().find(address);
  if (!symbol) return;
  const std::string_view name = symbol->name == nullptr ? "" : symbol->name;
  if (!frame.function.empty() && !is_mangled(name)) return;
  if (frame.function.empty()) frame.offset = address - symbol->start;
  frame.function = name.empty() ? "[plt]" : name;
  frame.mangled = true;
  if (symbol->is_stub && !name.empty()) frame.function += "@plt";
}

std::size_t OpenModule::bytes() const {
  return 64 * 1024 + (debug_info_ ? debug_info_->bytes() : 0) + (symbols_ ? symbols_->bytes() : 0);
}

}  // namespace headroom::symbols

#include "symbols/open_module.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "symbols/demangle.h"

namespace headroom::symbols {
namespace {

// A function or label, or a stub of the procedure linkage table (PLT): a call into another library goes
// through a stub, which has no symbol.
struct Candidate {
  const char* name;  // of a stub: the called function, or nullptr; valid while the file is open
  std::uint64_t start, size;
  int rank = 0;  // of several names for one address, the highest rank wins
};

using SlotNames = std::unordered_map<std::uint64_t, const char*>;

// Reads which functions' addresses the dynamic linker stores into the slots of the global offset table.
void read_slots(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, SlotNames& slots) {
  Elf_Scn* symbols_section = elf_getscn(elf, header.sh_link);
  GElf_Shdr symbols_header;
  if (gelf_getshdr(symbols_section, &symbols_header) == nullptr) return;
  Elf_Data* relocations = elf_getdata(section, nullptr);
  Elf_Data* symbols = elf_getdata(symbols_section, nullptr);
  if (relocations == nullptr || symbols == nullptr || header.sh_entsize == 0) return;
  const std::size_t count = relocations->d_size / header.sh_entsize;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Rela relocation;
    GElf_Sym symbol;
    if (gelf_getrela(relocations, static_cast<int>(i), &relocation) == nullptr) break;
    const auto symbol_index = static_cast<int>(GELF_R_SYM(relocation.r_info));
    if (symbol_index <= 0 || gelf_getsym(symbols, symbol_index, &symbol) == nullptr) continue;
    if (const char* name = elf_strptr(elf, symbols_header.sh_link, symbol.st_name);
        name != nullptr && *name != '\0')
      slots[relocation.r_offset] = name;
  }
}

std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);  // both supported machines are little-endian
  return word;
}

// jmp *offset(%rip), ff 25, possibly after an endbr64 or a bnd prefix.
std::optional<std::uint64_t> slot_of_x86_64(const std::uint8_t* code, std::size_t size,
                                            std::uint64_t address) {
  for (std::size_t at = 0; at + 6 <= size; ++at) {
    if (code[at] != 0xff || code[at + 1] != 0x25) continue;
    return address + at + 6 + static_cast<std::uint64_t>(static_cast<std::int32_t>(word_at(code + at + 2)));
  }
  return std::nullopt;
}

// adrp x16, page · ldr x17, [x16, offset], possibly after a bti.
std::optional<std::uint64_t> slot_of_aarch64(const std::uint8_t* code, std::size_t size,
                                             std::uint64_t address) {
  for (std::size_t at = 0; at + 8 <= size; at += 4) {
    const std::uint32_t adrp = word_at(code + at), ldr = word_at(code + at + 4);
    if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211) continue;
    const std::uint32_t pages = ((adrp >> 29) & 3) | ((adrp >> 3) & 0x1ffffc);
    const auto offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(pages) << 43) >> 31;
    const std::uint64_t page = ((address + at) & ~std::uint64_t{0xfff}) + static_cast<std::uint64_t>(offset);
    return page + ((ldr >> 10) & 0xfff) * 8;
  }
  return std::nullopt;
}

void read_stubs(Elf_Scn* section, const GElf_Shdr& header, std::string_view name, GElf_Half machine,
                const SlotNames& slots, std::vector<Candidate>& stubs) {
  stubs.push_back(
      {nullptr, header.sh_addr, header.sh_size});  // covers the table's header and unrecognized stubs
  if (machine != EM_X86_64 && machine != EM_AARCH64) return;
  Elf_Data* data = elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return;
  const std::size_t step = name == ".plt.got" && header.sh_entsize == 8 ? 8 : 16;
  const auto* code = static_cast<const std::uint8_t*>(data->d_buf);
  for (std::size_t at = 0; at + step <= data->d_size; at += step) {
    const std::uint64_t address = header.sh_addr + at;
    const auto slot = machine == EM_X86_64 ? slot_of_x86_64(code + at, step, address)
                                           : slot_of_aarch64(code + at, step, address);
    if (!slot) continue;
    if (const auto found = slots.find(*slot); found != slots.end())
      stubs.push_back({found->second, address, step});
  }
}

// For x86-64 and AArch64 files: each stub with its target. A stub's instructions load a slot, and the slot
// identifies the target. (The stub's position does not: linkers differ in the table's order and headers.) For
// other machines: each table as a whole, without names.
std::vector<Candidate> linkage_stubs(Elf* elf) {
  std::vector<Candidate> stubs;
  GElf_Ehdr file;
  std::size_t names = 0;
  if (gelf_getehdr(elf, &file) == nullptr || elf_getshdrstrndx(elf, &names) != 0) return stubs;
  struct Table {
    Elf_Scn* section;
    GElf_Shdr header;
    std::string_view name;
  };
  std::vector<Table> tables;
  SlotNames slots;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* text = elf_strptr(elf, names, header.sh_name);
    const std::string_view name = text == nullptr ? "" : text;
    if (header.sh_type == SHT_RELA && (name == ".rela.plt" || name == ".rela.dyn"))
      read_slots(elf, section, header, slots);
    if (header.sh_type == SHT_PROGBITS && (name == ".plt" || name == ".plt.sec" || name == ".plt.got"))
      tables.push_back({section, header, name});
  }
  for (const Table& table : tables)
    read_stubs(table.section, table.header, table.name, file.e_machine, slots, stubs);
  return stubs;
}

// A symbol without a size (assembly code) extends to the next symbol, but at most this far.
constexpr std::uint64_t kReachOfUnsized = 4096;

// Prefers "malloc" to "__libc_malloc", exported to local symbols, functions to labels.
int rank_of(const GElf_Sym& symbol, const char* name) {
  const std::string_view text(name);
  int rank = GELF_ST_TYPE(symbol.st_info) == STT_NOTYPE ? 0 : 1000;
  if (GELF_ST_BIND(symbol.st_info) != STB_LOCAL) rank += 100;
  rank -= 10 * static_cast<int>(std::min<std::size_t>(text.find_first_not_of('_'), 8));
  return rank - static_cast<int>(std::min<std::size_t>(text.size(), 9));
}

// Assembly labels count only in code sections. Arm's "$x" and "$d" mark code and data; they are not names.
bool names_code(const GElf_Sym& symbol, Elf* elf, GElf_Word section, const char* name) {
  switch (GELF_ST_TYPE(symbol.st_info)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
      return true;
    case STT_NOTYPE: {
      if (*name == '$' || *name == '.') return false;
      GElf_Shdr header;
      return gelf_getshdr(elf_getscn(elf, section), &header) != nullptr &&
             (header.sh_flags & SHF_EXECINSTR) != 0;
    }
    default:
      return false;
  }
}

std::vector<Candidate> read_candidates(Dwfl_Module* module) {
  std::vector<Candidate> candidates;
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = SHN_UNDEF;
    Elf* elf = nullptr;
    const char* name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, &elf, nullptr);
    if (name == nullptr || *name == '\0' || section == SHN_UNDEF || section == SHN_ABS) continue;
    if (names_code(symbol, elf, section, name))
      candidates.push_back({name, symbol.st_value, symbol.st_size, rank_of(symbol, name)});
  }
  return candidates;
}

// libdwfl's default callbacks search more places than files_of() does, and ask debuginfod servers. A
// symbolizer must not access the network unexpectedly, so only files that DebugFiles found are opened.
int find_no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }
int no_section_address(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, GElf_Word,
                       const GElf_Shdr*, Dwarf_Addr* address) {
  *address = 0;
  return 0;
}

}  // namespace

SymbolTable::SymbolTable(Dwfl_Module* module) {
  // In the index the last added range wins, so add labels, then stubs, then functions from outermost to
  // innermost.
  const auto add = [&](const SymbolHit& hit, std::uint64_t size) {
    index_.add(hit.start, hit.start + size, static_cast<std::uint32_t>(hits_.size()));
    hits_.push_back(hit);
  };
  std::vector<Candidate> candidates = read_candidates(module);
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.start, b.size, a.rank) < std::tuple(b.start, a.size, b.rank);
  });
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].size != 0) continue;
    const auto next = std::ranges::upper_bound(candidates, candidates[i].start, {}, &Candidate::start);
    const std::uint64_t reach = next == candidates.end()
                                    ? kReachOfUnsized
                                    : std::min(next->start - candidates[i].start, kReachOfUnsized);
    add({candidates[i].name, candidates[i].start, false}, reach);
  }
  GElf_Addr bias = 0;
  if (Elf* elf = dwfl_module_getelf(module, &bias); elf != nullptr)
    for (const Candidate& stub : linkage_stubs(elf)) add({stub.name, stub.start, true}, stub.size);
  for (const Candidate& candidate : candidates)
    if (candidate.size != 0) add({candidate.name, candidate.start, false}, candidate.size);
  index_.build();
}

std::optional<SymbolHit> SymbolTable::find(std::uint64_t address) const {
  const auto found = index_.find(address);
  return found ? std::optional(hits_[*found]) : std::nullopt;
}

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
}

void OpenModule::load_debug_info(DebugFiles& debug_files) {
  Dwarf_Addr bias = 0;
  Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
  if (dwarf == nullptr) return;
  const char* name = nullptr;
  const void* id = nullptr;
  if (const ssize_t id_bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id); id_bytes > 0) {
    const auto path = debug_files.debug_file_of(hex_digits(id, static_cast<std::size_t>(id_bytes)));
    if (!path.empty()) shared_fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (shared_fd_) shared_ = dwarf_begin(shared_fd_.get(), DWARF_C_READ);
    if (shared_ != nullptr) dwarf_setalt(dwarf, shared_);
  }
  debug_info_.emplace(dwarf);
}

std::vector<ModuleFrame> OpenModule::frames_at(std::uint64_t address) {
  std::vector<ModuleFrame> frames;
  if (debug_info_) frames = debug_info_->find(address);
  if (frames.empty()) frames.emplace_back();
  if (!frames.back().mangled) name_by_symbol(address, frames.back());
  return frames;
}

// Names the outermost function by its symbol. A mangled symbol is better than debug information without a
// linkage name, because it contains namespaces and parameters. In C, symbols only add aliases and suffixes
// (__libc_malloc, foo.cold).
void OpenModule::name_by_symbol(std::uint64_t address, ModuleFrame& frame) {
  if (!symbols_) symbols_.emplace(module_);
  const auto symbol = symbols_->find(address);
  if (!symbol) return;
  const std::string_view name = symbol->name == nullptr ? "" : symbol->name;
  if (!frame.function.empty() && !is_mangled(name)) return;
  frame.function = name.empty() ? "[plt]" : name;
  frame.mangled = true;
  if (symbol->is_stub && !name.empty()) frame.function += "@plt";
}

std::size_t OpenModule::bytes() const {
  return 64 * 1024 + (debug_info_ ? debug_info_->bytes() : 0) + (symbols_ ? symbols_->bytes() : 0);
}

}  // namespace headroom::symbols

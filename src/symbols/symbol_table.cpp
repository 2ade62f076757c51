#include "symbols/symbol_table.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "symbols/linkage_stubs.h"

namespace headroom::symbols {
namespace {

// A symbol without a size (assembly code) extends to the next symbol, but at most this far.
constexpr std::uint64_t kReachOfUnsized = 4096;

struct Candidate {
  std::uint64_t start, size;
  const char* name;
  int rank;  // of several names for one address, the highest rank wins
};

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
      candidates.push_back({symbol.st_value, symbol.st_size, name, rank_of(symbol, name)});
  }
  return candidates;
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
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.start, b.size, a.rank) < std::tuple(b.start, a.size, b.rank);
  });
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].size != 0) continue;
    const auto next =
        std::upper_bound(candidates.begin(), candidates.end(), candidates[i].start,
                         [](std::uint64_t start, const Candidate& c) { return start < c.start; });
    const std::uint64_t reach = next == candidates.end()
                                    ? kReachOfUnsized
                                    : std::min(next->start - candidates[i].start, kReachOfUnsized);
    add({candidates[i].name, candidates[i].start, false}, reach);
  }
  GElf_Addr bias = 0;
  if (Elf* elf = dwfl_module_getelf(module, &bias); elf != nullptr)
    for (const LinkageStub& stub : linkage_stubs(elf)) add({stub.name, stub.start, true}, stub.size);
  for (const Candidate& candidate : candidates)
    if (candidate.size != 0) add({candidate.name, candidate.start, false}, candidate.size);
  index_.build();
}

std::optional<SymbolHit> SymbolTable::find(std::uint64_t address) const {
  const auto found = index_.find(address);
  return found ? std::optional(hits_[*found]) : std::nullopt;
}

}  // namespace headroom::symbols

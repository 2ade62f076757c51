#include "symbols/linkage_stubs.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace headroom::symbols {
namespace {

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
                const SlotNames& slots, std::vector<LinkageStub>& stubs) {
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

}  // namespace

std::vector<LinkageStub> linkage_stubs(Elf* elf) {
  std::vector<LinkageStub> stubs;
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

}  // namespace headroom::symbols

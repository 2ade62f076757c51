#include "preload/loaded_objects.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace headroom::preload {

namespace {

using Function = int (*)(void*, FoundObject*);
std::atomic<Function> find_object_function{nullptr};
std::atomic<bool> is_resolved{false};

}  // namespace

bool has_find_object() {
  // Resolved at run time, because older systems do not have it.
  if (!is_resolved.load(std::memory_order_acquire)) {
    find_object_function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));
    is_resolved.store(true, std::memory_order_release);
  }
  return find_object_function.load(std::memory_order_relaxed) != nullptr;
}

bool find_object(std::uint64_t address, FoundObject& found) {
  return has_find_object() &&
         find_object_function.load(std::memory_order_relaxed)(reinterpret_cast<void*>(address), &found) == 0;
}

// The symbol lookup of the dynamic linker. A .gnu.hash section has a Bloom filter, buckets of symbol numbers,
// and a hash per symbol, whose lowest bit marks the end of a bucket. For almost all libraries, one word of
// the filter shows that they lack the symbol.

namespace {

struct SymbolTable {
  const std::uint32_t* hash = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const char* soname = nullptr;
};

SymbolTable symbol_table_of(const dl_phdr_info& module) {
  SymbolTable table;
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < module.dlpi_phnum; ++i)
    if (module.dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(module.dlpi_addr + module.dlpi_phdr[i].p_vaddr);
  std::uint64_t soname = 0;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) soname = entry->d_un.d_val;
    // The dynamic linker makes these addresses absolute, except where the section is read-only (the vDSO).
    const std::uint64_t value = entry->d_un.d_ptr;
    const std::uint64_t address = value < module.dlpi_addr ? value + module.dlpi_addr : value;
    if (entry->d_tag == DT_GNU_HASH) table.hash = reinterpret_cast<const std::uint32_t*>(address);
    if (entry->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) table.names = reinterpret_cast<const char*>(address);
  }
  if (soname != 0 && table.names != nullptr) table.soname = table.names + soname;
  return table;
}

std::uint32_t hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

decltype(SymbolTable::symbols) find_symbol(const SymbolTable& table, const char* name) {
  if (table.hash == nullptr || table.symbols == nullptr || table.names == nullptr) return nullptr;
  const std::uint32_t bucket_count = table.hash[0], first_symbol = table.hash[1],
                      filter_words = table.hash[2], filter_shift = table.hash[3];
  if (bucket_count == 0 || filter_words == 0) return nullptr;
  const auto* filter = reinterpret_cast<const std::uint64_t*>(table.hash + 4);
  const auto* buckets = reinterpret_cast<const std::uint32_t*>(filter + filter_words);
  const std::uint32_t* hashes = buckets + bucket_count;
  const std::uint32_t hash = hash_of(name);
  const std::uint64_t word = filter[hash / 64 % filter_words];
  if ((word >> (hash % 64) & word >> ((hash >> filter_shift) % 64) & 1) == 0) return nullptr;
  std::uint32_t symbol = buckets[hash % bucket_count];
  if (symbol < first_symbol) return nullptr;
  for (;; ++symbol) {
    const std::uint32_t symbol_hash = hashes[symbol - first_symbol];
    if ((symbol_hash | 1) == (hash | 1) &&
        std::strcmp(table.names + table.symbols[symbol].st_name, name) == 0)
      // A program that is not position-independent lists the functions whose addresses it uses, undefined.
      return table.symbols[symbol].st_shndx != SHN_UNDEF ? table.symbols + symbol : nullptr;
    if ((symbol_hash & 1) != 0) return nullptr;
  }
}

}  // namespace

std::uint64_t address_of_export(const dl_phdr_info& module, const char* name) {
  const auto* const symbol = find_symbol(symbol_table_of(module), name);
  return symbol != nullptr ? module.dlpi_addr + symbol->st_value : 0;
}

std::uint64_t address_of_function(const dl_phdr_info& module, const char* name) {
  const auto* const symbol = find_symbol(symbol_table_of(module), name);
  return symbol != nullptr && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? module.dlpi_addr + symbol->st_value
                                                                         : 0;
}

namespace {

struct Definition {
  const char* name;
  std::uint64_t address;
};
int find_definition(dl_phdr_info* module, std::size_t, void* data) {
  auto& wanted = *static_cast<Definition*>(data);
  if (contains_address(*module, reinterpret_cast<std::uint64_t>(&find_definition))) return 0;
  wanted.address = address_of_function(*module, wanted.name);
  return wanted.address != 0 ? 1 : 0;
}

}  // namespace

void* first_definition(const char* name) {
  Definition wanted{name, 0};
  ::dl_iterate_phdr(find_definition, &wanted);
  return reinterpret_cast<void*>(wanted.address);
}

const char* soname_of(const dl_phdr_info& module) { return symbol_table_of(module).soname; }

bool contains_address(const dl_phdr_info& module, std::uint64_t address) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && address - (module.dlpi_addr + part.p_vaddr) < part.p_memsz) return true;
  }
  return false;
}

}  // namespace headroom::preload

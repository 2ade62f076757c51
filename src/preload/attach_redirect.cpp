#include "preload/attach_redirect.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "preload/loaded_objects.h"
#include "preload/memory.h"
#include "preload/real_functions.h"
#include "types/lock.h"

namespace headroom::preload {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT,
                        kAddress = R_X86_64_64;
#else
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT,
                        kAddress = R_AARCH64_ABS64;
#endif

// The hooks. posix_spawn, system, popen and wordexp are missing: they only keep a GPU memory limit in force.
// So are dlsym and dlvsym: the program would keep hooks of the GPU driver beyond the end of the recording.
constexpr const char* kHookNames[] = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign",
    "valloc", "pvalloc", "mmap", "mmap64", "munmap", "mremap", "mprotect", "sbrk", "brk", "dlopen", "dlmopen",
    "dlclose", "pthread_setname_np", "prctl", "_exit", "_Exit", "quick_exit", "abort", "execve", "execv",
    "execvp", "execvpe", "fexecve", "execveat", "execl", "execlp", "execle",
    // Only those of an allocator: the standard library's call malloc, where they are recorded.
    "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

struct Redirect {
  const char* name;
  std::uint64_t original, hook;
};
constexpr std::size_t kMostRedirects = 256;
Redirect redirects[kMostRedirects];
std::size_t redirect_count = 0;
std::uint64_t lowest_original = 0, highest_original = 0;

// A slot that was changed. The list grows in memory from the kernel.
struct Slot {
  std::uint64_t* place;
  std::uint64_t before, hook;
};
constexpr std::size_t kMostSlots = 1 << 20;
Slot* slots = nullptr;
std::size_t slot_count = 0;

Lock redirect_lock;
bool is_redirecting = false;  // guarded by the lock
// The loader's change count when the calls of all modules had been redirected.
std::atomic<std::uint64_t> changes_redirected{0};

bool is_of_this_library(const dl_phdr_info& module) {
  return contains_address(module, reinterpret_cast<std::uint64_t>(&is_of_this_library));
}

// Whether the operator is one that only calls malloc.
bool only_calls_malloc(std::uint64_t function) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libstdc++.so") != nullptr ||
         std::strstr(info.dli_fname, "libc++.so") != nullptr ||
         std::strstr(info.dli_fname, "libc++abi.so") != nullptr;
}

int find_own_module(dl_phdr_info* module, std::size_t, void* data) {
  if (!is_of_this_library(*module)) return 0;
  *static_cast<dl_phdr_info*>(data) = *module;
  return 1;
}

// A library with functions of these names may have come since the last call.
void find_functions() {
  dl_phdr_info own{};
  ::dl_iterate_phdr(find_own_module, &own);
  redirect_count = 0;
  lowest_original = ~std::uint64_t{0};
  highest_original = 0;
  for (const char* name : kHookNames) {
    const auto original = reinterpret_cast<std::uint64_t>(first_definition(name));
    const std::uint64_t hook = address_of_function(own, name);
    if (original == 0 || hook == 0) continue;
    if (name[0] == '_' && name[1] == 'Z' && only_calls_malloc(original)) continue;
    redirects[redirect_count++] = {name, original, hook};
    if (original < lowest_original) lowest_original = original;
    if (original > highest_original) highest_original = original;
  }
}

struct Relocations {
  const ElfW(Rela) * first;
  std::size_t count;
};

struct Tables {
  std::uint64_t start = ~std::uint64_t{0}, end = 0;      // of the module
  std::uint64_t read_only_start = 0, read_only_end = 0;  // after relocation
  Relocations all[2] = {};                               // of data, of calls
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Tables tables_of(const dl_phdr_info& module) {
  Tables tables;
  const ElfW(Dyn)* entry = nullptr;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    const std::uint64_t start = module.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (part.p_type == PT_LOAD) {
      if (start < tables.start) tables.start = start;
      if (start + part.p_memsz > tables.end) tables.end = start + part.p_memsz;
    }
    if (part.p_type == PT_GNU_RELRO) {  // the loader protects whole pages
      tables.read_only_start = start & ~(page - 1);
      tables.read_only_end = (start + part.p_memsz) & ~(page - 1);
    }
  }
  bool has_rela_calls = false;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const std::uint64_t value = entry->d_un.d_ptr;
    const std::uint64_t address = value < module.dlpi_addr ? value + module.dlpi_addr : value;
    switch (entry->d_tag) {
      case DT_RELA:
        tables.all[0].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        tables.all[0].count = value / sizeof(ElfW(Rela));
        break;
      case DT_JMPREL:
        tables.all[1].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        tables.all[1].count = value / sizeof(ElfW(Rela));
        break;
      case DT_PLTREL:
        has_rela_calls = value == DT_RELA;
        break;
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        tables.names = reinterpret_cast<const char*>(address);
        break;
      default:
        break;
    }
  }
  for (Relocations& some : tables.all)
    if (some.first == nullptr) some.count = 0;
  if (!has_rela_calls) tables.all[1].count = 0;
  return tables;
}

// Directly from the kernel, because mprotect is one of the hooks.
void protect(const Tables& tables, int protection) {
  if (tables.read_only_start < tables.read_only_end)
    ::syscall(SYS_mprotect, tables.read_only_start, tables.read_only_end - tables.read_only_start,
              protection);
}

std::uint64_t value_at(const std::uint64_t* place) { return __atomic_load_n(place, __ATOMIC_RELAXED); }
void write_slot(std::uint64_t* place, std::uint64_t value) {
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
}

// Which hook this slot should have; null if none. The address decides, not the name: a module may use another
// definition. A slot that the loader has not filled in yet points into its own module, and there the name
// decides.
const Redirect* redirect_for(const Tables& tables, const ElfW(Rela) & relocation, std::uint64_t value) {
  const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
  const bool is_call = type == kJumpSlot;
  if (!is_call && type != kGlobalData && (type != kAddress || relocation.r_addend != 0)) return nullptr;
  const bool is_unresolved = is_call && value >= tables.start && value < tables.end;
  if (!is_unresolved && (value < lowest_original || value > highest_original)) return nullptr;
  const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
  if (is_unresolved && symbol.st_shndx != SHN_UNDEF) return nullptr;
  const char* const name = tables.names + symbol.st_name;
  const Redirect* by_address = nullptr;
  for (std::size_t i = 0; i < redirect_count; ++i) {
    const Redirect& redirect = redirects[i];
    if (is_unresolved ? std::strcmp(name, redirect.name) == 0 : value == redirect.original) {
      // mmap and mmap64 are one function
      if (by_address == nullptr || std::strcmp(name, redirect.name) == 0) by_address = &redirect;
    }
  }
  return by_address;
}

void redirect_slot(std::uint64_t* place, std::uint64_t before, std::uint64_t hook) {
  if (slots == nullptr) slots = reserve_array<Slot>(kMostSlots);
  if (slots == nullptr || slot_count == kMostSlots) return;
  slots[slot_count++] = {place, before, hook};
  write_slot(place, hook);
}

void redirect_module(const dl_phdr_info& module) {
  const Tables tables = tables_of(module);
  if (tables.symbols == nullptr || tables.names == nullptr) return;
  bool is_writable = false;
  for (const Relocations& some : tables.all)
    for (std::size_t i = 0; i < some.count; ++i) {
      const ElfW(Rela)& relocation = some.first[i];
      if (ELF64_R_SYM(relocation.r_info) == 0) continue;
      const std::uint64_t address = module.dlpi_addr + relocation.r_offset;
      auto* const place = reinterpret_cast<std::uint64_t*>(address);
      if (address % sizeof *place != 0) continue;
      const std::uint64_t value = value_at(place);
      const Redirect* const redirect = redirect_for(tables, relocation, value);
      if (redirect == nullptr) continue;
      const bool is_protected = address >= tables.read_only_start && address < tables.read_only_end;
      if (is_protected && !is_writable) {
        protect(tables, PROT_READ | PROT_WRITE);
        is_writable = true;
      }
      redirect_slot(place, value, redirect->hook);
    }
  if (is_writable) protect(tables, PROT_READ);
}

// The loader lists a library before it is relocated; find_object finds it only after that.
bool is_linked(const dl_phdr_info& module, LoaderState loader) {
  if (!has_find_object()) return loader == LoaderState::done;
  FoundObject found{};
  for (int i = 0; i < module.dlpi_phnum; ++i)
    if (module.dlpi_phdr[i].p_type == PT_LOAD)
      return find_object(module.dlpi_addr + module.dlpi_phdr[i].p_vaddr, found) && found.link_map != nullptr;
  return false;
}

struct Pass {
  LoaderState loader;
  bool is_complete = true;
};
int redirect_next(dl_phdr_info* module, std::size_t, void* data) {
  auto& pass = *static_cast<Pass*>(data);
  if (is_of_this_library(*module)) return 0;
  if (is_linked(*module, pass.loader))
    redirect_module(*module);
  else
    pass.is_complete = false;
  return 0;
}

int read_changes(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

bool is_writable_part(const dl_phdr_info& module, std::uint64_t address) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0 &&
        address - (module.dlpi_addr + part.p_vaddr) < part.p_memsz)
      return true;
  }
  return false;
}

void restore_slot(Slot& slot) {
  if (value_at(slot.place) == slot.hook) write_slot(slot.place, slot.before);
  slot.place = nullptr;
}

int restore_module(dl_phdr_info* module, std::size_t, void*) {
  const Tables tables = tables_of(*module);
  bool is_writable = false;
  // Last first: a slot is listed twice if its library was unloaded and another one took its place.
  for (std::size_t i = slot_count; i-- > 0;) {
    Slot& slot = slots[i];
    const auto address = reinterpret_cast<std::uint64_t>(slot.place);
    if (slot.place == nullptr || !is_writable_part(*module, address)) continue;
    if (!is_writable && address >= tables.read_only_start && address < tables.read_only_end) {
      protect(tables, PROT_READ | PROT_WRITE);
      is_writable = true;
    }
    restore_slot(slot);
  }
  if (is_writable) protect(tables, PROT_READ);
  return 0;
}

}  // namespace

void start_redirecting() {
  const Locked locked(redirect_lock);
  is_redirecting = true;
}

void redirect_calls(LoaderState loader) {
  if (loader == LoaderState::may_be_busy && !has_find_object()) return;
  std::uint64_t changes = 0;
  ::dl_iterate_phdr(read_changes, &changes);
  if (changes == changes_redirected.load(std::memory_order_relaxed) || !redirect_lock.try_lock()) return;
  if (is_redirecting) {
    find_functions();
    Pass pass{loader};
    ::dl_iterate_phdr(redirect_next, &pass);
    if (pass.is_complete) changes_redirected.store(changes, std::memory_order_relaxed);
  }
  redirect_lock.unlock();
}

void restore_calls() {
  const Locked locked(redirect_lock);
  is_redirecting = false;
  ::dl_iterate_phdr(restore_module, nullptr);
  slot_count = 0;
  changes_redirected = 0;
}

void restore_calls_in_child() {
  redirect_lock.reset();
  is_redirecting = false;
  // Each page is made writable alone. Pages that the loader had protected stay writable in the child.
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = slot_count; i-- > 0;) {
    FoundObject found{};
    const auto address = reinterpret_cast<std::uint64_t>(slots[i].place);
    if (!has_find_object() || !find_object(address, found)) continue;
    ::syscall(SYS_mprotect, address & ~(page - 1), page, PROT_READ | PROT_WRITE);
    restore_slot(slots[i]);
  }
  slot_count = 0;
  changes_redirected = 0;
}

}  // namespace headroom::preload

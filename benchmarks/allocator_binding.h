// Switches the allocation functions of this process between the hooks of a preloaded tracer and the functions
// behind the hooks. With both in turns in one process, a tracer's cost can be measured. Between two processes
// it would be lost, because their addresses, threads and neighbours differ (benchmarks/trace_hook_cost.py).
//
// The loader has written the targets of malloc, free, new and delete into each library's global offset table
// (GOT). This class overwrites these entries. Run the program with LD_BIND_NOW=1: a function that is bound
// lazily would be bound to the hooks later. Both targets use the same allocator, so either can free the
// other's blocks. Pointers to these functions in ordinary data are not changed.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

class AllocatorBinding {
 public:
  // Finds all GOT entries of the currently loaded libraries.
  AllocatorBinding() {
    for (const char* name : kFunctions) {
      void* const hook = ::dlsym(RTLD_DEFAULT, name);
      void* const behind = behind_hooks(name);
      if (hook != nullptr && behind != nullptr) functions_.push_back({name, hook, behind});
    }
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* self) {
          static_cast<AllocatorBinding*>(self)->find_places(*info);
          return 0;
        },
        this);
  }
  std::size_t places() const { return places_.size(); }
  void to_hooks() {
    for (const Place& place : places_) *place.address = place.hook;
  }
  void past_hooks() {
    for (const Place& place : places_) *place.address = place.behind;
  }

 private:
  static constexpr const char* kFunctions[] = {"malloc",
                                               "free",
                                               "calloc",
                                               "realloc",
                                               "posix_memalign",
                                               "aligned_alloc",
                                               "memalign",
                                               "_Znwm",
                                               "_Znam",
                                               "_ZdlPv",
                                               "_ZdaPv",
                                               "_ZdlPvm",
                                               "_ZdaPvm",
                                               "reallocarray",
                                               "valloc",
                                               "pvalloc",
                                               "_ZdlPvRKSt9nothrow_t",
                                               "_ZdaPvRKSt9nothrow_t",
                                               "_ZnwmSt11align_val_t",
                                               "_ZnamSt11align_val_t",
                                               "_ZdlPvSt11align_val_t",
                                               "_ZdaPvSt11align_val_t",
                                               "_ZdlPvmSt11align_val_t",
                                               "_ZdaPvmSt11align_val_t",
                                               "_ZnwmRKSt9nothrow_t",
                                               "_ZnamRKSt9nothrow_t"};
#if defined(__aarch64__)
  static constexpr std::uint64_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobal = R_AARCH64_GLOB_DAT;
#else
  static constexpr std::uint64_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobal = R_X86_64_GLOB_DAT;
#endif
  struct Function {
    const char* name;
    void *hook, *behind;
  };
  struct Place {
    void** address;
    void *hook, *behind;
  };

  static void* behind_hooks(const char* name) {
    const char* const library = name[0] == '_' ? "libstdc++.so.6" : "libc.so.6";
    void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return handle != nullptr ? ::dlsym(handle, name) : nullptr;
  }
  void find_places(const dl_phdr_info& info) {
    if (std::strstr(info.dlpi_name, "linux-vdso") != nullptr ||
        std::strstr(info.dlpi_name, "libheadroom_trace") != nullptr)
      return;  // the tracer's own calls stay unchanged
    for (unsigned i = 0; i < info.dlpi_phnum; ++i)
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
        read_dynamic(info.dlpi_addr,
                     reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr));
  }
  void read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * dynamic) {
    const auto address_of = [base](ElfW(Addr) value) { return value < base ? base + value : value; };
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    ElfW(Addr) tables[2] = {};
    std::size_t sizes[2] = {};
    for (; dynamic->d_tag != DT_NULL; ++dynamic) switch (dynamic->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(address_of(dynamic->d_un.d_ptr));
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(address_of(dynamic->d_un.d_ptr));
          break;
        case DT_JMPREL:
          tables[0] = address_of(dynamic->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          sizes[0] = dynamic->d_un.d_val;
          break;
        case DT_RELA:
          tables[1] = address_of(dynamic->d_un.d_ptr);
          break;
        case DT_RELASZ:
          sizes[1] = dynamic->d_un.d_val;
          break;
        default:
          break;
      }
    if (symbols == nullptr || names == nullptr) return;
    for (int which = 0; which < 2; ++which)
      for (std::size_t i = 0; tables[which] != 0 && i < sizes[which] / sizeof(ElfW(Rela)); ++i) {
        const auto& relocation = reinterpret_cast<const ElfW(Rela)*>(tables[which])[i];
        const std::uint64_t type = ELF64_R_TYPE(relocation.r_info);
        if (type == kJumpSlot || type == kGlobal)
          add_place(names + symbols[ELF64_R_SYM(relocation.r_info)].st_name, base + relocation.r_offset);
      }
  }
  void add_place(std::string_view name, ElfW(Addr) address) {
    auto** const place = reinterpret_cast<void**>(address);
    for (const Function& function : functions_) {
      if (name != function.name || *place != function.hook) continue;
      const auto page = static_cast<ElfW(Addr)>(::sysconf(_SC_PAGESIZE));
      // The loader makes these tables read-only after writing them.
      if (::mprotect(reinterpret_cast<void*>(address & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0) {
        std::perror("mprotect");
        std::exit(1);
      }
      places_.push_back({place, function.hook, function.behind});
    }
  }
  std::vector<Function> functions_;
  std::vector<Place> places_;
};

#include "preload/torch_module_table.h"

#include <cstddef>

#include "preload/memory.h"

namespace headroom::preload {
namespace {

using python::api;
using python::Object;

// Open addressing by the module's address, at most half full. Dead modules are removed when the table is
// full. So it never has more than eight times as many slots as modules were alive then. 200 modules take 64
// KiB.
struct Table {
  NamedModule* slots = nullptr;
  std::size_t size = 0, used = 0;
};
Table table;
constexpr std::size_t kFirstSize = 256;
constexpr std::uint32_t kNoRoot = 0;  // marks entries to be removed
constexpr std::size_t kLargestSize = std::size_t{1} << 22;

std::size_t first_slot(const Object* module, const Table& in) {
  return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(module) >> 4) * 0x9e3779b97f4a7c15 >>
                                  32) &
         (in.size - 1);
}

bool lives(const NamedModule& named) { return api.PyWeakref_GetObject(named.weak_reference) == named.module; }

// Finds the module's first entry that is alive and `wanted`.
template <class Wanted>
NamedModule* find_named(const Object* module, const Wanted& wanted) {
  if (table.size == 0) return nullptr;
  for (std::size_t at = first_slot(module, table);; at = (at + 1) & (table.size - 1)) {
    NamedModule& named = table.slots[at];
    if (named.module == nullptr) return nullptr;
    if (named.module == module && wanted(named) && lives(named)) return &named;
  }
}

bool has_living_root(const NamedModule& named) {
  const NamedModule* const root = find_root(named.root);
  return root != nullptr && root->root_number == named.root_number;
}

// Requires a free slot.
NamedModule* place(Table& in, const NamedModule& named) {
  std::size_t at = first_slot(named.module, in);
  while (in.slots[at].module != nullptr) at = (at + 1) & (in.size - 1);
  in.slots[at] = named;
  ++in.used;
  return &in.slots[at];
}

void release(const NamedModule& named) {
  api.Py_DecRef(named.weak_reference);
  api.Py_DecRef(named.name);
}

// Releasing weak references and names runs no other code.
bool make_space_for_module() {
  if (2 * (table.used + 1) <= table.size) return true;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < table.size; ++i) {
    NamedModule& named = table.slots[i];
    if (named.module == nullptr) continue;
    if (lives(named) && has_living_root(named))
      ++kept;
    else
      named.root_number = kNoRoot;
  }
  Table next;
  next.size = kFirstSize;
  while (next.size < 4 * (kept + 1)) next.size *= 2;
  if (next.size > kLargestSize) return false;
  const OwnSystemCalls own_calls;
  next.slots = reserve_array<NamedModule>(next.size);
  if (next.slots == nullptr) return false;
  for (std::size_t i = 0; i < table.size; ++i) {
    const NamedModule& named = table.slots[i];
    if (named.module == nullptr) continue;
    if (named.root_number != kNoRoot)
      place(next, named);
    else
      release(named);
  }
  if (table.slots != nullptr) unmap_memory(table.slots, table.size * sizeof(NamedModule));
  table = next;
  return true;
}

}  // namespace

NamedModule* find_module(const Object* module, std::uint32_t root_number) {
  return find_named(module, [&](const NamedModule& named) { return named.root_number == root_number; });
}

NamedModule* find_root(const Object* module) {
  return find_named(module, [](const NamedModule& named) { return named.is_root(); });
}

NamedModule* find_module_anywhere(const Object* module) { return find_named(module, has_living_root); }

NamedModule* add_module(const NamedModule& named) {
  NamedModule complete = named;
  complete.weak_reference = api.PyWeakref_NewRef(named.module, nullptr);
  if (complete.weak_reference == nullptr) {
    api.PyErr_Clear();
    return nullptr;
  }
  if (!make_space_for_module()) {
    api.Py_DecRef(complete.weak_reference);
    return nullptr;
  }
  api.Py_IncRef(complete.name);
  return place(table, complete);
}

void forget_modules() {
  const OwnSystemCalls own_calls;
  if (table.slots != nullptr) unmap_memory(table.slots, table.size * sizeof(NamedModule));
  table = {};
}

}  // namespace headroom::preload

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "preload/memory.h"
#include "preload/process.h"
#include "preload/recorder.h"
#include "preload/scopes.h"
#include "preload/threads.h"
#include "preload/torch_hooks.h"
#include "types/lock.h"

namespace headroom::preload {

namespace {

using namespace python;
using recording::ScopeSource;

// The program's modules (torch.nn.Module) by identity, with their names. A module's name is that in its
// container, as in nn.Module.named_modules(), below its root: the outermost module that was called. A module
// that two roots contain has a name in each.
//
// The table keeps no module alive: a weak reference shows whether the object at an address is still the named
// module. Guarded by the GIL, like all data about Python.
struct NamedModule {
  Object* module;
  Object* weak_reference;
  Object* name;             // a str
  const Object* container;  // null: no known container
  const Object* root;
  std::uint32_t root_number;  // unique for each root, from 1 on
  // For roots only. `twin` distinguishes living roots of the same name. `failed_searches` counts searches for
  // a called module that the root does not contain.
  std::uint32_t twin, failed_searches;
  // The outer scope at the last call, and the resulting scope; 0: unknown.
  std::uint32_t outer_scope, scope;
  bool weights_are_recorded;
  bool is_root() const { return module == root; }
};

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

// Finds the module's first entry that is alive and `wanted`. The pointer is valid until the next module is
// added. Null if there is none, or if another object has taken the module's address.
template <class Wanted>
NamedModule* find_named(const Object* module, const Wanted& wanted) {
  if (table.size == 0) return nullptr;
  for (std::size_t at = first_slot(module, table);; at = (at + 1) & (table.size - 1)) {
    NamedModule& named = table.slots[at];
    if (named.module == nullptr) return nullptr;
    if (named.module == module && wanted(named) && lives(named)) return &named;
  }
}

NamedModule* find_module(const Object* module, std::uint32_t root_number) {
  return find_named(module, [&](const NamedModule& named) { return named.root_number == root_number; });
}

NamedModule* find_root(const Object* module) {
  return find_named(module, [](const NamedModule& named) { return named.is_root(); });
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

// Names a module; fills in weak_reference. Returns null if the table is full. May run Python's garbage
// collection, and so any code.
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

// The module calls that the thread is in. The objects are only compared, because a coroutine that switches C
// stacks may have left stale entries.
struct OpenModule {
  const Object* module;
  const Object* root;
  std::uint32_t root_number, scope;
};
struct OpenModules {
  OpenModules* next_spare;
  std::uint32_t depth;
  OpenModule open[kMaxScopeDepth];
  const OpenModule* innermost() const { return depth > 0 ? &open[depth - 1] : nullptr; }
};
// Null outside all modules. Libraries that are loaded late share 1664 bytes of thread-local storage, so only
// the pointer is there.
thread_local OpenModules* open_modules __attribute__((tls_model("initial-exec"))) = nullptr;

// Where another thread has the lock (in a forked child perhaps forever), the kernel provides the memory.
Lock spare_lock;
OpenModules* spare_modules = nullptr;

OpenModules* take_open_modules() {
  OpenModules* taken = nullptr;
  if (spare_lock.try_lock()) {
    taken = spare_modules;
    if (taken != nullptr) spare_modules = taken->next_spare;
    spare_lock.unlock();
  }
  return taken != nullptr ? taken : reserve_array<OpenModules>(1);
}

void put_back(OpenModules* modules) {
  if (!spare_lock.try_lock()) return unmap_memory(modules, sizeof *modules);
  modules->next_spare = spare_modules;
  spare_modules = modules;
  spare_lock.unlock();
}

std::uint32_t roots_so_far = 0;

// After this many modules were called inside a root that does not contain them, the root is not searched
// again. Otherwise a program that creates modules as it runs would search all of them each time.
constexpr std::uint32_t kMaxFailedSearches = 3;
constexpr int kMostContainers = 64;

// --- names

// Living roots of one class are numbered up to this; later ones share a name.
constexpr std::uint32_t kMostTwins = 8;
struct Twin {
  Object* weak_reference;
  Object* name;
  std::uint32_t number;
};
Twin twins[256];

bool is_same_text(Object* one, Object* other) {
  if (one == other) return true;
  const Text text = text_of(one), other_text = text_of(other);
  return text.length == other_text.length && std::memcmp(text.bytes, other_text.bytes, text.length) == 0;
}

// Returns the lowest number, from 1 on, that no living root of this name has.
std::uint32_t choose_twin(Object* root, Object* name) {
  Object* const weak_reference = api.PyWeakref_NewRef(root, nullptr);
  if (weak_reference == nullptr) {
    api.PyErr_Clear();
    return 1;
  }
  bool is_taken[kMostTwins + 1] = {};
  Twin* free_place = nullptr;
  for (Twin& twin : twins) {
    if (twin.name != nullptr && api.PyWeakref_GetObject(twin.weak_reference) == api.none) {
      api.Py_DecRef(twin.weak_reference);
      api.Py_DecRef(twin.name);
      twin = {};
    }
    if (twin.name == nullptr)
      free_place = &twin;
    else if (is_same_text(twin.name, name))
      is_taken[twin.number] = true;
  }
  std::uint32_t number = 1;
  while (number <= kMostTwins && is_taken[number]) ++number;
  if (number <= kMostTwins && free_place != nullptr)
    *free_place = {weak_reference, new_reference(name), number};
  else
    api.Py_DecRef(weak_reference);
  return number;
}

// Returns a new reference to the name of a module's class; for TorchScript, to that of the original class.
Object* class_name_of(Object* module) {
  Owned name(attribute_of(module->type, "__name__"));
  const Text text = text_of(name.get());
  if (text.is("RecursiveScriptModule") || text.is("TopLevelTracedModule")) {
    Owned original(attribute_of(module, "original_name"));
    if (text_of(original.get()).length > 0) return original.release();
  }
  return name.release();
}

// Names everything that `module` contains and that has no name below this root yet, containers first.
void name_contents(Object* module, const Object* root, std::uint32_t root_number, int depth) {
  if (depth > kMostContainers) return;
  const Owned modules(attribute_of(module, "_modules"));
  if (!modules || !is_dictionary(modules.get())) return;
  // A copy of the items: adding a module may run code that changes the dictionary.
  const Owned items(api.PyDict_Items(modules.get()));
  if (!items) return api.PyErr_Clear();
  for (ssize_t i = 0; i < api.PyList_Size(items.get()); ++i) {
    Object* const item = api.PyList_GetItem(items.get(), i);
    Object* const name = api.PyTuple_GetItem(item, 0);
    Object* const content = api.PyTuple_GetItem(item, 1);
    if (content == api.none || !is_text(name) || find_module(content, root_number) != nullptr) continue;
    if (add_module({content, nullptr, name, module, root, root_number, 0, 0, 0, 0, false}) != nullptr)
      name_contents(content, root, root_number, depth + 1);
  }
}

NamedModule* name_root(Object* module) {
  const Owned name(class_name_of(module));
  if (!name) return nullptr;
  const std::uint32_t number = ++roots_so_far, twin = choose_twin(module, name.get());
  if (add_module({module, nullptr, name.get(), nullptr, module, number, twin, 0, 0, 0, false}) == nullptr)
    return nullptr;
  name_contents(module, module, number, 0);
  return find_root(module);
}

// Names a module that was added to the root after the root was named, or that is called inside it without
// being part of it.
NamedModule* name_late(Object* module, const OpenModule& inside) {
  NamedModule* const root = find_root(inside.root);
  if (root != nullptr && root->root_number == inside.root_number &&
      root->failed_searches < kMaxFailedSearches) {
    name_contents(root->module, inside.root, inside.root_number, 0);
    if (NamedModule* const named = find_module(module, inside.root_number)) return named;
    if (NamedModule* const again = find_root(inside.root)) ++again->failed_searches;
  }
  const Owned name(class_name_of(module));
  if (!name || add_module({module, nullptr, name.get(), nullptr, inside.root, inside.root_number, 0, 0, 0, 0,
                           false}) == nullptr)
    return nullptr;
  name_contents(module, inside.root, inside.root_number, 0);
  return find_module(module, inside.root_number);
}

NamedModule* find_name(Object* module, const OpenModule* inside) {
  if (inside != nullptr) {
    NamedModule* const named = find_module(module, inside->root_number);
    return named != nullptr ? named : name_late(module, *inside);
  }
  if (NamedModule* const root = find_root(module)) return root;
  if (NamedModule* const part = find_named(module, has_living_root)) return part;
  return name_root(module);
}

// --- scopes

std::uint32_t add_element(std::uint32_t scope, const char* name, std::size_t length) {
  return intern_scope(scope, ScopeSource::module, name, length);
}

std::uint32_t add_root(std::uint32_t scope, const NamedModule& root) {
  const Text name = text_of(root.name);
  if (root.twin <= 1) return add_element(scope, name.bytes, name.length);
  char text[kMaxScopeName];
  const int length = std::snprintf(text, sizeof text, root.twin <= kMostTwins ? "%.900s %u" : "%.900s %u+",
                                   name.bytes, root.twin);
  return add_element(scope, text, static_cast<std::size_t>(length));
}

// The path from `inside`, if that contains the module, otherwise from the root.
std::uint32_t scope_of_module(const NamedModule& named, const OpenModule* inside, std::uint32_t outer) {
  const NamedModule* path[kMostContainers];
  int length = 0;
  const NamedModule* at = &named;
  while (at != nullptr && !at->is_root() && length < kMostContainers) {
    path[length++] = at;
    if (at->container == nullptr || (inside != nullptr && at->container == inside->module)) break;
    at = find_module(at->container, named.root_number);
  }
  std::uint32_t scope = outer;
  // The outermost scope includes the root's name.
  if (at != nullptr && at->is_root() && (inside == nullptr || length == 0)) scope = add_root(scope, *at);
  while (length-- > 0) {
    const Text name = text_of(path[length]->name);
    scope = add_element(scope, name.bytes, name.length);
  }
  return scope;
}

// --- weights

// Copies the values of a dictionary, or the items of an iterable, into a list, because processing them may
// run code that changes the original. Returns null, without an exception, if `object` is neither.
Object* list_of(Object* object) {
  const Owned builtins(api.PyImport_ImportModule("builtins"));
  const Owned list(builtins ? attribute_of(builtins.get(), "list") : nullptr);
  Object* const made = list ? api.PyObject_CallFunctionObjArgs(list.get(), object, nullptr) : nullptr;
  api.PyErr_Clear();
  return made;
}
Object* result_of(Object* object, const char* method) {
  const Owned function(attribute_of(object, method));
  Object* const result = function ? api.PyObject_CallFunctionObjArgs(function.get(), nullptr) : nullptr;
  api.PyErr_Clear();
  return result;
}

// Records the addresses of a layer's `tensors`. Tensors without memory (fake ones, on the device "meta") have
// none.
void record_tensors(Object* tensors, std::uint32_t layer) {
  const Owned list(tensors != nullptr ? list_of(tensors) : nullptr);
  for (ssize_t i = 0; list && i < api.PyList_Size(list.get()); ++i) {
    Object* const tensor = api.PyList_GetItem(list.get(), i);
    const Owned address(tensor != api.none ? result_of(tensor, "data_ptr") : nullptr);
    const long number = address ? api.PyLong_AsLong(address.get()) : 0;
    api.PyErr_Clear();
    if (number <= 0) continue;
    const std::uint32_t scope = intern_scope(layer, ScopeSource::weights, recording::kWeightsScope,
                                             sizeof recording::kWeightsScope - 1);
    ThreadLocal& thread = thread_local_state;
    const Guard guard(thread);
    record_weight(thread, static_cast<std::uint64_t>(number), scope);
  }
}

// Records the parameters and buffers of a module at its first call, and of all modules that it contains; they
// were created earlier. `scope` is the module's.
void record_weights(Object* module, std::uint32_t scope, std::uint32_t root_number, int depth) {
  NamedModule* const named = find_module(module, root_number);
  if (named == nullptr || named->weights_are_recorded || depth > kMostContainers) return;
  named->weights_are_recorded = true;
  const Owned modules(attribute_of(module, "_modules"));
  const bool shows_its_modules = modules && is_dictionary(modules.get());
  for (const char* const kind : {"_parameters", "_buffers"}) {
    // A TorchScript module lists the tensors of all its parts, because it has no layers.
    const Owned own(shows_its_modules ? attribute_of(module, kind) : nullptr);
    const Owned tensors(shows_its_modules ? (own ? result_of(own.get(), "values") : nullptr)
                                          : result_of(module, kind + 1));
    record_tensors(tensors.get(), scope);
  }
  const Owned items(shows_its_modules ? api.PyDict_Items(modules.get()) : nullptr);
  if (!items) return api.PyErr_Clear();
  for (ssize_t i = 0; i < api.PyList_Size(items.get()); ++i) {
    Object* const item = api.PyList_GetItem(items.get(), i);
    Object* const content = api.PyTuple_GetItem(item, 1);
    const NamedModule* const inner = content != api.none ? find_module(content, root_number) : nullptr;
    if (inner == nullptr || inner->container != module) continue;
    const Text name = text_of(inner->name);
    record_weights(content, add_element(scope, name.bytes, name.length), root_number, depth + 1);
  }
}

// A module that is called again inside its own call is one layer.
const OpenModule* find_open(const Object* module) {
  for (std::uint32_t i = open_modules->depth; i-- > 0;)
    if (open_modules->open[i].module == module) return &open_modules->open[i];
  return nullptr;
}

OpenModule look_up(Object* module, std::uint32_t outer) {
  const OpenModule* const inside = open_modules->innermost();
  if (const OpenModule* const open = find_open(module)) return *open;
  NamedModule* const named = find_name(module, inside);
  if (named == nullptr) {
    const Owned name(class_name_of(module));
    const Text text = text_of(name.get());
    const std::uint32_t scope = add_element(outer, text.bytes, text.length);
    return inside != nullptr ? OpenModule{module, inside->root, inside->root_number, scope}
                             : OpenModule{module, module, 0, scope};
  }
  if (named->outer_scope != outer || named->scope == 0) {
    named->scope = scope_of_module(*named, inside, outer);
    named->outer_scope = outer;
  }
  const OpenModule found{module, named->root, named->root_number, named->scope};
  if (!named->weights_are_recorded) record_weights(module, found.scope, found.root_number, 0);
  return found;
}

bool has_open_modules() {
  if (open_modules == nullptr) open_modules = take_open_modules();
  return open_modules != nullptr;
}

void put_back_if_outermost() {
  if (open_modules == nullptr || open_modules->depth > 0) return;
  put_back(open_modules);
  open_modules = nullptr;
}

}  // namespace

bool enter_module(Object* module) {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread)) return false;
  if (!has_open_modules() || open_modules->depth == kMaxScopeDepth) return false;
  const OpenModule opened = look_up(module, thread.scope);
  // The lookup may have run other code, which has left the scopes that it entered.
  const bool is_entered = has_open_modules() && enter_scope(opened.scope, kModuleDomain);
  if (is_entered) open_modules->open[open_modules->depth++] = opened;
  put_back_if_outermost();
  return is_entered;
}

void leave_module() {
  --open_modules->depth;
  put_back_if_outermost();
  leave_scope(kModuleDomain);
}

void forget_layers() {
  for (Twin& twin : twins) twin = {};
  forget_modules();
}

}  // namespace headroom::preload

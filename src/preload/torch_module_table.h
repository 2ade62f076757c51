// The program's modules (torch.nn.Module) by identity, with their names. A module's name is that in its
// container, as in nn.Module.named_modules(), below its root: the outermost module that was called. A module
// that two roots contain has a name in each.
//
// The table keeps no module alive: a weak reference shows whether the object at an address is still the named
// module. Guarded by the GIL, like all data about Python.
#pragma once

#include <cstdint>

#include "preload/python_api.h"

namespace headroom::preload {

struct NamedModule {
  python::Object* module;
  python::Object* weak_reference;
  python::Object* name;             // a str
  const python::Object* container;  // null: no known container
  const python::Object* root;
  std::uint32_t root_number;  // unique for each root, from 1 on
  // For roots only. `twin` distinguishes living roots of the same name. `failed_searches` counts searches for
  // a called module that the root does not contain.
  std::uint32_t twin, failed_searches;
  // The outer scope at the last call, and the resulting scope; 0: unknown.
  std::uint32_t outer_scope, scope;
  bool weights_are_recorded;
  bool is_root() const { return module == root; }
};

// Pointers stay valid until the next module is added. Null if this module has no name below the root, or if
// another object has taken its address.
NamedModule* find_module(const python::Object* module, std::uint32_t root_number);
NamedModule* find_root(const python::Object* module);
// Searches all living roots.
NamedModule* find_module_anywhere(const python::Object* module);

// Names a module; fills in weak_reference. Returns null if the table is full. May run Python's garbage
// collection, and so any code.
NamedModule* add_module(const NamedModule& named);

// Python has ended: all its objects are gone.
void forget_modules();

}  // namespace headroom::preload

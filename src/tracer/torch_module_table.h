// The modules (torch.nn.Module) of a program by identity, and what each is called: its name in the module
// that contains it, as nn.Module.named_modules() would tell, below the outermost module that was called, its
// root. A module that two roots contain has a name in each.
//
// No module is kept alive by this: a weak reference says whether the object at an address is still the one
// that was named. Guarded by Python's lock, like all about Python.
#pragma once

#include <cstdint>

#include "tracer/python_api.h"

namespace headroom::tracer {

struct NamedModule {
  python::Object* module;
  python::Object* weak_reference;
  python::Object* name;             // a str
  const python::Object* container;  // null: in none, as far as is known
  const python::Object* root;
  std::uint32_t root_number;  // one for each root that there ever was, from 1 on
  // Of a root, to tell it from living ones of the same name; of a root, too: looks for a module that was not
  // among its own, in vain.
  std::uint32_t twin, vain_looks;
  // Where it was called last, and which scope that came to; 0: not known.
  std::uint32_t outer_scope, scope;
  bool has_told_weights;
  bool is_root() const { return module == root; }
};

// What is found stays where it is until the next module is added.
// Null where this module has no name below the root, or another object has taken its address.
NamedModule* find_module(const python::Object* module, std::uint32_t root_number);
NamedModule* find_root(const python::Object* module);
// In any root that still lives.
NamedModule* find_module_anywhere(const python::Object* module);

// Names a module, whose place is `named`'s; weak_reference and the rest are filled in here. Null where it
// cannot be remembered. May run Python's garbage collection, and so any code.
NamedModule* add_module(const NamedModule& named);

// Python has ended: all its objects are gone.
void forget_modules();

}  // namespace headroom::tracer

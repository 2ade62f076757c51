#include "preload/torch_hooks.h"

#include <cstdint>
#include <cstring>

#include "preload/process.h"
#include "preload/python_api.h"
#include "preload/scopes.h"
#include "preload/threads.h"
#include "preload/torch_module_call.h"

namespace headroom::preload {
namespace {

using namespace python;
using recording::ScopeSource;

Object* around_module(const PendingCall& call) {
  Object* const module = call.argument(0);
  if (module == nullptr || !enter_module(module)) return call.call_original();
  Object* const result = call_module(call);
  leave_module();
  return result;
}

// Nested calls are one layer: step() of a subclass calls that of its base.
struct Phase {
  const char* name;
  bool is_open;
};
thread_local Phase backward{"backward", false}, optimizer_step{"optimizer.step", false};

Object* call_in_layer(Phase& phase, const PendingCall& call) {
  if (phase.is_open) return call.call_original();
  phase.is_open = true;
  push_scope(ScopeSource::phase, phase.name, std::strlen(phase.name), kModuleDomain);
  Object* const result = call.call_original();
  pop_scope(kModuleDomain);
  phase.is_open = false;
  return result;
}
Object* around_backward(const PendingCall& call) { return call_in_layer(backward, call); }
Object* around_step(const PendingCall& call) { return call_in_layer(optimizer_step, call); }

// PyTorch wraps step() of each optimizer class when its first instance is created. The tracer wraps it
// afterwards.
Object* around_patch_of_step(const PendingCall& call) {
  Object* const result = call.call_original();
  Object* const optimizer = call.argument(0);
  if (result == nullptr || optimizer == nullptr) return result;
  const Owned step(attribute_of(optimizer->type, "step"));
  if (step && is_plain_function(step.get())) replace_attribute(optimizer->type, "step", around_step);
  return result;
}

// A call of a module costs 0.1 µs more, and resnet50 makes 183 in a pass. With `--only gpu`, which is meant
// to cost nothing, this would be the only cost. It would be of little use: the caching allocator rarely calls
// the driver, and the module in which it does so is chance.
void hook_module(Object* module) {
  if (!process.options.host) return;
  learn_module_call(module);
  replace_attribute(module, "__call__", around_module);
}

// Direct calls, not through Tensor.backward. The optimizer classes are created after torch.autograd.
void hook_autograd() {
  const Owned autograd(api.PyImport_ImportModule("torch.autograd"));
  api.PyErr_Clear();
  if (!autograd) return;
  for (const char* const function : {"backward", "grad"})
    replace_attribute(autograd.get(), function, around_backward);
}

// --- finding the classes

struct WantedClass {
  const char* name;
  const char* module;
  void (*hook)(Object*);
  bool is_hooked;
};
WantedClass wanted_classes[] = {
    {"Module", "torch.nn.modules.module", hook_module, false},
    {"Tensor", "torch", [](Object* tensor) { replace_attribute(tensor, "backward", around_backward); },
     false},
    {"Optimizer", "torch.optim.optimizer",
     [](Object* optimizer) {
       // Before PyTorch 2.0, and since.
       replace_attribute(optimizer, "_hook_for_profile", around_patch_of_step);
       replace_attribute(optimizer, "_patch_step_function", around_patch_of_step);
       hook_autograd();
     },
     false},
};

void stop_watching_classes() {
  const Owned builtins(api.PyImport_ImportModule("builtins"));
  if (builtins) restore_attribute(builtins.get(), "__build_class__");
  api.PyErr_Clear();
}

// Compares the name of every class that is created meanwhile, but the module of only a few.
void hook_if_wanted(Object* made, const Text& name) {
  for (WantedClass& wanted : wanted_classes) {
    if (!name.is(wanted.name)) continue;
    const Owned module(attribute_of(made, "__module__"));
    if (!text_of(module.get()).is(wanted.module)) continue;
    wanted.hook(made);
    wanted.is_hooked = true;
  }
  for (const WantedClass& wanted : wanted_classes)
    if (!wanted.is_hooked) return;
  stop_watching_classes();
}

// __build_class__(function, name, bases…)
Object* around_build_class(const PendingCall& call) {
  Object* const made = call.call_original();
  Object* const name = call.argument(1);
  if (made != nullptr && name != nullptr) hook_if_wanted(made, text_of(name));
  return made;
}

// Python ends (and may restart): its objects are gone.
void forget_python() {
  forget_layers();
  forget_module_call();
  forget_function_type();
}

void watch_classes() {
  static bool will_forget = false;
  if (!make_function_type()) return;
  if (!will_forget) will_forget = api.Py_AtExit(forget_python) == 0;
  for (WantedClass& wanted : wanted_classes) wanted.is_hooked = false;
  const Owned builtins(api.PyImport_ImportModule("builtins"));
  if (builtins && will_forget) replace_attribute(builtins.get(), "__build_class__", around_build_class);
  api.PyErr_Clear();
}

// ".../torch/_C.cpython-311-x86_64-linux-gnu.so", and other endings.
bool is_torch_extension(const char* file) {
  const char* const name = std::strrchr(file, '/');
  constexpr char kFolder[] = "torch";
  constexpr std::size_t kLength = sizeof kFolder - 1;
  if (name == nullptr || std::strncmp(name, "/_C.", 4) != 0 || name - file < static_cast<long>(kLength))
    return false;
  const char* const folder = name - kLength;
  return std::memcmp(folder, kFolder, kLength) == 0 && (folder == file || folder[-1] == '/');
}

void note_unsupported() {
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  process.file.note(
      "the layers of PyTorch are not recorded: this Python is not one of CPython's 3.8 to 3.13 with a GIL");
}

}  // namespace

void look_for_torch(const char* file, const void* caller) {
  if (file == nullptr || !is_torch_extension(file)) return;
  switch (find_interpreter(caller)) {
    case Interpreter::usable:
      return watch_classes();
    case Interpreter::unsupported:
      return note_unsupported();
    case Interpreter::secondary:
    case Interpreter::not_found:
      return;
  }
}

}  // namespace headroom::preload

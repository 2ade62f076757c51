#include "preload/torch_module_call.h"

#include <link.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "preload/loaded_objects.h"

namespace headroom::preload {
namespace {

using namespace python;

// The dictionaries of hooks that _call_impl checks before it calls only `forward`. PyTorch 1.13 has the first
// three of each kind; 2.0 and later have all four. The keys of its other dictionaries (…_with_kwargs,
// …_always_called) are also in these.
constexpr std::size_t kHookKinds = 4;
constexpr const char* kHookKindNames[kHookKinds] = {"_backward_hooks", "_forward_hooks", "_forward_pre_hooks",
                                                    "_backward_pre_hooks"};
constexpr const char* kGlobalHookNames[kHookKinds] = {"_global_backward_hooks", "_global_forward_hooks",
                                                      "_global_forward_pre_hooks",
                                                      "_global_backward_pre_hooks"};
// Methods that _call_impl calls when there are hooks.
constexpr const char* kHookMethods[] = {"_get_backward_hooks", "_get_backward_pre_hooks"};

// The exported symbol of torch::jit::tracer::getTracingState(), which returns a reference to a
// std::shared_ptr.
constexpr char kTracingState[] = "_ZN5torch3jit6tracer15getTracingStateEv";
using TracingState = void* const* (*)();

// All references are owned and never released: their objects live as long as Python.
struct ModuleCall {
  Object* call = nullptr;  // nn.Module.__call__ when it was inspected; null: not supported
  Object* call_impl = nullptr;
  bool has_compiled_call = false;
  std::size_t hook_kinds = 0;
  Object* own_hook_names[kHookKinds] = {};
  Object* globals = nullptr;  // of PyTorch's module.py; its dictionaries of hooks may be replaced
  Object* global_hook_names[kHookKinds] = {};
  Object *call_impl_name = nullptr, *compiled_call_name = nullptr, *forward_name = nullptr,
         *get_attribute_name = nullptr, *object_get_attribute = nullptr, *get_profile = nullptr,
         *get_trace = nullptr;
  TracingState tracing_state = nullptr;
};
ModuleCall known;

bool is_among(const Text& name, const char* const* names, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (name.is(names[i])) return true;
  return false;
}

bool ends_with_hooks(const Text& name) {
  constexpr char kEnd[] = "_hooks";
  constexpr std::size_t kLength = sizeof kEnd - 1;
  return name.length >= kLength && std::memcmp(name.bytes + name.length - kLength, kEnd, kLength) == 0;
}

// Returns a new reference to the tuple of names that the function's code uses; null if it is not a Python
// function.
Object* names_used_by(Object* function) {
  if (!is_plain_function(function)) return nullptr;
  const Owned code(attribute_of(function, "__code__"));
  return code ? attribute_of(code.get(), "co_names") : nullptr;
}

bool uses(Object* names, const char* wanted) {
  for (ssize_t i = 0; i < api.PyTuple_Size(names); ++i)
    if (text_of(api.PyTuple_GetItem(names, i)).is(wanted)) return true;
  return false;
}

// Fills in the dictionaries of hooks. Returns false if the function uses an unknown one.
bool learn_hooks(Object* call_impl, Object* names, ModuleCall& learnt) {
  if (!uses(names, "_get_tracing_state") || !uses(names, "forward")) return false;
  for (ssize_t i = 0; i < api.PyTuple_Size(names); ++i) {
    const Text name = text_of(api.PyTuple_GetItem(names, i));
    if (ends_with_hooks(name) && !is_among(name, kHookKindNames, kHookKinds) &&
        !is_among(name, kGlobalHookNames, kHookKinds) && !is_among(name, kHookMethods, 2))
      return false;
  }
  Owned globals(attribute_of(call_impl, "__globals__"));
  if (!globals || !is_dictionary(globals.get())) return false;
  for (std::size_t kind = 0; kind < kHookKinds; ++kind) {
    const bool is_used = uses(names, kHookKindNames[kind]);
    if (is_used != uses(names, kGlobalHookNames[kind])) return false;
    if (!is_used) continue;
    learnt.global_hook_names[learnt.hook_kinds] = api.PyUnicode_InternFromString(kGlobalHookNames[kind]);
    learnt.own_hook_names[learnt.hook_kinds] = api.PyUnicode_InternFromString(kHookKindNames[kind]);
    if (learnt.global_hook_names[learnt.hook_kinds] == nullptr ||
        learnt.own_hook_names[learnt.hook_kinds] == nullptr)
      return false;
    ++learnt.hook_kinds;
  }
  learnt.globals = globals.release();
  return learnt.hook_kinds >= 3;
}

// nn.Module.__call__ is _call_impl itself. From PyTorch 2.1 on it is a function that calls the result of
// compile(), or else _call_impl.
bool learn_call(Object* call, Object* call_impl, ModuleCall& learnt) {
  if (call == call_impl) return true;
  const Owned names(names_used_by(call));
  learnt.has_compiled_call = true;
  return names && api.PyTuple_Size(names.get()) == 2 && uses(names.get(), "_compiled_call_impl") &&
         uses(names.get(), "_call_impl");
}

int find_tracing_state(dl_phdr_info* module, std::size_t, void* data) {
  const std::uint64_t address = address_of_export(*module, kTracingState);
  if (address == 0) return 0;
  *static_cast<TracingState*>(data) = reinterpret_cast<TracingState>(address);
  return 1;
}

bool is_empty_dictionary(Object* object) {
  return object != nullptr && is_dictionary(object) && api.PyDict_Size(object) == 0;
}

Object* value_in_dictionary(Object* dictionary, Object* name) {
  return api.PyDict_GetItemWithError(dictionary, name);
}

// Whether sys.getprofile() or sys.gettrace() returns None.
bool is_unset(Object* function) {
  const Owned found(api.vectorcall_is_general ? api.vectorcall(function, nullptr, 0, nullptr)
                                              : api.PyObject_CallFunctionObjArgs(function, nullptr));
  return found.get() == api.none;
}

// Python profilers (PyTorch's, too) and debuggers are notified of each Python function call, and some wait
// for that of __call__.
bool is_profiled_or_traced() { return !is_unset(known.get_profile) || !is_unset(known.get_trace); }

bool has_hooks_or_more(Object* module) {
  const Owned own(api.PyObject_GenericGetDict(module, nullptr));
  if (!own) return true;
  for (std::size_t kind = 0; kind < known.hook_kinds; ++kind)
    if (!is_empty_dictionary(value_in_dictionary(own.get(), known.own_hook_names[kind])) ||
        !is_empty_dictionary(value_in_dictionary(known.globals, known.global_hook_names[kind])))
      return true;
  // Attributes of this instance that replace its class's functions.
  return value_in_dictionary(own.get(), known.forward_name) != nullptr ||
         value_in_dictionary(own.get(), known.call_impl_name) != nullptr ||
         (known.has_compiled_call && value_in_dictionary(own.get(), known.compiled_call_name) != nullptr);
}

// Returns the module's `forward` if the call would run nothing else; a borrowed reference, or null.
Object* direct_forward_of(Object* module) {
  if (module == nullptr || *known.tracing_state() != nullptr) return nullptr;
  const auto of_class = [module](Object* name) { return api.type_lookup(module->type, name); };
  if (of_class(known.call_impl_name) != known.call_impl ||
      of_class(known.get_attribute_name) != known.object_get_attribute)
    return nullptr;
  if (known.has_compiled_call && of_class(known.compiled_call_name) != api.none) return nullptr;
  Object* const forward = of_class(known.forward_name);
  if (forward == nullptr || !is_plain_function(forward)) return nullptr;
  return has_hooks_or_more(module) || is_profiled_or_traced() ? nullptr : forward;
}

}  // namespace

void learn_module_call(Object* module_class) {
  if (known.call != nullptr || api.type_lookup == nullptr) return;
  ModuleCall learnt;
  ::dl_iterate_phdr(find_tracing_state, &learnt.tracing_state);
  Owned call(attribute_of(module_class, "__call__")), call_impl(attribute_of(module_class, "_call_impl"));
  const Owned names(call_impl ? names_used_by(call_impl.get()) : nullptr);
  const Owned builtins(api.PyImport_ImportModule("builtins")), system(api.PyImport_ImportModule("sys"));
  const Owned object(builtins ? attribute_of(builtins.get(), "object") : nullptr);
  learnt.get_profile = system ? attribute_of(system.get(), "getprofile") : nullptr;
  learnt.get_trace = system ? attribute_of(system.get(), "gettrace") : nullptr;
  learnt.object_get_attribute = object ? attribute_of(object.get(), "__getattribute__") : nullptr;
  learnt.call_impl_name = api.PyUnicode_InternFromString("_call_impl");
  learnt.compiled_call_name = api.PyUnicode_InternFromString("_compiled_call_impl");
  learnt.forward_name = api.PyUnicode_InternFromString("forward");
  learnt.get_attribute_name = api.PyUnicode_InternFromString("__getattribute__");
  bool has_all = call && names && learnt.tracing_state != nullptr;
  for (const Object* const needed :
       {learnt.get_profile, learnt.get_trace, learnt.object_get_attribute, learnt.call_impl_name,
        learnt.compiled_call_name, learnt.forward_name, learnt.get_attribute_name})
    has_all = has_all && needed != nullptr;
  const bool is_known = has_all && learn_hooks(call_impl.get(), names.get(), learnt) &&
                        learn_call(call.get(), call_impl.get(), learnt);
  api.PyErr_Clear();
  if (!is_known) return;
  known = learnt;
  known.call_impl = call_impl.release();
  known.call = call.release();
}

void forget_module_call() { known = {}; }

Object* call_module(const PendingCall& call) {
  // Other code may have replaced __call__ before the stand-in was installed.
  if (known.call == nullptr || call.original() != known.call) return call.call_original();
  Object* const forward = direct_forward_of(call.argument(0));
  if (forward == nullptr) {
    api.PyErr_Clear();
    return call.call_original();
  }
  const Owned held(new_reference(forward));
  return call.call_function(forward);
}

}  // namespace headroom::preload

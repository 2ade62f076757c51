#include "memory_tracer/python_hooks.h"

#include "memory_tracer/session.h"
#include "preload/python_function.h"
#include "preload/torch_module_call.h"

namespace headroom::memory_tracer {
namespace {

using namespace preload::python;

// However the call ends, by a value or an exception, it returns here.
Object* around_module(const PendingCall& call) {
  const std::uint32_t entered = enter_module(call.argument(0));
  Object* const result = preload::call_module(call);
  leave_entered(entered);
  return result;
}

// Nested calls are one layer: step() of a subclass calls that of its base.
Object* call_in_layer(const char* name, LayerKind kind, bool& is_open, const PendingCall& call) {
  if (is_open) return call.call_original();
  is_open = true;
  const std::uint32_t entered = enter_phase(name, kind);
  Object* const result = call.call_original();
  leave_entered(entered);
  is_open = false;
  return result;
}
thread_local bool is_in_backward = false, is_in_step = false;

Object* around_backward(const PendingCall& call) {
  return call_in_layer("backward", LayerKind::backward, is_in_backward, call);
}
Object* around_step(const PendingCall& call) {
  return call_in_layer("optimizer.step", LayerKind::optimizer, is_in_step, call);
}

void forget_python() {
  preload::forget_module_call();
  forget_function_type();
}

}  // namespace

const char* prepare_python() {
  switch (find_interpreter(nullptr)) {
    case Interpreter::usable:
      break;
    case Interpreter::unsupported:
      return "unsupported Python: it must be CPython 3.8 to 3.13 with a GIL";
    case Interpreter::secondary:
      return "sub-interpreters of Python are not supported";
    case Interpreter::not_found:
      return "cannot find the running Python";
  }
  static bool will_forget = false;
  if (!will_forget) will_forget = api.Py_AtExit(forget_python) == 0;
  return make_function_type() ? nullptr : "cannot create the Python type that replaces functions";
}

bool hook_attribute(void* owner, const char* name, Hook hook) {
  auto* const object = static_cast<Object*>(owner);
  switch (hook) {
    case Hook::module_call:
      preload::learn_module_call(object);
      return replace_attribute(object, name, around_module);
    case Hook::backward:
      return replace_attribute(object, name, around_backward);
    case Hook::optimizer_step:
      return replace_attribute(object, name, around_step);
  }
  return false;
}

void unhook_attribute(void* owner, const char* name) { restore_attribute(static_cast<Object*>(owner), name); }

}  // namespace headroom::memory_tracer

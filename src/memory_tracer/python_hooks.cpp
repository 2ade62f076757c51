#include "memory_tracer/python_hooks.h"

#include "memory_tracer/session.h"
#include "tracer/python_function.h"
#include "tracer/torch_module_call.h"

namespace headroom::memory_tracer {
namespace {

using namespace tracer::python;

// However a call ends, by a value or by an exception, it comes back here.
Object* around_module(const PendingCall& call) {
  const std::uint32_t entered = enter_module(call.argument(0));
  Object* const result = tracer::call_module(call);
  leave_entered(entered);
  return result;
}

// One that is called inside of itself is one layer: step() of a subclass calls that of its base.
Object* go_on_in(const char* name, LayerKind kind, bool& is_open, const PendingCall& call) {
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
  return go_on_in("backward", LayerKind::backward, is_in_backward, call);
}
Object* around_step(const PendingCall& call) {
  return go_on_in("optimizer.step", LayerKind::optimizer, is_in_step, call);
}

void forget_python() {
  tracer::forget_module_call();
  forget_function_type();
}

}  // namespace

const char* prepare_python() {
  switch (find_interpreter(nullptr)) {
    case Interpreter::usable:
      break;
    case Interpreter::unsupported:
      return "this Python is not one of CPython's 3.8 to 3.13 with a GIL";
    case Interpreter::secondary:
      return "this is a sub-interpreter of Python";
    case Interpreter::not_found:
      return "the running Python was not found";
  }
  static bool will_forget = false;
  if (!will_forget) will_forget = api.Py_AtExit(forget_python) == 0;
  return make_function_type() ? nullptr : "Python did not make the type of the stand-ins";
}

bool hook_attribute(void* owner, const char* name, Hook hook) {
  auto* const object = static_cast<Object*>(owner);
  switch (hook) {
    case Hook::module_call:
      tracer::learn_module_call(object);
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

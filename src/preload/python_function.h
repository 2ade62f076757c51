// A stand-in: a Python object that replaces a function, is called instead of it, and otherwise looks like it.
// Its attributes, __class__ included, are the function's, and types.MethodType binds it as a method. PyTorch
// relies on that: its profiler reads nn.Module.__call__.__code__, torch.compile compares the function of a
// bound __call__, and learning rate schedulers use step.__func__.
#pragma once

#include "preload/python_api.h"

namespace headroom::preload::python {

// One call of a stand-in, with its arguments.
class PendingCall {
 public:
  PendingCall(Object* original, Object* const* arguments, std::size_t count, Object* names)
      : original_(original), array_(arguments), count_(count), names_(names) {}
  PendingCall(Object* original, Object* arguments, Object* named)
      : original_(original), arguments_(arguments), names_(named) {}
  const Object* original() const { return original_; }
  // Calls the original; returns null with an exception set if it raises. Call it once.
  Object* call_original() const;
  // Calls another function, written in Python, with the same arguments.
  Object* call_function(Object* function) const;
  // The n-th positional argument, or null; a borrowed reference.
  Object* argument(std::size_t n) const;

 private:
  Object* original_;
  Object* const* array_ = nullptr;
  std::size_t count_ = 0;
  // a tuple, with names_ a dictionary or null; null: the arguments are in array_
  Object* arguments_ = nullptr;
  Object* names_;
};

// A function that runs around a call and returns the result for the caller. No exception is set when it
// starts.
using Around = Object* (*)(const PendingCall& call);

// Call it first; returns false if the type cannot be created. Call it again if Python has ended and restarted
// (forget_function_type).
bool make_function_type();
void forget_function_type();

bool is_stand_in(const Object* object);
// Whether it is a function that was written in Python.
bool is_plain_function(const Object* object);
// Replaces attribute `name` of `owner` by a stand-in. Returns false if there is no such attribute or it is
// already one.
bool replace_attribute(Object* owner, const char* name, Around around);
// Restores the original, unless other code has replaced the stand-in.
void restore_attribute(Object* owner, const char* name);

}  // namespace headroom::preload::python

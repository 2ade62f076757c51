// A Python object that stands in the place of a function, is called instead, and else looks like it: its
// attributes, __class__ included, are the function's, and as a method it is bound by types.MethodType.
// PyTorch relies on that: its profiler reads nn.Module.__call__.__code__, torch.compile compares the function
// of a bound __call__, learning rate schedulers take step.__func__ apart.
#pragma once

#include "tracer/python_api.h"

namespace headroom::tracer::python {

// One call of such an object, with its arguments.
class PendingCall {
 public:
  PendingCall(Object* original, Object* const* arguments, std::size_t count, Object* names)
      : original_(original), array_(arguments), count_(count), names_(names) {}
  PendingCall(Object* original, Object* arguments, Object* named)
      : original_(original), arguments_(arguments), names_(named) {}
  const Object* original() const { return original_; }
  // The original's answer; null with an exception set. Called once.
  Object* go_on() const;
  // The answer of another function, one that was written in Python, to the same arguments.
  Object* go_on_with(Object* function) const;
  // The n-th argument by position, or null; the caller's reference.
  Object* argument(std::size_t n) const;

 private:
  Object* original_;
  Object* const* array_ = nullptr;
  std::size_t count_ = 0;
  Object* arguments_ = nullptr;  // a tuple, and names_ a dictionary or null; null: they are in the array
  Object* names_;
};

// What is done around a call; gives what the caller is to have. Runs with no exception set.
using Around = Object* (*)(const PendingCall& call);

// Before anything else; false where that type of objects cannot be had. Again after Python has ended and
// begun anew (forget_function_type).
bool make_function_type();
void forget_function_type();

bool is_stand_in(const Object* object);
// Whether it is a function that was written in Python.
bool is_plain_function(const Object* object);
// Puts a stand-in for attribute `name` of `owner` in its place. False if there is no such attribute or it is
// one already.
bool replace_attribute(Object* owner, const char* name, Around around);
// Takes it away again, unless somebody has replaced it.
void restore_attribute(Object* owner, const char* name);

}  // namespace headroom::tracer::python

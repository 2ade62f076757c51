// The part of CPython's C API that the PyTorch layers need, looked up in the running interpreter. Nothing is
// linked, and a program without Python pays nothing. It uses only functions of the stable ABI, and others
// that every CPython from 3.8 to 3.13 exports. So one library serves them all, and Python's headers are not
// needed.
//
// Every function here requires the interpreter's lock (GIL), which also guards all data about Python.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace headroom::preload::python {

// PyObject. Its first two words are the same in every version, except in builds without a GIL and builds that
// trace references. Those builds are rejected.
struct Object {
  ssize_t references;
  Object* type;
};
inline constexpr ssize_t kObjectBytes = sizeof(Object);

struct Slot {
  int number;
  void* function;
};
// Slot numbers of typeslots.h.
enum SlotNumber : int {
  kSlotCall = 50,
  kSlotDealloc = 52,
  kSlotDescriptorGet = 54,
  kSlotGetAttribute = 58,
  kSlotMethods = 64,
  kSlotRepresentation = 66,
  kSlotSetAttribute = 69,
  kSlotTraverse = 71,
  kSlotMembers = 72,
  kSlotFree = 74,
};
enum TypeFlags : unsigned {
  kHasVectorcall = 1u << 11,
  kHasCollection = 1u << 14,
  kIsMethodDescriptor = 1u << 17,
  kDefaultFlags = 1u << 18,
  kIsText = 1u << 28,
  kIsDictionary = 1u << 29,
};
struct TypeSpec {
  const char* name;
  int instance_bytes, item_bytes;
  unsigned flags;
  Slot* slots;
};
struct Member {
  const char* name;
  int type;
  ssize_t offset;
  int flags;
  const char* doc;
};
inline constexpr int kSizeMember = 19, kReadOnly = 1;
struct Method {
  const char* name;
  Object* (*function)(Object*, Object*);
  int flags;
  const char* doc;
};
inline constexpr int kNoArguments = 4;

using Visit = int (*)(Object*, void*);
// Arguments: callable, arguments, their number (perhaps with a flag), names of the last ones.
using Vectorcall = Object* (*)(Object*, Object* const*, std::size_t, Object*);
inline constexpr std::size_t kArgumentsFlag = std::size_t{1} << 63;

// clang-format off
// The functions that every supported Python has. The names are those of Python's documentation, which
// describes each function and the reference that it returns.
#define HEADROOM_PYTHON_FUNCTIONS(CALL) \
  CALL(int, Py_IsInitialized, ()) \
  CALL(int, PyGILState_Check, ()) \
  CALL(const char*, Py_GetVersion, ()) \
  CALL(int, Py_AtExit, (void (*)())) \
  CALL(long, PyInterpreterState_GetID, (void*)) \
  CALL(void, Py_IncRef, (Object*)) \
  CALL(void, Py_DecRef, (Object*)) \
  CALL(Object*, PyErr_Occurred, ()) \
  CALL(void, PyErr_Clear, ()) \
  CALL(Object*, PyImport_ImportModule, (const char*)) \
  CALL(Object*, PyObject_GetAttr, (Object*, Object*)) \
  CALL(Object*, PyObject_GetAttrString, (Object*, const char*)) \
  CALL(Object*, PyObject_GenericGetAttr, (Object*, Object*)) \
  CALL(int, PyObject_SetAttr, (Object*, Object*, Object*)) \
  CALL(int, PyObject_SetAttrString, (Object*, const char*, Object*)) \
  CALL(Object*, PyObject_Repr, (Object*)) \
  CALL(Object*, PyObject_Call, (Object*, Object*, Object*)) \
  CALL(Object*, PyObject_CallFunctionObjArgs, (Object*, ...)) \
  CALL(Object*, PyType_FromSpec, (TypeSpec*)) \
  CALL(Object*, PyType_GenericAlloc, (Object*, ssize_t)) \
  CALL(void*, PyType_GetSlot, (Object*, int)) \
  CALL(unsigned long, PyType_GetFlags, (Object*)) \
  CALL(void, PyObject_GC_UnTrack, (void*)) \
  CALL(void, PyObject_ClearWeakRefs, (Object*)) \
  CALL(Object*, PyWeakref_NewRef, (Object*, Object*)) \
  CALL(Object*, PyWeakref_GetObject, (Object*)) \
  CALL(Object*, PyDict_Items, (Object*)) \
  CALL(ssize_t, PyList_Size, (Object*)) \
  CALL(Object*, PyList_GetItem, (Object*, ssize_t)) \
  CALL(ssize_t, PyTuple_Size, (Object*)) \
  CALL(Object*, PyTuple_GetItem, (Object*, ssize_t)) \
  CALL(const char*, PyUnicode_AsUTF8AndSize, (Object*, ssize_t*)) \
  CALL(long, PyLong_AsLong, (Object*)) \
  CALL(Object*, PyUnicode_InternFromString, (const char*)) \
  CALL(Object*, PyObject_GenericGetDict, (Object*, void*)) \
  CALL(Object*, PyDict_GetItemWithError, (Object*, Object*)) \
  CALL(ssize_t, PyDict_Size, (Object*))
// clang-format on

struct Api {
#define HEADROOM_DECLARE(result, name, parameters) result(*name) parameters;
  HEADROOM_PYTHON_FUNCTIONS(HEADROOM_DECLARE)
#undef HEADROOM_DECLARE
  void* (*PyInterpreterState_Get)();
  // _PyType_Lookup: the raw attribute of a class or one of its bases. It is not in Python's documented API,
  // but all versions so far export it. May be null.
  Object* (*type_lookup)(Object*, Object*);
  Object* none;
  int minor_version;  // 11 for Python 3.11
  // PyObject_Vectorcall from Python 3.11 on; before, _PyFunction_Vectorcall, which accepts functions only.
  Vectorcall vectorcall;
  bool vectorcall_is_general;
};
extern Api api;

enum class Interpreter {
  usable,
  not_found,    // no Python, not initialized, or another thread holds its lock
  unsupported,  // an unsupported version or build
  secondary,    // a sub-interpreter
};
// Fills `api` from the program or library that contains `caller`, or from the first that exports the
// functions.
Interpreter find_interpreter(const void* caller);

// A reference that is released at the end of the block.
class Owned {
 public:
  explicit Owned(Object* object) : object_(object) {}
  ~Owned() {
    if (object_ != nullptr) api.Py_DecRef(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Object* get() const { return object_; }
  Object* release() {
    Object* const object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_;
};

inline Object* new_reference(Object* object) {
  api.Py_IncRef(object);
  return object;
}

// Returns a new reference; null, without an exception, if the attribute is missing.
Object* attribute_of(Object* object, const char* name);
bool set_attribute(Object* object, const char* name, Object* value);

bool is_text(Object* object);
bool is_dictionary(Object* object);

struct Text {
  const char* bytes;
  std::size_t length;
  bool is(const char* other) const;
};
// The text of a str object, valid as long as the object; empty for other objects.
Text text_of(Object* object);

// A stand-in: a Python object that replaces a function, is called instead of it, and otherwise looks like it.
// Its attributes, __class__ included, are the function's, and types.MethodType binds it as a method. PyTorch
// relies on that: its profiler reads nn.Module.__call__.__code__, torch.compile compares the function of a
// bound __call__, and learning rate schedulers use step.__func__.
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

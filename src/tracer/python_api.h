// What of CPython's C API the layers of PyTorch need, found in the running interpreter: nothing here is
// linked, and a program without Python pays nothing. Only functions of the stable ABI, and such as every
// CPython from 3.8 to 3.13 exports, so one library serves them all; Python's headers are not needed.
//
// All of this is called with the interpreter's lock (GIL) held, and that lock guards all data about Python.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace headroom::tracer::python {

// PyObject. Its first two words are the same in every version, but for builds without a GIL and those that
// trace references; those are refused.
struct Object {
  ssize_t references;
  Object* type;
};
inline constexpr ssize_t kObjectBytes = sizeof(Object);

struct Slot {
  int number;
  void* function;
};
// Numbers of typeslots.h.
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
// callable, arguments, their number and perhaps a flag, names of the last of them.
using Vectorcall = Object* (*)(Object*, Object* const*, std::size_t, Object*);
inline constexpr std::size_t kArgumentsFlag = std::size_t{1} << 63;

// Under the names of Python's documentation, which says what each does and which reference it gives.
struct Api {
  int (*Py_IsInitialized)();
  int (*PyGILState_Check)();
  const char* (*Py_GetVersion)();
  int (*Py_AtExit)(void (*)());
  void* (*PyInterpreterState_Get)();
  long (*PyInterpreterState_GetID)(void*);
  void (*Py_IncRef)(Object*);
  void (*Py_DecRef)(Object*);
  Object* (*PyErr_Occurred)();
  void (*PyErr_Clear)();
  Object* (*PyImport_ImportModule)(const char*);
  Object* (*PyObject_GetAttr)(Object*, Object*);
  Object* (*PyObject_GetAttrString)(Object*, const char*);
  Object* (*PyObject_GenericGetAttr)(Object*, Object*);
  int (*PyObject_SetAttr)(Object*, Object*, Object*);
  int (*PyObject_SetAttrString)(Object*, const char*, Object*);
  Object* (*PyObject_Repr)(Object*);
  Object* (*PyObject_Call)(Object*, Object*, Object*);
  Object* (*PyObject_CallFunctionObjArgs)(Object*, ...);
  Object* (*PyType_FromSpec)(TypeSpec*);
  Object* (*PyType_GenericAlloc)(Object*, ssize_t);
  void* (*PyType_GetSlot)(Object*, int);
  unsigned long (*PyType_GetFlags)(Object*);
  void (*PyObject_GC_UnTrack)(void*);
  void (*PyObject_ClearWeakRefs)(Object*);
  Object* (*PyWeakref_NewRef)(Object*, Object*);
  Object* (*PyWeakref_GetObject)(Object*);
  Object* (*PyDict_Items)(Object*);
  ssize_t (*PyList_Size)(Object*);
  Object* (*PyList_GetItem)(Object*, ssize_t);
  ssize_t (*PyTuple_Size)(Object*);
  Object* (*PyTuple_GetItem)(Object*, ssize_t);
  const char* (*PyUnicode_AsUTF8AndSize)(Object*, ssize_t*);
  long (*PyLong_AsLong)(Object*);
  Object* (*PyUnicode_InternFromString)(const char*);
  Object* (*PyObject_GenericGetDict)(Object*, void*);
  Object* (*PyDict_GetItemWithError)(Object*, Object*);
  ssize_t (*PyDict_Size)(Object*);
  // _PyType_Lookup, which Python does not promise, but all versions so far export: what a class or one of its
  // bases has under a name, as it stands there. May be null.
  Object* (*type_lookup)(Object*, Object*);
  Object* none;
  int minor_version;  // 11 for Python 3.11
  // PyObject_Vectorcall, from Python 3.11 on; before, that of functions alone (_PyFunction_Vectorcall).
  Vectorcall vectorcall;
  bool vectorcall_is_general;
};
extern Api api;

enum class Interpreter {
  usable,
  not_found,    // no Python, or it has not begun, or the lock is another thread's
  unsupported,  // one that this was not made for
  secondary,    // a sub-interpreter
};
// Fills `api` from the program or library that `caller` lies in, or else from the first that has it.
Interpreter find_interpreter(const void* caller);

// A reference that is given back at the end of the block.
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

// A new reference; null, and no exception, where there is none.
Object* attribute_of(Object* object, const char* name);
bool set_attribute(Object* object, const char* name, Object* value);

bool is_text(Object* object);
bool is_dictionary(Object* object);

struct Text {
  const char* bytes;
  std::size_t length;
  bool is(const char* other) const;
};
// Of a str object, valid as long as it; empty for what is none.
Text text_of(Object* object);

}  // namespace headroom::tracer::python

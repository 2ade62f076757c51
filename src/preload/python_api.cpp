#include "preload/python_api.h"

#include <link.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "preload/loaded_objects.h"

namespace headroom::preload::python {

Api api;

namespace {

struct PythonSearch {
  std::uint64_t caller;  // 0: search all modules
  Api found;
  bool lacks_some = false;  // a Python without all required functions was found
};

template <class Function>
bool find_export(const dl_phdr_info& module, const char* name, Function& function) {
  function = reinterpret_cast<Function>(address_of_export(module, name));
  return function != nullptr;
}

// Returns false if the module lacks a required function.
bool fill_api(const dl_phdr_info& module, Api& found) {
  if (!find_export(module, "PyGILState_Check", found.PyGILState_Check)) return false;
  bool has_all = find_export(module, "_Py_NoneStruct", found.none);
#define HEADROOM_FIND(result, name, parameters) has_all = find_export(module, #name, found.name) && has_all;
  HEADROOM_PYTHON_FUNCTIONS(HEADROOM_FIND)
#undef HEADROOM_FIND
  // Python 3.8 has it under another name.
  if (!find_export(module, "PyInterpreterState_Get", found.PyInterpreterState_Get) &&
      !find_export(module, "_PyInterpreterState_Get", found.PyInterpreterState_Get))
    return false;
  found.vectorcall_is_general = find_export(module, "PyObject_Vectorcall", found.vectorcall);
  if (!found.vectorcall_is_general) find_export(module, "_PyFunction_Vectorcall", found.vectorcall);
  find_export(module, "_PyType_Lookup", found.type_lookup);
  return has_all;
}

int visit_python(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<PythonSearch*>(data);
  const bool is_wanted = search.caller == 0 || contains_address(*module, search.caller);
  if (!is_wanted) return 0;
  const bool is_whole = fill_api(*module, search.found);
  if (!is_whole && search.found.PyGILState_Check != nullptr) search.lacks_some = true;
  return is_whole ? 1 : 0;
}

// Debug builds that trace references, and builds without a GIL, have larger objects.
bool has_objects_as_declared() {
  const Owned builtins(api.PyImport_ImportModule("builtins"));
  const Owned object(builtins ? attribute_of(builtins.get(), "object") : nullptr);
  const Owned bytes(object ? attribute_of(object.get(), "__basicsize__") : nullptr);
  const bool is_so = bytes && api.PyLong_AsLong(bytes.get()) == kObjectBytes;
  api.PyErr_Clear();
  return is_so;
}

}  // namespace

Interpreter find_interpreter(const void* caller) {
  PythonSearch search{reinterpret_cast<std::uint64_t>(caller), {}};
  if (::dl_iterate_phdr(visit_python, &search) == 0) {
    search.caller = 0;
    if (::dl_iterate_phdr(visit_python, &search) == 0)
      return search.lacks_some ? Interpreter::unsupported : Interpreter::not_found;
  }
  // Two Python libraries in one process: objects of one must not be passed to the other.
  if (api.Py_IncRef != nullptr && api.Py_IncRef != search.found.Py_IncRef) return Interpreter::secondary;
  api = search.found;
  if (api.Py_IsInitialized() == 0 || api.PyGILState_Check() == 0 || api.PyErr_Occurred() != nullptr)
    return Interpreter::not_found;
  if (api.PyInterpreterState_GetID(api.PyInterpreterState_Get()) != 0) return Interpreter::secondary;
  const char* const version = api.Py_GetVersion();  // "3.11.2 (main, …"
  if (std::strncmp(version, "3.", 2) != 0) return Interpreter::unsupported;
  api.minor_version = std::atoi(version + 2);
  return api.minor_version >= 8 && has_objects_as_declared() ? Interpreter::usable : Interpreter::unsupported;
}

Object* attribute_of(Object* object, const char* name) {
  Object* const value = api.PyObject_GetAttrString(object, name);
  if (value == nullptr) api.PyErr_Clear();
  return value;
}

bool set_attribute(Object* object, const char* name, Object* value) {
  if (api.PyObject_SetAttrString(object, name, value) == 0) return true;
  api.PyErr_Clear();
  return false;
}

bool is_text(Object* object) { return (api.PyType_GetFlags(object->type) & kIsText) != 0; }
bool is_dictionary(Object* object) { return (api.PyType_GetFlags(object->type) & kIsDictionary) != 0; }

bool Text::is(const char* other) const {
  return std::strlen(other) == length && std::memcmp(bytes, other, length) == 0;
}

Text text_of(Object* object) {
  if (object == nullptr || !is_text(object)) return {"", 0};
  ssize_t length = 0;
  const char* const bytes = api.PyUnicode_AsUTF8AndSize(object, &length);
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(length)};
  api.PyErr_Clear();  // lone surrogates
  return {"?", 1};
}

namespace {

struct StandIn {
  Object head;
  Vectorcall vectorcall;  // null: called with a tuple
  Object* weak_references;
  Object* original;
  Around around;
};

// Types of the interpreter that was found.
Object* stand_in_type = nullptr;
Object* function_type = nullptr;
Object* method_type = nullptr;

StandIn& stand_in_at(Object* object) { return *reinterpret_cast<StandIn*>(object); }

Object* call_with_array(Object* self, Object* const* arguments, std::size_t count, Object* names) {
  const StandIn& stand_in = stand_in_at(self);
  return stand_in.around(PendingCall(stand_in.original, arguments, count, names));
}

Object* call_with_tuple(Object* self, Object* arguments, Object* named) {
  const StandIn& stand_in = stand_in_at(self);
  return stand_in.around(PendingCall(stand_in.original, arguments, named));
}

Object* bind(Object* self, Object* instance, Object*) {
  if (instance == nullptr || instance == api.none) return new_reference(self);
  return api.PyObject_CallFunctionObjArgs(method_type, self, instance, nullptr);
}

// Attributes of the stand-in itself; all others are the function's.
bool is_own_attribute(Object* name) {
  const Text text = text_of(name);
  return text.is("__call__") || text.is("__get__") || text.is("__reduce__") || text.is("__reduce_ex__");
}
Object* get_attribute(Object* self, Object* name) {
  if (is_own_attribute(name)) return api.PyObject_GenericGetAttr(self, name);
  return api.PyObject_GetAttr(stand_in_at(self).original, name);
}
int set_attribute_of_original(Object* self, Object* name, Object* value) {
  return api.PyObject_SetAttr(stand_in_at(self).original, name, value);
}
Object* represent(Object* self) { return api.PyObject_Repr(stand_in_at(self).original); }

// Copied and pickled by name, like functions.
Object* reduce(Object* self, Object*) {
  return api.PyObject_GetAttrString(stand_in_at(self).original, "__qualname__");
}

// There is no clear function: the original function, or its class, breaks reference cycles.
int traverse(Object* self, Visit visit, void* data) { return visit(stand_in_at(self).original, data); }
void deallocate(Object* self) {
  api.PyObject_GC_UnTrack(self);
  if (stand_in_at(self).weak_references != nullptr) api.PyObject_ClearWeakRefs(self);
  const Owned original(stand_in_at(self).original), type(self->type);
  reinterpret_cast<void (*)(void*)>(api.PyType_GetSlot(self->type, kSlotFree))(self);
}

Method methods[] = {{"__reduce__", reduce, kNoArguments, nullptr}, {}};
// Python 3.8 does not know these names, and does not use vectorcall for a type of this kind.
Member members[] = {
    {"__vectorcalloffset__", kSizeMember, offsetof(StandIn, vectorcall), kReadOnly, nullptr},
    {"__weaklistoffset__", kSizeMember, offsetof(StandIn, weak_references), kReadOnly, nullptr},
    {}};

template <class Function>
Slot slot(SlotNumber number, Function* function) {
  return {number, reinterpret_cast<void*>(function)};
}

Object* make_type() {
  const bool has_offsets = api.minor_version >= 9;
  Slot slots[] = {slot(kSlotCall, call_with_tuple),
                  slot(kSlotDescriptorGet, bind),
                  slot(kSlotGetAttribute, get_attribute),
                  slot(kSlotSetAttribute, set_attribute_of_original),
                  slot(kSlotRepresentation, represent),
                  slot(kSlotTraverse, traverse),
                  slot(kSlotDealloc, deallocate),
                  {kSlotMethods, methods},
                  {has_offsets ? kSlotMembers : 0, members},
                  {}};
  TypeSpec spec{"headroom.StandIn", sizeof(StandIn), 0,
                kDefaultFlags | kHasCollection | kIsMethodDescriptor | (has_offsets ? kHasVectorcall : 0u),
                slots};
  return api.PyType_FromSpec(&spec);
}

Object* make_stand_in(Object* original, Around around) {
  Object* const object = api.PyType_GenericAlloc(stand_in_type, 0);
  if (object == nullptr) return nullptr;
  StandIn& stand_in = stand_in_at(object);
  stand_in.original = new_reference(original);
  stand_in.around = around;
  const bool is_fast =
      api.vectorcall != nullptr && (api.vectorcall_is_general || is_plain_function(original));
  stand_in.vectorcall = is_fast ? call_with_array : nullptr;
  return object;
}

}  // namespace

Object* PendingCall::call_original() const { return call_function(original_); }

Object* PendingCall::call_function(Object* function) const {
  return arguments_ == nullptr ? api.vectorcall(function, array_, count_, names_)
                               : api.PyObject_Call(function, arguments_, names_);
}

Object* PendingCall::argument(std::size_t n) const {
  if (arguments_ == nullptr) return n < (count_ & ~kArgumentsFlag) ? array_[n] : nullptr;
  if (n >= static_cast<std::size_t>(api.PyTuple_Size(arguments_))) return nullptr;
  return api.PyTuple_GetItem(arguments_, static_cast<ssize_t>(n));
}

bool make_function_type() {
  if (stand_in_type != nullptr) return true;
  const Owned types(api.PyImport_ImportModule("types"));
  Owned function(types ? attribute_of(types.get(), "FunctionType") : nullptr);
  Owned method(types ? attribute_of(types.get(), "MethodType") : nullptr);
  Object* const made = function && method ? make_type() : nullptr;
  api.PyErr_Clear();
  if (made == nullptr) return false;
  function_type = function.release();
  method_type = method.release();
  stand_in_type = made;
  return true;
}

void forget_function_type() { stand_in_type = function_type = method_type = nullptr; }

bool is_stand_in(const Object* object) { return object->type == stand_in_type; }
bool is_plain_function(const Object* object) { return object->type == function_type; }

bool replace_attribute(Object* owner, const char* name, Around around) {
  const Owned original(attribute_of(owner, name));
  if (!original || is_stand_in(original.get())) return false;
  const Owned stand_in(make_stand_in(original.get(), around));
  if (!stand_in) api.PyErr_Clear();
  return stand_in && set_attribute(owner, name, stand_in.get());
}

void restore_attribute(Object* owner, const char* name) {
  const Owned found(attribute_of(owner, name));
  if (found && is_stand_in(found.get())) set_attribute(owner, name, stand_in_at(found.get()).original);
}

}  // namespace headroom::preload::python

#include "preload/python_function.h"

#include <cstddef>

namespace headroom::preload::python {
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

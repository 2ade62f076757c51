#include "preload/python_api.h"

#include <link.h>

#include <cstdlib>
#include <cstring>

#include "preload/exported_symbols.h"

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

}  // namespace headroom::preload::python

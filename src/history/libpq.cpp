#include "history/libpq.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace headroom::history {
namespace {

constexpr const char* kLibrary = "libpq.so.5";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<Libpq> open_libpq() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  Libpq pq{};
  const bool is_whole =
      library != nullptr && find(library, "PQconninfoParse", pq.parse) &&
      find(library, "PQconninfoFree", pq.free_parts) && find(library, "PQfreemem", pq.free_memory) &&
      find(library, "PQconnectdbParams", pq.connect) && find(library, "PQstatus", pq.status) &&
      find(library, "PQerrorMessage", pq.error) && find(library, "PQfinish", pq.finish) &&
      find(library, "PQexecParams", pq.execute) && find(library, "PQresultStatus", pq.answer_status) &&
      find(library, "PQresultErrorField", pq.answer_error) && find(library, "PQntuples", pq.rows) &&
      find(library, "PQnfields", pq.columns) && find(library, "PQgetvalue", pq.value) &&
      find(library, "PQgetlength", pq.length) && find(library, "PQgetisnull", pq.is_null) &&
      find(library, "PQclear", pq.clear);
  if (is_whole) return pq;
  const char* reason = ::dlerror();
  return input_error("cannot use PostgreSQL", reason != nullptr ? reason : fmt::format("no {}", kLibrary),
                     "install libpq5 (Debian and Ubuntu), or keep the history in a file");
}

}  // namespace headroom::history

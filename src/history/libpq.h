// PostgreSQL's client library. It is loaded at run time, because a history in a file does not need it. The
// functions used here have not changed since PostgreSQL 9 (https://www.postgresql.org/docs/15/libpq.html).
#pragma once

#include <string>

#include "base/result.h"

namespace headroom::history {

struct Connection;  // PGconn
struct Answer;      // PGresult
struct UrlPart {    // PQconninfoOption
  char *keyword, *environment, *compiled, *value, *label, *display;
  int display_size;
};

struct Libpq {
  UrlPart* (*parse)(const char* url, char** problem);  // null on errors; the list ends with a null keyword
  void (*free_parts)(UrlPart*);
  void (*free_memory)(void*);
  Connection* (*connect)(const char* const* keywords, const char* const* values, int expand_dbname);
  int (*status)(const Connection*);
  char* (*error)(const Connection*);
  void (*finish)(Connection*);
  Answer* (*execute)(Connection*, const char* sql, int count, const unsigned* types,
                     const char* const* values, const int* lengths, const int* formats, int result_format);
  int (*answer_status)(const Answer*);
  char* (*answer_error)(const Answer*, int field);
  int (*rows)(const Answer*);
  int (*columns)(const Answer*);
  char* (*value)(const Answer*, int row, int column);
  int (*length)(const Answer*, int row, int column);
  int (*is_null)(const Answer*, int row, int column);
  void (*clear)(Answer*);
};

// Error: the library is not installed.
Result<Libpq> open_libpq();

// The URL for messages: only user, host, port and database. Fails if libpq cannot read the URL, or if it
// obviously took a part of the password for something else. The error shows nothing of the URL.
Result<std::string> name_of_url(const Libpq& pq, const std::string& url);

}  // namespace headroom::history

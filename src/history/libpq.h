// PostgreSQL's client library, which is opened at run time: a history in a file needs none of it. The few
// functions used have been the same since PostgreSQL 9 (https://www.postgresql.org/docs/15/libpq.html).
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
  UrlPart* (*parse)(const char* url, char** problem);  // null where it cannot; ends with a null keyword
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

// Errors: it is not installed.
Result<Libpq> open_libpq();

// A URL as a sentence may say it: user, host, port and database alone. An error, which repeats nothing of it,
// where libpq cannot read it or has plainly taken a piece of the password for something else.
Result<std::string> name_of_url(const Libpq& pq, const std::string& url);

}  // namespace headroom::history

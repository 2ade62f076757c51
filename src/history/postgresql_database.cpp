// PostgreSQL by its client library, libpq, which is opened at run time: a history in a file needs none of it.
// The few functions used have been the same since PostgreSQL 9
// (https://www.postgresql.org/docs/15/libpq.html).
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "history/database.h"

namespace headroom::history {
namespace {

constexpr const char* kLibrary = "libpq.so.5";
constexpr int kConnectionOk = 0, kCommandOk = 1, kTuplesOk = 2;  // CONNECTION_OK, PGRES_…

struct Connection;
struct Answer;

struct Libpq {
  Connection* (*connect)(const char* url);
  int (*status)(const Connection*);
  char* (*error)(const Connection*);
  void (*finish)(Connection*);
  Answer* (*execute)(Connection*, const char* sql, int count, const unsigned* types,
                     const char* const* values, const int* lengths, const int* formats, int result_format);
  int (*answer_status)(const Answer*);
  char* (*answer_error)(const Answer*);
  int (*rows)(const Answer*);
  int (*columns)(const Answer*);
  char* (*value)(const Answer*, int row, int column);
  int (*length)(const Answer*, int row, int column);
  int (*is_null)(const Answer*, int row, int column);
  void (*clear)(Answer*);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Libpq> open_libpq() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  Libpq pq{};
  const bool is_whole = library != nullptr && find(library, "PQconnectdb", pq.connect) &&
                        find(library, "PQstatus", pq.status) && find(library, "PQerrorMessage", pq.error) &&
                        find(library, "PQfinish", pq.finish) && find(library, "PQexecParams", pq.execute) &&
                        find(library, "PQresultStatus", pq.answer_status) &&
                        find(library, "PQresultErrorMessage", pq.answer_error) &&
                        find(library, "PQntuples", pq.rows) && find(library, "PQnfields", pq.columns) &&
                        find(library, "PQgetvalue", pq.value) && find(library, "PQgetlength", pq.length) &&
                        find(library, "PQgetisnull", pq.is_null) && find(library, "PQclear", pq.clear);
  if (is_whole) return pq;
  const char* reason = ::dlerror();
  return input_error("cannot use PostgreSQL", reason != nullptr ? reason : fmt::format("no {}", kLibrary),
                     "install libpq5 (Debian and Ubuntu), or keep the history in a file");
}

// The first line of what the server said.
std::string words_of(const char* message) {
  std::string_view words = trim(message == nullptr ? "" : message);
  return std::string(trim(words.substr(0, words.find('\n'))));
}

class PostgresqlDatabase : public Database {
 public:
  PostgresqlDatabase(const Libpq& pq, Connection* connection, std::string url)
      : pq_(pq), connection_(connection), url_(std::move(url)) {}
  PostgresqlDatabase(const PostgresqlDatabase&) = delete;
  PostgresqlDatabase& operator=(const PostgresqlDatabase&) = delete;
  ~PostgresqlDatabase() override { pq_.finish(connection_); }

  Result<Rows> query(const std::string& sql, const std::vector<Cell>& values) override {
    std::vector<const char*> texts;
    for (const Cell& value : values) {
      if (value && value->find('\0') != std::string::npos)
        return input_error(fmt::format("the history {} cannot be used", url_),
                           "PostgreSQL keeps no text with a zero byte");
      texts.push_back(value ? value->c_str() : nullptr);
    }
    Answer* answer = pq_.execute(connection_, sql.c_str(), static_cast<int>(texts.size()), nullptr,
                                 texts.data(), nullptr, nullptr, 0);
    const int status = pq_.answer_status(answer);
    if (status != kCommandOk && status != kTuplesOk) {
      const std::string said =
          words_of(answer == nullptr ? pq_.error(connection_) : pq_.answer_error(answer));
      pq_.clear(answer);
      return input_error(fmt::format("the history {} cannot be used", url_), said);
    }
    Rows rows;
    for (int row = 0; row < pq_.rows(answer); ++row) {
      std::vector<Cell>& cells = rows.emplace_back();
      for (int column = 0; column < pq_.columns(answer); ++column)
        cells.push_back(pq_.is_null(answer, row, column) != 0
                            ? Cell()
                            : Cell(std::string(pq_.value(answer, row, column),
                                               static_cast<std::size_t>(pq_.length(answer, row, column)))));
    }
    pq_.clear(answer);
    return rows;
  }

  // An advisory lock of the history's own ("headroom" in ASCII): tables that do not exist yet cannot be
  // locked.
  Status begin_writing() override {
    for (const std::string& sql :
         {std::string("BEGIN"), fmt::format("SET LOCAL lock_timeout = {}", kMostWaitMilliseconds),
          std::string("SELECT pg_advisory_xact_lock(7521962890105942893)")})
      if (auto done = query(sql, {}); !done) return forward_error(done);
    return {};
  }
  bool is_postgresql() const override { return true; }

 private:
  Libpq pq_;
  Connection* connection_;
  std::string url_;
};

}  // namespace

Result<std::unique_ptr<Database>> open_postgresql(const std::string& url) {
  auto pq = open_libpq();
  if (!pq) return forward_error(pq);
  Connection* connection = pq->connect(url.c_str());
  auto database = std::make_unique<PostgresqlDatabase>(*pq, connection, without_password(url));
  if (pq->status(connection) != kConnectionOk)
    return input_error(fmt::format("cannot open the history {}", without_password(url)),
                       words_of(pq->error(connection)), "check the URL and that the server runs");
  if (auto quiet = database->query("SET client_min_messages = warning", {}); !quiet)
    return forward_error(quiet);
  return database;
}

}  // namespace headroom::history

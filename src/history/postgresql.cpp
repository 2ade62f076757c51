#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "history/database.h"

namespace headroom::history {

namespace {

// PostgreSQL's client library. It is loaded at run time, because a history in a file does not need it. The
// functions used here have not changed since PostgreSQL 9 (https://www.postgresql.org/docs/15/libpq.html).
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

constexpr const char* kLibrary = "libpq.so.5";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

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

// Makes the name of a PostgreSQL URL for messages. Messages must not contain the password.
//
// Masking the password in the URL's text is not safe, because libpq has its own syntax: "pass%77ord=" is a
// password too. So libpq splits the URL, and the name is built from user, host, port and database only.
// libpq's own error messages are not shown: they quote the part of the URL that libpq could not read, which
// is often a password that contains '%'.

using UrlParts = std::map<std::string, std::string>;

constexpr std::string_view kEncode =
    "percent-encode special characters of the password (% is %25, @ is %40, / is %2F) or put it into "
    "PGPASSWORD or ~/.pgpass";

Result<UrlParts> parts_of_url(const Libpq& pq, const std::string& url) {
  char* problem = nullptr;
  const std::unique_ptr<UrlPart, void (*)(UrlPart*)> parsed(pq.parse(url.c_str(), &problem), pq.free_parts);
  if (problem != nullptr) pq.free_memory(problem);
  if (!parsed)
    return usage_error("cannot open the history postgresql://…",
                       "libpq cannot read this URL (not shown, because it may contain a password)",
                       fmt::format("{}, and check the parameter names", kEncode));
  UrlParts parts;
  for (const UrlPart* part = parsed.get(); part->keyword != nullptr; ++part)
    if (part->value != nullptr) parts[part->keyword] = part->value;
  return parts;
}

// libpq ends user and password at the first '@', and finds none if a '/' comes before it. Another '@' in the
// rest belongs to a password that contains '@' or '/'.
bool has_stray_at(std::string_view url) {
  std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t end = rest.find_first_of("@/");
  if (end != std::string_view::npos && rest[end] == '@') rest.remove_prefix(end + 1);
  return rest.substr(0, rest.find('?')).find('@') != std::string_view::npos;
}

// "5432", or for several hosts "5432,,5433".
bool are_ports(std::string_view ports) {
  const auto fields = split(ports, ',');
  return std::ranges::all_of(fields, [](std::string_view field) {
    const auto number = parse_number<int>(field);
    return field.empty() || (number && *number > 0 && *number < 65536);
  });
}

Result<std::string> name_of_url(const Libpq& pq, const std::string& url) {
  auto parts = parts_of_url(pq, url);
  if (!parts) return forward_error(parts);
  const auto part = [&](const char* keyword) { return without_control_characters((*parts)[keyword]); };
  const std::string user = part("user"), port = part("port");
  if (!has_stray_at(url) && !port.empty() && port.find_first_not_of("0123456789,") == std::string::npos &&
      !are_ports(port))
    return usage_error("cannot open the history postgresql://…", "its port is greater than 65535",
                       "use postgresql://user@host:5432/database (5432 is PostgreSQL's default port)");
  // libpq reads "bob:se/cret@host" as host bob with port "se", and "bob%3Asecret@host" as a user named
  // "bob:secret".
  if (has_stray_at(url) || !are_ports(port) || user.find(':') != std::string::npos)
    return usage_error("cannot open the history postgresql://…",
                       "Headroom cannot separate its user, password, host and port (not shown)",
                       fmt::format("{}, for example postgresql://user@host:5432/database", kEncode));
  std::string host = part("host");
  if (host.empty()) host = part("hostaddr");
  std::vector<std::string> parameters;
  if (host.starts_with('/')) parameters.push_back("host=" + std::exchange(host, {}));  // a socket's folder
  if (const std::string service = part("service"); !service.empty())
    parameters.push_back("service=" + service);
  return fmt::format("postgresql://{}{}{}{}{}/{}{}", user, user.empty() ? "" : "@", host,
                     port.empty() ? "" : ":", port, part("dbname"), parameters.empty() ? "" : "?") +
         fmt::format("{}", fmt::join(parameters, "&"));
}

// The history in PostgreSQL, with its client library, libpq.

constexpr int kConnectionOk = 0, kCommandOk = 1, kTuplesOk = 2;  // CONNECTION_OK, PGRES_…
constexpr int kSqlState = 'C', kPrimaryMessage = 'M';            // PG_DIAG_…
constexpr const char* kMostConnectSeconds = "30";                // default: wait forever

// The first line of the server's message.
std::string words_of(const char* message) {
  std::string_view words = trim(message == nullptr ? "" : message);
  return without_control_characters(trim(words.substr(0, words.find('\n'))));
}

// The fix for an SQLSTATE (https://www.postgresql.org/docs/15/errcodes-appendix.html).
std::string fix_of(std::string_view state) {
  if (state == "53100") return "free space on the server's disk";
  if (state == "42501")
    return "ask for permission to use the history's tables and, for the first add, to create them";
  if (state == "25006") return "use a server that accepts writes";
  return {};
}

class PostgresqlDatabase : public Database {
 public:
  PostgresqlDatabase(const Libpq& pq, Connection* connection, std::string name)
      : pq_(pq), connection_(connection), name_(std::move(name)) {}
  PostgresqlDatabase(const PostgresqlDatabase&) = delete;
  PostgresqlDatabase& operator=(const PostgresqlDatabase&) = delete;
  ~PostgresqlDatabase() override { pq_.finish(connection_); }

  Result<Rows> query(const std::string& sql, const std::vector<Cell>& values) override {
    std::vector<const char*> texts;
    for (const Cell& value : values) {
      if (value && value->find('\0') != std::string::npos)
        return input_error(fmt::format("cannot use the history {}", name_),
                           "PostgreSQL cannot store text with a zero byte");
      texts.push_back(value ? value->c_str() : nullptr);
    }
    Answer* answer = pq_.execute(connection_, sql.c_str(), static_cast<int>(texts.size()), nullptr,
                                 texts.data(), nullptr, nullptr, 0);
    const int status = pq_.answer_status(answer);
    if (status != kCommandOk && status != kTuplesOk) {
      auto error = problem(answer);
      pq_.clear(answer);
      return error;
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

  // Uses an advisory lock (the number is "headroom" in ASCII), because tables that do not exist yet cannot be
  // locked. READ COMMITTED is set explicitly: with a stricter default, a writer would see the state from
  // before its wait.
  Status begin_writing() override {
    for (const std::string& sql : {std::string("BEGIN ISOLATION LEVEL READ COMMITTED"),
                                   fmt::format("SET LOCAL lock_timeout = {}", kMostWaitMilliseconds),
                                   std::string("SELECT pg_advisory_xact_lock(7521962890105942893)")})
      if (auto done = query(sql, {}); !done) return forward_error(done);
    return {};
  }
  const std::string& name() const override { return name_; }
  bool is_postgresql() const override { return true; }

 private:
  tl::unexpected<Error> problem(const Answer* answer) const {
    const auto field = [&](int code) -> const char* {
      return answer == nullptr ? nullptr : pq_.answer_error(answer, code);
    };
    const char* state = field(kSqlState);
    const char* message = field(kPrimaryMessage);
    constexpr std::string_view kLockNotAvailable = "55P03";
    if (state != nullptr && state == kLockNotAvailable) return locked_by_another(name_);
    return input_error(fmt::format("cannot use the history {}", name_),
                       words_of(message != nullptr ? message : pq_.error(connection_)),
                       fix_of(state == nullptr ? "" : state));
  }

  Libpq pq_;
  Connection* connection_;
  std::string name_;
};

// The URL comes after these defaults, so its parameters win.
Connection* connect(const Libpq& pq, const std::string& url) {
  constexpr std::array kKeywords{"client_encoding", "fallback_application_name", "connect_timeout", "dbname",
                                 static_cast<const char*>(nullptr)};
  const bool has_timeout = std::getenv("PGCONNECT_TIMEOUT") != nullptr;
  const std::array values{"UTF8", "headroom", has_timeout ? "" : kMostConnectSeconds, url.c_str(),
                          static_cast<const char*>(nullptr)};
  return pq.connect(kKeywords.data(), values.data(), 1);
}

}  // namespace

Result<std::unique_ptr<Database>> open_postgresql(const std::string& url) {
  auto pq = open_libpq();
  if (!pq) return forward_error(pq);
  auto name = name_of_url(*pq, url);
  if (!name) return forward_error(name);
  Connection* connection = connect(*pq, url);
  auto database = std::make_unique<PostgresqlDatabase>(*pq, connection, *name);
  if (pq->status(connection) != kConnectionOk)
    return input_error(fmt::format("cannot open the history {}", *name), words_of(pq->error(connection)),
                       "check the URL, and whether the server runs");
  if (auto quiet = database->query("SET client_min_messages = warning", {}); !quiet)
    return forward_error(quiet);
  return database;
}

}  // namespace headroom::history

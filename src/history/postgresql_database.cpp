// The history in PostgreSQL, with its client library (libpq.h).
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/display_width.h"
#include "base/text.h"
#include "history/database.h"
#include "history/libpq.h"

namespace headroom::history {
namespace {

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

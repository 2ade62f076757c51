#include "history/database.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"

namespace headroom::history {
namespace fs = std::filesystem;
namespace {

bool is_postgresql_url(std::string_view place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

// True for libpq's other notation, "host=… password=…", with or without blanks around '='.
bool is_connection_string(std::string_view place) {
  constexpr std::array<std::string_view, 12> kWords{"host",    "hostaddr", "port",        "dbname",
                                                    "user",    "password", "passfile",    "service",
                                                    "options", "sslmode",  "sslpassword", "application_name"};
  for (const std::string_view word : kWords)
    for (std::size_t at = place.find(word); at != std::string_view::npos; at = place.find(word, at + 1)) {
      const bool begins = at == 0 || trim(place.substr(at - 1, 1)).empty();
      if (begins && trim(place.substr(at + word.size())).starts_with('=')) return true;
    }
  return false;
}

// True for "bob:secret@host/database": a URL without its scheme.
bool has_credentials(std::string_view place) {
  const std::size_t colon = place.find(':');
  return !place.starts_with('/') && !place.starts_with('.') && colon != std::string_view::npos &&
         place.find('@', colon) != std::string_view::npos;
}

// Rejects names that look like another kind of database. SQLite would create a file of that name, or a
// temporary database in memory. The name may contain a password, so errors show little of it.
Status check_file_name(const std::string& place) {
  constexpr const char* kFix = "use a file, or a server such as postgresql://user@host/database";
  if (place.empty()) return usage_error("no history is given", "--db is empty", kFix);
  if (place.starts_with(":memory:") || place.starts_with("file:"))
    return usage_error(fmt::format("--db {} cannot store a history", place),
                       "it is SQLite's notation for a database that may disappear when the command ends",
                       kFix);
  if (const std::size_t scheme = place.find("://"); scheme != std::string::npos) {
    const bool is_plain =
        std::all_of(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(scheme),
                    [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+'; });
    return usage_error(fmt::format("--db {}://… is not supported", is_plain ? place.substr(0, scheme) : "…"),
                       "", kFix);
  }
  if (is_connection_string(place))
    return usage_error("--db is a libpq connection string", "Headroom needs a URL", kFix);
  if (place.starts_with("postgresql:") || place.starts_with("postgres:") || has_credentials(place))
    return usage_error("--db is neither a file nor a URL", "a server's URL begins with postgresql://",
                       "use a file (./NAME if it contains ':' and '@'), or a server such as "
                       "postgresql://user@host/database");
  return {};
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class SqliteDatabase : public Database {
 public:
  SqliteDatabase(sqlite3* database, std::string file) : database_(database), file_(std::move(file)) {}

  Result<Rows> query(const std::string& sql, const std::vector<Cell>& values) override {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &made, nullptr) != SQLITE_OK) return problem();
    const std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement(made);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int place = static_cast<int>(i) + 1;
      const int bound = values[i] ? sqlite3_bind_text64(made, place, values[i]->data(), values[i]->size(),
                                                        SQLITE_TRANSIENT, SQLITE_UTF8)
                                  : sqlite3_bind_null(made, place);
      if (bound != SQLITE_OK) return problem();
    }
    Rows rows;
    for (;;) {
      const int step = sqlite3_step(made);
      if (step == SQLITE_DONE) return rows;
      if (step != SQLITE_ROW) return problem();
      std::vector<Cell>& row = rows.emplace_back();
      for (int column = 0; column < sqlite3_column_count(made); ++column) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(made, column));
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(made, column));
        row.push_back(text == nullptr ? Cell() : Cell(std::string(text, size)));
      }
    }
  }

  Status begin_writing() override {
    auto begun = query("BEGIN IMMEDIATE",
                       {});  // lock immediately: two transactions that read first could not both write
    return begun ? Status() : forward_error(begun);
  }
  bool is_postgresql() const override { return false; }
  const std::string& name() const override { return file_; }

 private:
  tl::unexpected<Error> problem() const {
    const std::string message = sqlite3_errmsg(database_.get());
    const std::string what = fmt::format("cannot use the history {}", file_);
    switch (sqlite3_errcode(database_.get())) {
      case SQLITE_NOTADB:
        return input_error(what, "it is not an SQLite database", "use another file with --db");
      case SQLITE_CORRUPT:
        return input_error(what, fmt::format("it is damaged ({})", message),
                           "restore a backup, or run `sqlite3 FILE .recover`");
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return locked_by_another(file_);
      case SQLITE_READONLY:
      case SQLITE_CANTOPEN:
      case SQLITE_PERM:
        return input_error(what, message, "check the permissions of the file and its folder");
      case SQLITE_IOERR:
        return input_error(what, message, "check its disk, and `ulimit -f`");
      case SQLITE_FULL:
        return input_error(what, message, "free space on its disk");
      default:
        return input_error(what, message);
    }
  }

  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::string file_;
};

Result<std::unique_ptr<Database>> open_sqlite(const std::string& file, bool create) {
  std::error_code code;
  const bool is_there = fs::exists(file, code);
  if (code)
    return input_error(fmt::format("cannot open the history {}", file), code.message(),
                       "check the permissions of its folder");
  if (!is_there && !create)
    return input_error(fmt::format("history not found: {}", file), "no run was added yet",
                       "use headroom history add RUN, or another --db");
  if (is_there && !fs::is_regular_file(file, code))
    return input_error(fmt::format("cannot use the history {}", file), "it is not a file",
                       "use another file with --db");
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
  const int result = sqlite3_open_v2(file.c_str(), &opened, flags, nullptr);
  auto database = std::make_unique<SqliteDatabase>(opened, file);
  if (result != SQLITE_OK)
    return input_error(fmt::format("cannot open the history {}", file), sqlite3_errstr(result),
                       is_there ? "check its permissions" : "check that its folder exists and is writable");
  sqlite3_busy_timeout(opened, kMostWaitMilliseconds);
  return database;
}

}  // namespace

tl::unexpected<Error> locked_by_another(const std::string& name) {
  return input_error(fmt::format("cannot use the history {}", name),
                     fmt::format("another writer has locked it for {} s", kMostWaitMilliseconds / 1000),
                     "try again later");
}

Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create) {
  if (is_postgresql_url(place)) return open_postgresql(place);
  if (auto fine = check_file_name(place); !fine) return forward_error(fine);
  return open_sqlite(place, create);
}

}  // namespace headroom::history

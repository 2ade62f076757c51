#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>

#include "history/database.h"

namespace headroom::history {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

}  // namespace headroom::history

// A database that the history lies in: a file of SQLite, or PostgreSQL by its URL. One small way to both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace headroom::history {

// NULL is absent.
using Cell = std::optional<std::string>;
using Rows = std::vector<std::vector<Cell>>;

class Database {
 public:
  virtual ~Database() = default;
  // One statement; $1, $2, … stand for the values, in the order in which they appear first. Errors name the
  // database and say what it answered.
  virtual Result<Rows> query(const std::string& sql, const std::vector<Cell>& values = {}) = 0;
  // Nobody else writes from here to COMMIT or ROLLBACK; waits for others that do.
  virtual Status begin_writing() = 0;
  virtual bool is_postgresql() const = 0;
  // For sentences: the file, or the URL without its password.
  virtual const std::string& name() const = 0;
};

// The most that one writer waits for another.
inline constexpr int kMostWaitMilliseconds = 60'000;
// The error where that was not enough.
tl::unexpected<Error> held_by_another(const std::string& name);

// "postgresql://…" and "postgres://…" are URLs; anything else is a file, which is made where `create` is set
// and there is none. Errors: it cannot be opened, or the file is no database of SQLite.
Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create);

// Of the two kinds, each in a file of its own.
Result<std::unique_ptr<Database>> open_sqlite(const std::string& file, bool create);
Result<std::unique_ptr<Database>> open_postgresql(const std::string& url);

}  // namespace headroom::history

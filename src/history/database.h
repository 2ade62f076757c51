// A database that the history lies in: a file of SQLite, or PostgreSQL by its URL. One small way to both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
};

// The most that one writer waits for another.
inline constexpr int kMostWaitMilliseconds = 60'000;

// "postgresql://…" and "postgres://…" are URLs; anything else is a file, which is made where `create` is set
// and there is none. Errors: it cannot be opened, or the file is no database of SQLite.
Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create);

bool is_postgresql_url(std::string_view place);
// A URL without its password, for sentences.
std::string without_password(std::string_view url);

// Of the two kinds, each in a file of its own.
Result<std::unique_ptr<Database>> open_sqlite(const std::string& file, bool create);
Result<std::unique_ptr<Database>> open_postgresql(const std::string& url);

}  // namespace headroom::history

// The database that stores the history: an SQLite file, or a PostgreSQL server. This is the common interface.
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
  // Runs one statement. The placeholders $1, $2, … stand for the values. Their first uses in the statement
  // must be in this order, because SQLite numbers them so. Errors contain the name of the database and its
  // message.
  virtual Result<Rows> query(const std::string& sql, const std::vector<Cell>& values = {}) = 0;
  // Starts a transaction and waits until no other program writes. No other program can write until COMMIT or
  // ROLLBACK.
  virtual Status begin_writing() = 0;
  virtual bool is_postgresql() const = 0;
  // The name for messages: the file, or the URL without its password.
  virtual const std::string& name() const = 0;
};

// The longest time that a writer waits for another.
inline constexpr int kMostWaitMilliseconds = 60'000;
// The error for a wait that took longer.
tl::unexpected<Error> locked_by_another(const std::string& name);

// Opens a database. "postgresql://…" and "postgres://…" are URLs; anything else is a file. With `create`, a
// missing file is created. Errors: the database cannot be opened, or the file is not an SQLite database.
Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create);

// Of a server (postgresql.cpp).
Result<std::unique_ptr<Database>> open_postgresql(const std::string& url);

}  // namespace headroom::history

#include "history/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

namespace headroom::history {
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

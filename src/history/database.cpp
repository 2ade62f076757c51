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

// "host=… password=…", with blanks around '=' or without: what libpq takes besides a URL.
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

// "bob:secret@host/database", which is a URL but for its begin.
bool has_credentials(std::string_view place) {
  const std::size_t colon = place.find(':');
  return !place.starts_with('/') && !place.starts_with('.') && colon != std::string_view::npos &&
         place.find('@', colon) != std::string_view::npos;
}

// What others take as a database and SQLite would make a file of, or keep in memory and forget. A password
// may stand in it, so little of it is repeated.
Status check_file_name(const std::string& place) {
  constexpr const char* kFix = "name a file, or a server as postgresql://user@host/database";
  if (place.empty()) return usage_error("the history has no place", "--db is empty", kFix);
  if (place.starts_with(":memory:") || place.starts_with("file:"))
    return usage_error(fmt::format("--db {} cannot keep a history", place),
                       "it is SQLite's own notation, for a database that may go when the command ends", kFix);
  if (const std::size_t scheme = place.find("://"); scheme != std::string::npos) {
    const bool is_plain =
        std::all_of(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(scheme),
                    [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+'; });
    return usage_error(fmt::format("--db {}://… is of no kind that Headroom knows",
                                   is_plain ? place.substr(0, scheme) : "…"),
                       "", kFix);
  }
  if (is_connection_string(place))
    return usage_error("--db is a connection string of libpq", "Headroom takes a URL", kFix);
  if (place.starts_with("postgresql:") || place.starts_with("postgres:") || has_credentials(place))
    return usage_error("--db is neither a file nor a URL", "a server's begins with postgresql://",
                       "name a file (./NAME where it has a ':' and an '@'), or a server as "
                       "postgresql://user@host/database");
  return {};
}

}  // namespace

tl::unexpected<Error> held_by_another(const std::string& name) {
  return input_error(fmt::format("the history {} cannot be used", name),
                     fmt::format("another writer has held it for {} s", kMostWaitMilliseconds / 1000),
                     "try again when it is done");
}

Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create) {
  if (is_postgresql_url(place)) return open_postgresql(place);
  if (auto fine = check_file_name(place); !fine) return forward_error(fine);
  return open_sqlite(place, create);
}

}  // namespace headroom::history

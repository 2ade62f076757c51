#include "history/database.h"

#include <fmt/format.h>

#include <array>

namespace headroom::history {
namespace {

// What others take as a database and SQLite would make a file of, or keep in memory and forget.
Status check_file_name(const std::string& place) {
  constexpr const char* kFix = "name a file, or a server as postgresql://user@host/database";
  if (place.empty()) return usage_error("the history has no place", "--db is empty", kFix);
  if (place.starts_with(":memory:") || place.starts_with("file:"))
    return usage_error(fmt::format("--db {} cannot keep a history", place),
                       "it is SQLite's own notation, for a database that may go when the command ends", kFix);
  // The scheme alone: there may be a password behind it.
  if (const std::size_t scheme = place.find("://"); scheme != std::string::npos)
    return usage_error(fmt::format("--db {}://… is of no kind that Headroom knows", place.substr(0, scheme)),
                       "", kFix);
  constexpr std::array kWords{"host=", "hostaddr=", "dbname=", "user=", "port=", "service=", "password="};
  for (const std::string_view word : kWords)
    if (place.starts_with(word) || place.find(fmt::format(" {}", word)) != std::string::npos)
      return usage_error("--db is a connection string of libpq", "Headroom takes a URL", kFix);
  return {};
}

}  // namespace

bool is_postgresql_url(std::string_view place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

std::string without_password(std::string_view url) {
  // Whatever stands before the last '@': libpq takes passwords with '/', '?' and '#' in them as they are.
  const std::size_t begin = url.find("://") + 3;
  const std::size_t at = url.rfind('@');
  const std::size_t colon = url.find(':', begin);
  std::string words(url);
  if (at != std::string_view::npos && colon < at) words.replace(colon, at - colon, ":…");
  // "password=", "sslpassword="
  constexpr std::string_view kKey = "password=";
  for (std::size_t key = words.find(kKey); key != std::string::npos;
       key = words.find(kKey, key + kKey.size())) {
    const std::size_t from = key + kKey.size(), end = words.find('&', from);
    words.replace(from, end == std::string::npos ? std::string::npos : end - from, "…");
  }
  return words;
}

Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create) {
  if (is_postgresql_url(place)) return open_postgresql(place);
  if (auto fine = check_file_name(place); !fine) return forward_error(fine);
  return open_sqlite(place, create);
}

}  // namespace headroom::history

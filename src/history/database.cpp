#include "history/database.h"

namespace headroom::history {

bool is_postgresql_url(std::string_view place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

std::string without_password(std::string_view url) {
  const std::size_t begin = url.find("://") + 3;
  const std::size_t at = url.substr(0, url.find_first_of("/?", begin)).rfind('@');
  const std::size_t colon = url.find(':', begin);
  std::string words(url);
  if (at != std::string_view::npos && colon < at) words.replace(colon, at - colon, ":…");
  if (const std::size_t key = words.find("password="); key != std::string::npos) {
    const std::size_t from = key + 9, end = words.find('&', from);
    words.replace(from, end == std::string::npos ? std::string::npos : end - from, "…");
  }
  return words;
}

Result<std::unique_ptr<Database>> open_database(const std::string& place, bool create) {
  return is_postgresql_url(place) ? open_postgresql(place) : open_sqlite(place, create);
}

}  // namespace headroom::history

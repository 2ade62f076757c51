// What a sentence may say of a URL. Its password must not be in it, and to mask it in the text would be to
// know how libpq reads that text: "pass%77ord=" is a password, too. So libpq takes the URL apart, and who,
// where and which database are said of the parts alone. What libpq says of a URL that it cannot read is not
// passed on: it quotes the piece that it stumbled over, which is mostly a password with a '%' in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/display_width.h"
#include "base/text.h"
#include "history/libpq.h"

namespace headroom::history {
namespace {

using UrlParts = std::map<std::string, std::string>;

constexpr std::string_view kEncode =
    "percent-encode what is special in a password (% is %25, @ is %40, / is %2F) or leave it to PGPASSWORD "
    "or "
    "~/.pgpass";

Result<UrlParts> parts_of_url(const Libpq& pq, const std::string& url) {
  char* problem = nullptr;
  const std::unique_ptr<UrlPart, void (*)(UrlPart*)> parsed(pq.parse(url.c_str(), &problem), pq.free_parts);
  if (problem != nullptr) pq.free_memory(problem);
  if (!parsed)
    return usage_error("cannot open the history postgresql://…",
                       "libpq cannot read this URL, which is not repeated, as it may hold a password",
                       fmt::format("{}, and check the names of the parameters", kEncode));
  UrlParts parts;
  for (const UrlPart* part = parsed.get(); part->keyword != nullptr; ++part)
    if (part->value != nullptr) parts[part->keyword] = part->value;
  return parts;
}

// libpq ends user and password at the first '@', and sees none where a '/' comes before it: another '@' in
// what is left is of a password with one of the two in it.
bool has_stray_at(std::string_view url) {
  std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t end = rest.find_first_of("@/");
  if (end != std::string_view::npos && rest[end] == '@') rest.remove_prefix(end + 1);
  return rest.substr(0, rest.find('?')).find('@') != std::string_view::npos;
}

// "5432", and of several hosts "5432,,5433".
bool are_ports(std::string_view ports) {
  const auto fields = split(ports, ',');
  return std::all_of(fields.begin(), fields.end(), [](std::string_view field) {
    const auto number = parse_number<int>(field);
    return field.empty() || (number && *number > 0 && *number < 65536);
  });
}

}  // namespace

Result<std::string> name_of_url(const Libpq& pq, const std::string& url) {
  auto parts = parts_of_url(pq, url);
  if (!parts) return forward_error(parts);
  const auto part = [&](const char* keyword) { return without_control_characters((*parts)[keyword]); };
  const std::string user = part("user"), port = part("port");
  if (!has_stray_at(url) && !port.empty() && port.find_first_not_of("0123456789,") == std::string::npos &&
      !are_ports(port))
    return usage_error("cannot open the history postgresql://…", "its port is beyond 65535",
                       "postgresql://user@host:5432/database, 5432 being PostgreSQL's own");
  // "bob:se/cret@host" is a host named bob with a port "se", and "bob%3Asecret@host" a user of that name.
  if (has_stray_at(url) || !are_ports(port) || user.find(':') != std::string::npos)
    return usage_error("cannot open the history postgresql://…",
                       "its user, password, host and port cannot be told apart, and are not repeated",
                       fmt::format("{}, as postgresql://user@host:5432/database", kEncode));
  std::string host = part("host");
  if (host.empty()) host = part("hostaddr");
  std::vector<std::string> behind;
  if (host.starts_with('/')) behind.push_back("host=" + std::exchange(host, {}));  // the folder of a socket
  if (const std::string service = part("service"); !service.empty()) behind.push_back("service=" + service);
  return fmt::format("postgresql://{}{}{}{}{}/{}{}", user, user.empty() ? "" : "@", host,
                     port.empty() ? "" : ":", port, part("dbname"), behind.empty() ? "" : "?") +
         fmt::format("{}", fmt::join(behind, "&"));
}

}  // namespace headroom::history

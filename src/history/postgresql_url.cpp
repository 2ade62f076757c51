// Makes the name of a PostgreSQL URL for messages. Messages must not contain the password.
//
// Masking the password in the URL's text is not safe, because libpq has its own syntax: "pass%77ord=" is a
// password too. So libpq splits the URL, and the name is built from user, host, port and database only.
// libpq's own error messages are not shown: they quote the part of the URL that libpq could not read, which
// is often a password that contains '%'.
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
    "percent-encode special characters of the password (% is %25, @ is %40, / is %2F) or put it into "
    "PGPASSWORD or ~/.pgpass";

Result<UrlParts> parts_of_url(const Libpq& pq, const std::string& url) {
  char* problem = nullptr;
  const std::unique_ptr<UrlPart, void (*)(UrlPart*)> parsed(pq.parse(url.c_str(), &problem), pq.free_parts);
  if (problem != nullptr) pq.free_memory(problem);
  if (!parsed)
    return usage_error("cannot open the history postgresql://…",
                       "libpq cannot read this URL (not shown, because it may contain a password)",
                       fmt::format("{}, and check the parameter names", kEncode));
  UrlParts parts;
  for (const UrlPart* part = parsed.get(); part->keyword != nullptr; ++part)
    if (part->value != nullptr) parts[part->keyword] = part->value;
  return parts;
}

// libpq ends user and password at the first '@', and finds none if a '/' comes before it. Another '@' in the
// rest belongs to a password that contains '@' or '/'.
bool has_stray_at(std::string_view url) {
  std::string_view rest = url.substr(url.find("://") + 3);
  const std::size_t end = rest.find_first_of("@/");
  if (end != std::string_view::npos && rest[end] == '@') rest.remove_prefix(end + 1);
  return rest.substr(0, rest.find('?')).find('@') != std::string_view::npos;
}

// "5432", or for several hosts "5432,,5433".
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
    return usage_error("cannot open the history postgresql://…", "its port is greater than 65535",
                       "use postgresql://user@host:5432/database (5432 is PostgreSQL's default port)");
  // libpq reads "bob:se/cret@host" as host bob with port "se", and "bob%3Asecret@host" as a user named
  // "bob:secret".
  if (has_stray_at(url) || !are_ports(port) || user.find(':') != std::string::npos)
    return usage_error("cannot open the history postgresql://…",
                       "Headroom cannot separate its user, password, host and port (not shown)",
                       fmt::format("{}, for example postgresql://user@host:5432/database", kEncode));
  std::string host = part("host");
  if (host.empty()) host = part("hostaddr");
  std::vector<std::string> parameters;
  if (host.starts_with('/')) parameters.push_back("host=" + std::exchange(host, {}));  // a socket's folder
  if (const std::string service = part("service"); !service.empty())
    parameters.push_back("service=" + service);
  return fmt::format("postgresql://{}{}{}{}{}/{}{}", user, user.empty() ? "" : "@", host,
                     port.empty() ? "" : ":", port, part("dbname"), parameters.empty() ? "" : "?") +
         fmt::format("{}", fmt::join(parameters, "&"));
}

}  // namespace headroom::history

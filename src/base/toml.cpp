#include "base/toml.h"

#include <fmt/format.h>

#include "base/text.h"

namespace headroom {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  toml::parse_result document = toml::parse(with_stand_ins(text), name);
  if (document) return std::move(document).table();
  const auto& problem = document.error();
  return usage_error(fmt::format("{}:{}: this is not valid TOML", name, problem.source().begin.line),
                     without_stand_ins(problem.description()));
}

std::string TomlErrors::place(const toml::node& node) const {
  return fmt::format("{}:{}", name_, node.source().begin.line);
}

tl::unexpected<Error> TomlErrors::wrong(const toml::node& node, const std::string& what,
                                        const std::string& fix) const {
  return usage_error(fmt::format("{}: {}", place(node), what), "", fix);
}

tl::unexpected<Error> TomlErrors::unknown_key(const toml::node& node, const std::string& key,
                                              const std::vector<std::string>& known) const {
  const std::string closest = closest_match(key, known);
  return wrong(node, fmt::format("there is no setting '{}'", key),
               closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
}

}  // namespace headroom

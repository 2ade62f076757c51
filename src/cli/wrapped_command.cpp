#include "cli/wrapped_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/environment.h"

namespace headroom::cli {

FlagValues WrappedCommand::merged() const {
  FlagValues values = environment;
  for (const auto& [name, entry] : command_line.entries_) values.entries_[name] = entry;
  return values;
}

Result<WrappedCommand> parse_wrapped_command(const Verb& verb, const std::vector<std::string>& arguments,
                                             const char* example) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  auto command_line = parse_flags(verb, {arguments.begin(), separator});
  if (!command_line) return forward_error(command_line);
  if (!command_line->positionals().empty())
    return usage_error(fmt::format("unexpected argument '{}' before --", command_line->positionals().front()),
                       "",
                       fmt::format("write the command after --: {} {}", example,
                                   fmt::join(command_line->positionals(), " ")));
  std::vector<std::string> of_other_verbs;
  auto environment = read_environment(verb, of_other_verbs);
  if (!environment) return forward_error(environment);
  WrappedCommand wrapped{std::move(*command_line), std::move(*environment), {}};
  if (separator != arguments.end()) wrapped.command.assign(std::next(separator), arguments.end());
  return wrapped;
}

}  // namespace headroom::cli

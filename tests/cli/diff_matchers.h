// A matcher for the result of a command.
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>

#include "base/json.h"
#include "cli/command.h"

namespace headroom::test {

inline void PrintTo(const CommandResult& result, std::ostream* stream) {
  *stream << "exit code " << result.exit_code << "\n" << result.out << result.err;
}

// EXPECT_THAT(run({"a.log"}), Ends(1, HasSubstr("severe")));
inline testing::Matcher<const CommandResult&> Ends(testing::Matcher<int> exit_code,
                                                   testing::Matcher<const std::string&> out = testing::_,
                                                   testing::Matcher<const std::string&> err = testing::_) {
  return testing::AllOf(testing::Field("exit_code", &CommandResult::exit_code, exit_code),
                        testing::Field("out", &CommandResult::out, out),
                        testing::Field("err", &CommandResult::err, err));
}

// The document that a command printed.
inline Json json_of(const CommandResult& result) {
  auto document = parse_json(result.out);
  EXPECT_TRUE(document.has_value()) << result.out << result.err;
  return document ? std::move(*document) : Json();
}

}  // namespace headroom::test

// A matcher for the result of a command.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
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

// Of wrong use or unreadable input.
inline testing::Matcher<const CommandResult&> IsRefused(testing::Matcher<const std::string&> err) {
  return Ends(2, testing::_, err);
}

// The one sentence that a refused command printed.
inline std::string refusal_of(const CommandResult& result) {
  EXPECT_THAT(result, Ends(2));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  return result.err;
}

inline Json json_of(const std::string& text) {
  auto document = parse_json(text);
  EXPECT_TRUE(document.has_value()) << text;
  return document ? std::move(*document) : Json();
}

// The document that a command printed.
inline Json json_of(const CommandResult& result) {
  EXPECT_NE(result.out, "") << result.err;
  return json_of(result.out);
}

}  // namespace headroom::test

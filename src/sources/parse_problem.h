// Why text of another tool could not be parsed.
#pragma once

#include <string>

namespace headroom::sources {

struct ParseProblem {
  std::string why;  // a phrase for a message, safe for a terminal; empty: unknown
  std::string fix;
};

}  // namespace headroom::sources

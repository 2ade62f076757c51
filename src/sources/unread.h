// Why something in another tool's text was not understood.
#pragma once

#include <string>

namespace headroom::sources {

struct Unread {
  std::string why;  // goes on after "not understood, as"; fit for a terminal; empty: nothing is known of it
  std::string fix;
};

}  // namespace headroom::sources

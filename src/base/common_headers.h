// Headers that most sources include, precompiled in all builds but Debug. A source still includes what it
// uses, because Debug builds and builds for machines with a GPU compile it without this file.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

#if FMT_VERSION < 100000 && !defined(FMT_HEADER_ONLY)
// The library has this function. Without the declaration (fmt 10 has it) each source compiles its own.
extern template void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>&, fmt::string_view,
                                                   fmt::basic_format_args<fmt::buffer_context<char>>,
                                                   fmt::detail::locale_ref);
#endif

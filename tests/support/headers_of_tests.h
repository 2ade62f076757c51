// Headers that nearly every test includes, precompiled in all builds but Debug. A test still
// includes what it uses, because other builds compile it without this file.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"
#include "base/units.h"
#include "support/test_support.h"

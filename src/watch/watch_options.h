// What `headroom watch` was asked to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

// Text of another tool in place of this machine.
struct TextInput {
  std::string kind;            // one of sources::text_reader_names()
  std::filesystem::path file;  // "-": standard input
};

enum class Format { lines, jsonl, csv };

struct WatchOptions {
  std::optional<TextInput> from;
  Nanoseconds interval{1'000'000'000};
  Format format = Format::lines;  // of what is printed
  std::optional<AlertSettings> alerts;
};

}  // namespace headroom::watch

// Reading figures out of messages. Sizes are binary whatever the unit's spelling (kB, KiB, K): those who
// print such messages divide by 1024 (the kernel, PyTorch, TensorFlow, ggml).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace headroom::doctor {

bool has(std::string_view line, std::string_view words);
// What follows the first of these words; nothing if the line lacks them.
std::optional<std::string_view> text_after(std::string_view line, std::string_view words);
// The text's first word that is a size: "2.00 MiB", "0 bytes", "3.90G", "13928044kB". No unit: bytes.
std::optional<Bytes> leading_size(std::string_view text);
std::optional<Bytes> size_after(std::string_view line, std::string_view words);
std::optional<std::int64_t> integer_after(std::string_view line, std::string_view words);

// Whether the line speaks of such a message and is none: an item of a list, a comment, a row of a table.
bool is_prose(std::string_view line);
// Whether what stands beside `words` makes a counter or a column of them: "… out of memory errors: 0",
// "…_total 3", "0 CUDA out of memory errors".
bool is_counter(std::string_view line, std::string_view words);
// Whether what comes before `words` makes it a condition, an advice or a note of a change: "to avoid …", "if
// you see …", "Fix … in validation".
bool is_advice(std::string_view line, std::string_view words);
// Whether a compiler says this of a place in source code: "main.cpp:10:5: note: …".
bool is_diagnostic(std::string_view line);
// Whether `words` stand in source code, which logs of compilers quote, or are part of a longer name.
bool is_source_code(std::string_view line, std::string_view words);

// Whether no machine has so much (16 TiB): a size that was computed wrong, and no want of memory.
constexpr bool is_impossible(Bytes size) { return size.count >= (std::int64_t{1} << 44); }

}  // namespace headroom::doctor

// Lines that speak of a message and are none: advice, lists, tables, counters, source code, names of tests
// and subjects of commits.
#pragma once

#include <string_view>

namespace headroom::doctor {

// By the first of the phrases in it that programs print and people write about; false where it has none.
bool is_only_spoken_of(std::string_view line);

// Whether the line is an item of a list, a comment, a row of a table, a change in a list of changes.
bool is_prose(std::string_view line);
// Whether what stands beside `words` makes a counter or a column of them: "… out of memory errors: 0",
// "…_total 3", "0 CUDA out of memory errors".
bool is_counter(std::string_view line, std::string_view words);
// Whether what comes before `words` makes it a condition, an advice, a guess or a note of a change: "to avoid
// …", "if you see …", "may cause …", "Fix … in validation".
bool is_advice(std::string_view line, std::string_view words);
// Whether `words` stand in source code, which logs of compilers quote, or are part of a longer name.
bool is_source_code(std::string_view line, std::string_view words);

}  // namespace headroom::doctor

// Lines that speak of a message and are none: advice, lists, tables, counters, source code, results of tests,
// quotations, configuration and subjects of commits.
#pragma once

#include <string_view>

namespace headroom::doctor {

// By the first of the phrases in it that programs print and people write about; false where it has none. A
// line that tells how much was asked for and how much there was is no advice, list or table: it happened,
// whatever stands before it ("worker may restart - CUDA out of memory. Tried to allocate 2.00 GiB …").
bool is_only_spoken_of(std::string_view line, bool tells_amounts = false);

// Whether the line is an item of a list, a comment, a row of a table, a line of a diff, a change in a list of
// changes.
bool is_prose(std::string_view line);
// Whether what stands beside `words` makes a counter or a column of them, or a question with its answer: "…
// out of memory errors so far: 0", "…_total 3", "0 x CUDA out of memory", "CUDA out of memory? no".
bool is_counter(std::string_view line, std::string_view words);
// Whether what comes before `words` makes it a condition, an advice, a guess or a note of a change: "to avoid
// …", "if you see …", "may cause …", "Fix … in validation"; or something that was brought about on purpose,
// or is over: "Simulating …", "Recovered from …".
bool is_advice(std::string_view line, std::string_view words);
// Whether `words` stand in source code, which logs of compilers quote, or are part of a longer name.
bool is_source_code(std::string_view line, std::string_view words);
// Whether `words` stand in the result of a test that went as it should: "✓ handles …", "XFAIL … - …".
bool is_test_result(std::string_view line, std::string_view words);
// Whether `words` stand in a name or a text in quotes, by what is before or behind it: `rule "…" loaded`,
// `Prompt: "explain …`. An error in quotes is none: `error: "…"`, `event='…'`.
bool is_quotation(std::string_view line, std::string_view words);
// Whether `words` stand in configuration that a program prints: `retry policy: [CUDA out of memory, …]`,
// `{message_on_oom: "…"}` (log_configuration.cpp).
bool is_configuration(std::string_view line, std::string_view words);

}  // namespace headroom::doctor

// Recognizes lines that only mention a message: advice, lists, tables, counters, source code, results of
// tests, quotations, configuration and subjects of commits.
#pragma once

#include <string_view>

namespace headroom::doctor {

// Judges the first known phrase in the line; false if there is none. A line with the request and the
// available memory reports a failure, whatever stands before it ("worker may restart - CUDA out of memory.
// Tried to allocate …").
bool is_only_spoken_of(std::string_view line, bool tells_amounts = false);

// An item of a list, a comment, a row of a table, a line of a diff, or an entry of a changelog.
bool is_prose(std::string_view line);
// A counter, a column, or a question with its answer: "… out of memory errors so far: 0", "…_total 3", "0 x
// CUDA out of memory", "CUDA out of memory? no".
bool is_counter(std::string_view line, std::string_view words);
// A condition, advice, a guess or a note of a change: "to avoid …", "if you see …", "may cause …", "Fix … in
// validation". Or a failure that was caused on purpose or is over: "Simulating …", "Recovered from …".
bool is_advice(std::string_view line, std::string_view words);
// Source code, which compilers quote in logs, or part of a longer name.
bool is_source_code(std::string_view line, std::string_view words);
// The result of a test that passed: "✓ handles …", "XFAIL … - …".
bool is_test_result(std::string_view line, std::string_view words);
// A name or a text in quotes, by the words around it: `rule "…" loaded`, `Prompt: "explain …`. A quoted error
// is not a quotation: `error: "…"`, `event='…'`.
bool is_quotation(std::string_view line, std::string_view words);
// Configuration that a program prints: `retry policy: [CUDA out of memory, …]`, `{message_on_oom: "…"}`.
bool is_configuration(std::string_view line, std::string_view words);

}  // namespace headroom::doctor

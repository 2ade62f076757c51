// What the tests of symbolisation share: the tools of binutils to compare with, and modules as a recording
// has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "symbols/symbolizer.h"

namespace headroom::symbols::test {

// Where the modules of these tests are loaded: file addresses are moved by this much.
inline constexpr std::uint64_t kLoadBias = 0x7f0000000000;

// The standard output of a command, or nothing where the tool is absent or fails.
std::optional<std::string> output_of(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment = {});

// The program of inlined_program.cpp.
std::filesystem::path inlined_program();

// The module of this file as the tracer would have recorded it under `recorded_path`.
recording::Module module_of(const std::filesystem::path& file, const std::string& recorded_path);
recording::Module module_of(const std::filesystem::path& file);

// Addresses inside the file's functions (as nm lists them), evenly spread, at most `most`.
std::vector<std::uint64_t> addresses_in(const std::filesystem::path& file, std::size_t most,
                                        const std::string& nm = "nm");

struct Frame {
  std::string function;  // as base_name() has it
  std::string place;     // "file:line", without path components that say nothing
};
// Innermost first.
using Frames = std::vector<Frame>;
Frames frames_of(Symbolizer& symbolizer, std::uint64_t file_address);
// What addr2line -afi says of them; empty where the tool is absent.
std::vector<Frames> addr2line(const std::filesystem::path& file, const std::vector<std::uint64_t>& addresses,
                              const std::vector<std::string>& tool = {"addr2line", "-C"});

// "insert" of "std::vector<int>::insert(int const&) [clone .cold]": what the spellings of two tools have in
// common.
std::string base_name(std::string_view function);

// Names of the innermost functions at the addresses.
std::vector<std::string> functions_at(Symbolizer& symbolizer, const std::vector<std::uint64_t>& addresses);

}  // namespace headroom::symbols::test

// Helpers for the tests of symbols/: binutils' tools for comparison, and modules as in a recording.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recording/recording.h"
#include "symbols/symbolizer.h"

namespace headroom::symbols::test {

// The modules of these tests are loaded at this offset from their file addresses.
inline constexpr std::uint64_t kLoadBias = 0x7f0000000000;

// The standard output of a command. Nothing if the tool is missing or fails.
std::optional<std::string> output_of(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment = {});

// The path of the program compiled from inlined_program.cpp.
std::filesystem::path inlined_program();

// The module as the tracer would record it under `recorded_path`.
recording::Module module_of(const std::filesystem::path& file, const std::string& recorded_path);
recording::Module module_of(const std::filesystem::path& file);

// Up to `most` addresses inside the file's functions (as listed by nm), evenly spread.
std::vector<std::uint64_t> addresses_in(const std::filesystem::path& file, std::size_t most,
                                        const std::string& nm = "nm");

struct Frame {
  std::string function;  // as returned by base_name()
  std::string place;     // "file:line", without meaningless path components
};
// Innermost first.
using Frames = std::vector<Frame>;
Frames frames_of(Symbolizer& symbolizer, std::uint64_t file_address);
// The output of addr2line -afi; empty if the tool is missing.
std::vector<Frames> addr2line(const std::filesystem::path& file, const std::vector<std::uint64_t>& addresses,
                              const std::vector<std::string>& tool = {"addr2line", "-C"});

// The part of a name that two tools spell alike: "insert" for "std::vector<int>::insert(int const&) [clone
// .cold]".
std::string base_name(std::string_view function);

// Names of the innermost functions at the addresses.
std::vector<std::string> functions_at(Symbolizer& symbolizer, const std::vector<std::uint64_t>& addresses);

}  // namespace headroom::symbols::test

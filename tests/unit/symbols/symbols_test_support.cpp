#include "symbols_test_support.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/subprocess.h"
#include "base/text.h"
#include "symbols/debug_files.h"

namespace headroom::symbols::test {
namespace fs = std::filesystem;
namespace {

std::string normal(const std::string& path) { return fs::path(path).lexically_normal().string(); }

Frame described(std::string_view function, std::string_view file, std::string_view line) {
  if (function == "??") function = "";
  if (line == "?" || line == "0") line = "";
  return {base_name(function), fmt::format("{}:{}", file == "??" ? "" : normal(std::string(file)), line)};
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     const std::vector<std::pair<std::string, std::string>>& environment) {
  auto pipe = Pipe::create();
  if (!pipe) return std::nullopt;
  SpawnOptions options;
  options.command = command;
  options.environment = environment;
  options.stdout_fd = pipe->write_end.get();
  auto child = Subprocess::spawn(options);
  pipe->write_end.reset();
  if (!child) return std::nullopt;
  std::string output;
  std::array<char, 65536> buffer;
  ssize_t got = 0;
  while ((got = ::read(pipe->read_end.get(), buffer.data(), buffer.size())) > 0)
    output.append(buffer.data(), static_cast<std::size_t>(got));
  return child->wait().success() ? std::optional(output) : std::nullopt;
}

fs::path inlined_program() { return HEADROOM_INLINED_PROGRAM; }

recording::Module module_of(const fs::path& file, const std::string& recorded_path) {
  recording::Module module;
  module.path = recorded_path;
  module.build_id = ElfFile::open(file).value().build_id();
  module.load_bias = module.start = kLoadBias;
  module.end = kLoadBias + 0x1000'0000;
  return module;
}

recording::Module module_of(const fs::path& file) { return module_of(file, file.string()); }

std::vector<std::uint64_t> addresses_in(const fs::path& file, std::size_t most, const std::string& nm) {
  std::vector<std::uint64_t> addresses;
  const std::string listing = output_of({nm, "-S", "--defined-only", file.string()}).value_or("");
  for (const std::string_view line : split(listing, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 4 || std::string_view("tTwWi").find(words[2]) == std::string_view::npos) continue;
    const std::uint64_t start = std::stoull(std::string(words[0]), nullptr, 16);
    const std::uint64_t size = std::stoull(std::string(words[1]), nullptr, 16);
    for (std::uint64_t at = 0; at < size; at += 4) addresses.push_back(start + at);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  if (addresses.size() <= most) return addresses;
  std::vector<std::uint64_t> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(addresses[i * addresses.size() / most]);
  return some;
}

Frames frames_of(Symbolizer& symbolizer, std::uint64_t file_address) {
  Frames frames;
  for (const SourceFrame& frame : symbolizer.frames_of(kLoadBias + file_address, false))
    frames.push_back(described(frame.named ? frame.function : "", frame.file, std::to_string(frame.line)));
  return frames;
}

std::vector<Frames> addr2line(const fs::path& file, const std::vector<std::uint64_t>& addresses,
                              const std::vector<std::string>& tool) {
  std::vector<std::string> command = tool;
  command.insert(command.end(), {"-a", "-f", "-i", "-e", file.string()});
  for (const std::uint64_t address : addresses) command.push_back(fmt::format("{:#x}", address));
  const std::string output = output_of(command).value_or("");
  std::vector<Frames> all;
  std::string function;
  bool expect_place = false;
  for (const std::string_view line : split(output, '\n')) {
    if (line.empty()) continue;
    if (!expect_place && line.starts_with("0x")) {
      all.emplace_back();
    } else if (!expect_place) {
      function = line;
      expect_place = true;
    } else {
      const std::string_view place = line.substr(0, line.find(" (discriminator"));
      const std::size_t colon = place.rfind(':');
      all.back().push_back(described(function, place.substr(0, colon), place.substr(colon + 1)));
      expect_place = false;
    }
  }
  return all;
}

std::string base_name(std::string_view function) {
  // Removes all text in brackets, nested ones included.
  std::string plain;
  int depth = 0;
  if (function.find("operator") != std::string_view::npos) return "operator";
  for (const char c : function) {
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (depth == 0) plain += c;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
  }
  plain = plain.substr(0, plain.find('.'));  // .cold, .isra.0: parts and copies made by optimizers
  plain = plain.substr(0, plain.find_last_not_of(' ') + 1);
  const std::size_t start = plain.find_last_of(": ");
  return start == std::string::npos ? plain : plain.substr(start + 1);
}

std::vector<std::string> functions_at(Symbolizer& symbolizer, const std::vector<std::uint64_t>& addresses) {
  std::vector<std::string> names;
  for (const std::uint64_t address : addresses)
    names.emplace_back(symbolizer.frames_of(kLoadBias + address, false).front().function);
  return names;
}

}  // namespace headroom::symbols::test

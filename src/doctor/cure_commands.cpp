#include "doctor/cure_commands.h"

#include <fmt/format.h>

#include <bit>

#include "base/text.h"
#include "doctor/cure_trials.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kPartOfMemory = 30, kBytesOfKib = 1 << 10, kBytesOfMib = 1 << 20,
                       kBytesOfGib = 1 << 30;

std::string_view without_begin(std::string_view text, std::string_view begin) {
  return text.starts_with(begin) ? text.substr(begin.size()) : text;
}

// "SIZE", "NAME" of "NAME=model.onnx", "COMMAND", and names that every example has: the reader must replace
// them.
bool is_placeholder(std::string_view part) {
  constexpr std::size_t kShortest = 3;
  return part == "app.py" || part == "model.onnx" ||
         std::min(part.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), part.size()) >= kShortest;
}

bool is_complete(std::string_view command) {
  if (command.find("…") != command.npos) return false;
  // A report that did not keep its settings gives a command without models.
  if (without_begin(command, "sudo ").starts_with("headroom bench") &&
      command.find("--model ") == command.npos)
    return false;
  const auto words = split_words(command);
  return std::ranges::none_of(words, [](std::string_view word) {
    const auto parts = split(word, '=');
    return std::ranges::any_of(parts, is_placeholder);
  });
}

// The reader must decide whether to delete, stop or end something.
bool is_harmful(std::string_view command) {
  constexpr std::string_view kHarmful[] = {"rm",    "kill",  "pkill", "killall", "delete",
                                           "drain", "evict", "prune", "stop"};
  const auto words = split_words(command);
  return std::find_first_of(words.begin(), words.end(), std::begin(kHarmful), std::end(kHarmful)) !=
         words.end();
}

// Commands that only read, and commands that set one value, which can be set back.
bool can_be_run(std::string_view command) {
  static const auto kBegins = split(
      "headroom |journalctl |dmesg |kubectl |sysctl |ulimit |nvidia-smi |df |cat /proc/|cat /sys/|"
      "docker stats |docker ps|docker logs |docker inspect |docker update |"
      "systemctl status |systemctl set-property |usermod -aG ",
      '|');
  std::string_view text = without_begin(command, "sync; ");
  const bool is_written = text.starts_with("echo ") && (text.find("| sudo tee /proc/") != text.npos ||
                                                        text.find("| sudo tee /sys/") != text.npos);
  text = without_begin(text, "sudo ");
  const bool is_known = is_written || std::ranges::any_of(kBegins, [text](std::string_view begin) {
                          return text.starts_with(begin);
                        });
  return is_known && is_complete(command) && !is_harmful(command);
}

// Whether headroom report reads the only input. It does not read logs, or a run that ended before it wrote
// its report: of such a run, doctor examined a file in its folder.
bool has_report(const report::DoctorReport& report) {
  if (report.inputs.size() != 1 || report.examined.empty()) return false;
  const auto& [input, kind, words] = report.examined.front();
  const bool is_whole =
      kind == "recording" || kind == "snapshot" || (kind == "run" && report.examined.size() == 1);
  return input == report.inputs.front() && is_whole;
}

}  // namespace

void complete_evidence(std::vector<Finding>& findings, const std::string& file, const std::string& text) {
  for (Finding& finding : findings) {
    if (finding.evidence.empty()) finding.evidence.push_back({.text = text});
    for (Evidence& evidence : finding.evidence) evidence.file = file;
  }
}

Cure open_report(std::string what, std::string_view file, std::optional<Bytes> saves) {
  return {std::move(what), fmt::format("headroom report {}", shell_word(file)), saves};
}

Cure find_holders() { return {"see which processes hold the memory", "headroom top"}; }

Cure keep_pages_free(const std::optional<Bytes>& ram) {
  const std::string size =
      ram ? fmt::format("{}", ram->count / kPartOfMemory / kBytesOfKib)
          : fmt::format("$(awk '/MemTotal/ {{print int($2/{})}}' /proc/meminfo)", kPartOfMemory);
  return {"keep more pages free: 1/30 of the memory", "sudo sysctl vm.min_free_kbytes=" + size};
}

std::string docker_update(const ContainerLimit& limit, std::string_view container) {
  // Docker's default is as much swap as memory.
  std::int64_t both = 2 * limit.mib;
  if (limit.memory_and_swap)
    both = limit.mib + std::max<std::int64_t>(0, (*limit.memory_and_swap - limit.memory).count / kBytesOfMib);
  return fmt::format("docker update --memory={}m --memory-swap={}m {}", limit.mib, both, container);
}

Cure make_swap_file(std::string what, const std::optional<Bytes>& ram, SwapFile which,
                    std::optional<Bytes> saves) {
  // Round up: MemTotal is a little less than the built-in memory.
  const std::string size =
      ram ? fmt::format("{}G", std::max<std::int64_t>(1, (ram->count / 2 + kBytesOfGib - 1) / kBytesOfGib))
          : "$(awk '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G";
  return {
      std::move(what),
      fmt::format("sudo fallocate -l {0} {1} && sudo chmod 600 {1} && sudo mkswap {1} && sudo swapon {2}{1}",
                  size, which == SwapFile::the_first ? "/swapfile" : "/swapfile.headroom",
                  which == SwapFile::before_others ? "-p 100 " : ""),
      saves};
}

std::int64_t mebibytes_above(Bytes size) {
  const std::int64_t wanted = std::max<std::int64_t>(1, (size.count + size.count / 4) / kBytesOfMib);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

std::string next_command(const report::DoctorReport& report) {
  if (report.can_try && report.inputs.size() == 1)
    return fmt::format("headroom doctor {} --try", shell_word(report.inputs.front()));
  for (const TriedCure& together : report.together)
    if (helped(together)) return together.command;
  for (const Finding& finding : report.findings) {
    const bool is_note = finding.severity != Severity::severe && finding.severity != Severity::warning;
    // A note's command may only look at the input: a note needs no cure.
    for (const Cure& cure : finding.cures)
      if ((!cure.tried || helped(*cure.tried)) && can_be_run(cure.command) &&
          (!is_note || cure.command.starts_with("headroom ")))
        return cure.command;
  }
  if (std::ranges::find(report.inputs, "--live") != report.inputs.end())
    return "headroom watch --output watch.jsonl";
  // Not --live: the log may be of another machine.
  return has_report(report) ? fmt::format("headroom report {}", shell_word(report.inputs.front())) : "";
}

}  // namespace headroom::doctor

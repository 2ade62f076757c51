#include "doctor/next_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace headroom::doctor {
namespace {

bool begins_with_any(std::string_view text, const auto& begins) {
  return std::any_of(std::begin(begins), std::end(begins),
                     [text](std::string_view begin) { return text.starts_with(begin); });
}

// Without `begin`, where it begins so.
std::string_view text_behind(std::string_view text, std::string_view begin) {
  return text.starts_with(begin) ? text.substr(begin.size()) : text;
}

// "SIZE", "NAME" of "NAME=model.onnx", "COMMAND".
bool is_placeholder(std::string_view part) {
  constexpr std::size_t kShortest = 3;
  return std::min(part.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), part.size()) >= kShortest;
}

// Words in capitals, also behind "--memory=", and names that every example has, stand for what only the
// reader knows.
bool is_whole(std::string_view command) {
  if (command.find("…") != command.npos) return false;
  // Of a report that did not keep its settings.
  if (text_behind(command, "sudo ").starts_with("headroom bench") && command.find("--model ") == command.npos)
    return false;
  for (const std::string_view word : split_words(command)) {
    const auto parts = split(word, '=');
    if (std::any_of(parts.begin(), parts.end(), is_placeholder)) return false;
    if (word == "app.py" || word == "model.onnx") return false;
  }
  return true;
}

// What deletes, stops or ends something is for the reader to choose, and no next step.
bool is_harmful(std::string_view command) {
  constexpr std::string_view kHarmful[] = {"rm",    "kill",  "pkill", "killall", "delete",
                                           "drain", "evict", "prune", "stop"};
  const auto words = split_words(command);
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::find(std::begin(kHarmful), std::end(kHarmful), word) != std::end(kHarmful);
  });
}

// Commands that look, and those that set one thing, which can be set back.
bool is_to_be_run(std::string_view command) {
  constexpr std::string_view kLook[] = {"headroom ", "journalctl ",  "dmesg ",          "kubectl ",
                                        "sysctl ",   "ulimit ",      "nvidia-smi ",     "df ",
                                        "sacct ",    "cat /proc/",   "cat /sys/",       "docker stats ",
                                        "docker ps", "docker logs ", "docker inspect ", "systemctl status "};
  constexpr std::string_view kSet[] = {"docker update ", "systemctl set-property ", "usermod -aG "};
  // "sync; echo 1 | sudo tee /proc/…"
  std::string_view text = text_behind(command, "sync; ");
  const bool is_written = text.starts_with("echo ") && (text.find("| sudo tee /proc/") != text.npos ||
                                                        text.find("| sudo tee /sys/") != text.npos);
  text = text_behind(text, "sudo ");
  return (is_written || begins_with_any(text, kLook) || begins_with_any(text, kSet)) && is_whole(command) &&
         !is_harmful(command);
}

bool helped(const TriedCure& tried) {
  return tried.verdict == CureVerdict::helps || tried.verdict == CureVerdict::costs_speed;
}

// Where no cure alone and not all of them together came through, nothing that searches among them will.
bool all_failed(const report::DoctorReport& report) {
  std::vector<const TriedCure*> tried;
  for (const TriedCure& one : report.together) tried.push_back(&one);
  for (const Finding& finding : report.findings)
    for (const Cure& cure : finding.cures)
      if (cure.tried) tried.push_back(&*cure.tried);
  return !tried.empty() && std::all_of(tried.begin(), tried.end(), [](const TriedCure* one) {
    return one->verdict == CureVerdict::failed;
  });
}

bool is_search(std::string_view command) { return command.ends_with(" --tune"); }

// Whether headroom report reads the only input. It reads no log. Nor does it read a run that ended before it
// wrote its report: of such a run, doctor examined a file in its folder.
bool has_report(const report::DoctorReport& report) {
  if (report.inputs.size() != 1) return false;
  const std::string& input = report.inputs.front();
  const std::string folder = input.ends_with('/') ? input : input + "/";
  const auto& examined = report.examined;
  return std::any_of(examined.begin(), examined.end(),
                     [&](const report::ExaminedInput& one) {
                       return one.input == input &&
                              (one.kind == "recording" || one.kind == "snapshot" || one.kind == "run");
                     }) &&
         std::none_of(examined.begin(), examined.end(),
                      [&](const report::ExaminedInput& one) { return one.input.starts_with(folder); });
}

}  // namespace

std::string next_command(const report::DoctorReport& report) {
  if (report.can_try && report.inputs.size() == 1)
    return fmt::format("headroom doctor {} --try", shell_word(report.inputs.front()));
  for (const TriedCure& together : report.together)
    if (helped(together)) return together.command;
  const bool is_in_vain = all_failed(report);
  for (const Finding& finding : report.findings) {
    const bool is_note = finding.severity != Severity::severe && finding.severity != Severity::warning;
    // Of a note what looks at the very file; what sets something is for what needs a cure.
    for (const Cure& cure : finding.cures)
      if ((!cure.tried || helped(*cure.tried)) && is_to_be_run(cure.command) &&
          !(is_in_vain && is_search(cure.command)) && (!is_note || cure.command.starts_with("headroom ")))
        return cure.command;
  }
  if (std::find(report.inputs.begin(), report.inputs.end(), "--live") != report.inputs.end())
    return "headroom watch --output watch.jsonl";
  // Not --live: this machine may not be the one that wrote the log.
  return has_report(report) ? fmt::format("headroom report {}", shell_word(report.inputs.front())) : "";
}

}  // namespace headroom::doctor

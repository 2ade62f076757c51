#include "cli/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "base/run_folder.h"
#include "base/text.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

// Bytes of other alphabets count as letters.
bool belongs_in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ' || c == '.' ||
         c == '_' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

bool exists(std::string_view path) {
  std::error_code code;
  return fs::exists(path, code);
}

Status read_threshold(std::string_view key, std::string_view word, std::optional<double>& target) {
  target = parse_number<double>(word);
  if (target && *target >= 0 && *target <= 1) return {};
  return usage_error(fmt::format("invalid {} '{}' of a model: not a number from 0 to 1", key, word));
}

bool is_setting(std::string_view key) {
  const auto names = setting_names();
  return std::find(names.begin(), names.end(), key) != names.end();
}

Status read_precision(std::string_view word, Precision& target) {
  const auto precision = parse_precision(word);
  if (!precision || *precision == Precision::automatic)
    return usage_error(fmt::format("unknown precision '{}' of a model", word), "",
                       "use one of fp32, fp16, bf16");
  target = *precision;
  return {};
}

Status read_every(std::string_view word, std::int64_t& target) {
  const auto every = parse_number<std::int64_t>(word);
  if (!every || *every < 1)
    return usage_error(fmt::format("invalid every '{}' of a model: not a whole number of at least 1", word),
                       "", "every=5 runs the model on every fifth frame of --pool");
  target = *every;
  return {};
}

Status read_isolated(std::string_view word, bool& target) {
  if (word != "on" && word != "off")
    return usage_error(fmt::format("invalid isolated '{}' of a model: not on or off", word), "",
                       "isolated=on runs the model in a separate process in --pool");
  target = word == "on";
  return {};
}

// What was written behind the path.
Status read_setting(std::string_view key, std::string_view word, ModelSpec& spec) {
  if (key == "conf") return read_threshold(key, word, spec.confidence);
  if (key == "iou") return read_threshold(key, word, spec.iou);
  if (key == "precision") return read_precision(word, spec.precision);
  if (key == "every") return read_every(word, spec.every);
  if (key == "isolated") return read_isolated(word, spec.isolated);
  if (is_setting(key)) {
    RuntimeSettings checked;
    if (!set_setting(checked, key, word))
      return usage_error(fmt::format("invalid runtime setting {}={} of a model", key, word), "",
                         "docs/bench.md lists the settings and their values");
    // Taken from the end of the text: the first stands first again.
    spec.settings = fmt::format("{}={}{}{}", key, word, spec.settings.empty() ? "" : ",", spec.settings);
    return {};
  }
  (key == "task" ? spec.task : key == "device" ? spec.device : spec.backend) = word;
  return {};
}

// Takes the last ",KEY=WORD" off `text`; false if it ends with none.
Result<bool> take_setting(std::string_view& text, ModelSpec& spec) {
  const std::size_t comma = text.rfind(',');
  if (comma == std::string_view::npos) return false;
  const std::string_view setting = text.substr(comma + 1);
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = setting.substr(0, equals), word = setting.substr(equals + 1);
  constexpr std::array<std::string_view, 8> kKeys{"backend", "task",      "device", "conf",
                                                  "iou",     "precision", "every",  "isolated"};
  if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end() && !is_setting(key)) return false;
  if (word.find_first_of("/=") != std::string_view::npos) return false;  // part of a path
  if (auto read = read_setting(key, word, spec); !read) return forward_error(read);
  text = text.substr(0, comma);
  return true;
}

Status check_names(const std::vector<ModelSpec>& models) {
  for (std::size_t i = 0; i < models.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (models[i].name == models[j].name)
        return usage_error(fmt::format("two models are named '{}'", models[i].name), "",
                           "give each model a different name with --model NAME=PATH");
      const std::string file = file_name_of(models[i].name);
      if (file == file_name_of(models[j].name))
        return usage_error(
            fmt::format("the model names '{}' and '{}' conflict", models[j].name, models[i].name),
            fmt::format("both would write files named '{}'", file),
            "rename one of them with --model NAME=PATH");
    }
  return {};
}

Status check_paths(const std::vector<ModelSpec>& models) {
  std::vector<std::string> unreadable;
  for (const ModelSpec& model : models) {
    std::error_code code;
    const fs::file_status status = fs::status(model.path, code);
    if (!fs::exists(status))
      unreadable.push_back(fmt::format("{} ({}) was not found", model.path, model.name));
    else if (fs::is_directory(status))
      unreadable.push_back(fmt::format("{} ({}) is a folder", model.path, model.name));
  }
  if (unreadable.size() < models.size()) return {};
  return usage_error(models.size() == 1 ? "the model cannot be read" : "none of the models can be read",
                     fmt::format("{}", fmt::join(unreadable, ", ")), "check the paths");
}

}  // namespace

Status check_model_name(std::string_view name) {
  if (trim(name).empty()) return usage_error("a model's name is empty", "", "write --model NAME=PATH");
  if (std::all_of(name.begin(), name.end(), belongs_in_a_name)) return {};
  return usage_error(fmt::format("invalid model name '{}'", name),
                     "a name can have letters, digits, spaces, '.', '_' and '-', but no slash",
                     "write --model NAME=PATH");
}

std::string model_name_of(std::string_view path) {
  std::string name = fs::path(path).stem().string();
  for (char& c : name)
    if (!belongs_in_a_name(c)) c = '_';
  return trim(name).empty() ? "model" : name;
}

Result<ModelSpec> parse_model(std::string_view text) {
  ModelSpec spec;
  for (bool more = true; more;) {
    auto taken = take_setting(text, spec);
    if (!taken) return forward_error(taken);
    more = *taken;
  }
  const std::size_t equals = text.find('=');
  const std::string_view head = text.substr(0, equals);
  const std::string_view tail = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  // A path may hold '=' behind a slash ("/data/size=s/m.onnx"); a name may hold no slash ("../x=m.onnx").
  const bool is_path = equals == std::string_view::npos ||
                       (head.find('/') != std::string_view::npos && (exists(text) || !exists(tail)));
  if (!is_path)
    if (auto good = check_model_name(head); !good) return forward_error(good);
  spec.path = is_path ? text : tail;
  spec.name = is_path ? model_name_of(text) : std::string(head);
  if (spec.path.empty())
    return usage_error(fmt::format("the model '{}' has no path", spec.name), "", "write --model NAME=PATH");
  return spec;
}

std::string words_of(const ModelSpec& model) {
  std::string text = fmt::format("{}={}", model.name, model.path);
  if (!model.backend.empty()) text += ",backend=" + model.backend;
  if (!model.task.empty()) text += ",task=" + model.task;
  if (!model.device.empty()) text += ",device=" + model.device;
  if (model.precision != Precision::automatic) text += fmt::format(",precision={}", name_of(model.precision));
  if (model.confidence) text += fmt::format(",conf={}", *model.confidence);
  if (model.iou) text += fmt::format(",iou={}", *model.iou);
  if (model.every != 1) text += fmt::format(",every={}", model.every);
  if (model.isolated) text += ",isolated=on";
  if (!model.settings.empty()) text += "," + model.settings;
  return text;
}

Status read_models(const FlagValues& values, BenchOptions& options) {
  for (const std::string& text : values.all("model")) {
    auto model = parse_model(text);
    if (!model) return forward_error(model);
    options.models.push_back(std::move(*model));
  }
  std::vector<std::string> empty_slots;
  for (std::size_t i = 0; i < kModelSlots.size(); ++i) {
    const std::string flag = fmt::format("model{}", i);
    if (values.has(flag))
      options.models.push_back({std::string(kModelSlots.at(i)), values.text(flag), "", ""});
    else
      empty_slots.emplace_back(kModelSlots.at(i));
  }
  if (empty_slots.size() < kModelSlots.size()) options.skipped_slots = std::move(empty_slots);
  if (options.models.empty())
    return usage_error("no model was given", "", "add --model NAME=PATH, or fill a slot with --model0 PATH");
  if (auto good = check_names(options.models); !good) return good;
  if (auto good = check_paths(options.models); !good) return good;
  for (ModelSpec& model : options.models) {
    std::error_code code;
    const fs::path absolute = fs::absolute(model.path, code);
    if (!code) model.path = absolute.string();
  }
  return {};
}

}  // namespace headroom::cli

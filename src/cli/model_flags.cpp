#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/files.h"
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

bool is_setting(std::string_view key) {
  const auto names = setting_names();
  return std::ranges::find(names, key) != names.end();
}

// A key of a model's settings that is no runtime setting.
struct ModelKey {
  std::string_view name, values;  // values: for messages
  std::variant<std::string ModelSpec::*, std::optional<double> ModelSpec::*, Precision ModelSpec::*,
               std::int64_t ModelSpec::*, bool ModelSpec::*, std::optional<PromptKind> ModelSpec::*>
      target;
};

constexpr ModelKey kKeys[] = {
    {"backend", "a name in quotes", &ModelSpec::backend},
    {"task", "a name in quotes", &ModelSpec::task},
    {"device", "a name in quotes", &ModelSpec::device},
    {"precision", "fp32, fp16 or bf16", &ModelSpec::precision},
    {"prompt", "points, box or mask", &ModelSpec::prompt},
    {"conf", "a number from 0 to 1", &ModelSpec::confidence},
    {"iou", "a number from 0 to 1", &ModelSpec::iou},
    {"every", "a whole number of at least 1; every=5 runs the model on every fifth frame of --pool",
     &ModelSpec::every},
    {"isolated", "on or off; isolated=on runs the model in a separate process in --pool",
     &ModelSpec::isolated}};

std::optional<PromptKind> parse_prompt_kind(std::string_view word) {
  if (word == "bbox") return PromptKind::box;
  for (const PromptKind kind : {PromptKind::points, PromptKind::box, PromptKind::mask})
    if (word == name_of(kind)) return kind;
  return std::nullopt;
}

const ModelKey* find_model_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &ModelKey::name);
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_key(std::string_view key) { return find_model_key(key) != nullptr || is_setting(key); }

// "conf=0.6" after the path of a model.
struct Pair {
  std::string_view key, word;
};

// Returns false if the word is invalid. Names of backends, tasks and devices are checked later.
bool read_pair(const Pair& pair, ModelSpec& spec) {
  const std::string_view word = pair.word;
  const auto read = [&](auto member) -> bool {
    auto& target = spec.*member;
    using Target = std::remove_reference_t<decltype(target)>;
    if constexpr (std::is_same_v<Target, std::optional<double>>) {
      target = parse_number<double>(word);
      return target && *target >= 0 && *target <= 1;
    } else if constexpr (std::is_same_v<Target, std::optional<PromptKind>>) {
      target = parse_prompt_kind(word);
      return target.has_value();
    } else if constexpr (std::is_same_v<Target, Precision>) {
      target = parse_precision(word).value_or(Precision::automatic);
      return target != Precision::automatic;
    } else if constexpr (std::is_same_v<Target, std::int64_t>) {
      target = parse_number<std::int64_t>(word).value_or(0);
      return target >= 1;
    } else if constexpr (std::is_same_v<Target, bool>) {
      target = word == "on";
      return target || word == "off";
    } else {
      target = word;
      return true;
    }
  };
  if (const ModelKey* known = find_model_key(pair.key)) return std::visit(read, known->target);
  RuntimeSettings checked;
  if (!set_setting(checked, pair.key, word)) return false;
  // The pairs are read from the last to the first; this restores their order.
  spec.settings = fmt::format("{}={}{}{}", pair.key, word, spec.settings.empty() ? "" : ",", spec.settings);
  return true;
}

// Removes the last ",KEY=WORD" from `text` and returns it. Returns nothing if `text` does not end with a
// known key.
std::optional<Pair> take_pair(std::string_view& text) {
  const std::size_t comma = text.rfind(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const std::string_view setting = text.substr(comma + 1);
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const Pair pair{setting.substr(0, equals), setting.substr(equals + 1)};
  if (!is_key(pair.key)) return std::nullopt;
  if (pair.word.find_first_of("/=") != std::string_view::npos) return std::nullopt;  // part of a path
  text = text.substr(0, comma);
  return pair;
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

// The key that made "m.onnx,foo=1" a path: "foo". Nothing if the text before the first comma is no file.
std::optional<std::string_view> unknown_key(std::string_view path) {
  const std::size_t first = path.find(','), last = path.rfind(',');
  std::error_code code;
  if (first == std::string_view::npos || exists(path) || !fs::is_regular_file(path.substr(0, first), code))
    return std::nullopt;
  const std::string_view setting = path.substr(last + 1), key = setting.substr(0, setting.find('='));
  return is_key(key) ? std::nullopt : std::optional(key);
}

// `may_be_folders`: models of several graphs.
Status check_paths(const std::vector<ModelSpec>& models, bool may_be_folders) {
  std::vector<std::string> unreadable;
  for (const ModelSpec& model : models) {
    std::error_code code;
    const fs::file_status status = fs::status(model.path, code);
    if (!fs::exists(status))
      unreadable.push_back(fmt::format("{} ({}) was not found", model.path, model.name));
    else if (fs::is_directory(status) && !may_be_folders)
      unreadable.push_back(fmt::format("{} ({}) is a folder", model.path, model.name));
  }
  if (unreadable.size() < models.size()) return {};
  for (const ModelSpec& model : models)
    if (const auto key = unknown_key(model.path))
      return usage_error(fmt::format("unknown setting '{}' of model {}", *key, model.name), "",
                         "docs/bench.md lists the settings");
  return usage_error(models.size() == 1 ? "the model cannot be read" : "none of the models can be read",
                     fmt::format("{}", fmt::join(unreadable, ", ")), "check the paths");
}

}  // namespace

std::vector<std::string> model_keys() {
  std::vector<std::string> keys;
  for (const ModelKey& key : kKeys) keys.emplace_back(key.name);
  for (const std::string_view setting : setting_names()) keys.emplace_back(setting);
  return keys;
}

std::string_view values_of_model_key(std::string_view key) {
  const ModelKey* known = find_model_key(key);
  return known != nullptr ? known->values : values_of_setting(key);
}

bool is_number_key(std::string_view key) { return key == "conf" || key == "iou" || key == "every"; }

bool is_model_setting(std::string_view key, std::string_view value) {
  ModelSpec spec;
  return !value.empty() && read_pair({key, value}, spec);
}

Status check_model_name(std::string_view name) {
  if (trim(name).empty()) return usage_error("a model's name is empty", "", "write --model NAME=PATH");
  if (std::ranges::all_of(name, belongs_in_a_name)) return {};
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
  std::vector<Pair> pairs;  // from the last to the first
  for (auto pair = take_pair(text); pair; pair = take_pair(text)) pairs.push_back(*pair);
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
  for (const Pair& pair : pairs)
    if (!read_pair(pair, spec))
      return usage_error(fmt::format("invalid setting {}={} of model {}", pair.key, pair.word, spec.name), "",
                         fmt::format("use {}", values_of_model_key(pair.key)));
  return spec;
}

std::string words_of(const ModelSpec& model) {
  std::string text = fmt::format("{}={}", model.name, model.path);
  if (!model.backend.empty()) text += ",backend=" + model.backend;
  if (!model.task.empty()) text += ",task=" + model.task;
  if (!model.device.empty()) text += ",device=" + model.device;
  if (model.precision != Precision::automatic) text += fmt::format(",precision={}", name_of(model.precision));
  if (model.prompt) text += fmt::format(",prompt={}", name_of(*model.prompt));
  if (model.confidence) text += fmt::format(",conf={}", *model.confidence);
  if (model.iou) text += fmt::format(",iou={}", *model.iou);
  if (model.every != 1) text += fmt::format(",every={}", model.every);
  if (model.isolated) text += ",isolated=on";
  if (!model.settings.empty()) text += "," + model.settings;
  return text;
}

Result<std::vector<ModelSpec>> read_model_list(const std::string& list, const std::string& folder) {
  std::vector<ModelSpec> models;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (name.empty()) continue;
    const std::size_t line = name.rfind('_');
    const auto prompt =
        line == std::string_view::npos ? std::nullopt : parse_prompt_kind(name.substr(line + 1));
    if (!prompt || line == 0)
      return usage_error(fmt::format("invalid model '{}' of --models", name),
                         "the name does not end with a prompt", "write NAME_points, NAME_bbox or NAME_mask");
    if (auto good = check_model_name(name); !good) return forward_error(good);
    ModelSpec& model = models.emplace_back();
    model.name = name;
    model.path = (fs::path(folder) / name.substr(0, line)).string();
    model.prompt = prompt;
  }
  return models;
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
  if (values.has("models")) {
    auto listed =
        read_model_list(values.text("models"), values.has("weights-dir") ? values.text("weights-dir") : ".");
    if (!listed) return forward_error(listed);
    for (ModelSpec& model : *listed) options.models.push_back(std::move(model));
  }
  if (options.models.empty())
    return usage_error("no model was given", "", "add --model NAME=PATH, or fill a slot with --model0 PATH");
  if (auto good = check_names(options.models); !good) return good;
  if (auto good = check_paths(options.models, options.vos.has_value()); !good) return good;
  for (ModelSpec& model : options.models) {
    std::error_code code;
    const fs::path absolute = fs::absolute(model.path, code);
    if (!code) model.path = absolute.string();
  }
  return {};
}

}  // namespace headroom::cli

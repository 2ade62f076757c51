#include "cli/bench_flags.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestConfig = mebibytes(1);
constexpr std::string_view kLimitGroup = "Limit";  // the flags of [limits]

bool is_bare(const Flag& flag) {
  return flag.kind == FlagKind::toggle || flag.kind == FlagKind::integer || flag.kind == FlagKind::number;
}

std::string_view kind_in_words(const Flag& flag) {
  if (flag.kind == FlagKind::toggle) return "true or false";
  return flag.kind == FlagKind::integer ? "a whole number" : "a number";
}

// A value in the form of the command line; nothing for a table, list or date.
std::optional<std::string> text_of_value(const toml::node& node, const char* yes, const char* no) {
  if (const auto* text = node.as_string()) return without_stand_ins(text->get());
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? yes : no;
  return std::nullopt;
}

class ConfigReader {
 public:
  ConfigReader(std::string name, fs::path folder) : toml_(std::move(name)), folder_(std::move(folder)) {}

  Result<FlagValues> read(const toml::table& document) {
    for (const auto& [key, node] : document) {
      const std::string word = without_stand_ins(key.str());
      Status status;
      if (word == "model" && node.is_array_of_tables())
        status =
            toml_.read_tables(node, "model", [&](const toml::table& model) { return read_model(model); });
      else if (word == "source" && node.is_table())
        status = read_source(*node.as_table());
      else if (word == "limits" && node.is_table())
        status = read_limits(*node.as_table());
      else
        status = read_flag(word, node);
      if (!status) return forward_error(status);
    }
    return std::move(values_);
  }

 private:
  // Numbers and toggles must have no quotes.
  Result<std::string> text_of(const Flag& flag, const toml::node& node) const {
    if (is_bare(flag) && node.is_string())
      return toml_.wrong(node, fmt::format("'{}' must be {}", flag.name, kind_in_words(flag)),
                         "remove the quotes");
    if (auto text = text_of_value(node, "true", "false")) return *text;
    return toml_.wrong(node, fmt::format("'{}' cannot be a table, list or date", flag.name));
  }

  Status set(const Flag& flag, const toml::node& node, std::string value) {
    if (auto checked = check_value(flag, value); !checked)
      return toml_.wrong(node, checked.error().what, checked.error().fix);
    auto& entry = values_.entries_[flag.name];
    if (!flag.repeated && !entry.values.empty())
      return toml_.wrong(node, fmt::format("'{}' is set twice", flag.name),
                         fmt::format("remove this one or the one at {}", entry.origin));
    entry.values.push_back(std::move(value));
    entry.origin = toml_.place(node);
    return {};
  }

  Status read_flag(const std::string& key, const toml::node& node) {
    const Flag* flag = find_flag(bench_verb(), key);
    if (flag == nullptr) {
      std::vector<std::string> known{"model", "source", "limits"};
      for (const Flag& candidate : bench_verb().flags) known.push_back(candidate.name);
      return toml_.unknown_key(node, key, known);
    }
    if (const auto* list = node.as_array(); list != nullptr && flag->repeated) {
      for (const toml::node& element : *list) {
        auto text = text_of(*flag, element);
        if (!text) return forward_error(text);
        if (auto done = set(*flag, element, resolved(*flag, *text)); !done) return done;
      }
      return {};
    }
    auto text = text_of(*flag, node);
    if (!text) return forward_error(text);
    return set(*flag, node, resolved(*flag, *text));
  }

  // One [[model]], in the form of --model: NAME=PATH,task=…
  Status read_model(const toml::table& model) {
    std::string name, path, settings;
    const auto read_name = [&](const toml::node& value, const std::string& key) -> Status {
      if (auto done = toml_.read(value, key, name); !done) return done;
      if (auto checked = check_model_name(name); !checked)
        return toml_.wrong(value, checked.error().what, checked.error().why);
      return {};
    };
    std::map<std::string, TomlReader::ReadValue> keys{{"name", read_name}, {"path", toml_.into(path)}};
    for (const std::string& setting : model_keys())
      keys[setting] = [&](const toml::node& value, const std::string& key) {
        return read_model_setting(value, key, settings);
      };
    if (auto done = toml_.read_keys(model, keys); !done) return done;
    if (path.empty()) return toml_.wrong(model, "model.path is missing", "write path = \"model.onnx\"");
    if (name.empty()) name = model_name_of(path);
    const Flag& flag = *find_flag(bench_verb(), "model");
    return set(flag, model, resolved(flag, fmt::format("{}={}{}", name, path, settings)));
  }

  // A setting of a model: conf = 0.5, prepack = false, extend = "same_as_requested".
  Status read_model_setting(const toml::node& value, const std::string& key, std::string& settings) const {
    const std::string text = text_of_value(value, "on", "off").value_or("");
    const bool is_quoted_number = value.is_string() && is_number_key(key);
    if (is_quoted_number || !is_model_setting(key, text)) {
      std::string values(values_of_model_key(key));
      if (values.starts_with("on or off")) values.replace(0, 9, "true or false");
      return toml_.wrong(value, fmt::format("invalid value of 'model.{}'", key), "use " + values);
    }
    settings += fmt::format(",{}={}", key, text);
    return {};
  }

  Status read_source(const toml::table& source) {
    if (source.size() != 1)
      return toml_.wrong(source,
                         "[source] needs exactly one of image_dir, video, camera, csi, stream, gst and raw");
    const auto read = [&](const toml::node& value, const std::string& kind) -> Status {
      const Flag& flag = *find_flag(bench_verb(), "source");
      auto text = text_of(flag, value);
      if (!text) return forward_error(text);
      return set(flag, value, resolved(flag, fmt::format("{}={}", kind, *text)));
    };
    return toml_.read_keys(source, {{"image_dir", read},
                                    {"video", read},
                                    {"camera", read},
                                    {"csi", read},
                                    {"stream", read},
                                    {"gst", read},
                                    {"raw", read}});
  }

  // "memory" and "mechanism", or a flag of the group by any of its names.
  Status read_limits(const toml::table& limits) {
    for (const auto& [key, value] : limits) {
      const std::string word = without_stand_ins(key.str());
      const std::string name = word == "memory"      ? "mem-limit"
                               : word == "mechanism" ? "limit-mechanism"
                                                     : word;
      const Flag* flag = find_flag(bench_verb(), name);
      if (flag == nullptr || flag->group != kLimitGroup) {
        std::vector<std::string> known{"memory", "mechanism"};
        for (const Flag& candidate : bench_verb().flags)
          if (candidate.group == kLimitGroup) known.push_back(candidate.name);
        return toml_.unknown_key(value, word, known);
      }
      if (auto done = read_flag(name, value); !done) return done;
    }
    return {};
  }

  std::string resolved(const Flag& flag, const std::string& value) const {
    return is_model_or_source(flag.name) && !folder_.empty() ? path_from(folder_, flag.name, value) : value;
  }

  TomlReader toml_;
  fs::path folder_;
  FlagValues values_;
};

std::string toml_text(std::string_view text) {
  std::string quoted = to_line(Json(text));  // a JSON string is a TOML string, except for DEL
  for (auto at = quoted.find('\x7f'); at != quoted.npos; at = quoted.find('\x7f'))
    quoted.replace(at, 1, "\\u007F");
  return quoted;
}

// A value without quotes, in TOML's spelling: TOML rejects ".5" and "007".
std::string bare_text(const Flag& flag, const std::string& value) {
  if (flag.kind == FlagKind::toggle) return value;
  if (const auto integer = parse_number<std::int64_t>(value)) return fmt::format("{}", *integer);
  return fmt::format("{}", parse_number<double>(value).value_or(0));
}

}  // namespace

Result<FlagValues> parse_config(std::string_view text, const std::string& name, const fs::path& folder) {
  auto document = parse_toml(text, name);
  if (!document) return forward_error(document);
  return ConfigReader(name, folder).read(*document);
}

Result<FlagValues> read_config_file(const fs::path& path) {
  auto text = read_file(path, kLargestConfig);
  if (!text) {
    text.error().kind = ErrorKind::usage;
    return forward_error(text);
  }
  return parse_config(*text, path.filename().string(), path.parent_path());
}

std::string to_toml(const FlagValues& values) {
  std::string text = "# headroom bench --config THIS_FILE\n";
  for (const Flag& flag : bench_verb().flags) {
    if (!values.has(flag.name)) continue;
    const auto all = values.all(flag.name);
    const auto written = [&](const std::string& value) {
      return is_bare(flag) ? bare_text(flag, value) : toml_text(value);
    };
    std::string value = written(all.back());
    if (flag.repeated) {
      value = "[";
      for (const std::string& each : all) value += (value == "[" ? "" : ", ") + written(each);
      value += "]";
    }
    text += fmt::format("{} = {}  # {}\n", flag.name, value, values.origin(flag.name));
  }
  return text;
}

}  // namespace headroom::cli

#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "cli/model_flags.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestConfig = mebibytes(1);
constexpr std::string_view kLimitGroup = "Limit";  // the flags of [limits]

bool is_bare(const Flag& flag) {
  return flag.kind == FlagKind::toggle || flag.kind == FlagKind::integer || flag.kind == FlagKind::number ||
         flag.kind == FlagKind::gigabytes || flag.kind == FlagKind::megabytes;
}

std::string_view kind_in_words(const Flag& flag) {
  if (flag.kind == FlagKind::toggle) return "true or false";
  return flag.kind == FlagKind::integer ? "a whole number" : "a number";
}

class ConfigReader {
 public:
  ConfigReader(const Verb& verb, std::string name, fs::path folder)
      : verb_(verb), errors_(std::move(name)), folder_(std::move(folder)) {}

  Result<FlagValues> read(const toml::table& document) {
    for (const auto& [key, node] : document) {
      const std::string word = without_stand_ins(key.str());
      Status status;
      if (word == "model" && node.is_array_of_tables())
        status = read_models(*node.as_array());
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
  tl::unexpected<Error> wrong(const toml::node& node, const std::string& what,
                              const std::string& fix = {}) const {
    return errors_.wrong(node, what, fix);
  }

  // A value in the form of the command line. Numbers and toggles must have no quotes.
  Result<std::string> text_of(const Flag& flag, const toml::node& node) const {
    if (is_bare(flag) && node.is_string())
      return wrong(node, fmt::format("'{}' must be {}", flag.name, kind_in_words(flag)), "remove the quotes");
    if (const auto* text = node.as_string()) return without_stand_ins(text->get());
    if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
    if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* boolean = node.as_boolean()) return std::string(boolean->get() ? "true" : "false");
    return wrong(node, fmt::format("'{}' cannot be a table, list or date", flag.name));
  }

  Status set(const Flag& flag, const toml::node& node, std::string value) {
    if (auto checked = check_value(flag, value); !checked)
      return wrong(node, checked.error().what, checked.error().fix);
    auto& entry = values_.entries_[flag.name];
    if (!flag.repeated && !entry.values.empty())
      return wrong(node, fmt::format("'{}' is set twice", flag.name),
                   fmt::format("remove this one or the one at {}", entry.origin));
    entry.values.push_back(std::move(value));
    entry.origin = errors_.place(node);
    return {};
  }

  Status read_flag(const std::string& key, const toml::node& node) {
    const Flag* flag = find_flag(verb_, key);
    if (flag == nullptr) {
      std::vector<std::string> known{"model", "source", "limits"};
      for (const Flag& candidate : verb_.flags) known.push_back(candidate.name);
      return errors_.unknown_key(node, key, known);
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

  Status read_models(const toml::array& models) {
    for (const toml::node& node : models)
      if (auto done = read_model(*node.as_table()); !done) return done;
    return {};
  }

  // One [[model]], in the form of --model: NAME=PATH,task=…
  Status read_model(const toml::table& model) {
    std::string name, path, settings;
    for (const auto& [key, value] : model) {
      const std::string word = without_stand_ins(key.str());
      if (word == "name" || word == "path") {
        if (!value.is_string()) return wrong(value, fmt::format("model.{} must be a text", word));
        std::string& target = word == "name" ? name : path;
        target = without_stand_ins(**value.as_string());
        if (word == "path") continue;
        if (auto checked = check_model_name(name); !checked)
          return wrong(value, checked.error().what, checked.error().why);
        continue;
      }
      auto text = model_setting(value, word);
      if (!text) return forward_error(text);
      settings += fmt::format(",{}={}", word, *text);
    }
    if (path.empty()) return wrong(model, "model.path is missing", "write path = \"model.onnx\"");
    if (name.empty()) name = model_name_of(path);
    return set(*find_flag(verb_, "model"), model,
               fmt::format("{}={}{}", name, relative_to_folder(path), settings));
  }

  // A setting of a model: conf = 0.5, prepack = false, extend = "same_as_requested".
  Result<std::string> model_setting(const toml::node& value, const std::string& key) const {
    const std::vector<std::string> keys = model_keys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      std::vector<std::string> known{"name", "path"};
      known.insert(known.end(), keys.begin(), keys.end());
      return errors_.unknown_key(value, key, known);
    }
    std::string text;
    if (const auto* words = value.as_string()) text = without_stand_ins(words->get());
    if (const auto* integer = value.as_integer()) text = std::to_string(integer->get());
    if (const auto* number = value.as_floating_point()) text = fmt::format("{}", number->get());
    if (const auto* boolean = value.as_boolean()) text = boolean->get() ? "on" : "off";
    const bool is_quoted_number = value.is_string() && is_number_key(key);
    if (!is_quoted_number && is_model_setting(key, text)) return text;
    std::string values(values_of_model_key(key));
    if (values.starts_with("on or off")) values.replace(0, 9, "true or false");
    return wrong(value, fmt::format("invalid value of 'model.{}'", key), "use " + values);
  }

  Status read_source(const toml::table& source) {
    if (source.size() != 1) return wrong(source, "[source] needs exactly one of image_dir, video and camera");
    for (const auto& [key, value] : source) {
      const std::string word = without_stand_ins(key.str());
      if (word != "image_dir" && word != "video" && word != "camera")
        return errors_.unknown_key(value, word, {"image_dir", "video", "camera"});
      const Flag* flag = find_flag(verb_, "source");
      auto text = text_of(*flag, value);
      if (!text) return forward_error(text);
      if (auto done = set(*flag, value,
                          fmt::format("{}={}", word, word == "camera" ? *text : relative_to_folder(*text)));
          !done)
        return done;
    }
    return {};
  }

  // "memory" and "mechanism", or a flag of the group by any of its names.
  Status read_limits(const toml::table& limits) {
    for (const auto& [key, value] : limits) {
      const std::string word = without_stand_ins(key.str());
      const std::string name = word == "memory"      ? "mem-limit"
                               : word == "mechanism" ? "limit-mechanism"
                                                     : word;
      const Flag* flag = find_flag(verb_, name);
      if (flag == nullptr || flag->group != kLimitGroup) {
        std::vector<std::string> known{"memory", "mechanism"};
        for (const Flag& candidate : verb_.flags)
          if (candidate.group == kLimitGroup) known.push_back(candidate.name);
        return errors_.unknown_key(value, word, known);
      }
      if (auto done = read_flag(name, value); !done) return done;
    }
    return {};
  }

  std::string relative_to_folder(const std::string& path) const {
    return fs::path(path).is_absolute() || folder_.empty() ? path : (folder_ / path).string();
  }

  // "name=model.onnx" and "video=drive.mp4" have paths after their first '='.
  std::string resolved(const Flag& flag, const std::string& value) const {
    const bool is_slot = flag.name.size() == 6 && flag.name.starts_with("model");
    if (flag.name != "source" && flag.name != "model" && !is_slot) return value;
    // "model.onnx,conf=0.9" has a setting after its path, and no name.
    const std::size_t equals = is_slot ? std::string::npos : value.substr(0, value.find(',')).find('=');
    const std::string head = equals == std::string::npos ? "" : value.substr(0, equals + 1);
    if (head == "camera=") return value;
    return head + relative_to_folder(equals == std::string::npos ? value : value.substr(equals + 1));
  }

  const Verb& verb_;
  TomlErrors errors_;
  fs::path folder_;
  FlagValues values_;
};

std::string toml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      result += fmt::format("\\u{:04X}", static_cast<int>(c));
    else
      result += c;
  }
  return result + "\"";
}

// A value without quotes, in TOML's spelling: TOML rejects ".5" and "007".
std::string bare_text(const Flag& flag, const std::string& value) {
  if (flag.kind == FlagKind::toggle) return value;
  if (const auto integer = parse_number<std::int64_t>(value)) return fmt::format("{}", *integer);
  return fmt::format("{}", parse_number<double>(value).value_or(0));
}

}  // namespace

Result<FlagValues> parse_config(const Verb& verb, std::string_view text, const std::string& name,
                                const fs::path& folder) {
  auto document = parse_toml(text, name);
  if (!document) return forward_error(document);
  return ConfigReader(verb, name, folder).read(*document);
}

Result<FlagValues> read_config_file(const Verb& verb, const fs::path& path) {
  auto text = read_file(path, kLargestConfig);
  if (!text) {
    text.error().kind = ErrorKind::usage;
    return forward_error(text);
  }
  return parse_config(verb, *text, path.filename().string(), path.parent_path());
}

std::string to_toml(const Verb& verb, const FlagValues& values) {
  std::string text = "# headroom " + verb.name + " --config THIS_FILE\n";
  for (const Flag& flag : verb.flags) {
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

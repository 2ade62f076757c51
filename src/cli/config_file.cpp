#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/files.h"
#include "base/text.h"

namespace headroom::cli {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kLargestConfig = mebibytes(1);

class ConfigReader {
 public:
  ConfigReader(const Verb& verb, std::string name, fs::path folder)
      : verb_(verb), name_(std::move(name)), folder_(std::move(folder)) {}

  Result<FlagValues> read(const toml::table& document) {
    for (const auto& [key, node] : document) {
      const std::string word(key.str());
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
  std::string place(const toml::node& node) const {
    return fmt::format("{}:{}", name_, node.source().begin.line);
  }

  tl::unexpected<Error> wrong(const toml::node& node, const std::string& what,
                              const std::string& fix = {}) const {
    return usage_error(fmt::format("{}: {}", place(node), what), "", fix);
  }

  tl::unexpected<Error> unknown_key(const toml::node& node, const std::string& key,
                                    const std::vector<std::string>& known) const {
    const std::string closest = closest_match(key, known);
    return wrong(node, fmt::format("there is no setting '{}'", key),
                 closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
  }

  // A value as the text that the command line would have.
  Result<std::string> text_of(const Flag& flag, const toml::node& node) const {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
    if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* boolean = node.as_boolean()) return std::string(boolean->get() ? "true" : "false");
    return wrong(node, fmt::format("'{}' cannot be a table, list or date", flag.name));
  }

  Status set(const Flag& flag, const toml::node& node, std::string value) {
    if (auto checked = check_value(flag, value); !checked)
      return wrong(node, checked.error().what, checked.error().fix);
    auto& entry = values_.entries_[flag.name];
    if (!flag.repeated) entry.values.clear();
    entry.values.push_back(std::move(value));
    entry.origin = place(node);
    return {};
  }

  Status read_flag(const std::string& key, const toml::node& node) {
    const Flag* flag = find_flag(verb_, key);
    if (flag == nullptr) {
      std::vector<std::string> known{"model", "source", "limits"};
      for (const Flag& candidate : verb_.flags) known.push_back(candidate.name);
      return unknown_key(node, key, known);
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
    const Flag* flag = find_flag(verb_, "model");
    for (const toml::node& node : models) {
      std::string name;
      std::string path;
      std::string more;
      for (const auto& [key, value] : *node.as_table()) {
        const std::string word(key.str());
        const auto* text = value.as_string();
        if (text == nullptr) return wrong(value, fmt::format("model.{} must be a text", word));
        if (word == "name")
          name = text->get();
        else if (word == "path")
          path = relative_to_folder(text->get());
        else if (word == "backend" || word == "task")
          more += fmt::format(",{}={}", word, text->get());
        else
          return unknown_key(value, word, {"name", "path", "backend", "task"});
      }
      if (path.empty()) return wrong(node, "a model has no path", "write path = \"model.onnx\"");
      if (name.empty()) name = fs::path(path).stem().string();
      if (auto done = set(*flag, node, fmt::format("{}={}{}", name, path, more)); !done) return done;
    }
    return {};
  }

  Status read_source(const toml::table& source) {
    if (source.size() != 1) return wrong(source, "a source is one of image_dir, video and camera");
    for (const auto& [key, value] : source) {
      const std::string word(key.str());
      if (word != "image_dir" && word != "video" && word != "camera")
        return unknown_key(value, word, {"image_dir", "video", "camera"});
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

  Status read_limits(const toml::table& limits) {
    for (const auto& [key, value] : limits) {
      const std::string word(key.str());
      const std::string flag = word == "memory"      ? "mem-limit"
                               : word == "mechanism" ? "limit-mechanism"
                                                     : word;
      if (flag != "mem-limit" && flag != "limit-mechanism" && flag != "strict")
        return unknown_key(value, word, {"memory", "mechanism", "strict"});
      if (auto done = read_flag(flag, value); !done) return done;
    }
    return {};
  }

  std::string relative_to_folder(const std::string& path) const {
    return fs::path(path).is_absolute() || folder_.empty() ? path : (folder_ / path).string();
  }

  // "name=model.onnx" and "video=drive.mp4" hold paths behind their first '='.
  std::string resolved(const Flag& flag, const std::string& value) const {
    const bool is_slot = flag.name.size() == 6 && flag.name.starts_with("model");
    if (flag.name != "source" && flag.name != "model" && !is_slot) return value;
    const std::size_t equals = is_slot ? std::string::npos : value.find('=');
    const std::string head = equals == std::string::npos ? "" : value.substr(0, equals + 1);
    if (head == "camera=") return value;
    return head + relative_to_folder(equals == std::string::npos ? value : value.substr(equals + 1));
  }

  const Verb& verb_;
  std::string name_;
  fs::path folder_;
  FlagValues values_;
};

// The line of the first character outside ASCII that stands outside strings and comments, or 0. TOML allows
// none there, and toml++ 3.3 meets them with undefined behaviour (its search for Unicode white space runs off
// a switch).
int line_of_stray_character(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (static_cast<unsigned char>(c) >= 0x80) return line;
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      const std::string closing(text.substr(i, 3) == std::string(3, c) ? 3 : 1, c);
      for (i += closing.size(); i < text.size() && text.substr(i, closing.size()) != closing; ++i) {
        if (text[i] == '\n') ++line;
        if (text[i] == '\n' && closing.size() == 1) break;  // not closed: the parser says so
        if (c == '"' && text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
      }
      if (i < text.size() && text[i] != '\n') i += closing.size() - 1;
    }
  }
  return 0;
}

std::string toml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04X}", static_cast<int>(c));
    else
      result += c;
  }
  return result + "\"";
}

bool is_bare(const Flag& flag) {
  return flag.kind == FlagKind::toggle || flag.kind == FlagKind::integer || flag.kind == FlagKind::number ||
         flag.kind == FlagKind::gigabytes || flag.kind == FlagKind::megabytes;
}

}  // namespace

Result<FlagValues> parse_config(const Verb& verb, std::string_view text, const std::string& name,
                                const fs::path& folder) {
  if (const int line = line_of_stray_character(text); line > 0)
    return usage_error(fmt::format("{}:{}: this is not valid TOML", name, line),
                       "a character outside ASCII stands outside quotes", "put the text into quotes");
  toml::parse_result document = toml::parse(text, name);
  if (!document) {
    const auto& problem = document.error();
    return usage_error(fmt::format("{}:{}: this is not valid TOML", name, problem.source().begin.line),
                       std::string(problem.description()));
  }
  return ConfigReader(verb, name, folder).read(document.table());
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
    const auto written = [&](const std::string& value) { return is_bare(flag) ? value : toml_text(value); };
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

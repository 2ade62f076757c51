#include "media/vos/prompts_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

namespace headroom::media::vos {
namespace {

constexpr Bytes kLargestPromptsFile = mebibytes(16);
constexpr const char* kKeys = "video, object, frame, points, labels, box";

const std::vector<std::string>& prompt_keys() {
  static const std::vector<std::string> kList{"video", "object", "frame", "points", "labels", "box"};
  return kList;
}

tl::unexpected<Error> unreadable_prompts(const std::string& file, std::string why, std::string fix) {
  return input_error(fmt::format("cannot read the prompts {}", file), std::move(why), std::move(fix));
}

// What one entry says, before it is checked.
struct RawPrompt {
  std::string video{}, object{};
  std::optional<std::int64_t> frame{};
  std::vector<double> points{};  // x, y, x, y, …
  std::vector<double> labels{};
  std::vector<double> box{};
};

// A problem of an entry, and its cure.
struct PromptProblem {
  std::string why, fix;
};

std::optional<PromptProblem> check_prompt(const RawPrompt& raw) {
  if (raw.object.empty())
    return PromptProblem{"it has no object", "give the object's number or name, such as 1"};
  if (!raw.frame) return PromptProblem{"it has no frame", "give the number of a frame, counted from 0"};
  if (*raw.frame < 0)
    return PromptProblem{fmt::format("frame {} is below 0", *raw.frame), "count frames from 0"};
  if (raw.points.empty() && raw.box.empty())
    return PromptProblem{"it has neither points nor a box", "give points, a box, or both"};
  if (raw.points.size() % 2 != 0)
    return PromptProblem{fmt::format("points has {} numbers", raw.points.size()),
                         "give x and y of each point"};
  if (!raw.labels.empty() && raw.labels.size() * 2 != raw.points.size())
    return PromptProblem{
        fmt::format("the number of labels is {}, of points {}", raw.labels.size(), raw.points.size() / 2),
        "give one label for each point, or none if all are inside"};
  if (std::ranges::any_of(raw.labels, [](double label) { return label != 0 && label != 1; }))
    return PromptProblem{"a label is neither 1 nor 0", "write 1 (inside the object) or 0 (outside)"};
  if (!raw.box.empty() && raw.box.size() != 4)
    return PromptProblem{fmt::format("box has {} numbers", raw.box.size()),
                         "give left, top, right and bottom"};
  if (!raw.box.empty() && (raw.box[0] > raw.box[2] || raw.box[1] > raw.box[3]))
    return PromptProblem{"the box ends before it begins", "give left, top, right and bottom"};
  for (const auto* numbers : {&raw.points, &raw.box})
    for (const double number : *numbers)
      if (!std::isfinite(number) || std::abs(number) > 1e6)
        return PromptProblem{fmt::format("{} is not a place in a picture", number), "write pixels"};
  return std::nullopt;
}

VosPrompt prompt_of(const RawPrompt& raw) {
  VosPrompt prompt{*raw.frame};
  for (std::size_t i = 0; i < raw.points.size(); i += 2)
    prompt.points.push_back({static_cast<float>(raw.points[i]), static_cast<float>(raw.points[i + 1]),
                             raw.labels.empty() || raw.labels[i / 2] == 1});
  if (!raw.box.empty())
    prompt.box = PromptBox{static_cast<float>(raw.box[0]), static_cast<float>(raw.box[1]),
                           static_cast<float>(raw.box[2]), static_cast<float>(raw.box[3])};
  return prompt;
}

// Checks entries and joins those of the same video, object and frame.
class PromptList {
 public:
  std::optional<PromptProblem> add(const RawPrompt& raw) {
    if (auto problem = check_prompt(raw)) return problem;
    const auto [known, is_new] =
        places_.try_emplace(std::tuple(raw.video, raw.object, *raw.frame), entries_.size());
    if (is_new) {
      entries_.push_back({raw.video, raw.object, prompt_of(raw)});
      return std::nullopt;
    }
    VosPrompt more = prompt_of(raw);
    VosPrompt& prompt = entries_[known->second].prompt;
    if (prompt.box && more.box)
      return PromptProblem{fmt::format("object {} has a second box in frame {}", raw.object, *raw.frame),
                           "keep one of them"};
    if (more.box) prompt.box = more.box;
    prompt.points.insert(prompt.points.end(), more.points.begin(), more.points.end());
    return std::nullopt;
  }

  std::vector<PromptEntry> take() {
    std::ranges::stable_sort(entries_, {}, [](const PromptEntry& entry) { return entry.prompt.frame; });
    return std::move(entries_);
  }

 private:
  std::vector<PromptEntry> entries_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> places_;
};

// --- JSON

// Numbers of a list, or of lists in it: [1, 2] and [[1, 2]].
bool add_json_numbers(const Json& value, std::vector<double>& numbers) {
  if (value.is_number()) {
    numbers.push_back(value.get<double>());
    return true;
  }
  return value.is_array() &&
         std::ranges::all_of(value, [&](const Json& inner) { return add_json_numbers(inner, numbers); });
}

// A name, or a number that is used as one.
std::optional<std::string> name_from(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return fmt::format("{}", value.get<std::int64_t>());
  return std::nullopt;
}

std::optional<PromptProblem> read_key(const std::string& key, const Json& value, RawPrompt& raw) {
  const auto wrong = [&](const char* fix) { return PromptProblem{fmt::format("invalid {}", key), fix}; };
  if (key == "video" || key == "object") {
    auto name = name_from(value);
    if (!name) return wrong("write a name or a number");
    (key == "video" ? raw.video : raw.object) = std::move(*name);
    return std::nullopt;
  }
  if (key == "frame") {
    if (!value.is_number_integer()) return wrong("write a number, counted from 0");
    raw.frame = value.get<std::int64_t>();
    return std::nullopt;
  }
  if (key == "points" || key == "labels" || key == "box") {
    auto& numbers = key == "points" ? raw.points : key == "labels" ? raw.labels : raw.box;
    if (!value.is_array() || !add_json_numbers(value, numbers)) return wrong("write a list of numbers");
    return std::nullopt;
  }
  return PromptProblem{fmt::format("unknown key '{}'", key),
                       did_you_mean(key, prompt_keys(), fmt::format("the keys are {}", kKeys))};
}

std::optional<PromptProblem> add_json_entry(const Json& entry, PromptList& list) {
  if (!entry.is_object()) return PromptProblem{"it is not an object", fmt::format("write {}", kKeys)};
  RawPrompt raw;
  for (const auto& [key, value] : entry.items())
    if (auto problem = read_key(key, value, raw)) return problem;
  return list.add(raw);
}

Result<std::vector<PromptEntry>> parse_json_prompts(std::string_view text, const std::string& file) {
  auto document = parse_json(text, "prompts");
  if (!document) return unreadable_prompts(file, document.error().sentence(), "correct the JSON");
  const Json& entries = document->is_object() ? get_member(*document, "prompts") : *document;
  if (!entries.is_array())
    return unreadable_prompts(file, "it has no list of prompts", R"(write {"prompts": [{"object": 1, …}]})");
  PromptList list;
  std::size_t number = 0;
  for (const Json& entry : entries) {
    ++number;
    if (const auto problem = add_json_entry(entry, list))
      return unreadable_prompts(file, fmt::format("prompt {}: {}", number, problem->why), problem->fix);
  }
  return list.take();
}

// --- CSV

// The fields of a line (RFC 4180, without line breaks in fields).
std::vector<std::string> csv_fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  for (std::string& field : fields) field = std::string(trim(field));
  return fields;
}

// Numbers between any of blanks, ';', ':', ',' and brackets.
bool add_text_numbers(std::string text, std::vector<double>& numbers) {
  for (char& c : text)
    if (std::string_view(";:,()[]").find(c) != std::string_view::npos) c = ' ';
  for (const std::string_view word : split_words(text)) {
    const auto number = parse_number<double>(word);
    if (!number) return false;
    numbers.push_back(*number);
  }
  return true;
}

std::optional<PromptProblem> read_field(const std::string& key, const std::string& field, RawPrompt& raw) {
  if (field.empty()) return std::nullopt;
  const auto wrong = [&](const char* fix) {
    return PromptProblem{fmt::format("invalid {} '{}'", key, field), fix};
  };
  if (key == "video") {
    raw.video = field;
  } else if (key == "object") {
    raw.object = field;
  } else if (key == "frame") {
    raw.frame = parse_number<std::int64_t>(field);
    if (!raw.frame) return wrong("write a number, counted from 0");
  } else if (!add_text_numbers(field, key == "points"   ? raw.points
                                      : key == "labels" ? raw.labels
                                                        : raw.box)) {
    return wrong("write numbers between blanks");
  }
  return std::nullopt;
}

Result<std::vector<PromptEntry>> parse_csv_prompts(std::string_view text, const std::string& file) {
  std::vector<std::string> keys;
  PromptList list;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (trim(line).empty()) continue;
    const auto failed = [&](std::string_view why, std::string fix) {
      return unreadable_prompts(file, fmt::format("line {}: {}", number, why), std::move(fix));
    };
    const std::vector<std::string> fields = csv_fields_of(line);
    if (keys.empty()) {
      keys = fields;
      for (std::string& key : keys) {
        key = to_lower(key);
        if (std::ranges::find(prompt_keys(), key) == prompt_keys().end())
          return failed(
              fmt::format("unknown column '{}'", key),
              did_you_mean(key, prompt_keys(), fmt::format("begin with a line of these names: {}", kKeys)));
        if (std::ranges::count(keys, key) > 1)
          return failed(fmt::format("the column {} is there twice", key), "keep one of them");
      }
      continue;
    }
    if (fields.size() > keys.size())
      return failed(fmt::format("it has {} fields, the first line {}", fields.size(), keys.size()),
                    "write the points between blanks, or in quotes");
    RawPrompt raw;
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (const auto problem = read_field(keys[i], fields[i], raw)) return failed(problem->why, problem->fix);
    if (const auto problem = list.add(raw)) return failed(problem->why, problem->fix);
  }
  return list.take();
}

}  // namespace

Result<std::vector<PromptEntry>> parse_prompts(std::string_view text, PromptsFormat format,
                                               const std::string& file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  if (!is_valid_utf8(text)) return unreadable_prompts(file, "it is not UTF-8", "convert it to UTF-8");
  auto entries =
      format == PromptsFormat::json ? parse_json_prompts(text, file) : parse_csv_prompts(text, file);
  if (entries && entries->empty())
    return unreadable_prompts(file, "it has no prompts", "write one for each object");
  return entries;
}

Result<std::vector<PromptEntry>> read_prompts(const std::filesystem::path& file) {
  auto text = read_file(file, kLargestPromptsFile);
  if (!text) return forward_error(text);
  const bool is_csv = to_lower(file.extension().string()) == ".csv";
  return parse_prompts(*text, is_csv ? PromptsFormat::csv : PromptsFormat::json, file.string());
}

}  // namespace headroom::media::vos

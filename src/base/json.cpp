#include "base/json.h"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <vector>

#include "base/text.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace headroom {
namespace {
constexpr int kMaximumDepth = 64;
constexpr std::size_t kLongestString = 1 << 20, kLongestGap = 64 << 10;
// Of parsed values, as memory_of() counts it. The largest report of the tests needs 2 MiB.
constexpr std::size_t kMostMemory = std::size_t{128} << 20;

// Follows a document character by character and finds what would cost much memory before the parser sees it.
// The library keeps the text of a token several times over, escapes its blanks to eight characters each for
// an error message, and recurses once per level when it destroys a value.
class ShapeCheck {
 public:
  // False from the first character on that makes the document unusable.
  bool accepts(char c) {
    ++token_;
    if (in_string_) {
      if (is_escaped_)
        is_escaped_ = false;
      else if (c == '\\')
        is_escaped_ = true;
      else if (c == '"')
        end_token(false);
      return token_ <= kLongestString;
    }
    if (c == '"') {
      end_token(true);
    } else if (c == '[' || c == '{') {
      ++depth_;
      end_token(false);
    } else if (c == ']' || c == '}') {
      --depth_;
      end_token(false);
    } else if (c == ',' || c == ':') {
      end_token(false);
    }
    return token_ <= kLongestGap && depth_ <= kMaximumDepth;
  }
  std::string fault() const {
    if (depth_ > kMaximumDepth) return fmt::format("it nests deeper than {} levels", kMaximumDepth);
    if (in_string_) return fmt::format("it has a string longer than {} MiB", kLongestString >> 20);
    return fmt::format("it has a number or a gap longer than {} KiB", kLongestGap >> 10);
  }
  int depth() const { return depth_; }
  bool in_string() const { return in_string_; }

 private:
  void end_token(bool begins_string) {
    token_ = 0;
    in_string_ = begins_string;
  }
  std::size_t token_ = 0;  // characters since the last bracket, comma, colon or quote
  int depth_ = 0;
  bool in_string_ = false, is_escaped_ = false;
};

// What a value takes, with the slack of a growing list.
template <class Value>
constexpr std::size_t kMemoryOf = 2 * sizeof(Value);
std::size_t memory_of(const std::string& text) { return text.size() > 15 ? text.size() + 32 : 0; }

// Builds a document from the parser's events. The library's own builder searches the whole object for each
// new key: 300,000 keys took minutes. Of several equal keys, the first one counts.
class DocumentBuilder final : public Json::json_sax_t {
 public:
  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return add(value) != nullptr; }
  bool string(string_t& value) override {
    memory_ += sizeof(std::string) + memory_of(value);
    return add(std::move(value)) != nullptr;
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    memory_ += memory_of(name);
    key_ = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& problem) override {
    constexpr std::size_t kMostText = 300;
    why_ = problem.what();
    if (const auto at = why_.find("] "); at != std::string::npos) why_.erase(0, at + 2);
    const bool is_long = why_.size() > kMostText;
    why_.resize(std::min(why_.size(), kMostText));
    for (char& c : why_)
      if (static_cast<unsigned char>(c) >= 0x80)
        c = '?';  // it shows the document's text, which may be binary
    if (is_long) why_ += "…";
    return false;
  }

  bool is_too_large() const { return memory_ > kMostMemory; }
  const std::string& why() const { return why_; }
  Json take() { return std::move(document_); }

 private:
  Json* add(Json value) {
    const bool in_object = !open_.empty() && open_.back()->is_object();
    memory_ += in_object ? kMemoryOf<Json::object_t::value_type> : kMemoryOf<Json>;
    if (is_too_large()) return nullptr;
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    if (in_object) {
      Json::object_t::Container& members = open_.back()->get_ref<Json::object_t&>();
      return &members.emplace_back(std::move(key_), std::move(value)).second;
    }
    auto& list = open_.back()->get_ref<Json::array_t&>();
    list.push_back(std::move(value));
    return &list.back();
  }
  bool open(Json value) {
    memory_ += sizeof(Json::array_t) + 16;
    Json* const added = add(std::move(value));
    if (added != nullptr) open_.push_back(added);
    return added != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json document_;
  std::vector<Json*> open_;  // each is the last element of the one before, so it does not move
  std::string key_, why_;
  std::size_t memory_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what_it_is) {
  ShapeCheck shape;
  for (const char c : text)
    if (!shape.accepts(c)) return input_error(fmt::format("{} is not usable", what_it_is), shape.fault());
  DocumentBuilder builder;
  if (Json::sax_parse(text, &builder)) return builder.take();
  if (builder.is_too_large())
    return input_error(fmt::format("{} is not usable", what_it_is),
                       fmt::format("its values need more than {} MiB of memory", kMostMemory >> 20));
  return input_error(fmt::format("{} is not valid JSON", what_it_is), builder.why());
}

Status parse_json_list(std::string_view text, std::string_view what_it_is,
                       const std::function<void(const Json& element)>& each) {
  const auto refuse = [&](std::string why) {
    return input_error(fmt::format("{} is not usable", what_it_is), std::move(why));
  };
  text = trim(text);
  if (text.empty() || text.front() != '[') return refuse("it is not a list");
  ShapeCheck shape;
  std::size_t begin = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!shape.accepts(text[i])) return refuse(shape.fault());
    const bool ends_list = shape.depth() == 0;
    if (shape.in_string() || !(ends_list || (shape.depth() == 1 && text[i] == ','))) continue;
    const std::string_view element = trim(text.substr(begin, i - begin));
    const bool is_empty_list = ends_list && begin == 1 && element.empty();
    begin = i + 1;
    if (!is_empty_list) {
      auto parsed = parse_json(element, what_it_is);
      if (!parsed) return forward_error(parsed);
      each(*parsed);
    }
    if (ends_list && text[i] == ']' && begin == text.size()) return {};
    if (ends_list) return refuse("it goes on after its list");
  }
  return refuse("it is cut off");
}

std::string to_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_line(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& get_member(const Json& object, std::string_view key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNothing : *found;
}

std::optional<std::int64_t> get_integer(const Json& object, std::string_view key) {
  const Json& value = get_member(object, key);
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

std::optional<double> get_number(const Json& object, std::string_view key) {
  const Json& value = get_member(object, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional<double>(number) : std::nullopt;
}

std::optional<bool> get_bool(const Json& object, std::string_view key) {
  const Json& value = get_member(object, key);
  return value.is_boolean() ? std::optional<bool>(value.get<bool>()) : std::nullopt;
}

std::optional<Bytes> get_bytes(const Json& object, std::string_view key) {
  const auto number = get_integer(object, key);
  return number ? std::optional<Bytes>(Bytes{*number}) : std::nullopt;
}

std::optional<Nanoseconds> get_nanoseconds(const Json& object, std::string_view key) {
  const auto number = get_integer(object, key);
  return number ? std::optional<Nanoseconds>(Nanoseconds{*number}) : std::nullopt;
}

std::string get_text(const Json& object, std::string_view key) {
  const Json& value = get_member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

namespace {

class KeyReader final : public Json::json_sax_t {
 public:
  explicit KeyReader(JsonKeys& keys) : keys_(keys) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(false); }
  bool start_array(std::size_t) override { return begin(true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    constexpr std::size_t kMost = 1000;
    if (depth_ == 1) last_ = keys_.lists.size() < kMost ? &(keys_.lists[name] = false) : nullptr;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool begin(bool is_list) {
    if (depth_ == 1 && last_ != nullptr) *last_ = is_list;
    ++depth_;
    return count();
  }
  bool end() {
    --depth_;
    return true;
  }
  // parse_json() would not accept more values, and the library keeps their brackets for an error message.
  bool count() { return ++values_ <= kMostMemory / kMemoryOf<Json>; }

  std::size_t values_ = 0;
  JsonKeys& keys_;
  bool* last_ = nullptr;  // whether the last key's value is a list
  std::size_t depth_ = 0;
};

// The characters of a stream. Ends where parse_json() would not accept the document.
class CheckedCharacters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  CheckedCharacters() = default;
  explicit CheckedCharacters(std::istream& stream) : from_(stream) { check(); }
  char operator*() const { return *from_; }
  CheckedCharacters& operator++() {
    ++from_;
    check();
    return *this;
  }
  bool operator==(const CheckedCharacters& other) const { return from_ == other.from_; }
  bool operator!=(const CheckedCharacters& other) const { return !(*this == other); }

 private:
  using Characters = std::istreambuf_iterator<char>;
  void check() {
    if (from_ != Characters() && !shape_.accepts(*from_)) from_ = Characters();
  }
  Characters from_;
  ShapeCheck shape_;
};

}  // namespace

JsonKeys read_json_keys(std::istream& document) {
  JsonKeys keys;
  KeyReader reader(keys);
  keys.is_whole = Json::sax_parse(CheckedCharacters(document), CheckedCharacters(), &reader);
  return keys;
}

JsonKeys read_json_keys(std::string_view document) {
  std::istringstream stream{std::string(document)};
  return read_json_keys(stream);
}

}  // namespace headroom

// How a structure becomes JSON and comes back: one list of its fields, expanded twice.
//
//   void describe(auto& field, a<PhaseMark> auto& mark) {
//     field("phase", mark.phase);
//     field("time_ns", mark.time);
//   }
//
// With a FieldWriter the list writes, with a FieldReader it reads, so the two cannot drift apart. An empty
// optional is an absent key; texts, lists and plain figures are always written. Reading tolerates unknown and
// absent keys (null counts as absent); the first value of a wrong type becomes the error, with its place as a
// JSON pointer. Nothing throws.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <concepts>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "types/sample.h"

namespace headroom::report {

// A structure, const while it is written.
template <class T, class Plain>
concept a = std::same_as<std::remove_const_t<T>, Plain>;

// The last value of an enumeration, whose values count up from 0, for reading their names; specialised beside
// its structure's fields.
template <class Enum>
inline constexpr Enum kLast{};

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;

// Writes the fields of a structure as JSON into a text: samples are written by the million, and a document in
// between would be some hundred allocations a sample. Of two readings of one name the last is written.
class FieldWriter {
 public:
  // Between the braces, which are the caller's.
  explicit FieldWriter(std::string& text) : text_(text) {}

  template <class T>
  void operator()(std::string_view key, const T& value) {
    if constexpr (is_optional<T>) {
      if (value) (*this)(key, *value);
    } else {
      if constexpr (std::same_as<T, double>)
        if (!std::isfinite(value)) return;
      put_key(key);
      put(value);
    }
  }
  // For a count that is 0 when it is not known.
  template <class T>
  void unless_zero(std::string_view key, const T& value) {
    if (value != T{}) (*this)(key, value);
  }
  // Fields of the same structure under a key of their own; left out when there are none.
  template <class Describe>
  void group(std::string_view key, Describe describe_members) {
    const std::size_t begin = text_.size();
    const bool was_first = is_first_;
    put_key(key);
    text_ += '{';
    FieldWriter members(text_);
    describe_members(members);
    text_ += '}';
    if (!members.is_first_) return;
    text_.resize(begin);
    is_first_ = was_first;
  }
  // The fields of an optional structure among those of this object; `sign` is a key that it always has.
  template <class T>
  void inlined(const std::optional<T>& value, std::string_view /*sign*/) {
    if (value) describe(*this, *value);
  }
  // Sensors as {"name": value}.
  void readings(std::string_view key, const std::vector<Reading>& list) {
    group(key, [&](FieldWriter& members) {
      for (auto reading = list.begin(); reading != list.end(); ++reading)
        if (std::none_of(reading + 1, list.end(),
                         [&](const Reading& later) { return later.name == reading->name; }))
          members(reading->name, reading->value);
    });
  }

 private:
  void put_key(std::string_view key) {
    if (!std::exchange(is_first_, false)) text_ += ',';
    put(key);
    text_ += ':';
  }

  void put(std::string_view word) {
    const bool plain =
        std::ranges::all_of(word, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    if (!plain) {
      text_ += to_line(Json(word));
      return;
    }
    text_ += '"';
    text_ += word;
    text_ += '"';
  }

  template <class T>
  void put(const T& value) {
    if constexpr (std::same_as<T, Bytes> || std::same_as<T, Nanoseconds>) {
      put(value.count);
    } else if constexpr (std::is_enum_v<T>) {
      put(std::string_view(name_of(value)));
    } else if constexpr (std::same_as<T, std::string>) {
      put(std::string_view(value));
    } else if constexpr (std::same_as<T, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (std::same_as<T, double>) {
      if (!std::isfinite(value)) {
        text_ += "null";
        return;
      }
      const std::size_t begin = text_.size();
      fmt::format_to(std::back_inserter(text_), "{}", value);
      if (text_.find_first_of(".e", begin) == std::string::npos) text_ += ".0";
    } else if constexpr (std::integral<T>) {
      fmt::format_to(std::back_inserter(text_), "{}", value);
    } else if constexpr (is_list<T>) {
      text_ += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) text_ += ',';
        put(value[i]);
      }
      text_ += ']';
    } else {
      text_ += '{';
      FieldWriter members(text_);
      describe(members, value);
      text_ += '}';
    }
  }

  std::string& text_;
  bool is_first_ = true;
};

// The object of the fields that `describe_fields(writer)` writes.
template <class Describe>
Json object_of(Describe describe_fields) {
  std::string text = "{";
  FieldWriter writer(text);
  describe_fields(writer);
  return *parse_json(text += '}');
}
template <class T>
Json fields_of(const T& value) {
  return object_of([&](FieldWriter& field) { describe(field, value); });
}

// Where a value is in its document; linked upward, so that a path costs nothing until it is printed.
struct Place {
  const Place* parent = nullptr;
  std::string_view key;   // of a member, or
  std::size_t index = 0;  // of an element, when key is empty
  // "/models/0/fps"; empty for the document itself.
  std::string pointer() const {
    if (parent == nullptr) return {};
    return key.empty() ? fmt::format("{}/{}", parent->pointer(), index)
                       : fmt::format("{}/{}", parent->pointer(), key);
  }
};

class FieldReader {
 public:
  // `problem` receives the first thing that is wrong: "/models/0/fps is a text, not a number".
  FieldReader(const Json& object, const Place& place, std::string& problem)
      : object_(object), place_(place), problem_(problem) {}

  template <class T>
  void operator()(std::string_view key, T& value) {
    const Json& member = get_member(object_, key);
    if (!member.is_null()) read(member, Place{&place_, key}, value);
  }
  template <class T>
  void unless_zero(std::string_view key, T& value) {
    (*this)(key, value);
  }
  template <class Describe>
  void group(std::string_view key, Describe describe_members) {
    const Json& member = get_member(object_, key);
    const Place place{&place_, key};
    if (member.is_null() || !expect(member.is_object(), member, place, "an object")) return;
    FieldReader reader(member, place, problem_);
    describe_members(reader);
  }
  template <class T>
  void inlined(std::optional<T>& value, std::string_view sign) {
    if (!get_member(object_, sign).is_null()) describe(*this, value.emplace());
  }
  void readings(std::string_view key, std::vector<Reading>& list) {
    group(key, [&](FieldReader& members) {
      for (const auto& [name, figure] : members.object_.items())
        read(figure, Place{&members.place_, name}, list.emplace_back(Reading{name, 0}).value);
    });
  }

 private:
  bool expect(bool right, const Json& value, const Place& place, std::string_view expected) {
    if (!right && problem_.empty())
      problem_ = fmt::format("{} is {}, not {}", place.parent == nullptr ? "the document" : place.pointer(),
                             kind_of(value), expected);
    return right;
  }

  // "[{},{},…" is 3 bytes an element and a ModelResult is a thousand: no hostile file may take all memory.
  template <class List>
  bool expect_bearable(std::size_t length, const Place& place) {
    constexpr std::size_t kMost = (std::size_t{256} << 20) / sizeof(typename List::value_type);
    if (length > kMost && problem_.empty())
      problem_ = fmt::format("{} has {} elements, more than {}", place.pointer(), length, kMost);
    return length <= kMost;
  }

  static std::string_view kind_of(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    if (value.is_string()) return "a string";
    if (value.is_boolean()) return "true or false";
    if (value.is_number_float()) return "a number";
    return value.is_number() ? "a whole number" : "nothing";
  }

  // Integers outside the field's range count as wrong.
  template <std::integral T>
  static bool read_integer(const Json& value, T& into) {
    if (!value.is_number_integer()) return false;
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (fits) into = value.get<T>();
    return fits;
  }

  template <class Enum>
  void read_name(const Json& value, const Place& place, Enum& into) {
    if (!expect(value.is_string(), value, place, "a string")) return;
    std::string names;
    for (int i = 0; i <= static_cast<int>(kLast<Enum>); ++i) {
      const auto candidate = static_cast<Enum>(i);
      if (value.get_ref<const std::string&>() == name_of(candidate)) {
        into = candidate;
        return;
      }
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(candidate));
    }
    if (problem_.empty())
      problem_ = fmt::format("{} is '{}', not one of {}", place.pointer(),
                             value.get_ref<const std::string&>(), names);
  }

  template <class T>
  void read(const Json& value, const Place& place, T& into) {
    if constexpr (is_optional<T>) {
      read(value, place, into.emplace());
    } else if constexpr (is_list<T>) {
      if (!expect(value.is_array(), value, place, "a list") || !expect_bearable<T>(value.size(), place))
        return;
      into.resize(value.size());
      for (std::size_t i = 0; i < into.size(); ++i) read(value[i], Place{&place, {}, i}, into[i]);
    } else if constexpr (std::same_as<T, bool>) {
      if (expect(value.is_boolean(), value, place, "true or false")) into = value.get<bool>();
    } else if constexpr (std::integral<T>) {
      expect(read_integer(value, into), value, place, "a whole number in its range");
    } else if constexpr (std::same_as<T, double>) {
      if (expect(value.is_number(), value, place, "a number")) into = value.get<double>();
    } else if constexpr (std::same_as<T, std::string>) {
      if (expect(value.is_string(), value, place, "a string")) into = value.get_ref<const std::string&>();
    } else if constexpr (std::same_as<T, Bytes> || std::same_as<T, Nanoseconds>) {
      expect(read_integer(value, into.count), value, place, "a whole number in its range");
    } else if constexpr (std::is_enum_v<T>) {
      read_name(value, place, into);
    } else {
      if (!expect(value.is_object(), value, place, "an object")) return;
      FieldReader reader(value, place, problem_);
      describe(reader, into);
    }
  }

  const Json& object_;
  const Place& place_;
  std::string& problem_;
};

}  // namespace headroom::report

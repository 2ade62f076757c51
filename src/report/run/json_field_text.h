// The fields of a structure (json_fields.h) as JSON straight into a text, for samples that are written by the
// million: a document in between would be some hundred allocations a sample, here there are none once the
// text has its size. What it says is what FieldWriter says; of two readings of one name the last.
#pragma once

#include <algorithm>
#include <iterator>

#include "report/run/json_fields.h"

namespace headroom::report {

class FieldText {
 public:
  // Between the braces, which are the caller's.
  explicit FieldText(std::string& text) : text_(text) {}

  template <class T>
  void operator()(std::string_view key, const T& value) {
    if constexpr (is_optional<T>) {
      if (value) (*this)(key, *value);
    } else if constexpr (std::same_as<T, double>) {
      if (!std::isfinite(value)) return;
      put_key(key);
      put(value);
    } else {
      put_key(key);
      put(value);
    }
  }
  template <class T>
  void unless_zero(std::string_view key, const T& value) {
    if (value != T{}) (*this)(key, value);
  }
  template <class T>
  void inlined(const std::optional<T>& value, std::string_view /*sign*/) {
    if (value) describe(*this, *value);
  }
  void readings(std::string_view key, const std::vector<Reading>& list) {
    const std::size_t begin = text_.size();
    const bool was_first = is_first_;
    put_key(key);
    text_ += '{';
    FieldText members(text_);
    for (auto reading = list.begin(); reading != list.end(); ++reading)
      if (std::none_of(reading + 1, list.end(),
                       [&](const Reading& later) { return later.name == reading->name; }))
        members(reading->name, reading->value);
    text_ += '}';
    if (!members.is_first_) return;
    text_.resize(begin);  // it has none
    is_first_ = was_first;
  }

 private:
  void put_key(std::string_view key) {
    if (!std::exchange(is_first_, false)) text_ += ',';
    put(key);
    text_ += ':';
  }

  void put(std::string_view word) {
    const bool plain = std::all_of(word.begin(), word.end(),
                                   [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
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
      FieldText members(text_);
      describe(members, value);
      text_ += '}';
    }
  }

  std::string& text_;
  bool is_first_ = true;
};

}  // namespace headroom::report

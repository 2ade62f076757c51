// The content of a pickle of plain data, stored compactly: eight bytes per value; texts, and the keys of
// dicts, are stored once. A trace entry of eight fields takes 88 bytes; Python needs 600 and more.
//
// A value is a number, or refers by index to an object (list, tuple, dict) or a text. An object is a chain of
// chunks, one for each batch in which the pickle filled it. A chunk of a dict contains only values; its keys
// are a shape, which all dicts with the same keys share.
//
// For objects that exist in millions, the caller may convert each object to its own compact form right after
// it was read (pickle_reader.h). The object then only has a number from the caller.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "snapshot/containers.h"

namespace headroom::snapshot {

enum class PickleKind : std::uint8_t {
  absent,  // no value: the result of a failed look-up
  none,
  boolean,
  integer,       // up to 60 bits
  wide_integer,  // up to 64 bits
  huge_integer,  // more than 64 bits; not needed here, so the value is dropped
  real,
  text,
  bytes,
  list,
  tuple,
  dict,
};

// The low four bits are the kind; the other bits are the integer or an index.
class PickleValue {
 public:
  PickleValue() = default;
  PickleValue(PickleKind kind, std::int64_t payload)
      : bits_(static_cast<std::uint64_t>(payload) << 4 | static_cast<std::uint64_t>(kind)) {}
  PickleKind kind() const { return static_cast<PickleKind>(bits_ & 15); }
  std::int64_t payload() const { return static_cast<std::int64_t>(bits_) >> 4; }
  std::size_t index() const { return bits_ >> 4; }
  std::uint64_t bits() const { return bits_; }
  friend bool operator==(const PickleValue&, const PickleValue&) = default;

 private:
  std::uint64_t bits_;
};

class PickleData {
 public:
  PickleData();
  PickleData(PickleData&&) = default;
  PickleData& operator=(PickleData&&) = default;

  // Functions for building, used by the reader.
  PickleValue add_integer(std::int64_t value);
  PickleValue add_real(double value);
  PickleValue add_text(std::string_view text, PickleKind kind);
  PickleValue add_object(PickleKind kind);
  void append(PickleValue object, std::span<const PickleValue> items);
  // `pairs`: key, value, key, value, … Returns false if a key is a list or a dict.
  bool set_items(PickleValue dict, std::span<const PickleValue> pairs);
  // Records that the caller has converted this object and stored it under this number.
  void set_kept(PickleValue object, std::uint32_t number);
  void set_root(PickleValue root) { root_ = root; }
  std::size_t storage_bytes() const;

  PickleValue root() const { return root_; }
  bool is(PickleValue value, PickleKind kind) const { return value.kind() == kind; }
  // Nothing if the value has another kind or is too large. An unsigned 64-bit integer (an address) is
  // returned as its bits.
  std::optional<std::int64_t> integer(PickleValue value) const;
  std::optional<double> real(PickleValue value) const;
  std::optional<bool> boolean(PickleValue value) const;
  std::optional<std::string_view> text(PickleValue value) const;
  StringId text_id(PickleValue text) const { return {static_cast<std::uint32_t>(text.index())}; }

  // Objects are numbered from 0; lists, tuples and dicts share the numbers.
  std::size_t object_count() const { return objects_.size(); }
  // The caller's number of a converted object, which has no items any more.
  std::optional<std::uint32_t> kept(PickleValue value) const {
    if (!is_object(value) || objects_[value.index()].first != kKept) return {};
    return objects_[value.index()].last;
  }
  bool is_empty(PickleValue object) const { return objects_[object.index()].first == kNoCell; }

  // Visits the items of a list or tuple; nothing for other values.
  template <class Visit>
  void for_each_item(PickleValue object, Visit&& visit) const {
    if (!is(object, PickleKind::list) && !is(object, PickleKind::tuple)) return;
    for (Cell at = first_chunk(object); at != kNoCell;) {
      const Header header = header_at(at);
      for (const PickleValue item : values_.run(at + 1, header.shape_or_count)) visit(item);
      at = header.next;
    }
  }
  // The items of the first batch: all items of a short list or tuple. Empty for other values.
  std::span<const PickleValue> first_items(PickleValue object) const;

  // The last value that was set for a key; absent if there is none, or if `dict` is not a dict.
  PickleValue find(PickleValue dict, StringId key) const;
  // Visits keys and values in the order in which they were set.
  template <class Visit>
  void for_each_pair(PickleValue dict, Visit&& visit) const {
    if (!is(dict, PickleKind::dict)) return;
    for (Cell at = first_chunk(dict); at != kNoCell;) {
      const Header header = header_at(at);
      const std::span<const PickleValue> keys = keys_of(header.shape_or_count);
      const auto values = values_.run(at + 1, keys.size());
      for (std::size_t i = 0; i < keys.size(); ++i) visit(keys[i], values[i]);
      at = header.next;
    }
  }

  // The shape and values of a dict that was filled in one batch, as all small dicts are. Nothing for others.
  struct Row {
    std::uint32_t shape = 0;
    std::span<const PickleValue> values;
  };
  std::optional<Row> row(PickleValue dict) const {
    if (!is(dict, PickleKind::dict)) return {};
    const Object& object = objects_[dict.index()];
    if (object.first == kNoCell || object.first != object.last || object.first == kKept) return {};
    const std::uint32_t shape = header_at(object.first).shape_or_count;
    return Row{shape, values_.run(object.first + 1, shapes_[shape].count)};
  }
  std::span<const PickleValue> keys_of(std::uint32_t shape) const {
    return std::span(keys_).subspan(shapes_[shape].first_key, shapes_[shape].count);
  }
  std::uint32_t shape_count() const { return static_cast<std::uint32_t>(shapes_.size()); }

  StringTable& strings() { return strings_; }
  const StringTable& strings() const { return strings_; }

 private:
  using Cell = std::uint32_t;
  static constexpr Cell kNoCell = 0, kKept = ~Cell{0};
  static constexpr std::size_t kMostItemsOfAChunk = 4096;
  struct Object {
    Cell first = kNoCell, last = kNoCell;  // kKept and the caller's number for a converted object
  };
  struct Header {  // of a chunk, stored like a value
    Cell next = kNoCell;
    std::uint32_t shape_or_count = 0;
  };
  struct Shape {
    std::uint32_t first_key = 0, count = 0, next_of_hash = 0;
  };

  static bool is_object(PickleValue value) { return value.kind() >= PickleKind::list; }
  Cell first_chunk(PickleValue object) const {
    const Cell first = objects_[object.index()].first;
    return first == kKept ? kNoCell : first;
  }
  Header header_at(Cell cell) const;
  void set_header(Cell cell, Header header);
  std::span<PickleValue> add_chunk(PickleValue object, std::uint32_t shape_or_count, std::size_t count);
  bool is_shape(std::uint32_t shape, std::span<const PickleValue> pairs) const;
  std::uint32_t shape_of(std::span<const PickleValue> pairs);

  PagedArray<PickleValue> values_;
  PagedArray<Object> objects_;
  StringTable strings_;
  std::vector<std::int64_t> wide_;
  std::vector<double> reals_;
  std::vector<PickleValue> keys_;  // of all shapes
  std::vector<Shape> shapes_;      // [0] means no shape
  std::unordered_map<std::uint64_t, std::uint32_t> shape_by_hash_;
  std::uint32_t last_shape_ = 0;
  PickleValue root_;
};

// Reads the same few keys of many dicts. The positions of the keys are looked up once per shape.
template <std::size_t kKeys>
class PickleColumns {
 public:
  PickleColumns(PickleData& data, const std::array<std::string_view, kKeys>& names) : data_(data) {
    for (std::size_t i = 0; i < kKeys; ++i) keys_[i] = data.strings().intern(names[i]);
  }

  // The value of each key; absent if the dict does not have the key, or is not a dict.
  std::array<PickleValue, kKeys> read(PickleValue dict) {
    std::array<PickleValue, kKeys> found;
    found.fill(PickleValue(PickleKind::absent, 0));
    const auto row = data_.row(dict);
    if (!row) {
      for (std::size_t i = 0; i < kKeys; ++i) found[i] = data_.find(dict, keys_[i]);
      return found;
    }
    if (row->shape >= places_.size()) places_.resize(data_.shape_count());
    Places& places = places_[row->shape];
    if (!places.known) look_up(row->shape, places);
    for (std::size_t i = 0; i < kKeys; ++i)
      if (places.at[i] >= 0) found[i] = row->values[static_cast<std::size_t>(places.at[i])];
    return found;
  }

 private:
  struct Places {
    bool known = false;
    std::array<std::int32_t, kKeys> at;
  };
  void look_up(std::uint32_t shape, Places& places) {
    const auto keys = data_.keys_of(shape);
    places.known = true;
    places.at.fill(-1);
    for (std::size_t column = 0; column < keys.size(); ++column)
      for (std::size_t i = 0; i < kKeys; ++i)
        if (keys[column].kind() == PickleKind::text && data_.text_id(keys[column]) == keys_[i])
          places.at[i] = static_cast<std::int32_t>(column);  // of equal keys the last one counts
  }

  const PickleData& data_;
  std::array<StringId, kKeys> keys_;
  std::vector<Places> places_;
};

}  // namespace headroom::snapshot

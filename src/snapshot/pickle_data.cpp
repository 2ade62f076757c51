#include "snapshot/pickle_data.h"

#include <algorithm>
#include <bit>

#include "snapshot/containers.h"

namespace headroom::snapshot {
namespace {

constexpr std::int64_t kSmallest60 = -(std::int64_t{1} << 59), kLargest60 = (std::int64_t{1} << 59) - 1;

bool may_be_key(PickleValue value) {
  return value.kind() != PickleKind::list && value.kind() != PickleKind::dict;
}

}  // namespace

PickleData::PickleData() : root_(PickleKind::absent, 0) {
  values_.push_back(PickleValue(PickleKind::absent, 0));  // index kNoCell: no chunk starts there
  shapes_.emplace_back();
}

PickleValue PickleData::add_integer(std::int64_t value) {
  if (value >= kSmallest60 && value <= kLargest60) return {PickleKind::integer, value};
  wide_.push_back(value);
  return {PickleKind::wide_integer, static_cast<std::int64_t>(wide_.size() - 1)};
}

PickleValue PickleData::add_real(double value) {
  reals_.push_back(value);
  return {PickleKind::real, static_cast<std::int64_t>(reals_.size() - 1)};
}

PickleValue PickleData::add_text(std::string_view text, PickleKind kind) {
  return {kind, strings_.intern(text).index};
}

PickleValue PickleData::add_object(PickleKind kind) {
  objects_.push_back({});
  return {kind, static_cast<std::int64_t>(objects_.size() - 1)};
}

PickleData::Header PickleData::header_at(Cell cell) const {
  const auto bits = values_[cell].bits();
  return {static_cast<Cell>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

void PickleData::set_header(Cell cell, Header header) {
  values_[cell] =
      std::bit_cast<PickleValue>(std::uint64_t{header.next} | std::uint64_t{header.shape_or_count} << 32);
}

std::span<PickleValue> PickleData::add_chunk(PickleValue value, std::uint32_t shape_or_count,
                                             std::size_t count) {
  const std::span<PickleValue> run = values_.add_run(count + 1);
  const auto cell = static_cast<Cell>(values_.size() - count - 1);
  set_header(cell, {kNoCell, shape_or_count});
  Object& object = objects_[value.index()];
  if (object.first == kNoCell) {
    object.first = cell;
  } else {
    set_header(object.last, {cell, header_at(object.last).shape_or_count});
  }
  object.last = cell;
  return run.subspan(1);
}

void PickleData::append(PickleValue object, std::span<const PickleValue> items) {
  while (!items.empty()) {
    const auto part = items.first(std::min(items.size(), kMostItemsOfAChunk));
    std::ranges::copy(part, add_chunk(object, static_cast<std::uint32_t>(part.size()), part.size()).begin());
    items = items.subspan(part.size());
  }
}

bool PickleData::set_items(PickleValue dict, std::span<const PickleValue> pairs) {
  for (std::size_t i = 0; i < pairs.size(); i += 2)
    if (!may_be_key(pairs[i])) return false;
  while (!pairs.empty()) {
    const auto part = pairs.first(std::min(pairs.size(), 2 * kMostItemsOfAChunk));
    const auto values = add_chunk(dict, shape_of(part), part.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = part[2 * i + 1];
    pairs = pairs.subspan(part.size());
  }
  return true;
}

void PickleData::set_kept(PickleValue value, std::uint32_t number) {
  Object& object = objects_[value.index()];
  // Remove the object's chunk if it was added last. So an object that is converted right after it was filled
  // needs no memory.
  if (object.first != kNoCell && object.first == object.last) {
    const Header header = header_at(object.first);
    const std::size_t count =
        is(value, PickleKind::dict) ? shapes_[header.shape_or_count].count : header.shape_or_count;
    if (object.first + count + 1 == values_.size()) values_.remove(count + 1);
  }
  object = {kKept, number};
}

bool PickleData::is_shape(std::uint32_t shape, std::span<const PickleValue> pairs) const {
  const auto keys = keys_of(shape);
  if (2 * keys.size() != pairs.size()) return false;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i] != pairs[2 * i]) return false;
  return true;
}

std::uint32_t PickleData::shape_of(std::span<const PickleValue> pairs) {
  if (is_shape(last_shape_, pairs)) return last_shape_;  // the usual case in a trace
  std::uint64_t hash = hash_seed() ^ pairs.size();
  for (std::size_t i = 0; i < pairs.size(); i += 2) hash = mixed(hash, pairs[i].bits());
  std::uint32_t& first = shape_by_hash_[hash];
  std::size_t looked_at = 0;
  for (std::uint32_t shape = first; shape != 0 && looked_at < kMostOfAHash;
       shape = shapes_[shape].next_of_hash, ++looked_at)
    if (is_shape(shape, pairs)) return last_shape_ = shape;
  const auto count = static_cast<std::uint32_t>(pairs.size() / 2);
  shapes_.push_back({static_cast<std::uint32_t>(keys_.size()), count, first});
  for (std::size_t i = 0; i < pairs.size(); i += 2) keys_.push_back(pairs[i]);
  first = last_shape_ = static_cast<std::uint32_t>(shapes_.size() - 1);
  return first;
}

std::size_t PickleData::storage_bytes() const {
  constexpr std::size_t kOfAShape = sizeof(Shape) + 48;  // with its node and bucket in the table
  return values_.bytes() + objects_.bytes() + strings_.bytes() + wide_.capacity() * sizeof(std::int64_t) +
         reals_.capacity() * sizeof(double) + keys_.capacity() * sizeof(PickleValue) +
         shapes_.size() * kOfAShape;
}

std::optional<std::int64_t> PickleData::integer(PickleValue value) const {
  if (value.kind() == PickleKind::integer) return value.payload();
  if (value.kind() == PickleKind::wide_integer) return wide_[value.index()];
  return {};
}

std::optional<double> PickleData::real(PickleValue value) const {
  if (value.kind() == PickleKind::real) return reals_[value.index()];
  return {};
}

std::optional<bool> PickleData::boolean(PickleValue value) const {
  if (value.kind() == PickleKind::boolean) return value.payload() != 0;
  return {};
}

std::optional<std::string_view> PickleData::text(PickleValue value) const {
  if (value.kind() == PickleKind::text) return strings_[text_id(value)];
  return {};
}

std::span<const PickleValue> PickleData::first_items(PickleValue object) const {
  if (!is(object, PickleKind::list) && !is(object, PickleKind::tuple)) return {};
  const Cell first = first_chunk(object);
  if (first == kNoCell) return {};
  return values_.run(first + 1, header_at(first).shape_or_count);
}

PickleValue PickleData::find(PickleValue dict, StringId key) const {
  PickleValue found(PickleKind::absent, 0);
  for_each_pair(dict, [&](PickleValue name, PickleValue value) {
    if (name.kind() == PickleKind::text && text_id(name) == key) found = value;
  });
  return found;
}

}  // namespace headroom::snapshot

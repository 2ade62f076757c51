#include "snapshot/pickle_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "base/text.h"
#include "snapshot/pickle_input.h"

namespace headroom::snapshot {
namespace {

constexpr int kNewestProtocol = 5;
constexpr std::size_t kMostMarks = 1000;         // a snapshot nests 12 deep
constexpr std::uint64_t kMostStoredPerByte = 6;  // pickle_reader.h
constexpr std::uint64_t kAlwaysStored = 64 << 20;
constexpr std::uint64_t kMostStored = std::uint64_t{30} << 30;  // chunks are numbered with 32 bits

// The opcodes, named as in Python's pickletools.
constexpr std::uint8_t kMark = '(', kStop = '.', kProto = 0x80, kFrame = 0x95;
constexpr std::uint8_t kNone = 'N', kNewTrue = 0x88, kNewFalse = 0x89;
constexpr std::uint8_t kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M';
constexpr std::uint8_t kLong1 = 0x8a, kLong4 = 0x8b;
constexpr std::uint8_t kBinFloat = 'G';
constexpr std::uint8_t kBinUnicode = 'X', kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d;
constexpr std::uint8_t kBinBytes = 'B', kShortBinBytes = 'C', kBinBytes8 = 0x8e;
constexpr std::uint8_t kEmptyList = ']', kAppend = 'a', kAppends = 'e';
constexpr std::uint8_t kEmptyTuple = ')', kTuple = 't', kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87;
constexpr std::uint8_t kEmptyDict = '}', kSetItem = 's', kSetItems = 'u';
constexpr std::uint8_t kBinPut = 'q', kLongBinPut = 'r', kMemoize = 0x94;
constexpr std::uint8_t kBinGet = 'h', kLongBinGet = 'j';
// Never executed; needed only for error messages.
constexpr std::uint8_t kGlobal = 'c', kStackGlobal = 0x93, kReduce = 'R', kBuild = 'b';
constexpr std::uint8_t kObject = 'o', kNewObject = 0x81, kNewObjectEx = 0x92;
constexpr std::uint8_t kBinPersistentId = 'Q';

class PickleReader {
 public:
  PickleReader(PickleInput& input, PickleData& data, const KeepObject& keep)
      : input_(input), data_(data), keep_(keep) {}

  Status read() {
    while (!stopped_ && step()) {
    }
    if (!stopped_) return tl::unexpected<Error>(std::move(error_));
    input_.check_end();
    if (input_.problem()) return tl::unexpected<Error>(*input_.problem());
    return {};
  }

 private:
  bool step() {
    if (!input_.need(1)) return cut_off();
    const std::uint8_t opcode = *input_.at();
    input_.skip(1);
    switch (opcode) {
      case kBinGet:
        return get(take_unsigned<1>());
      case kLongBinGet:
        return get(take_unsigned<4>());
      case kMemoize:
        return put(memo_.size());
      case kBinPut:
        return put(take_unsigned<1>());
      case kLongBinPut:
        return put(take_unsigned<4>());
      case kBinInt1:
        return push_integer(take_unsigned<1>());
      case kBinInt2:
        return push_integer(take_unsigned<2>());
      case kBinInt:
        return push(data_.add_integer(static_cast<std::int32_t>(take_unsigned<4>())));
      case kLong1:
        return push_long(take_unsigned<1>());
      case kLong4:
        return push_long(take_unsigned<4>());
      case kShortBinUnicode:
        return push_text(take_unsigned<1>(), PickleKind::text);
      case kBinUnicode:
        return push_text(take_unsigned<4>(), PickleKind::text);
      case kBinUnicode8:
        return push_text(take_unsigned<8>(), PickleKind::text);
      case kShortBinBytes:
        return push_text(take_unsigned<1>(), PickleKind::bytes);
      case kBinBytes:
        return push_text(take_unsigned<4>(), PickleKind::bytes);
      case kBinBytes8:
        return push_text(take_unsigned<8>(), PickleKind::bytes);
      case kMark:
        if (marks_.size() == kMostMarks) return fail("it is nested too deeply");
        marks_.push_back(stack_.size());
        return true;
      case kEmptyDict:
        return push(data_.add_object(PickleKind::dict)) && fits();
      case kEmptyList:
        return push(data_.add_object(PickleKind::list)) && fits();
      case kEmptyTuple:
        return push(data_.add_object(PickleKind::tuple)) && fits();
      case kSetItems:
        return set_items(pop_mark(), true);
      case kSetItem:
        return has(3) && set_items(stack_.size() - 2, false);
      case kAppends:
        return append(pop_mark(), true);
      case kAppend:
        return has(2) && append(stack_.size() - 1, false);
      case kTuple:
        return build(PickleKind::tuple, pop_mark());
      case kTuple1:
        return has(1) && build(PickleKind::tuple, stack_.size() - 1);
      case kTuple2:
        return has(2) && build(PickleKind::tuple, stack_.size() - 2);
      case kTuple3:
        return has(3) && build(PickleKind::tuple, stack_.size() - 3);
      case kNone:
        return push({PickleKind::none, 0});
      case kNewTrue:
        return push({PickleKind::boolean, 1});
      case kNewFalse:
        return push({PickleKind::boolean, 0});
      case kBinFloat:
        return push_real(std::bit_cast<double>(__builtin_bswap64(take_unsigned<8>())));
      case kProto:
        return check_protocol(static_cast<int>(take_unsigned<1>()));
      case kFrame:
        take_unsigned<8>();  // skip the frame length, which is not needed
        return !failed_;
      case kStop:
        if (!has(1)) return false;
        data_.set_root(stack_.back());
        stopped_ = true;
        return false;
      default:
        return refuse(opcode);
    }
  }

  // Reads a little-endian integer. At the end of the input returns 0 and sets failed_.
  template <std::size_t kBytes>
  std::uint64_t take_unsigned() {
    if (!input_.need(kBytes)) {
      cut_off();
      return 0;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, input_.at(), kBytes);
    input_.skip(kBytes);
    return value;
  }

  // --- the stack and the memo ---

  bool push(PickleValue value) {
    if (stack_.size() == stack_.capacity() && !is_in_proportion()) return false;
    stack_.push_back(value);
    return !failed_;
  }

  // Whether there are `count` values above the last mark.
  bool has(std::size_t count) {
    const std::size_t base = marks_.empty() ? 0 : marks_.back();
    return stack_.size() - base >= count || fail("an opcode needs more values than its stack has");
  }

  // The index of the first value above the last mark.
  std::size_t pop_mark() {
    if (marks_.empty()) {
      fail("an opcode has no matching mark");
      return 0;
    }
    const std::size_t first = marks_.back();
    marks_.pop_back();
    return first;
  }

  bool get(std::uint64_t index) {
    if (failed_) return false;
    if (index >= memo_.size() || memo_[index].kind() == PickleKind::absent)
      return fail(fmt::format("it refers to object {}, which does not exist", index));
    return push(memo_[index]);
  }

  bool put(std::uint64_t index) {
    if (failed_ || !has(1)) return false;
    // Numbers are dense, so they cannot exceed the number of bytes read so far.
    if (index > input_.offset()) return fail("it numbers an object out of order");
    while (memo_.size() <= index) memo_.push_back(PickleValue(PickleKind::absent, 0));
    memo_[index] = stack_.back();
    return fits();
  }

  // --- values ---

  bool push_integer(std::uint64_t value) { return push(data_.add_integer(static_cast<std::int64_t>(value))); }
  bool push_real(double value) { return push(data_.add_real(value)) && fits(); }

  // Two's complement, little-endian.
  bool push_long(std::uint64_t length) {
    if (failed_) return false;
    if (!input_.need(length)) return cut_off();
    const std::uint8_t* at = input_.at();
    std::uint64_t low = 0;
    std::memcpy(&low, at, std::min<std::uint64_t>(length, sizeof low));
    const bool is_negative = length > 0 && at[length - 1] >= 0x80;
    if (is_negative && length < sizeof low) low |= ~std::uint64_t{0} << (8 * length);
    // An address with its highest bit set is written with a ninth byte of zero.
    const bool fits_in = length <= sizeof low || (length == sizeof low + 1 && at[length - 1] == 0);
    input_.skip(length);
    return (fits_in ? push_integer(low) : push({PickleKind::huge_integer, 0})) && fits();
  }

  bool push_text(std::uint64_t length, PickleKind kind) {
    if (failed_) return false;
    if (!input_.need(length)) return cut_off();
    const std::string_view text(reinterpret_cast<const char*>(input_.at()), length);
    push(data_.add_text(text, kind));
    input_.skip(length);
    return fits();
  }

  // --- objects ---

  std::span<const PickleValue> above(std::size_t first) const { return std::span(stack_).subspan(first); }

  // `in_steps`: the opcode fills in steps of 1000. Others add a single item.
  bool append(std::size_t first, bool in_steps) {
    if (failed_) return false;
    const PickleValue list = under(first);
    if (list.kind() != PickleKind::list) return fail("it appends to a value that is not a list");
    if (data_.kept(list)) return fail("it changes an object that is already complete");
    const bool is_whole = in_steps && data_.is_empty(list) && stack_.size() - first < kItemsOfAStep;
    data_.append(list, above(first));
    stack_.resize(first);
    if (is_whole) offer(list);
    return fits();
  }
  bool set_items(std::size_t first, bool in_steps) {
    if (failed_) return false;
    const PickleValue dict = under(first);
    if (dict.kind() != PickleKind::dict) return fail("it sets an item of a value that is not a dict");
    if (data_.kept(dict)) return fail("it changes an object that is already complete");
    const auto pairs = above(first);
    if (pairs.size() % 2 != 0) return fail("it has a key without a value");
    const bool is_whole = in_steps && data_.is_empty(dict) && pairs.size() < 2 * kItemsOfAStep;
    if (!data_.set_items(dict, pairs)) return fail("a key of a dict is a list or a dict");
    stack_.resize(first);
    if (is_whole) offer(dict);
    return fits();
  }
  bool build(PickleKind kind, std::size_t first) {
    if (failed_) return false;
    const PickleValue object = data_.add_object(kind);
    data_.append(object, above(first));
    stack_.resize(first);
    return push(object) && fits();
  }
  void offer(PickleValue object) {
    if (!keep_ || data_.is_empty(object)) return;
    if (const auto number = keep_(object)) data_.set_kept(object, *number);
  }
  // The value below these values; absent if there is none, or if a mark is in between.
  PickleValue under(std::size_t first) const {
    const std::size_t base = marks_.empty() ? 0 : marks_.back();
    return first > base ? stack_[first - 1] : PickleValue(PickleKind::absent, 0);
  }

  // Whether the memory use is in proportion to the size of the pickle.
  bool fits() {
    if (failed_) return false;
    if (++since_check_ < kStepsBetweenChecks) return true;
    since_check_ = 0;
    return is_in_proportion();
  }
  bool is_in_proportion() {
    const std::uint64_t stored =
        data_.storage_bytes() + memo_.bytes() + stack_.capacity() * sizeof(PickleValue);
    if (stored > kMostStored) return fail("it has more values than Headroom supports");
    if (stored > kAlwaysStored && stored / kMostStoredPerByte > input_.offset())
      return fail("it needs far more memory than a snapshot of its size");
    return true;
  }

  bool check_protocol(int protocol) {
    if (failed_) return false;
    if (protocol <= kNewestProtocol) return true;
    return fail(
        fmt::format("it is a pickle of protocol {}, and Headroom reads 2 to {}", protocol, kNewestProtocol));
  }

  bool cut_off() {
    if (failed_) return false;
    if (input_.problem()) {
      failed_ = true;
      error_ = *input_.problem();
      return false;
    }
    return fail(fmt::format("it is cut off after {} bytes", input_.offset() + input_.ready()));
  }

  bool fail(std::string why) {
    if (failed_) return false;
    failed_ = true;
    error_ = {ErrorKind::input, "", std::move(why), "take the snapshot again, or copy its file again"};
    return false;
  }

  bool refuse(std::uint8_t opcode) {
    const std::uint64_t offset = input_.offset() - 1;
    failed_ = true;
    error_ = {ErrorKind::input, "", fmt::format("{} at byte {}", forbidden_operation(opcode), offset),
              "a memory snapshot is plain data, and Headroom never runs code from a file"};
    return false;
  }

  std::string forbidden_operation(std::uint8_t opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string module = take_name();
        return names_object(module, take_name());
      }
      case kStackGlobal: {
        const std::size_t count = stack_.size();
        if (count < 2) return names_object("", "");
        return names_object(data_.text(stack_[count - 2]).value_or(""),
                            data_.text(stack_[count - 1]).value_or(""));
      }
      case kReduce:
      case kBuild:
      case kObject:
      case kNewObject:
      case kNewObjectEx:
        return "it creates a Python object";
      case kBinPersistentId:
        return "it refers to an external object";
      default:
        return fmt::format("it has the unsupported opcode 0x{:02x}", opcode);
    }
  }
  // The rest of a line, or its start if it is longer than any name.
  std::string take_name() {
    std::string name;
    for (; name.size() < kLongestName && input_.need(1) && *input_.at() != '\n'; input_.skip(1))
      name += static_cast<char>(*input_.at());
    if (input_.need(1)) input_.skip(1);
    return name;
  }
  static std::string names_object(std::string_view module, std::string_view name) {
    const std::string full =
        fmt::format("{}.{}", module.substr(0, kLongestName), name.substr(0, kLongestName));
    return fmt::format("it uses Python's {}", without_terminal_control(full));
  }

  static constexpr std::size_t kLongestName = 60;
  static constexpr int kStepsBetweenChecks = 1024;
  static constexpr std::size_t kItemsOfAStep = 1000;  // pickle_reader.h
  PickleInput& input_;
  PickleData& data_;
  const KeepObject& keep_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  // stack heights at the marks
  PagedArray<PickleValue> memo_;
  int since_check_ = 0;
  bool stopped_ = false, failed_ = false;
  Error error_;
};

}  // namespace

Status read_pickle(PickleInput& input, PickleData& data, const KeepObject& keep) {
  return PickleReader(input, data, keep).read();
}

}  // namespace headroom::snapshot

// The opcodes of the pickle format.
#pragma once

#include <cstdint>

namespace headroom::snapshot {

// Named as in Python's pickletools.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kProto = 0x80,
  kFrame = 0x95,
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong = 'L',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kFloat = 'F',
  kBinFloat = 'G',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kList = 'l',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kGet = 'g',
  kBinGet = 'h',
  kLongBinGet = 'j',
  // Never executed; needed only for the error message.
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kInstance = 'i',
  kReduce = 'R',
  kBuild = 'b',
  kObject = 'o',
  kNewObject = 0x81,
  kNewObjectEx = 0x92,
  kPersistentId = 'P',
  kBinPersistentId = 'Q',
};

}  // namespace headroom::snapshot

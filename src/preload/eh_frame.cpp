#include "preload/eh_frame.h"

#include <link.h>

#include "preload/find_object.h"
#include "preload/modules.h"
#include "preload/process.h"

namespace headroom::preload {
namespace {

// --- the module's search table

struct SearchHit {
  const std::uint8_t* header = nullptr;  // .eh_frame_hdr
  std::uint64_t pc = 0;
};

int find_eh_frame(dl_phdr_info* info, std::size_t, void* data) {
  auto& hit = *static_cast<SearchHit*>(data);
  const std::uint8_t* header = nullptr;
  bool contains = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uint64_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && hit.pc >= start && hit.pc < start + segment.p_memsz) contains = true;
    if (segment.p_type == PT_GNU_EH_FRAME) header = reinterpret_cast<const std::uint8_t*>(start);
  }
  if (contains) hit.header = header;
  return contains ? 1 : 0;
}

const std::uint8_t* search_table_of(std::uint64_t pc) {
  if (has_find_object()) {
    FoundObject found{};
    return find_object(pc, found) ? static_cast<std::uint8_t*>(found.eh_frame_header) : nullptr;
  }
  if (is_forked_child()) return known_frame_header(pc);
  SearchHit hit{nullptr, pc};
  ::dl_iterate_phdr(find_eh_frame, &hit);
  return hit.header;
}

// The table is sorted pairs of 32-bit offsets from its section: {function, its entry}.
const std::uint8_t* entry_of(const std::uint8_t* header, std::uint64_t pc) {
  constexpr std::uint8_t kVersion = 1, kSortedTable = kDataRelative | kSigned4;
  if (header[0] != kVersion || header[3] != kSortedTable) return nullptr;
  Reader reader{header + 4, header + 64};
  reader.take_pointer(header[1]);
  const std::uint64_t count = reader.take_pointer(header[2]);
  struct TableRow {
    std::int32_t function, entry;
  };
  const std::uint8_t* const rows = reader.at;
  const auto row_at = [rows](std::uint64_t index) {
    TableRow row;
    std::memcpy(&row, rows + index * sizeof row, sizeof row);
    return row;
  };
  const std::int64_t wanted =
      static_cast<std::int64_t>(pc) - static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(header));
  // [low, high) contains the last row whose function is not above `wanted`
  std::uint64_t low = 0, high = count;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (row_at(middle).function <= wanted ? low : high) = middle;
  }
  if (count == 0 || row_at(low).function > wanted) return nullptr;
  return header + row_at(low).entry;
}

// --- entries

Reader entry_at(const std::uint8_t* at, const std::uint8_t*& id_at) {
  Reader reader{at, at + 16};
  std::uint64_t length = reader.take<std::uint32_t>();
  if (length == 0xffffffff) length = reader.take<std::uint64_t>();
  id_at = reader.at;
  reader.end = reader.at + length;
  return reader;
}

bool read_common_entry(const std::uint8_t* at, FrameEntry& entry) {
  const std::uint8_t* id_at = nullptr;
  Reader reader = entry_at(at, id_at);
  if (reader.take<std::uint32_t>() != 0) return false;
  const auto version = reader.take<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* augmentation = reinterpret_cast<const char*>(reader.at);
  reader.at += std::strlen(augmentation) + 1;
  entry.code_alignment = reader.take_uleb();
  entry.data_alignment = reader.take_sleb();
  entry.return_register = version == 1 ? reader.take<std::uint8_t>() : reader.take_uleb();
  if (*augmentation == 'z') {
    const std::uint64_t bytes = reader.take_uleb();
    const std::uint8_t* const after = reader.at + bytes;
    for (const char* letter = augmentation + 1; *letter != 0; ++letter) {
      if (*letter == 'R') entry.pointer_encoding = reader.take<std::uint8_t>();
      if (*letter == 'L') reader.take<std::uint8_t>();
      if (*letter == 'P') {
        const auto encoding = reader.take<std::uint8_t>();
        reader.take_pointer(encoding & ~kIndirect);
      }
      if (*letter == 'S') entry.is_signal_frame = true;
    }
    reader.at = after;
  } else if (*augmentation != 0) {
    return false;
  }
  entry.common = reader;
  return true;
}

bool read_entry(const std::uint8_t* at, FrameEntry& entry) {
  const std::uint8_t* id_at = nullptr;
  Reader reader = entry_at(at, id_at);
  const auto distance = reader.take<std::uint32_t>();
  if (distance == 0 || !read_common_entry(id_at - distance, entry)) return false;
  entry.begin = reader.take_pointer(entry.pointer_encoding);
  entry.end = entry.begin + reader.take_pointer(entry.pointer_encoding & kFormatMask);
  reader.at += reader.take_uleb();  // augmentation data; every compiler writes its size ('z')
  entry.own = reader;
  return true;
}

}  // namespace

bool find_frame_entry(std::uint64_t pc, FrameEntry& entry) {
  const std::uint8_t* const header = search_table_of(pc);
  if (header == nullptr) return false;
  const std::uint8_t* const at = entry_of(header, pc);
  return at != nullptr && read_entry(at, entry) && pc >= entry.begin && pc < entry.end;
}

}  // namespace headroom::preload

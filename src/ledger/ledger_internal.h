// Helpers for the ledger's own source files.
#pragma once

#include "ledger/ledger.h"

namespace headroom::ledger {

// Memory of a node whose graph exists: its charge is part of the graph's.
inline bool is_node(const Entry& entry) {
  return entry.type == EntryType::pointer && entry.kind == DeviceMemoryKind::graph && entry.owner != 0;
}

// Whether a launch may have given the graph's nodes memory.
inline bool may_have_run(const Entry& graph) {
  return graph.of.graph.last_exec != 0 || graph.of.graph.former_key != 0;
}

// The `context` of these types is not where the memory was allocated. Its streams will free the memory.
inline bool has_stream_context(const Entry& entry) {
  return entry.type == EntryType::pool || entry.type == EntryType::physical ||
         entry.type == EntryType::pending_free;
}

inline bool is_destroyed(const Entry& entry) {
  return entry.type == EntryType::pool && entry.references == 0;
}

// Records in which context a stream-ordered free or unmap was issued. A wait for that context's streams
// completes it. No wait completes frees of several contexts, or of an unknown one (0): those get
// kSeveralContexts.
inline constexpr std::uint64_t kSeveralContexts = ~std::uint64_t{0};
inline void note_stream_context(Entry& entry, std::uint64_t context) {
  if (entry.context == 0 && context != 0)
    entry.context = context;
  else if (entry.context != context || context == 0)
    entry.context = kSeveralContexts;
}

}  // namespace headroom::ledger

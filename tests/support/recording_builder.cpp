#include "support/recording_builder.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "recording/checksum.h"

namespace headroom::test {
namespace {

using namespace recording;

constexpr std::uint64_t kFirstTicks = 1'000'000'000, kFirstMonotonic = 5'000'000'000;

template <class Value>
void append(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

RecordingBuilder::RecordingBuilder(std::filesystem::path path, RecordingOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  std::string command;
  for (const std::string& word : options_.command) command += word + '\0';
  metadata(MetadataKind::command, 0, command);
  if (!options_.command.empty()) metadata(MetadataKind::executable, 0, options_.command.front());
  metadata(MetadataKind::folder, 0, "/home/someone");
  metadata(MetadataKind::host, 0, std::string("Linux\0006.1.0\0x86_64\0", 19));
}

void RecordingBuilder::metadata(MetadataKind kind, std::uint32_t id, std::string_view payload) {
  append(metadata_, kMetadataMagic);
  append(metadata_, static_cast<std::uint32_t>(payload.size()));
  append(metadata_, kind);
  append(metadata_, id);
  metadata_ += payload;
  metadata_.resize((metadata_.size() + 7) / 8 * 8);
}

std::uint32_t RecordingBuilder::scope(const std::string& name, std::uint32_t parent, ScopeSource source) {
  std::string payload;
  append(payload, ScopeRecord{parent, source});
  metadata(MetadataKind::scope, ++scopes_, payload + name);
  return scopes_;
}

void RecordingBuilder::thread(std::uint32_t index, std::uint32_t tid, const std::string& name) {
  std::string payload;
  append(payload, tid);
  append(payload, std::uint32_t{0});
  metadata(MetadataKind::thread, index, payload + name);
}

void RecordingBuilder::module(const std::string& path, const std::string& build_id_bytes, std::uint64_t start,
                              std::uint64_t end, std::uint64_t load_bias, std::uint64_t ticks) {
  ModuleRecord record{};
  record.load_bias = load_bias;
  record.start = start;
  record.end = end;
  record.ticks = kFirstTicks + ticks;
  record.build_id_bytes = static_cast<std::uint32_t>(build_id_bytes.size());
  std::string payload;
  append(payload, record);
  metadata(MetadataKind::module, 0, payload + build_id_bytes + path);
}

void RecordingBuilder::module_gone(std::uint64_t load_bias, std::uint64_t ticks) {
  std::string payload;
  append(payload, load_bias);
  append(payload, kFirstTicks + ticks);
  metadata(MetadataKind::module_gone, 0, payload);
}

void RecordingBuilder::profile(const std::string& path, std::uint64_t start, std::uint32_t session_scope,
                               std::uint32_t number) {
  std::string payload;
  append(payload, ProfileRecord{kFirstMonotonic + start, session_scope, 0});
  metadata(MetadataKind::runtime_profile, number, payload + path);
}

void RecordingBuilder::open_profile(std::uint32_t number, std::uint32_t session_scope) {
  std::string payload;
  append(payload, ProfileRecord{0, session_scope, 0});
  metadata(MetadataKind::open_profile, number, payload);
}

void RecordingBuilder::note(const std::string& sentence) { metadata(MetadataKind::note, 0, sentence); }

RecordWriter* RecordingBuilder::writer(std::uint32_t thread, std::uint64_t time) {
  ThreadState& state = threads_[thread];
  last_time_ = std::max(last_time_, time);
  if (state.writer.is_open() && state.writer.has_space()) return &state.writer;
  leave(state.writer);
  if (!options_.ring && claimed_ >= options_.segments_limit) {
    ++dropped_;
    return nullptr;
  }
  const std::size_t slot = claimed_ % options_.segments_limit;
  // In a ring the slot may belong to another thread, which then continues in a new segment.
  for (auto& [index, other] : threads_)
    if (other.slot == slot) leave(other.writer);
  if (slot >= segments_.size()) segments_.resize(slot + 1);
  segments_[slot] = std::make_unique<std::uint64_t[]>(options_.segment_bytes / sizeof(std::uint64_t));
  state.slot = slot;
  state.stacks.clear();
  state.writer.open(segments_[slot].get(), options_.segment_bytes, claimed_++, thread, state.scope, time);
  return &state.writer;
}

void RecordingBuilder::end_segment(std::uint32_t thread) { leave(threads_[thread].writer); }

void RecordingBuilder::leave(RecordWriter& writer) const {
  if (options_.checksums) writer.seal_and_close();
  writer.close();
}

void RecordingBuilder::write_end(FileHeader& header) {
  for (auto& [index, thread] : threads_) {
    if (!thread.writer.is_open()) continue;
    const std::uint64_t* const segment = segments_[thread.slot].get();
    SegmentSeal seal{};
    read_seal(*reinterpret_cast<const SegmentHeader*>(segment), seal);
    seal.checksum = checksum_of(seal, segment + sizeof(SegmentHeader) / sizeof *segment);
    std::string payload;
    append(payload, seal);
    metadata(MetadataKind::segment_seal, static_cast<std::uint32_t>(thread.slot), payload);
  }
  RecordingEnd end{};
  end.metadata_bytes = metadata_.size();
  end.last_ticks = header.last_ticks;
  end.last_monotonic_ns = header.last_monotonic_ns;
  end.segments_claimed = header.segments_claimed;
  end.threads_seen = header.threads_seen;
  end.events_dropped = header.events_dropped;
  end.checksum = checksum_of(end, metadata_.data());
  std::string payload;
  append(payload, end);
  metadata(MetadataKind::end, 0, payload);
  header.metadata_used = metadata_.size();
  header.flags |= kFlagSealed;
}

std::uint32_t RecordingBuilder::stack_of(std::uint32_t thread, std::uint64_t time, const Frames& frames) {
  if (frames.empty()) return 0;
  ThreadState& state = threads_[thread];
  const auto [known, is_new] = state.stacks.try_emplace(frames, 0);
  if (is_new)
    known->second = state.writer.define_stack(time, frames.data(), static_cast<std::uint32_t>(frames.size()));
  return known->second;
}

void RecordingBuilder::allocate(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                                std::uint64_t size, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->allocate(time, address, size, stack_of(thread, time, stack));
}

void RecordingBuilder::sample(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                              std::uint64_t size, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->sample(time, address, size, stack_of(thread, time, stack));
}

void RecordingBuilder::release(std::uint32_t thread, std::uint64_t time, std::uint64_t address) {
  if (RecordWriter* out = writer(thread, time)) out->release(time, address);
}

void RecordingBuilder::map(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                           std::uint64_t size, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time)) out->map(time, address, size, stack_of(thread, time, stack));
}

void RecordingBuilder::reserve(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                               std::uint64_t size, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->reserve(time, address, size, stack_of(thread, time, stack));
}

void RecordingBuilder::make_accessible(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                                       std::uint64_t size, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->make_accessible(time, address, size, stack_of(thread, time, stack));
}

void RecordingBuilder::unmap(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                             std::uint64_t size) {
  if (RecordWriter* out = writer(thread, time)) out->unmap(time, address, size);
}

void RecordingBuilder::device(std::uint32_t ordinal, const DeviceRecord& record, const std::string& name) {
  std::string payload;
  append(payload, record);
  metadata(MetadataKind::device, ordinal, payload + name);
}

void RecordingBuilder::device_allocate(std::uint32_t thread, std::uint64_t time, std::uint32_t device,
                                       DeviceMemoryKind kind, std::uint64_t handle, std::uint64_t size,
                                       const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->device_allocate(time, device, static_cast<std::uint8_t>(kind), handle, size,
                         stack_of(thread, time, stack));
}

void RecordingBuilder::device_release(std::uint32_t thread, std::uint64_t time, std::uint32_t device,
                                      DeviceMemoryKind kind, std::uint64_t handle) {
  if (RecordWriter* out = writer(thread, time))
    out->device_release(time, device, static_cast<std::uint8_t>(kind), handle);
}

void RecordingBuilder::device_refused(std::uint32_t thread, std::uint64_t time, std::uint32_t device,
                                      DeviceMemoryKind kind, std::uint64_t size, std::uint64_t charged,
                                      std::uint64_t limit, const Frames& stack) {
  if (RecordWriter* out = writer(thread, time))
    out->device_refused(time, device, static_cast<std::uint8_t>(kind), size, charged, limit,
                        stack_of(thread, time, stack));
}

void RecordingBuilder::device_holder(std::uint32_t thread, std::uint64_t time, std::uint32_t device,
                                     std::uint32_t process, std::uint64_t bytes, bool is_elsewhere) {
  if (RecordWriter* out = writer(thread, time))
    out->device_holder(time, device, process, bytes, is_elsewhere);
}

void RecordingBuilder::process_name(std::uint32_t process, const std::string& name) {
  metadata(MetadataKind::process, process, name);
}

void RecordingBuilder::device_figure(std::uint32_t thread, std::uint64_t time, std::uint32_t device,
                                     DeviceMemoryKind kind, std::uint64_t bytes) {
  if (RecordWriter* out = writer(thread, time))
    out->device_figure(time, device, static_cast<std::uint8_t>(kind), bytes);
}

void RecordingBuilder::weight(std::uint32_t thread, std::uint64_t time, std::uint64_t address,
                              std::uint32_t scope) {
  if (RecordWriter* out = writer(thread, time)) out->weight(time, address, scope);
}

void RecordingBuilder::enter_scope(std::uint32_t thread, std::uint64_t time, std::uint32_t scope) {
  if (RecordWriter* out = writer(thread, time)) out->scope(time, scope);
  threads_[thread].scope = scope;
}

void RecordingBuilder::count(std::uint32_t thread, std::uint64_t time, std::uint64_t allocations,
                             std::uint64_t bytes, std::uint64_t releases) {
  RecordWriter* const open = writer(thread, time);
  if (open == nullptr) return;
  for (std::uint64_t i = 0; i < allocations; ++i) open->count_allocation(bytes / allocations);
  for (std::uint64_t i = 0; i < releases; ++i) open->count_release();
}

void RecordingBuilder::counters(std::uint32_t thread, std::uint64_t time, std::uint32_t scope,
                                std::uint64_t allocations, std::uint64_t bytes, std::uint64_t releases) {
  if (RecordWriter* out = writer(thread, time)) out->counters(time, scope, allocations, bytes, releases);
}

void RecordingBuilder::gap(std::uint32_t thread, std::uint64_t time, std::uint64_t events) {
  if (RecordWriter* out = writer(thread, time)) out->gap(time, events);
}

void RecordingBuilder::hand_over(std::uint32_t thread, std::uint64_t time, std::uint32_t other) {
  if (RecordWriter* out = writer(thread, time)) out->thread(time, other);
}

std::filesystem::path RecordingBuilder::finish() {
  std::string first(kHeaderBytes, '\0');
  auto* header = new (first.data()) FileHeader{};
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->header_bytes = kHeaderBytes;
  header->metadata_bytes = options_.metadata_bytes;
  header->segment_bytes = options_.segment_bytes;
  header->flags = (options_.full ? kFlagFull : 0U) | (options_.ring ? kFlagRing : 0U) |
                  (options_.closed ? kFlagClosed : 0U) | (options_.host ? 0U : kFlagWithoutHost) |
                  (options_.forked ? kFlagForked : 0U);
  header->time_shift = options_.time_shift;
  header->first_ticks = kFirstTicks;
  header->first_monotonic_ns = kFirstMonotonic;
  header->first_realtime_ns = options_.started_realtime_ns;
  const std::uint64_t ticks = (last_time_ + 1) << options_.time_shift;
  header->last_ticks = kFirstTicks + ticks;
  header->last_monotonic_ns = kFirstMonotonic + static_cast<std::uint64_t>(static_cast<double>(ticks) *
                                                                           options_.nanoseconds_per_tick);
  header->pid = options_.pid;
  header->parent_pid = options_.parent_pid;
  header->page_bytes = 4096;
  header->machine = 62;
  header->large_bytes = options_.large_bytes;
  header->sample_period_bytes = options_.sample_period_bytes;
  header->segments_limit = options_.segments_limit;
  header->segments_claimed = claimed_;
  header->metadata_used = metadata_.size();
  header->threads_seen = threads_.size();
  header->events_dropped = dropped_;
  header->exec_generation = options_.exec_generation;
  header->file_bytes =
      kHeaderBytes + options_.metadata_bytes + segments_.size() * std::uint64_t{options_.segment_bytes};
  if (options_.checksums) header->checksum = checksum_of(*header);
  if (options_.checksums && options_.closed) write_end(*header);
  if (metadata_.size() > options_.metadata_bytes)
    throw std::length_error("more metadata than its area holds");

  std::ofstream file(path_, std::ios::binary);
  std::string area = metadata_;
  area.resize(options_.metadata_bytes);
  file << first << area;
  for (const Segment& segment : segments_)
    file.write(reinterpret_cast<const char*>(segment.get()), options_.segment_bytes);
  if (!file.flush()) throw std::runtime_error("cannot write " + path_.string());
  return path_;
}

}  // namespace headroom::test

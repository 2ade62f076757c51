#include "support/recording_builder.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "recording/encoding.h"

namespace headroom::test {
namespace {

using namespace recording;

constexpr std::uint64_t kFirstTicks = 1'000'000'000, kFirstMonotonic = 5'000'000'000;

template <class... Values>
std::string bytes_of(const Values&... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  return bytes;
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
  metadata_ += bytes_of(kMetadataMagic, static_cast<std::uint32_t>(payload.size()), kind, id);
  metadata_ += payload;
  metadata_.resize((metadata_.size() + 7) / 8 * 8);
}

std::uint32_t RecordingBuilder::scope(const std::string& name, std::uint32_t parent, ScopeSource source) {
  metadata(MetadataKind::scope, ++scopes_, bytes_of(ScopeRecord{parent, source}) + name);
  return scopes_;
}

void RecordingBuilder::thread(std::uint32_t index, std::uint32_t tid, const std::string& name) {
  metadata(MetadataKind::thread, index, bytes_of(tid, std::uint32_t{0}) + name);
}

void RecordingBuilder::module(const std::string& path, const std::string& build_id_bytes, std::uint64_t start,
                              std::uint64_t end, std::uint64_t load_bias, std::uint64_t ticks) {
  ModuleRecord record{};
  record.load_bias = load_bias;
  record.start = start;
  record.end = end;
  record.ticks = kFirstTicks + ticks;
  record.build_id_bytes = static_cast<std::uint32_t>(build_id_bytes.size());
  metadata(MetadataKind::module, 0, bytes_of(record) + build_id_bytes + path);
}

void RecordingBuilder::module_gone(std::uint64_t load_bias, std::uint64_t ticks) {
  metadata(MetadataKind::module_gone, 0, bytes_of(load_bias, kFirstTicks + ticks));
}

void RecordingBuilder::profile(const std::string& path, std::uint64_t start, std::uint32_t session_scope,
                               std::uint32_t number) {
  metadata(MetadataKind::runtime_profile, number,
           bytes_of(ProfileRecord{kFirstMonotonic + start, session_scope, 0}) + path);
}

void RecordingBuilder::open_profile(std::uint32_t number, std::uint32_t session_scope) {
  metadata(MetadataKind::open_profile, number, bytes_of(ProfileRecord{0, session_scope, 0}));
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
    metadata(MetadataKind::segment_seal, static_cast<std::uint32_t>(thread.slot), bytes_of(seal));
  }
  RecordingEnd end{};
  end.metadata_bytes = metadata_.size();
  end.last_ticks = header.last_ticks;
  end.last_monotonic_ns = header.last_monotonic_ns;
  end.segments_claimed = header.segments_claimed;
  end.threads_seen = header.threads_seen;
  end.events_dropped = header.events_dropped;
  end.checksum = checksum_of(end, metadata_.data());
  metadata(MetadataKind::end, 0, bytes_of(end));
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

void RecordingBuilder::device(std::uint32_t ordinal, const DeviceRecord& record, const std::string& name) {
  metadata(MetadataKind::device, ordinal, bytes_of(record) + name);
}

void RecordingBuilder::process_name(std::uint32_t process, const std::string& name) {
  metadata(MetadataKind::process, process, name);
}

void RecordingBuilder::count(std::uint32_t thread, std::uint64_t time, std::uint64_t allocations,
                             std::uint64_t bytes, std::uint64_t releases) {
  RecordWriter* const open = writer(thread, time);
  if (open == nullptr) return;
  for (std::uint64_t i = 0; i < allocations; ++i) open->count_allocation(bytes / allocations);
  for (std::uint64_t i = 0; i < releases; ++i) open->count_release();
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

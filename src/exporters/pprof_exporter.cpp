// pprof's profile.proto (https://github.com/google/pprof/blob/main/proto/profile.proto), gzipped. There is
// one sample for each stack in each layer, with the layer as a label. Field numbers are from pprof's schema.
#include <unordered_map>

#include "exporters/encoders.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

struct SampleType {
  Metric metric;
  std::string_view name;  // "alloc" gives alloc_objects and alloc_space
};

// The sample types of Go's heap profiles, and two more. `inuse` is at the end of the recording.
constexpr SampleType kSampleTypes[] = {{Metric::allocated, "alloc"},
                                       {Metric::leaked, "inuse"},
                                       {Metric::peak, "peak"},
                                       {Metric::temporary, "temporary"}};

class ProfileWriter {
 public:
  ProfileWriter(const ExportInput& input, const StackAccounts& accounts, OutputSink& sink)
      : input_(input), accounts_(accounts), stream_(sink) {
    string("");  // the first string must be empty
  }

  void write() {
    write_header();
    write_mappings();
    for (const StackAccount& account : accounts_.accounts) write_sample(account);
    stream_.finish();
  }

 private:
  bool has(Metric metric) const { return metric != Metric::temporary || accounts_.has_temporary; }

  // Writes a field of the profile. Fields may be in any order, so each is written as soon as it is known.
  void put(std::uint32_t field, const ProtobufMessage& value) {
    stream_.write(ProtobufMessage().message(field, value).bytes());
  }

  ProtobufMessage value_type(const std::string& type, std::string_view unit) {
    const std::uint64_t name = string(type);
    return ProtobufMessage().integer(1, name).integer(2, string(unit));
  }

  void write_header() {
    const recording::RecordingInfo& info = input_.recording.info();
    for (const auto& [metric, name] : kSampleTypes) {
      if (!has(metric)) continue;
      put(1, value_type(fmt::format("{}_objects", name), "count"));
      put(1, value_type(fmt::format("{}_space", name), "bytes"));
    }
    ProtobufMessage header;
    header.integer(9, info.started_realtime_ns).integer(10, info.duration.count);
    header.message(11, value_type("space", "bytes"));
    header.integer(12, info.full ? std::uint64_t{1} : info.sample_period_bytes);
    header.integer(13, string(fmt::format("{}", fmt::join(info.command, " "))));
    for (const auto& [metric, name] : kSampleTypes)
      if (metric == input_.metric.value_or(Metric::peak))
        header.integer(14, string(fmt::format("{}_space", name)));
    stream_.write(header.bytes());
  }

  // pprof expects the program's mapping first.
  void write_mappings() {
    const recording::RecordingInfo& info = input_.recording.info();
    for (const bool of_program : {true, false})
      for (std::size_t i = 0; i < info.modules.size(); ++i)
        if ((info.modules[i].path == info.executable) == of_program) write_mapping(i, info.modules[i]);
  }

  void write_mapping(std::size_t index, const recording::Module& module) {
    ProtobufMessage mapping;
    mapping.integer(1, index + 1).integer(2, module.start).integer(3, module.end);
    mapping.integer(5, string(module.path));
    mapping.integer(6, string(module.build_id));
    for (const std::uint32_t what_is_known : {7U, 8U, 9U, 10U}) mapping.integer(what_is_known, 1);
    put(3, mapping);
  }

  void write_sample(const StackAccount& account) {
    std::vector<std::uint64_t> locations;
    for (const std::uint64_t address : input_.recording.stacks().frames(account.stack))
      locations.push_back(location_of(address));
    std::vector<std::int64_t> values;
    for (const auto& [metric, name] : kSampleTypes) {
      if (!has(metric)) continue;
      values.push_back(account[metric].blocks);
      values.push_back(account[metric].bytes);
    }
    ProtobufMessage sample;
    sample.packed(1, locations).packed(2, values);
    if (account.layer != 0) {
      const std::uint64_t layer = string("layer");
      sample.message(
          3, ProtobufMessage().integer(1, layer).integer(2, string(accounts_.layers[account.layer].path)));
    }
    put(2, sample);
  }

  std::uint64_t location_of(std::uint64_t return_address) {
    const auto [found, is_new] = locations_.emplace(return_address, locations_.size() + 1);
    if (!is_new) return found->second;
    const std::uint64_t id = found->second, call = return_address - 1;
    ProtobufMessage location;
    location.integer(1, id).integer(2, mapping_of(call)).integer(3, call);
    for (const symbols::SourceFrame& frame : input_.symbolizer.frames_of(return_address, true))
      location.message(4, ProtobufMessage().integer(1, function_of(frame)).integer(2, frame.line));
    put(4, location);
    return id;
  }

  // 0 means none. If several modules used the place one after another, the last one counts.
  std::uint64_t mapping_of(std::uint64_t address) const {
    const auto& modules = input_.recording.info().modules;
    for (std::size_t i = modules.size(); i-- > 0;)
      if (address >= modules[i].start && address < modules[i].end) return i + 1;
    return 0;
  }

  std::uint64_t function_of(const symbols::SourceFrame& frame) {
    const std::uint64_t name = string(frame.function), file = string(frame.file);
    const auto [found, is_new] = functions_.emplace(name << 32 | file, functions_.size() + 1);
    if (is_new)
      put(5, ProtobufMessage().integer(1, found->second).integer(2, name).integer(3, name).integer(4, file));
    return found->second;
  }

  std::uint64_t string(std::string_view text) {
    const auto [found, is_new] = strings_.emplace(text, strings_.size());
    if (is_new) stream_.write(ProtobufMessage().text(6, valid_utf8(text)).bytes());
    return found->second;
  }

  const ExportInput& input_;
  const StackAccounts& accounts_;
  GzipStream stream_;
  std::unordered_map<std::string, std::uint64_t> strings_;
  std::unordered_map<std::uint64_t, std::uint64_t> locations_, functions_;
};

}  // namespace

Status write_pprof(const ExportInput& input, OutputSink& sink) {
  const StackAccounts accounts = account_stacks(input.recording);
  if (input.metric == Metric::temporary && !accounts.has_temporary) return no_temporary_allocations(input);
  prepare_symbols(input);
  ProfileWriter(input, accounts, sink).write();
  return {};
}

}  // namespace headroom::exporters

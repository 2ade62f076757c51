#include "export_fixture.h"

#include <random>

namespace headroom::exporters {

ExportFixture::ExportFixture(const Fill& fill, test::RecordingOptions options) {
  test::RecordingBuilder builder(folder_ / "a.hrec", options);
  fill(builder);
  auto opened = recording::Recording::open(builder.finish());
  if (!opened) throw std::runtime_error(opened.error().sentence());
  recording_ = std::move(*opened);
}

std::string ExportFixture::write(std::string_view format, std::optional<Metric> metric) {
  const auto file = folder_ / "out";
  const Status status = try_write(format, metric, file);
  EXPECT_TRUE(status.has_value()) << status.error().sentence();
  return status ? test::read_text(file) : std::string();
}

Status ExportFixture::try_write(std::string_view format, std::optional<Metric> metric,
                                const std::filesystem::path& file) {
  symbols::Symbolizer symbolizer(recording_->info().modules);
  auto sink = OutputSink::open(file);
  if (!sink) return forward_error(sink);
  const Exporter* exporter = find_exporter(format);
  if (exporter == nullptr) return internal_error("no such format");
  if (auto written = exporter->write({*recording_, symbolizer, "a.hrec", metric}, *sink); !written)
    return written;
  return sink->finish();
}

void fill_two_layers(test::RecordingBuilder& builder) {
  const auto model = builder.scope("model");
  const auto conv = builder.scope("conv", model);
  builder.enter_scope(0, 10, model);
  builder.allocate(0, 20, 0x1000, 1000, {2, 10});
  builder.enter_scope(0, 30, conv);
  builder.allocate(0, 40, 0x2000, 4000, {3, 10});
  builder.enter_scope(0, 50, model);
  builder.release(0, 55, 0x9000);
  builder.release(0, 60, 0x2000);
  builder.enter_scope(0, 65, 0);
  builder.allocate(0, 70, 0x3000, 500);
  builder.release(0, 80, 0x3000);
}

void fill_devices(test::RecordingBuilder& builder) {
  recording::DeviceRecord record{};
  record.total_bytes = std::uint64_t{64} << 30;
  record.limit_bytes = 10'000;
  record.flags = recording::kDeviceLimited;
  builder.device(0, record, "Some GPU");
  builder.enter_scope(0, 10, builder.scope("model"));
  builder.map(0, 20, 0x100000, 8192, {2});
  builder.device_allocate(0, 30, 0, DeviceMemoryKind::device, 0xd000, 4000, {3});
  builder.device_allocate(0, 31, 1, DeviceMemoryKind::device, 0xd000, 700, {3});
  builder.enter_scope(0, 35, 0);
  builder.device_allocate(0, 40, 0, DeviceMemoryKind::pool, 0xe000, 1000, {4});
  builder.device_allocate(0, 41, 0, DeviceMemoryKind::pinned_host, 0xf000, 500, {4});
  builder.device_release(0, 50, 0, DeviceMemoryKind::device, 0xd000);
  builder.device_refused(0, 51, 0, DeviceMemoryKind::device, 9000, 1000, 10'000, {4});
  builder.unmap(0, 60, 0x100000, 4096);
}

void fill_run_with_node(test::RecordingBuilder& builder) {
  const auto run = builder.scope("run", 0, recording::ScopeSource::run);
  const auto node = builder.scope("conv", run, recording::ScopeSource::node);
  builder.enter_scope(0, 1, node);
  builder.allocate(0, 10, 0x1000, 8000, {1});
  builder.counters(0, 20, run, 10, 1000, 3);
}

void fill_at_random(test::RecordingBuilder& builder, unsigned seed, int events) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<std::uint32_t>(random() % limit); };
  std::vector<std::uint32_t> scopes{0};
  for (int i = 0; i < 6; ++i)
    scopes.push_back(
        builder.scope("layer" + std::to_string(i), scopes[below(static_cast<unsigned>(scopes.size()))]));
  std::uint64_t time = 0;
  for (int i = 0; i < events; ++i) {
    const std::uint32_t thread = below(12);
    // Only a few addresses, so that some releases are lost and some released blocks were never allocated.
    const std::uint64_t address = 0x1000 + 0x100 * std::uint64_t{below(200)};
    time += below(5000);
    switch (below(8)) {
      case 0:
        builder.enter_scope(thread, time, scopes[below(static_cast<unsigned>(scopes.size()))]);
        break;
      case 1:
      case 2:
      case 3:
        builder.release(thread, time, address);
        break;
      default: {
        const std::uint32_t size = below(5000);  // each compiler evaluates arguments in its own order
        builder.allocate(thread, time, address, size,
                         {1 + std::uint64_t{below(5)}, 50 + std::uint64_t{below(3)}, 99});
      }
    }
  }
}

}  // namespace headroom::exporters

#include "report/recording/recording_rows_json.h"

#include <utility>
#include <vector>

#include "attribution/peak_shares.h"
#include "attribution/session_memory.h"
#include "report/recording/recording_nodes.h"

namespace headroom::report {

using namespace attribution;

namespace {

Json node_json(const NodeMemory& node) {
  Json object = {{"name", node.name}, {"operation", node.operation}, {"provider", node.provider}};
  object["runs"] = node.runs;
  object["duration_ns"] = node.duration.count;
  set_if(object, "output_bytes", node.output);
  set_if(object, "activation_bytes", node.activations);
  set_if(object, "parameter_bytes", node.parameters);
  set_if(object, "arena_in_use_bytes", node.in_use);
  return object;
}

}  // namespace

void set(Json& object, const std::string& key, const Figure& figure) {
  object[key] = figure.value;
  set_if(object, key + "_standard_error", figure.standard_error);
  set_if(object, key + "_at_most", figure.at_most);
  if (figure.at_least) object[key + "_at_least"] = figure.value;
}

void set(Json& object, const LiveFigures& live) {
  object["at_peak_bytes"] = live.peak_bytes;
  object["at_peak_blocks"] = live.peak_blocks;
  object["at_end_bytes"] = live.end_bytes;
  object["at_end_blocks"] = live.end_blocks;
  set_if(object, "at_peak_bytes_standard_error", live.peak_standard_error());
  set_if(object, "at_end_bytes_standard_error", live.end_standard_error());
}

Json thread_json(const recording::RecordingInfo& info, ThreadIndex thread) {
  Json object;
  object["index"] = thread.index;
  if (thread.index >= info.threads.size()) return object;
  const recording::Thread& known = info.threads[thread.index];
  if (known.tid != 0) object["tid"] = known.tid;
  set_if(object, "name", known.name);
  return object;
}

Json modules_json(const RecordingReport& report) {
  Json modules = Json::array();
  for (const ModuleFigures& module : module_figures(report.info, report.stacks, report.analysis)) {
    Json object;
    set_if(object, "module", module.name);
    set(object, module.live);
    modules.push_back(std::move(object));
  }
  return modules;
}

Json sessions_json(const RecordingReport& report) {
  Json sessions = Json::array();
  for (const SessionMemory& session : session_memory(report.info, report.analysis)) {
    Json object = {{"name", session.name}};
    if (session.loads > 1) {
      object["load"] = session.load;
      object["loads"] = session.loads;
    }
    if (report.analysis.host_recorded) {
      object["loaded_bytes"] = session.loaded.count;
      object["run_bytes"] = session.run.count;
    }
    if (session.tracing > Bytes{}) object["tracing_bytes"] = session.tracing.count;
    set_if(object, "weights_bytes", session.weights);
    set_if(object, "tensors_bytes", session.tensors);
    set_if(object, "arena_in_use_bytes", session.in_use);
    set_if(object, "arena_held_bytes", session.arena_held);
    object["peak_node"] = session.peak_node;
    if (report.analysis.host_recorded) {
      Json& shares = object["at_peak"] = Json::array();
      for (const MemoryShare& share : shares_of(session))
        shares.push_back({{"kind", name_of(share.kind)}, {"bytes", share.bytes.count}});
    }
    Json& nodes = object["nodes"] = Json::array();
    const std::vector<Bytes> layers = layers_of_nodes(session, report.analysis);
    for (std::size_t i = 0; i < session.nodes.size(); ++i) {
      nodes.push_back(node_json(session.nodes[i]));
      if (layers[i] > Bytes{}) nodes.back()["layer_at_peak_bytes"] = layers[i].count;
    }
    sessions.push_back(std::move(object));
  }
  return sessions;
}

Json threads_json(const RecordingReport& report) {
  Json threads = Json::array();
  if (!report.analysis.host_recorded) {
    for (std::uint32_t i = 0; i < report.info.threads.size(); ++i)
      threads.push_back(thread_json(report.info, ThreadIndex{i}));
    return threads;
  }
  for (const ThreadFigures& thread : report.analysis.threads) {
    if (thread.allocations == 0 && thread.releases == 0) continue;
    Json object = thread_json(report.info, thread.thread);
    object["allocations"] = thread.allocations;
    object["deallocations"] = thread.releases;
    object["allocated_bytes"] = thread.allocated_bytes;
    set(object, thread.live);
    threads.push_back(std::move(object));
  }
  return threads;
}

}  // namespace headroom::report

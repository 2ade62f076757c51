// "Where the memory goes": the traced run of a model, by kind and by node.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/markdown_text.h"
#include "report/recording/ranking.h"
#include "report/run/markdown_sections.h"
#include "report/words.h"

namespace headroom::report {
namespace {

constexpr std::size_t kNodesInMarkdown = 10;

std::string share(Bytes part, Bytes whole) {
  return whole > Bytes{} ? words_for_share(static_cast<double>(part.count) / static_cast<double>(whole.count))
                         : std::string(kAbsent);
}

std::string nodes_table(const LayerMemory& layers) {
  const auto own = [](const NodeMemory& node) {
    return node.output.value_or(Bytes{}).count + node.parameters.value_or(Bytes{}).count;
  };
  MarkdownTable table(
      2, {"Node", "Operation", "Output", "Parameters", "Arena in use after the node", "Time per run"});
  const auto leading = ranked(layers.nodes, own, kNodesInMarkdown);
  for (const std::size_t i : leading) {
    const NodeMemory& node = layers.nodes[i];
    table.add({code(node.name), escaped(node.operation), words_for(node.output), words_for(node.parameters),
               words_for(node.in_use),
               node.runs > 0 ? format_duration({node.duration.count / node.runs}) : std::string(kAbsent)});
  }
  if (table.empty()) return {};
  return fmt::format("The {} of {} nodes with the largest outputs and parameters:\n\n", leading.size(),
                     layers.nodes.size()) +
         table.text();
}

}  // namespace

std::string layers_table(const ModelResult& model) {
  if (!model.layers) return {};
  const LayerMemory& layers = *model.layers;
  MarkdownTable table(1, {"Kind", "Bytes", "Share"});
  for (const MemoryShare& part : layers.shares)
    table.add({escaped(words_for(part, layers.peak_node)), format_bytes(part.bytes),
               share(part.bytes, layers.peak)});
  return fmt::format(
             "**Where the memory goes**: {} at the heap's peak, in a separate traced run of {}. For more, "
             "run `headroom report {}`.\n\n",
             format_bytes(layers.peak), counted(layers.frames, "frame"), shell_word(layers.recording)) +
         table.text() + nodes_table(layers);
}

}  // namespace headroom::report

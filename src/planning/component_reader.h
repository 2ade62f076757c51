// Reads one [[component]] of BUDGET.toml. docs/plan.md lists its keys.
#pragma once

#include <string>
#include <vector>

#include "base/toml.h"
#include "types/budget.h"

namespace headroom::planning {

class ComponentReader {
 public:
  explicit ComponentReader(const std::string& name) : errors_(name), name_(name) {}

  Result<BudgetComponent> read(const toml::table& table) const;

  Status read_text(const toml::node& node, const std::string& key, std::string& text) const;
  Status read_texts(const toml::node& node, const std::string& key, std::vector<std::string>& texts) const;
  Status read_bool(const toml::node& node, const std::string& key, bool& value) const;
  Result<Bytes> size_of(const toml::node& node, const std::string& key) const;

 private:
  Status read_need(const toml::table& table, MemoryNeed& need, std::string& estimate) const;
  Status read_key(const std::string& key, const toml::node& node, BudgetComponent& component) const;
  Status read_frames(const toml::node& node, MemoryNeed& need) const;
  Result<FrameBuffers> frames_of(const toml::node& node) const;
  Result<BudgetVariant> variant_of(const toml::table& table) const;

  TomlErrors errors_;
  std::string name_;
};

}  // namespace headroom::planning

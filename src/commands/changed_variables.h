#pragma once
// A source for conversion whose variables are described in another way, with the same chunks.

#include <memory>
#include <optional>
#include <utility>

#include "backends/api/forwarding_source.h"

namespace codecfs::commands {

/// Returns the same pointer where nothing is to be changed.
using ChangeVariable = VariablePtr (*)(VariablePtr variable);

/// Each variable is changed when it is asked for, also for facts(), which reads its attributes, too.
class ChangedVariables final : public WrappedSource {
 public:
  ChangedVariables(std::unique_ptr<Source> source, ChangeVariable change)
      : WrappedSource(std::move(source)), change_(change) {}

  Result<VariablePtr> variable(ObjectId variable) override {
    CODECFS_ASSIGN(VariablePtr found, WrappedSource::variable(variable));
    return change_(std::move(found));
  }
  Result<VariablePtr> facts(ObjectId variable) override { return this->variable(variable); }
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    return Source::variable_attributes(variable);  // by variable()
  }

 private:
  const ChangeVariable change_;
};

}  // namespace codecfs::commands

#pragma once
// A source for conversion whose variables are described in another way, with the same chunks.

#include <memory>
#include <optional>
#include <utility>

#include "commands/borrowed_source.h"

namespace codecfs::commands {

/// Returns the same pointer where nothing is to be changed.
using ChangeVariable = VariablePtr (*)(VariablePtr variable);

/// Each variable is changed when it is asked for, also for facts(), which reads its attributes, too.
class ChangedVariables final : public BorrowedSource {
 public:
  ChangedVariables(std::unique_ptr<Source> source, ChangeVariable change)
      : BorrowedSource(*source), source_(std::move(source)), change_(change) {}

  [[nodiscard]] struct statvfs filesystem() const override { return source_->filesystem(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_->reads_at_once(); }
  bool chains_for_numcodecs_in(ObjectId object) override { return source_->chains_for_numcodecs_in(object); }
  Result<VariablePtr> variable(ObjectId variable) override {
    CODECFS_ASSIGN(VariablePtr found, source_->variable(variable));
    return change_(std::move(found));
  }
  Result<VariablePtr> facts(ObjectId variable) override { return this->variable(variable); }
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    CODECFS_ASSIGN(const VariablePtr found, this->variable(variable));
    if (found->unreadable_attributes) return std::unexpected(*found->unreadable_attributes);
    return found->attributes;
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    return source_->open_stored(variable, number);
  }
  Result<> finish() override { return source_->finish(); }

 private:
  const std::unique_ptr<Source> source_;
  const ChangeVariable change_;
};

}  // namespace codecfs::commands

#pragma once
// An HDF5 file for conversion into a format that does not have its types.

#include <memory>
#include <utility>
#include <vector>

#include "commands/borrowed_source.h"

namespace codecfs::commands {

/// The attributes of its groups and variables have kStoredTypes where that has something to say.
class NotedTypes final : public BorrowedSource {
 public:
  /// `notes_fill`: the format has a fill value only where it marks missing data (Zarr v2).
  NotedTypes(std::unique_ptr<Source> source, bool notes_fill)
      : BorrowedSource(*source), source_(std::move(source)), notes_fill_(notes_fill) {}

  [[nodiscard]] struct statvfs filesystem() const override { return source_->filesystem(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_->reads_at_once(); }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    CODECFS_ASSIGN(std::vector<Attribute> attributes, source_->group_attributes(group));
    if (auto types = stored_types(attributes, nullptr)) attributes.push_back(*std::move(types));
    return attributes;
  }
  Result<VariablePtr> variable(ObjectId variable) override;
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    CODECFS_ASSIGN(const VariablePtr found, this->variable(variable));
    return found->attributes;
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    return source_->open_stored(variable, number);
  }
  Result<> finish() override { return source_->finish(); }

 private:
  std::unique_ptr<Source> source_;
  const bool notes_fill_;
};

}  // namespace codecfs::commands

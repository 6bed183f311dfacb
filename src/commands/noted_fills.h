#pragma once
// Fill values in Zarr v2, which has them only where they mark missing data: xarray masks the elements that equal one. A
// copy of an HDF5 file notes the others, so that they come back into HDF5 and Zarr v3.

#include <memory>
#include <optional>
#include <utility>

#include "commands/borrowed_source.h"

namespace codecfs::commands {

/// An HDF5 file for conversion into Zarr v2 (`note`), or such a copy for conversion into v3 (`take`).
class NotedFills final : public BorrowedSource {
 public:
  enum class Use {
    note,  // the attributes of variables have "fill" in kStoredTypes where v2 would not show the fill value
    take,  // variables have the fill value that this attribute notes, if they have no other; the note is gone
  };
  NotedFills(std::unique_ptr<Source> source, Use use)
      : BorrowedSource(*source), source_(std::move(source)), use_(use) {}

  [[nodiscard]] struct statvfs filesystem() const override { return source_->filesystem(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_->reads_at_once(); }
  bool chains_for_numcodecs_in(ObjectId object) override { return source_->chains_for_numcodecs_in(object); }
  Result<VariablePtr> variable(ObjectId variable) override;
  Result<VariablePtr> facts(ObjectId variable) override {
    return use_ == Use::take ? this->variable(variable) : source_->facts(variable);
  }
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
  const Use use_;
};

}  // namespace codecfs::commands

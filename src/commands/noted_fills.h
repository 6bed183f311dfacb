#pragma once
// A Zarr v2 store for conversion into v3, which has a fill value for each array. v2 has one only where it marks missing
// data, as xarray masks the elements that equal it; a copy of an HDF5 file notes the others (NotedTypes).

#include <memory>
#include <optional>
#include <utility>

#include "commands/borrowed_source.h"

namespace codecfs::commands {

/// Variables have the fill value that kStoredTypes notes, if they have no other; the note is gone.
class NotedFills final : public BorrowedSource {
 public:
  explicit NotedFills(std::unique_ptr<Source> source) : BorrowedSource(*source), source_(std::move(source)) {}

  [[nodiscard]] struct statvfs filesystem() const override { return source_->filesystem(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_->reads_at_once(); }
  bool chains_for_numcodecs_in(ObjectId object) override { return source_->chains_for_numcodecs_in(object); }
  Result<VariablePtr> variable(ObjectId variable) override;
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
};

}  // namespace codecfs::commands

#pragma once
// An open file of the npy or raw view.

#include <memory>
#include <utility>

#include "fs/handles/file_handle.h"
#include "fs/views/array_view.h"

namespace codecfs::fs {

class ArrayHandle final : public FileHandle {
 public:
  /// `is_writer`: the array must have been counted by WriteBack::open_writer(); close() ends that.
  ArrayHandle(MountContext& mount, ArrayView& arrays, std::unique_ptr<OpenArray> array, bool is_writer)
      : FileHandle(is_writer), mount_(mount), arrays_(arrays), array_(std::move(array)) {
    caching.mappable = true;
  }

  Result<Slice> read(uint64_t offset, size_t size) override { return arrays_.read(*array_, offset, size); }
  Result<size_t> write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                       const Cancelled& cancelled) override {
    return arrays_.write(*array_, offset, bytes, written_back, cancelled);
  }
  Result<> extended(uint64_t size, const Cancelled& cancelled) override {
    return arrays_.extend(*array_, size, cancelled);
  }
  Result<> flush(const Cancelled&) override {
    if (!is_writer()) return {};
    const Result<Place> place = mount_.nodes.at(array_->ino);
    return place ? mount_.write_back.flush_variable(place->node->object) : Result<>();
  }
  Result<> sync(const Cancelled&) override {
    CODECFS_ASSIGN(const Place place, mount_.nodes.at(array_->ino));
    return mount_.write_back.sync_variable(place.node->object);
  }
  bool close() override {
    if (!is_writer()) return false;
    (void)mount_.write_back.close_writer({array_->ino, 0, 0, array_->variable});
    log_unreported(flush({}));
    return false;
  }

 private:
  MountContext& mount_;
  ArrayView& arrays_;
  const std::unique_ptr<OpenArray> array_;
};

}  // namespace codecfs::fs

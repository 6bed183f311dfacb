#pragma once
// An open file of the npy or raw view.

#include <memory>
#include <utility>

#include "fs/handles/file_handle.h"
#include "fs/views/array_view.h"

namespace codecfs::fs {

class ArrayHandle final : public FileHandle {
 public:
  /// `writer`: of the array; not open for a reader.
  ArrayHandle(MountContext& mount, ArrayView& arrays, std::unique_ptr<OpenArray> array, WriteBack::Writer writer)
      : FileHandle(writer.is_open()),
        mount_(mount),
        arrays_(arrays),
        array_(std::move(array)),
        writer_(std::move(writer)) {
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
    const Result<Place> place = mount_.tree.nodes.at(array_->ino);
    return place ? mount_.chunks.write_back.flush_variable(place->node->object) : Result<>();
  }
  Result<> sync(const Cancelled&) override {
    CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(array_->ino));
    return mount_.chunks.write_back.sync_variable(place.node->object);
  }
  bool close() override {
    if (!writer_.is_open()) return false;
    (void)writer_.close();
    log_unreported(flush({}));
    return false;
  }

 private:
  MountContext& mount_;
  ArrayView& arrays_;
  const std::unique_ptr<OpenArray> array_;
  WriteBack::Writer writer_;
};

}  // namespace codecfs::fs

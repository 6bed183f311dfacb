#pragma once
// Reads the bytes of chunks without the process that runs libhdf5: from the file, or from an object store. Thread-safe.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/hdf5/format/structure_hints.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "remote/object_file.h"

namespace codecfs::worker {

class StoredBytes {
 public:
  /// For a local file, whose descriptor must outlive this.
  explicit StoredBytes(const UniqueFd& fd) : fd_(fd) {}
  /// For a file in an object store, of which it also follows the structure; `fd`: of its mirror.
  StoredBytes(const UniqueFd& fd, std::shared_ptr<remote::ObjectFile> object);

  /// None if the bytes are no longer in a local file. ENOMEM; the errors of ObjectFile.
  Result<std::optional<Buffer>> read(uint64_t offset, uint64_t size) const;
  /// As read(), into a buffer of the caller; false instead of none.
  Result<bool> read_into(uint64_t offset, MutableBytes to) const;
  /// These bytes will be read soon.
  void expect(std::span<const remote::ByteRange> ranges) const;
  /// Whole indexes of chunks will be read.
  void expect_indexes() const;
  /// See Source::reads_at_once().
  [[nodiscard]] size_t reads_at_once() const { return object_ ? 32 : 0; }

 private:
  const UniqueFd& fd_;
  const std::shared_ptr<remote::ObjectFile> object_;   // null for a local file
  const std::shared_ptr<hdf5::StructureHints> hints_;  // of object_
};

}  // namespace codecfs::worker

#include "backends/worker/stored_bytes.h"

#include <cstring>
#include <utility>

#include "base/file_io.h"

namespace codecfs::worker {

StoredBytes::StoredBytes(const UniqueFd& fd, std::shared_ptr<remote::ObjectFile> object)
    : fd_(fd), object_(std::move(object)), hints_(std::make_shared<hdf5::StructureHints>()) {
  object_->use_hints([hints = hints_](uint64_t offset, Bytes bytes) { return hints->note(offset, bytes); });
}

Result<std::optional<Buffer>> StoredBytes::read(uint64_t offset, uint64_t size) const {
  if (object_) return object_->read(offset, size);
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(size));
  CODECFS_ASSIGN(const bool is_read, read_into(offset, bytes.mutable_bytes()));
  if (!is_read) return std::nullopt;
  return bytes;
}

Result<bool> StoredBytes::read_into(uint64_t offset, MutableBytes to) const {
  if (object_) {
    CODECFS_ASSIGN(const Buffer bytes, object_->read(offset, to.size()));
    std::memcpy(to.data(), bytes.data(), to.size());
    return true;
  }
  const auto count = read_at(fd_.get(), {}, offset, to);
  return count && *count == to.size();
}

void StoredBytes::expect(std::span<const remote::ByteRange> ranges) const {
  if (object_) object_->expect(ranges);
}

void StoredBytes::expect_indexes() const {
  if (object_) object_->fetch_many_hinted(hints_->follow_indexes());
}

}  // namespace codecfs::worker

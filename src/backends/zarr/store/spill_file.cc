#include "backends/zarr/store/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <new>

#include "backends/zarr/store/zip_archive.h"

namespace codecfs::zarr {

Spilled::~Spilled() { file_->release(offset_, size_); }

Result<> Spilled::read(uint64_t from, MutableBytes to) const {
  CODECFS_ASSIGN(const size_t count, read_at(file_->file_, offset_ + from, to));
  if (count != to.size()) return fail(EIO, "{}: became shorter", file_->file_.path);
  return {};
}

Result<std::shared_ptr<SpillFile>> SpillFile::make(FileIo& io, const File& directory,
                                                   const std::string& temporary_name) {
  CODECFS_ASSIGN(File file, io.create(directory, temporary_name, 0600));
  CODECFS_TRY(io.unlink(directory, temporary_name));
  return std::shared_ptr<SpillFile>(new SpillFile(io, std::move(file)));
}

Result<SpilledPtr> SpillFile::append(Bytes bytes) try {
  const uint32_t crc = crc_of(bytes);
  uint64_t offset = 0;
  SpilledPtr spilled;  // declared first: releases the space if the write fails
  {
    const LockGuard lock(mutex_);
    offset = end_;
    spilled = std::make_shared<const Spilled>(shared_from_this(), offset, bytes.size(), crc);
    end_ += bytes.size();
    held_ += bytes.size();
    ++pieces_;
  }
  CODECFS_TRY(io_.write(file_, offset, bytes));
  return spilled;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to store a chunk");
}

uint64_t SpillFile::stored_bytes() const {
  const LockGuard lock(mutex_);
  return held_;
}

void SpillFile::release(uint64_t offset, uint64_t size) {
  const LockGuard lock(mutex_);
  held_ -= size;
  if (--pieces_ == 0) {
    end_ = 0;
    (void)::ftruncate(file_.fd.get(), 0);
    return;
  }
  // If the filesystem cannot punch holes, the space is freed when all ranges are released.
  if (size > 0)
    (void)::fallocate(file_.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                      static_cast<off_t>(size));
}

}  // namespace codecfs::zarr

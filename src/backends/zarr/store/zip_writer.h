#pragma once
// Changes to a store that is a zip archive. Each change is visible at once, in the tree in memory; new content is in a
// spill file. A commit rewrites the whole archive:
//
//   write all entries to .NAME.codecfs-PID-N beside the archive -> fsync it -> lock it -> exchange it with NAME
//   -> remove the old one -> fsync the directory
//
// A reader, also after a kill or a power failure, finds the archive before or after the commit. Owner, mode,
// access control list and extended attributes are preserved. The next program that writes the archive removes what a
// kill left.
//
// Chunks may be written during a commit: they belong to the next one.
//
// If another program has deleted or replaced the archive, commit() is ESTALE, and end() writes all entries, which the
// open descriptor of the old archive still has, to NAME.codecfs-rescued.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/zarr/store/store_lock.h"
#include "backends/zarr/store/store_writer.h"
#include "backends/zarr/store/zip_snapshot.h"
#include "backends/zarr/store/zip_store.h"
#include "base/file_io.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

class ZipWriter final : public StoreWriter {
 public:
  /// Archives up to this size are rewritten periodically; larger ones only when a program waits for it (fsync), and at
  /// the end.
  static constexpr uint64_t kSmallArchive = uint64_t{64} << 20;

  /// Takes the shared lock of the archive. `store`, opened by `path`, and `io` must outlive this object.
  ZipWriter(ZipStore& store, const std::string& path, FileIo& io);

  /// As StoreWriter::begin(). ESTALE: the path no longer refers to the opened archive.
  Result<> begin() override;
  Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) override;
  Result<> write_parts(const std::string& array, const std::string& name, std::span<const StorePart> parts,
                       mode_t mode) override;
  Result<> remove(const std::string& array, const std::string& name) override;
  Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& parent, const std::string& name,
                                                      mode_t mode) override;
  Result<std::unique_ptr<NewDirectory>> new_store(mode_t mode) override;
  Result<> exchange_store(NewDirectory& directory) override;
  Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& parent, const std::string& name) override;
  Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                const std::string& to) override;
  // There is nothing to order: a commit writes everything atomically.
  Result<> sync_inherited() override;
  Result<> commit() override;
  Result<bool> commit_at_interval() override;
  Result<> end() override;
  [[nodiscard]] bool is_deleted() override;

  /// Rewrites the archive without unused bytes even if nothing has changed. False: it would not become smaller, and is
  /// unchanged.
  Result<bool> compact();

 private:
  class Directory;

  Result<SpilledPtr> spill(Bytes bytes);
  Result<ZipDirectoryPtr> directory_to_change(const std::string& key) CODECFS_REQUIRES_SHARED(store_.tree().mutex);
  Result<> insert(const ZipDirectoryPtr& into, const std::string& key, const std::string& name, SpilledPtr bytes,
                  mode_t mode) CODECFS_REQUIRES(store_.tree().mutex);
  enum class Purpose { commit, compact, rescue };
  Result<bool> rewrite_archive(Purpose purpose) CODECFS_REQUIRES(commit_mutex_);
  Result<bool> replace(const File& holder, File file, const std::string& temporary, ZipSnapshot& snapshot,
                       Purpose purpose) CODECFS_REQUIRES(commit_mutex_);
  Result<> rescue();
  Result<File> holder() const;
  Result<> check_unchanged(const File& holder) const;
  [[nodiscard]] std::string name() const { return path_.substr(path_.rfind('/') + 1); }
  std::string temporary_name();

  ZipStore& store_;
  std::string path_;  // of the archive, with links resolved
  FileIo& io_;
  StoreLock lock_;
  Mutex begin_mutex_{LockRank::zip_begin};  // held while the right to write is acquired
  std::atomic<bool> has_begun_ = false;
  Mutex spill_mutex_{LockRank::zip_spill};
  std::shared_ptr<SpillFile> spill_ CODECFS_GUARDED_BY(spill_mutex_);
  std::atomic<bool> is_inherited_synced_ = false;
  Mutex commit_mutex_{LockRank::zip_commit};  // held during a commit; locked before ZipTree::mutex
  std::atomic<bool> has_committed_ = false;
  std::string rescued_ CODECFS_GUARDED_BY(commit_mutex_);  // the path
  std::atomic<bool> is_dirty_ = false;                     // set while ZipTree::mutex is held exclusively
};

}  // namespace codecfs::zarr

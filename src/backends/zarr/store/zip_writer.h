#pragma once
// Changes to a store that is a zip archive. Each is seen at once: it is made in the tree in memory, new bytes are in a
// spill file. A commit makes the archive anew, as a whole:
//
//   write all entries to .NAME.codecfs-PID-N beside the archive -> fsync it -> lock it -> rename it to NAME
//   -> fsync the directory
//
// Whoever opens the archive, also after a kill or a power cut, finds the one before the commit or the one after it. The
// owner and the mode stay. What a kill leaves is removed by the next program that writes the archive.
//
// Chunks may be written while a commit is under way: those belong to the next one.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/zarr/store/store_lock.h"
#include "backends/zarr/store/store_writer.h"
#include "backends/zarr/store/zip_rewrite.h"
#include "backends/zarr/store/zip_store.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

class ZipWriter final : public StoreWriter {
 public:
  /// Archives of up to so many bytes are made anew at intervals; larger ones when somebody waits for it (fsync), and at
  /// the end.
  static constexpr uint64_t kSmallArchive = uint64_t{64} << 20;

  /// Takes the shared lock of the archive. `store`, opened by `path`, and `io` outlive this.
  ZipWriter(ZipStore& store, const std::string& path, FileIo& io);

  /// ESTALE too: the archive is not the one that was opened any more.
  Result<> begin() override;
  Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) override;
  Result<> remove(const std::string& array, const std::string& name) override;
  Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& parent, const std::string& name,
                                                      mode_t mode) override;
  Result<std::unique_ptr<NewDirectory>> new_store(mode_t mode) override;
  Result<> exchange_store(NewDirectory& directory) override;
  Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& parent, const std::string& name) override;
  Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                const std::string& to) override;
  void remove_leftovers_beside() override {}
  void note_change(const std::string&) override {}
  Result<> order(const std::string&) override { return {}; }  // a commit is of everything
  Result<> order() override { return {}; }
  Result<> sync_inherited() override;
  Result<> commit() override;
  Result<bool> commit_at_interval() override;
  void end() override;

  /// Makes the archive anew though nothing was changed: without what nothing uses. False: there is nothing to gain, and
  /// it was left as it is.
  Result<bool> compact();

 private:
  class Directory;
  struct Snapshot;

  Result<SpilledPtr> spill(Bytes bytes);
  Result<ZipDirectoryPtr> directory_to_change(const std::string& key);
  [[nodiscard]] Result<> check_reach(const std::string& key, const ZipDirectory* below = nullptr) const;
  Result<> insert(const ZipDirectoryPtr& into, const std::string& key, const std::string& name, SpilledPtr bytes,
                  mode_t mode);
  Result<bool> make_anew(bool only_smaller);
  Result<bool> replace(const File& holder, File file, const std::string& temporary, Snapshot& snapshot,
                       bool only_smaller);
  Result<File> holder() const;
  Result<> check_unchanged(const File& holder) const;
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] std::string name() const { return path_.substr(path_.rfind('/') + 1); }
  std::string temporary_name();

  ZipStore& store_;
  ZipTree& tree_;
  std::string path_;  // of the archive, without links
  FileIo& io_;
  StoreLock lock_;
  std::mutex begin_mutex_;  // held while the right to write is taken
  std::atomic<bool> has_begun_ = false;
  std::mutex spill_mutex_;
  std::shared_ptr<SpillFile> spill_;  // guarded by spill_mutex_
  std::atomic<bool> is_inherited_synced_ = false;
  std::mutex commit_mutex_;             // held during a commit; before ZipTree::mutex
  std::atomic<bool> is_dirty_ = false;  // set by who holds ZipTree::mutex alone
};

}  // namespace codecfs::zarr

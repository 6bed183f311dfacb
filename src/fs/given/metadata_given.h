#pragma once
// Of which metadata files the kernel may have the size or the content. Where variables share metadata, as in HDF5, each
// change of a name may change the texts of all of them: the kernel is notified only of files that it was given since
// the notification before, so that n changes of names take n notifications and not n * n. Nothing ends when the kernel
// forgets a file: that request may be handled after a look-up that came later. Thread-safe.

#include <atomic>
#include <chrono>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class MetadataGiven {
 public:
  /// Must be called before the text is made that the kernel gets, or its size. `dataset`: Nodes::dataset_of().
  void add(Ino dataset, Ino file);
  // The kernel gets the name of the file without its size, or its size. Without it, the kernel must cache neither its
  // attributes nor its content.
  void add_name(Ino file);
  void add_size(Ino file);
  [[nodiscard]] bool lacks_size(Ino file) const;
  /// Whether the kernel was ever given its size: a program may have the file open or mapped, and must not find it
  /// empty.
  [[nodiscard]] bool had_size(Ino file) const;

  /// Calls `tell` with the file, or with all files of a dataset, if the kernel may have them, and forgets them. Under
  /// the lock, so that a notification that another thread queues after this call comes after them.
  using Tell = std::function<void(Ino file)>;
  void take(Ino dataset, Ino file, const Tell& tell);
  void take_all(Ino dataset, const Tell& tell);

  /// Metadata has changed now.
  void note_change() { changed_at_ = std::chrono::steady_clock::now(); }
  /// Whether that was so lately that more changes are probably to come.
  [[nodiscard]] bool is_changing() const {
    constexpr std::chrono::seconds kMotion{2};
    return std::chrono::steady_clock::now() - changed_at_.load() < kMotion;
  }

 private:
  void erase(Ino file) CODECFS_REQUIRES(mutex_);

  mutable Mutex mutex_{LockRank::metadata_given};
  std::unordered_map<Ino, std::unordered_set<Ino>> files_ CODECFS_GUARDED_BY(mutex_);  // by dataset
  std::unordered_map<Ino, Ino> datasets_ CODECFS_GUARDED_BY(mutex_);                   // of these files
  std::unordered_set<Ino> without_size_ CODECFS_GUARDED_BY(mutex_);
  std::unordered_set<Ino> had_size_ CODECFS_GUARDED_BY(mutex_);
  std::atomic<std::chrono::steady_clock::time_point> changed_at_{};
};

}  // namespace codecfs::fs

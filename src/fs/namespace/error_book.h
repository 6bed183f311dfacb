#pragma once
// The latest failure of each inode, shown as user._Error and user._ErrorTime. Thread-safe.

#include <atomic>
#include <ctime>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "fs/namespace/nodes.h"

namespace codecfs::fs {

/// What kind of request failed. A later success of the same kind on the same inode ends the failure.
enum class RequestKind {
  other,       // lookups and listings; changes of names in a directory, each of which concerns another name
  reading,     // open for reading, read
  writing,     // open for writing, write, flush, fsync, truncate
  attributes,  // setxattr, removexattr
};

class ErrorBook {
 public:
  struct Entry {
    RequestKind kind = RequestKind::other;
    std::string reason;
    timespec time{};  // of the failure
  };
  /// Maximum number of inodes with a failure; beyond it the oldest failure is dropped.
  static constexpr size_t kMaxInodes = 4096;

  void failed(Ino ino, RequestKind kind, std::string reason);
  void succeeded(Ino ino, RequestKind kind);
  /// Returns whether there was a failure.
  bool remove(Ino ino);
  [[nodiscard]] std::optional<Entry> find(Ino ino) const;

 private:
  using Item = std::pair<Ino, Entry>;
  mutable std::mutex mutex_;
  std::list<Item> items_;                                   // guarded by mutex_; the latest first
  std::unordered_map<Ino, std::list<Item>::iterator> map_;  // guarded by mutex_
  // Number of failures of each kind, so that a successful READ does not need the lock.
  std::atomic<size_t> readings_ = 0;
  std::atomic<size_t> writings_ = 0;
  std::atomic<size_t> attributes_ = 0;

  std::atomic<size_t>* count_of(RequestKind kind);
  void drop(std::unordered_map<Ino, std::list<Item>::iterator>::iterator found);
};

/// "2026-11-22T13:20:05Z"
std::string text_of_time(const timespec& time);

}  // namespace codecfs::fs

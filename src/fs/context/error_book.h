#pragma once
// The latest failure of each inode, shown as user._Error and user._ErrorTime. Thread-safe.

#include <array>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string>

#include "base/lru_map.h"
#include "fs/nodes/nodes.h"

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
  /// Maximum number of inodes with a failure; beyond it, the one that failed or was read the longest time ago is
  /// dropped.
  static constexpr size_t kMaxInodes = 4096;

  void failed(Ino ino, RequestKind kind, std::string reason);
  void succeeded(Ino ino, RequestKind kind);
  /// Returns whether there was a failure.
  bool remove(Ino ino) { return entries_.take(ino) != nullptr; }
  /// Null if there is none.
  [[nodiscard]] std::shared_ptr<const Entry> find(Ino ino) { return entries_.get(ino); }

 private:
  LruMap<Ino, Entry> entries_{kMaxInodes};
  // Which kinds have ever failed, by their values: until then a successful READ needs no lock.
  std::array<std::atomic<bool>, 4> has_failed_{};
};

/// "2026-11-22T13:20:05Z"
std::string text_of_time(const timespec& time);

}  // namespace codecfs::fs

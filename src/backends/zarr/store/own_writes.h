#pragma once
// What this program has lately written to an object store, because lists and reads that began before do not have it.
// Thread-safe.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace codecfs::zarr {

class OwnWrites {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMax = 100'000;  // writes that are kept

  /// The last write of an object.
  struct Write {
    enum class Outcome { stored, removed, unknown };  // unknown: it failed, or has not ended
    Outcome outcome = Outcome::unknown;
    uint64_t bytes = 0;  // that were stored
    Clock::time_point at;
  };
  /// The state of an object: another one after each write.
  struct Mark {
    uint64_t number = 0;    // of the last write
    unsigned underway = 0;  // writes that have not ended
  };

  /// A write of an object, from its construction to end() or its destruction.
  class Underway {
   public:
    /// std::bad_alloc.
    Underway(OwnWrites& writes, const std::string& key);
    Underway(const Underway&) = delete;
    Underway& operator=(const Underway&) = delete;
    ~Underway() { end(Write::Outcome::unknown); }
    /// Must be called after all that later readers will use is up to date.
    void end(Write::Outcome outcome, uint64_t bytes = 0);

   private:
    OwnWrites& writes_;
    const std::string key_;
    bool has_ended_ = false;
  };

  [[nodiscard]] Mark mark_of(const std::string& key) const;
  /// Whether no write of the object overlapped the time since the mark was taken. Otherwise what was read of it since
  /// may be old or new.
  [[nodiscard]] bool is_unchanged(const std::string& key, const Mark& since) const;
  /// The last write of an object if it ended after `since`, or has not ended.
  [[nodiscard]] std::optional<Write> of(const std::string& key, Clock::time_point since) const;
  /// Calls visit() with each object whose key begins with `prefix` and that was written since then, in their order.
  void for_each(const std::string& prefix, Clock::time_point since,
                const std::function<void(const std::string& key, const Write& write)>& visit) const;
  /// Whether for_each() would call it.
  [[nodiscard]] bool has_any(const std::string& prefix, Clock::time_point since) const;
  /// How many writes have begun.
  [[nodiscard]] uint64_t count() const {
    const LockGuard lock(mutex_);
    return count_;
  }
  /// Older writes are no longer known, so what began before must not be used.
  [[nodiscard]] Clock::time_point known_since() const;

 private:
  struct Row {
    Write last;
    Mark mark;
    bool is_overlapped = false;  // the writes that are underway, or were last: their order is not known
  };
  static bool is_since(const Row& row, Clock::time_point since) {
    return row.mark.underway > 0 || row.last.at >= since;
  }

  mutable Mutex mutex_;
  std::map<std::string, Row> rows_ CODECFS_GUARDED_BY(mutex_);
  uint64_t count_ CODECFS_GUARDED_BY(mutex_) = 0;  // of writes
  uint64_t forgotten_ CODECFS_GUARDED_BY(mutex_) =
      0;  // the number of objects without a row: that of the last write then
  Clock::time_point known_since_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::zarr

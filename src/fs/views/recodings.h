#pragma once
// The variables that are currently being re-encoded, for user._Progress and the statistics. Thread-safe.

#include <cstdint>
#include <map>
#include <optional>

#include "backends/api/source.h"
#include "base/mutex.h"

namespace codecfs::fs {

class Recodings {
 public:
  struct Chunks {
    uint64_t done = 0;
    uint64_t total = 0;  // 0: not known yet
  };
  /// Registers a re-encoding during its lifetime. `progress` must outlive it.
  class Entry {
   public:
    Entry(Recodings& all, ObjectId variable, const Progress& progress) : all_(all), variable_(variable) {
      const LockGuard lock(all_.mutex_);
      all_.progress_[variable_] = &progress;
    }
    ~Entry() {
      const LockGuard lock(all_.mutex_);
      all_.progress_.erase(variable_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    Recodings& all_;
    const ObjectId variable_;
  };

  [[nodiscard]] std::optional<Chunks> of(ObjectId variable) const {
    const LockGuard lock(mutex_);
    const auto found = progress_.find(variable);
    if (found == progress_.end()) return std::nullopt;
    return Chunks{found->second->done, found->second->total};
  }
  [[nodiscard]] Chunks of_all() const {
    const LockGuard lock(mutex_);
    Chunks all;
    for (const auto& [variable, progress] : progress_) {
      all.done += progress->done;
      all.total += progress->total;
    }
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::map<ObjectId, const Progress*> progress_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::fs

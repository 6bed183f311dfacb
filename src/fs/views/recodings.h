#pragma once
// The variables that are currently being re-encoded, for user._Progress and the statistics. Thread-safe.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "backends/api/source.h"

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
      const std::lock_guard lock(all_.mutex_);
      all_.progress_[variable_] = &progress;
    }
    ~Entry() {
      const std::lock_guard lock(all_.mutex_);
      all_.progress_.erase(variable_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    Recodings& all_;
    const ObjectId variable_;
  };

  [[nodiscard]] std::optional<Chunks> of(ObjectId variable) const {
    const std::lock_guard lock(mutex_);
    const auto found = progress_.find(variable);
    if (found == progress_.end()) return std::nullopt;
    return Chunks{found->second->done, found->second->total};
  }
  [[nodiscard]] Chunks of_all() const {
    const std::lock_guard lock(mutex_);
    Chunks all;
    for (const auto& [variable, progress] : progress_) {
      all.done += progress->done;
      all.total += progress->total;
    }
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<ObjectId, const Progress*> progress_;  // guarded by mutex_
};

}  // namespace codecfs::fs

#pragma once
// The re-encoding of a variable, which may take hours: one at a time. Changes of names ask check_idle() instead of
// waiting for it. Its progress is shown as user._Progress and in the statistics. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/api/source.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::fs {

class Recodings {
 public:
  struct Chunks {
    uint64_t done = 0;
    uint64_t total = 0;  // 0: not known yet
  };
  /// The right to re-encode a variable, during its lifetime.
  class [[nodiscard]] Turn {
   public:
    explicit Turn(Recodings& all) : all_(&all) {}
    Turn(Turn&& other) noexcept : all_(std::exchange(other.all_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (all_ != nullptr) all_->end();
    }
    /// From now on check_idle() refuses changes of this variable's names. Under Tree::layout, shared.
    void name(ObjectId variable, std::string path) { all_->name(variable, std::move(path)); }
    /// Shows the progress during the lifetime of the result, which it must outlive, as must the turn.
    class [[nodiscard]] Shown {
     public:
      Shown(Recodings& all, const Progress& progress) : all_(all) { all_.show(&progress); }
      ~Shown() { all_.show(nullptr); }
      Shown(const Shown&) = delete;
      Shown& operator=(const Shown&) = delete;

     private:
      Recodings& all_;
    };
    Shown show(const Progress& progress) { return {*all_, progress}; }

   private:
    Recodings* all_;
  };

  /// Waits until no other variable is re-encoded, as RecodingPolicy allows. EBUSY, EINTR.
  Result<Turn> begin();
  /// EBUSY if this variable is being re-encoded, or one below this path. Under Tree::layout, exclusive, the
  /// answer stays true.
  [[nodiscard]] Result<> check_idle(ObjectId object, std::string_view path) const;

  [[nodiscard]] std::optional<Chunks> of(ObjectId variable) const;
  [[nodiscard]] Chunks of_all() const;

 private:
  void name(ObjectId variable, std::string path);
  void show(const Progress* progress);
  void end();

  mutable Mutex mutex_;
  ConditionVariable ended_;
  bool is_running_ CODECFS_GUARDED_BY(mutex_) = false;
  std::optional<ObjectId> variable_ CODECFS_GUARDED_BY(mutex_);
  std::string path_ CODECFS_GUARDED_BY(mutex_);
  const Progress* progress_ CODECFS_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace codecfs::fs

#pragma once
// Checks that threads take locks in the order of base/lock_ranks.h. Builds of type Debug and with sanitizers do
// (CODECFS_CHECK_LOCKS); in others this costs neither time nor space.
//
// The process ends with a message when a thread takes a lock that is not after all that it holds, whether or not
// another thread takes them the other way round at that moment. One lock of each rank is held at a time. A lock that is
// only tried cannot wait for one in the wrong order, and is not checked.

#include <array>
#include <cstddef>

#include "base/lock_ranks.h"

namespace codecfs {

#ifdef CODECFS_CHECK_LOCKS

inline constexpr size_t kMaxHeldLocks = 64;

/// Part of each mutex. Calls are made by the thread that locks it.
class LockOrder {
 public:
  constexpr explicit LockOrder(LockRank rank, bool is_recursive = false) : rank_(rank), is_recursive_(is_recursive) {}
  /// Before a call that may wait.
  void taking() const;
  void taken() const;
  void released() const;

 private:
  LockRank rank_;
  bool is_recursive_;
};

/// The locks that a thread holds.
struct HeldLock {
  const LockOrder* lock = nullptr;
  LockRank rank = LockRank::source_rest;
};

/// The locks of the thread that makes it. It holds them while it waits for others, so these must take none before them.
class LocksOfCaller {
 public:
  LocksOfCaller();
  /// During its lifetime this thread counts as one that holds them, too.
  class Borrowed {
   public:
    explicit Borrowed(const LocksOfCaller& locks);
    ~Borrowed();
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

   private:
    size_t count_;
  };

 private:
  std::array<HeldLock, kMaxHeldLocks> held_;
  size_t count_ = 0;
};

/// In a forked process: the locks of the thread that forked are not those of this process.
void forget_held_locks();

#else

class LockOrder {
 public:
  constexpr explicit LockOrder(LockRank, bool = false) {}
  void taking() const {}
  void taken() const {}
  void released() const {}
};
struct LocksOfCaller {
  LocksOfCaller() {}  // so that a constant one needs no value
  struct Borrowed {
    explicit Borrowed(const LocksOfCaller&) {}
    ~Borrowed() {}  // used, as one that does something
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
  };
};
inline void forget_held_locks() {}

#endif

}  // namespace codecfs

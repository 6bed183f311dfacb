#include "base/lock_order.h"

#ifdef CODECFS_CHECK_LOCKS

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace codecfs {
namespace {

/// Without memory of its own, as that is allocated under mine.
struct Locks {
  std::array<HeldLock, kMaxHeldLocks> held = {};
  size_t count = 0;
};

thread_local constinit Locks mine = {};

const char* name_of(LockRank rank) {
#define SECTION(title)
#define RANK(name, lock, guards, held) #name " (" lock ")",
  static constexpr const char* kRankTexts[] = {
#include "base/lock_ranks.inc"
  };
#undef RANK
#undef SECTION
  return kRankTexts[static_cast<size_t>(rank)];
}

[[noreturn]] void refuse(LockRank wanted, LockRank held) {
  std::array<char, 400> text;
  const int length = std::snprintf(text.data(), text.size(), "codecfs: locks in the wrong order: %s under %s\n",
                                   name_of(wanted), name_of(held));
  (void)!::write(STDERR_FILENO, text.data(), static_cast<size_t>(length));
  std::abort();
}

}  // namespace

void LockOrder::taking() const {
  if (rank_ == LockRank::local) return;
  for (size_t i = mine.count; i-- > 0;) {
    if (mine.held[i].lock == this && is_recursive_) return;
    if (mine.held[i].rank >= rank_) refuse(rank_, mine.held[i].rank);
  }
}

void LockOrder::taken() const {
  if (rank_ == LockRank::local) return;
  if (mine.count == mine.held.size()) std::abort();
  mine.held[mine.count++] = {this, rank_};
}

void LockOrder::released() const {
  for (size_t i = mine.count; i-- > 0;) {
    if (mine.held[i].lock != this) continue;
    for (; i + 1 < mine.count; ++i) mine.held[i] = mine.held[i + 1];
    --mine.count;
    return;
  }
}

LocksOfCaller::LocksOfCaller() : held_(mine.held), count_(mine.count) {}

LocksOfCaller::Borrowed::Borrowed(const LocksOfCaller& of) : count_(of.count_) {
  if (mine.count + count_ > mine.held.size()) std::abort();
  for (size_t i = 0; i < count_; ++i) mine.held[mine.count++] = of.held_[i];
}

LocksOfCaller::Borrowed::~Borrowed() { mine.count -= count_; }

void forget_held_locks() { mine.count = 0; }

}  // namespace codecfs

#endif

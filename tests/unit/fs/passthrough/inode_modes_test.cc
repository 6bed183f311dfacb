#include "fs/passthrough/inode_modes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <vector>

namespace codecfs::fs {
namespace {

/// What fs/fuse/iomode.c of the kernel does with the opens of one inode.
class KernelInode {
 public:
  /// False: EIO. `id`: of the reply, 0: cached.
  bool open(int32_t id) {
    if (id == 0) {
      if (backing_ != 0) return false;
      ++cached_;
      return true;
    }
    if (cached_ > 0 || (backing_ != 0 && backing_ != id)) return false;
    backing_ = id;
    ++passed_;
    return true;
  }
  void close(int32_t id) {
    if (id == 0)
      --cached_;
    else if (--passed_ == 0)
      backing_ = 0;
  }

 private:
  int cached_ = 0;
  int passed_ = 0;
  int32_t backing_ = 0;
};

BackingPtr backing(int32_t id) { return id == 0 ? nullptr : std::make_shared<const Backing>(id); }

/// An open file: decided here, opened in the kernel, closed there, released here.
struct Handle {
  InodeModes::Open open;
  int step = 0;

  void advance(InodeModes& modes, KernelInode& kernel, Ino ino, int32_t offered) {
    switch (step++) {
      case 0: open = modes.open(ino, backing(offered)); break;
      case 1: ASSERT_TRUE(kernel.open(open.backing_id())) << "the kernel fails the open with EIO"; break;
      case 2: kernel.close(open.backing_id()); break;
      default: open = {}; break;
    }
  }
  [[nodiscard]] bool is_done() const { return step == 4; }
};

constexpr int kHandles = 3;
using Order = std::vector<int>;  // which handle takes its next step

void add_orders(Order& begun, std::array<int, kHandles>& left, std::vector<Order>& orders) {
  bool is_complete = true;
  for (int i = 0; i < kHandles; ++i) {
    if (left[i] == 0) continue;
    is_complete = false;
    --left[i];
    begun.push_back(i);
    add_orders(begun, left, orders);
    begun.pop_back();
    ++left[i];
  }
  if (is_complete) orders.push_back(begun);
}

TEST(InodeModes, NoOrderOfOpensAndClosesFailsInTheKernel) {
  std::vector<Order> orders;
  Order begun;
  std::array<int, kHandles> left{4, 4, 4};
  add_orders(begun, left, orders);
  ASSERT_EQ(orders.size(), 34650U);
  // Each handle is offered nothing or one of two backing files.
  for (int offers = 0; offers < 27; ++offers) {
    const std::array<int32_t, kHandles> offered{offers % 3, offers / 3 % 3, offers / 9};
    // The same as with the files exchanged.
    if (const auto first = std::ranges::find_if(offered, [](int32_t id) { return id != 0; });
        first != offered.end() && *first == 2)
      continue;
    for (const Order& order : orders) {
      InodeModes modes;
      KernelInode kernel;
      std::array<Handle, kHandles> handles;
      for (const int i : order) {
        handles[i].advance(modes, kernel, 1, offered[i]);
        if (HasFatalFailure()) return;
      }
      ASSERT_EQ(modes.count(), 0U);
    }
  }
}

TEST(InodeModes, RandomOpensOfSeveralInodesWithLostReplies) {
  std::mt19937 random(7);
  constexpr Ino kInodes = 3;
  InodeModes modes;
  std::array<KernelInode, kInodes> kernel;
  std::multimap<Ino, Handle> handles;
  int passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    const Ino ino = random() % kInodes;
    if (handles.count(ino) < 5 && random() % 3 == 0) {
      Handle& handle = handles.emplace(ino, Handle())->second;
      handle.advance(modes, kernel[ino], ino, static_cast<int32_t>(random() % 4));
      passed += handle.open.backing_id() != 0 ? 1 : 0;
      if (random() % 8 == 0) handle.step = 3;  // the reply does not arrive
    } else if (!handles.empty()) {
      auto at = handles.begin();
      std::advance(at, random() % handles.size());
      at->second.advance(modes, kernel[at->first], at->first, 0);
      if (at->second.is_done()) handles.erase(at);
    }
    if (HasFatalFailure()) return;
    ASSERT_LE(modes.count(), kInodes);
  }
  EXPECT_GT(passed, 1000);
}

TEST(InodeModes, TheFirstOpenDecides) {
  InodeModes modes;
  InodeModes::Open first = modes.open(1, backing(5));
  EXPECT_EQ(first.backing_id(), 5);
  EXPECT_EQ(modes.open(1, backing(6)).backing_id(), 5);
  EXPECT_EQ(modes.open(1, nullptr).backing_id(), 5);
  EXPECT_EQ(modes.open(2, nullptr).backing_id(), 0);
  EXPECT_EQ(modes.backing_of(1)->id(), 5);
  EXPECT_FALSE(modes.is_cached(1));
  first = {};
  EXPECT_EQ(modes.backing_of(1), nullptr);
  const InodeModes::Open cached = modes.open(1, nullptr);
  EXPECT_TRUE(modes.is_cached(1));
  EXPECT_EQ(modes.open(1, backing(6)).backing_id(), 0);
  EXPECT_FALSE(modes.is_cached(2));
}

TEST(InodeModes, ABackingFileStaysAsLongAsItsInodeIsOpen) {
  InodeModes modes;
  BackingPtr file = backing(1);
  const std::weak_ptr<const Backing> stays = file;
  InodeModes::Open one = modes.open(1, std::move(file));
  InodeModes::Open other = modes.open(1, nullptr);
  one = {};
  EXPECT_FALSE(stays.expired());
  other = {};
  EXPECT_TRUE(stays.expired());
}

}  // namespace
}  // namespace codecfs::fs

// The ids of a folder's files and folders: valid while they are kept or were asked for lately, and given back then.

#include "backends/folder/object_ids.h"

#include <gtest/gtest.h>

#include <string>

namespace codecfs::folder {
namespace {

ObjectIds::Clock::time_point time_now;

class ObjectIdsTest : public ::testing::Test {
 protected:
  /// Asks for the ids of this many other files.
  void ask(const std::string& folder, size_t count) {
    for (size_t i = 0; i < count; ++i) ids_.of(folder + "/" + std::to_string(i), EntryKind::file);
  }
  static void wait() { time_now += ObjectIds::kUnkept + std::chrono::seconds(1); }

  ObjectIds ids_{[] { return time_now; }};
  const ObjectId root_ = ids_.of("", EntryKind::folder);
  static constexpr size_t kMaxUnkept = ObjectIds::kMaxUnkept;
};

TEST_F(ObjectIdsTest, TheSameNameHasTheSameId) {
  const ObjectId a = ids_.of("a", EntryKind::file);
  EXPECT_EQ(ids_.of("a", EntryKind::file), a);
  EXPECT_EQ(ids_.get(a)->name, "a");
  const ObjectId now = ids_.of("a", EntryKind::folder);
  EXPECT_NE(now, a);
  EXPECT_EQ(ids_.get(a)->kind, EntryKind::file);
  EXPECT_EQ(ids_.of("a", EntryKind::folder), now);
}

TEST_F(ObjectIdsTest, AllStayForThoseWhoKeepNone) {
  ask("a", kMaxUnkept + 1000);
  wait();
  ask("b", 10);
  ids_.drop_unkept();
  EXPECT_EQ(ids_.count(), 1 + kMaxUnkept + 1000 + 10);
}

TEST_F(ObjectIdsTest, ThoseThatNobodyKeepsAreGivenBack) {
  const ObjectId kept = ids_.of("kept", EntryKind::file);
  const ObjectId left = ids_.of("left", EntryKind::file);
  ASSERT_TRUE(ids_.keep(kept));
  ASSERT_TRUE(ids_.keep(kept));
  for (int round = 0; round < 3; ++round) {
    ask(std::to_string(round), kMaxUnkept);
    EXPECT_EQ(ids_.get(left).has_value(), round == 0) << round;  // what was asked for just now is valid
    wait();
    ids_.drop_unkept();
    EXPECT_LE(ids_.count(), kMaxUnkept + 2);
  }
  EXPECT_EQ(ids_.get(left).error().code, ESTALE);
  EXPECT_FALSE(ids_.keep(left));
  EXPECT_NE(ids_.of("left", EntryKind::file), left);
  EXPECT_EQ(ids_.get(kept)->name, "kept");
  EXPECT_EQ(ids_.of("kept", EntryKind::file), kept);
  ids_.release(kept);
  wait();
  ask("c", kMaxUnkept);
  wait();
  ids_.drop_unkept();
  EXPECT_TRUE(ids_.get(kept));
  ids_.release(kept);
  wait();
  ask("d", kMaxUnkept + 1);
  wait();
  ids_.drop_unkept();
  EXPECT_FALSE(ids_.get(kept));
  EXPECT_TRUE(ids_.get(root_));
}

TEST_F(ObjectIdsTest, WhatIsAskedForAgainStays) {
  ASSERT_TRUE(ids_.keep(root_));
  const ObjectId a = ids_.of("a", EntryKind::file);
  for (int round = 0; round < 4; ++round) {
    ask(std::to_string(round), kMaxUnkept);
    wait();
    EXPECT_EQ(ids_.of("a", EntryKind::file), a);
    ids_.drop_unkept();
    ids_.drop_unkept();
    EXPECT_TRUE(ids_.keep(a));
    ids_.release(a);
  }
}

}  // namespace
}  // namespace codecfs::folder

// The choice and order of edits to be stored.

#include "fs/chunks/edit_table.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

constexpr ObjectId kVariable = 3;

class EditTableTest : public testing::Test {
 protected:
  /// A changed chunk, which no call is using.
  EditPtr changed(ChunkKey key) {
    const EditPtr edit = table_.pin({key, kVariable, key, nullptr});
    table_.note_changed(*edit, {10, 4096}, false);
    EditTable::unpin(*edit);
    return edit;
  }
  EditPtr closed(ChunkKey key) {
    const EditPtr edit = changed(key);
    table_.close(*edit);
    return edit;
  }
  /// The keys of all enqueued edits, in the order in which encoders take them.
  std::vector<ChunkKey> taken() {
    std::vector<ChunkKey> keys;
    while (const EditPtr edit = table_.take()) keys.push_back(edit->place.key);
    return keys;
  }
  using Keys = std::vector<ChunkKey>;

  EditTable table_;
};

TEST_F(EditTableTest, ClosedEditsAreEnqueuedOnceAndInOrder) {
  for (ChunkKey key = 1; key <= 1000; ++key) changed(key);
  closed(2000);
  closed(1500);
  EXPECT_EQ(table_.enqueue_closed(), 2);
  EXPECT_EQ(table_.enqueue_closed(), 0) << "they are enqueued already";
  EXPECT_EQ(taken(), (Keys{2000, 1500}));
  EXPECT_EQ(table_.enqueue_closed(), 0) << "they are being stored";
}

TEST_F(EditTableTest, AnEditThatChangesWhileItIsStoredIsStoredAgain) {
  const EditPtr edit = closed(1);
  table_.enqueue_closed();
  ASSERT_EQ(table_.take(), edit);
  changed(1);
  EXPECT_EQ(table_.enqueue_closed(), 1);
  EXPECT_EQ(table_.take(), nullptr) << "by one encoder at a time";
  table_.note_stored(*edit);
  EXPECT_EQ(edit->stored_version(), 1);
  EXPECT_TRUE(edit->is_dirty());
  EXPECT_EQ(table_.dirty().bytes, 10);
  EXPECT_EQ(table_.dirty().memory, 4096);
  ASSERT_EQ(table_.take(), edit);
  table_.note_stored(*edit);
  EXPECT_EQ(edit->stored_version(), 2);
  EXPECT_FALSE(edit->is_dirty());
  EXPECT_EQ(table_.dirty().memory, 0);
  EXPECT_FALSE(table_.any_underway());
}

TEST_F(EditTableTest, FailedEditsWait) {
  const EditPtr edit = closed(1);
  const EditPtr open = changed(2);
  table_.enqueue_dirty([](const Edit&) { return true; });
  while (const EditPtr next = table_.take()) table_.note_failed(*next, {ENOSPC, "full"});
  ASSERT_NE(table_.failure(), nullptr);
  EXPECT_EQ(table_.failure()->code, ENOSPC);
  EXPECT_EQ(table_.enqueue_dirty([](const Edit&) { return true; }), 0);
  table_.forget_failures();
  EXPECT_EQ(table_.enqueue_closed(), 1) << "the closed one";
  EXPECT_NE(table_.failure(), nullptr) << "of the open one";
  EXPECT_EQ(table_.enqueue_all([](const Edit&) { return true; }), 1);
  EXPECT_EQ(table_.failure(), nullptr);
  EXPECT_EQ(taken(), (Keys{1, 2}));
}

TEST_F(EditTableTest, OpenEditsThatCannotBeStoredStay) {
  changed(1);
  changed(2);
  const auto even = [](const Edit& edit) { return edit.place.key % 2 == 0; };
  EXPECT_EQ(table_.enqueue_dirty(even), 1);
  EXPECT_EQ(taken(), (Keys{2}));
  EXPECT_EQ(table_.underway().size(), 1) << "it is being stored";
}

TEST_F(EditTableTest, AnEditThatIsBeingRemovedIsNotStored) {
  const EditPtr edit = closed(1);
  EXPECT_EQ(table_.enqueue(*edit), 1);
  table_.set_removing(*edit, true);
  EXPECT_EQ(table_.take(), nullptr);
  EXPECT_EQ(table_.enqueue(*edit), 0);
  EXPECT_EQ(table_.enqueue_closed(), 0);
  table_.set_removing(*edit, false);
  EXPECT_EQ(table_.enqueue_closed(), 1) << "the removal failed";
  table_.set_removing(*edit, true);
  table_.drop(*edit);
  EXPECT_EQ(table_.find(1), nullptr);
  EXPECT_EQ(table_.dirty().memory, 0);
  EXPECT_EQ(edit->stored_version(), edit->version()) << "so that no call waits for it";
}

TEST_F(EditTableTest, OnlyCleanAndUnusedEditsAreDropped) {
  const EditPtr edit = table_.pin({1, kVariable, 1, nullptr});
  EXPECT_FALSE(table_.drop_if_clean(*edit, false)) << "it is pinned";
  table_.note_changed(*edit, {10, 4096}, true);
  EditTable::unpin(*edit);
  EXPECT_FALSE(table_.drop_if_clean(*edit, false)) << "it is dirty";
  table_.enqueue(*edit);
  ASSERT_EQ(table_.take(), edit);
  EXPECT_FALSE(table_.drop_if_clean(*edit, false)) << "it is being stored";
  table_.note_stored(*edit);
  EXPECT_FALSE(table_.drop_if_clean(*edit, true)) << "its file is short";
  EXPECT_TRUE(table_.drop_if_clean(*edit, false));
  EXPECT_EQ(table_.find(1), nullptr);
  EXPECT_FALSE(table_.drop_if_clean(*edit, false)) << "it is dropped already";
}

TEST_F(EditTableTest, EditsOfAVariable) {
  const EditPtr edit = changed(1);
  EXPECT_EQ(table_.of(kVariable, &Edit::is_dirty), std::vector{edit});
  EXPECT_TRUE(table_.of(kVariable + 1, &Edit::is_dirty).empty());
  EXPECT_FALSE(table_.any_of(kVariable, &Edit::is_closed));
  table_.close(*edit);
  EXPECT_TRUE(table_.any_of(kVariable, &Edit::is_closed));
}

}  // namespace
}  // namespace codecfs::fs

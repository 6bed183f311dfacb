// What Dataset keeps of a variable that changes while it is read.

#include "fs/views/dataset.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "support/memory_source.h"

namespace codecfs::fs {
namespace {

constexpr ObjectId kVariable = 3;
constexpr uint32_t kOld = 1;
constexpr uint32_t kNew = 2;

uint32_t filter_of(const Variable& variable) { return variable.filters.at(0).id; }

/// A variable with one filter. A call that block_next() announced waits with what it has read until release().
class BlockingSource : public MemorySource {
 public:
  Result<VariablePtr> variable(ObjectId) override {
    std::unique_lock lock(mutex_);
    auto* read = new Variable(text_variable({8}, {8}, {{.id = filter, .parameters = {}, .codec = {}, .name = {}}}));
    const VariablePtr held(read, [this](const Variable* released) {
      if (on_release) on_release();
      delete released;
    });
    ++reads;
    if (!std::exchange(blocks_, false)) return held;
    blocked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !blocked_; });
    return held;
  }

  void block_next() {
    const std::lock_guard lock(mutex_);
    blocks_ = true;
  }
  void await_blocked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocked_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    blocked_ = false;
    changed_.notify_all();
  }

  std::atomic<uint32_t> filter = kOld;
  std::atomic<int> reads = 0;
  std::function<void()> on_release;  // called when the last holder lets go of a variable

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool blocks_ = false;
  bool blocked_ = false;
};

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    auto source = std::make_unique<BlockingSource>();
    source_ = source.get();
    dataset_ = std::make_unique<Dataset>(std::move(source));
  }
  ~DatasetTest() override { source_->on_release = {}; }

  BlockingSource* source_ = nullptr;
  std::unique_ptr<Dataset> dataset_;
};

// A caller that caches what it derives (user._Filter) compares changes() from before and after.
TEST_F(DatasetTest, WhatIsDerivedWhileAVariableIsForgottenIsNotCurrent) {
  ASSERT_TRUE(dataset_->variable(kVariable));
  ASSERT_TRUE(dataset_->described(kVariable));
  source_->filter = kNew;
  std::optional<uint64_t> before;
  std::optional<uint32_t> derived;
  source_->on_release = [&] {  // forget() has dropped one of the two
    if (before) return;
    before = dataset_->changes();
    derived = filter_of(**dataset_->described(kVariable));
  };
  dataset_->forget(kVariable);
  ASSERT_EQ(derived, kOld);
  EXPECT_NE(dataset_->changes(), before);
}

TEST_F(DatasetTest, WhatIsDerivedWhileAllIsForgottenIsNotCurrent) {
  ASSERT_TRUE(dataset_->variable(kVariable));
  ASSERT_TRUE(dataset_->described(kVariable));
  std::optional<uint64_t> before;
  source_->on_release = [&] {
    if (!before) before = dataset_->changes();
  };
  dataset_->forget_all();
  ASSERT_TRUE(before);
  EXPECT_NE(dataset_->changes(), before);
}

TEST_F(DatasetTest, FactsThatWereReadBeforeAChangeAreNotKept) {
  source_->block_next();
  Result<VariableViewPtr> old;
  std::thread reader([&] { old = dataset_->variable(kVariable); });
  source_->await_blocked();
  source_->filter = kNew;
  dataset_->forget(kVariable);
  ASSERT_EQ(filter_of(*(*dataset_->variable(kVariable))->facts), kNew);
  source_->release();
  reader.join();
  ASSERT_TRUE(old);
  EXPECT_EQ(filter_of(*(*old)->facts), kOld);
  const VariableViewPtr known = dataset_->known(kVariable);
  ASSERT_TRUE(known) << "the old facts took the place of the new ones";
  EXPECT_EQ(filter_of(*known->facts), kNew);
}

TEST_F(DatasetTest, AttributesThatWereReadBeforeAChangeAreNotKept) {
  source_->block_next();
  std::thread reader([&] { EXPECT_TRUE(dataset_->described(kVariable)); });
  source_->await_blocked();
  source_->filter = kNew;
  dataset_->forget(kVariable);
  ASSERT_EQ(filter_of(**dataset_->described(kVariable)), kNew);
  source_->release();
  reader.join();
  const int reads = source_->reads;
  EXPECT_EQ(filter_of(**dataset_->described(kVariable)), kNew);
  EXPECT_EQ(source_->reads, reads) << "the old description took the place of the new one";
}

}  // namespace
}  // namespace codecfs::fs

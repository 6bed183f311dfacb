// What Dataset keeps of a variable that changes while it is read.

#include "fs/nodes/dataset.h"

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

/// A source whose backend fails as a whole on the attributes of each variable.
class FailingSource : public MemorySource {
 public:
  Result<VariablePtr> variable(ObjectId) override { return fail(error, "its attributes are damaged"); }
  Result<VariablePtr> facts(ObjectId id) override { return MemorySource::variable(id); }
  Result<std::vector<Attribute>> group_attributes(ObjectId) override { return fail(EIO, "a group's are too"); }
  int error = EIO;
};

class UnreadableAttributes : public testing::Test {
 protected:
  UnreadableAttributes() {
    source_->add_group("/g");
    source_->add_variable("/g/v", text_variable({8, 1}, {4, 1}));
  }
  ObjectId variable() { return source_->object("/g/v"); }
  FailingSource* source_ = new FailingSource;
  Dataset dataset_{std::unique_ptr<Source>(source_)};
};

TEST_F(UnreadableAttributes, AVariableIsDescribedWithoutThem) {
  const auto described = dataset_.described(variable());
  ASSERT_TRUE(described);
  ASSERT_TRUE((*described)->unreadable_attributes);
  EXPECT_EQ((*described)->unreadable_attributes->reason, "its attributes are damaged");
  EXPECT_EQ((*described)->grid.shape(), (std::vector<uint64_t>{8, 1}));
  EXPECT_EQ((*described)->dimensions, (std::vector<std::string>{"dim_0", "dim_1"})) << "xarray requires names";
}

TEST_F(UnreadableAttributes, OtherErrorsArePassedOn) {
  source_->error = ENOMEM;
  EXPECT_EQ(dataset_.described(variable()).error().code, ENOMEM);
}

TEST_F(UnreadableAttributes, TheConsolidatedMetadataGivesTheReason) {
  const auto text = dataset_.zmetadata(source_->root().object);
  ASSERT_TRUE(text);
  const Json metadata = parse_json(**text)->at("metadata");
  EXPECT_EQ(metadata["g/v/.zarray"]["chunks"], Json::parse("[4,1]"));
  EXPECT_EQ(metadata["g/v/.zattrs"],
            Json::parse(R"({"_ARRAY_DIMENSIONS":["dim_0","dim_1"],"_Error":"its attributes are damaged"})"));
  EXPECT_EQ(metadata["g/.zattrs"], Json::parse(R"({"_Error":"a group's are too"})"));
}

/// A source of which one variable cannot be described at all.
class DamagedSource : public MemorySource {
 public:
  Result<VariablePtr> facts(ObjectId id) override {
    if (id == object("/g/bad")) return fail(error, "its metadata is damaged");
    return MemorySource::facts(id);
  }
  Result<VariablePtr> variable(ObjectId id) override {
    if (id == object("/g/bad")) return fail(error, "its metadata is damaged");
    return MemorySource::variable(id);
  }
  int error = EIO;
};

class DamagedVariable : public testing::Test {
 protected:
  DamagedVariable() {
    source_->add_group("/g");
    for (const char* path : {"/g/bad", "/g/good", "/v"}) source_->add_variable(path, text_variable({8, 1}, {4, 1}));
  }
  ObjectId root() { return source_->root().object; }
  DamagedSource* source_ = new DamagedSource;
  Dataset dataset_{std::unique_ptr<Source>(source_)};
};

TEST_F(DamagedVariable, IsLeftOutOfTheConsolidatedMetadata) {
  for (const int error : {EIO, EOPNOTSUPP}) {
    source_->error = error;
    dataset_.forget_all();
    const auto text = dataset_.zmetadata(root());
    ASSERT_TRUE(text) << error;
    const Json metadata = parse_json(**text)->at("metadata");
    EXPECT_TRUE(metadata.contains("v/.zarray") && metadata.contains("g/good/.zarray"));
    EXPECT_FALSE(metadata.contains("g/bad/.zarray") || metadata.contains("g/bad/.zattrs"));
    const auto below = dataset_.consolidate3(root(), [](const std::string&, const Variable&) { return Json("array"); });
    ASSERT_TRUE(below);
    EXPECT_TRUE(below->contains("\"g/good\"") && !below->contains("bad"));
  }
}

TEST_F(DamagedVariable, OtherErrorsArePassedOn) {
  source_->error = ENOMEM;
  EXPECT_EQ(dataset_.zmetadata(root()).error().code, ENOMEM);
}

}  // namespace
}  // namespace codecfs::fs

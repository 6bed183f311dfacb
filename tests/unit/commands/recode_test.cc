// What is reported when the work is interrupted, and when changes are stored only at the end.

#include "commands/recode.h"

#include <gtest/gtest.h>

#include <vector>

#include "commands/workers.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

/// Fails or is interrupted where a test wants it.
class TroubledSource final : public MemorySource {
 public:
  Result<> set_filters(ObjectId id, std::span<const FilterStage> filters, Progress& progress) override {
    Result<> done = MemorySource::set_filters(id, filters, progress);
    ++calls;
    if (interrupts) interrupted = true;
    if (calls <= failures) return fail(ENOSPC, "no space to store it");
    return done;
  }
  Result<> finish() override {
    if (fails_at_end) return fail(ENOSPC, "still no space");
    return MemorySource::finish();
  }

  int calls = 0;
  int failures = 0;  // of the first calls, which change the variable nevertheless
  bool interrupts = false;
  bool fails_at_end = false;
};

class Recode : public testing::Test {
 protected:
  Recode() : owned_(std::make_unique<TroubledSource>()), source_(*owned_) {
    for (const char* path : {"/a", "/b"}) {
      source_.add_variable(path, text_variable({8}, {4}));
      source_.put(path, 0, "abcd");
    }
  }
  ~Recode() override { interrupted = false; }

  Result<RecodeResult> run() {
    filters::FilterRules rules;
    EXPECT_TRUE(rules.add("*,deflate,1"));
    return recode(std::move(owned_), std::move(rules), false, [&](const Recoded& one) { told_.push_back(one); });
  }

  std::unique_ptr<TroubledSource> owned_;
  TroubledSource& source_;
  std::vector<Recoded> told_;
};

TEST_F(Recode, AnInterruptedOneSaysWhatBecameOfAChangedVariable) {
  source_.interrupts = true;
  const auto done = run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ECANCELED);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].path, "/a");
  EXPECT_TRUE(told_[0].changes && !told_[0].refused);
  EXPECT_EQ(told_[0].after, "deflate,1");
  EXPECT_GT(told_[0].bytes_after, 0U);
}

TEST_F(Recode, ChangesThatTheEndDoesNotStoreAreTold) {
  source_.failures = 2;
  source_.fails_at_end = true;
  ASSERT_TRUE(run());
  ASSERT_EQ(told_.size(), 2U);
  for (const Recoded& one : told_) EXPECT_TRUE(one.refused && !one.changes);
}

TEST_F(Recode, ChangesThatTheEndStoresAreTold) {
  source_.failures = 2;
  ASSERT_TRUE(run());
  ASSERT_EQ(told_.size(), 2U);
  for (const Recoded& one : told_) EXPECT_TRUE(!one.refused && one.changes && one.bytes_after > 0);
}

TEST_F(Recode, ALaterVariableStoresTheEarlierOnes) {
  source_.failures = 1;
  source_.fails_at_end = true;
  const auto done = run();
  ASSERT_FALSE(done);  // nothing says that the end has stored what was told
  EXPECT_EQ(done.error().code, ENOSPC);
  ASSERT_EQ(told_.size(), 2U);
  for (const Recoded& one : told_) EXPECT_TRUE(!one.refused && one.changes);
}

}  // namespace
}  // namespace codecfs::commands

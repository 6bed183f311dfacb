// One re-encoding at a time, and which names must not change meanwhile.

#include "fs/context/recodings.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "fs/chunks/recoding_policy.h"

namespace codecfs::fs {
namespace {

template <class T>
int recodings_error(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

TEST(Recodings, AnotherOneWaitsAsItsThreadMay) {
  Recodings recodings;
  std::optional<Recodings::Turn> turn = *recodings.begin();
  turn->name(7, "/g/v");
  for (const DuringRecoding policy : {DuringRecoding::hold, DuringRecoding::refuse}) {
    const RecodingPolicy::Scope scope(policy);
    EXPECT_EQ(recodings_error(recodings.begin()), EBUSY);
    EXPECT_TRUE(scope.has_refused());
  }
  {
    const RecodingPolicy::Scope waits(DuringRecoding::wait, [] { return true; });
    EXPECT_EQ(recodings_error(recodings.begin()), EINTR);
  }
  auto next = std::async(std::launch::async, [&] { return recodings.begin().has_value(); });
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  turn.reset();
  EXPECT_TRUE(next.get());
  {
    const RecodingPolicy::Scope scope(DuringRecoding::hold);
    EXPECT_TRUE(recodings.begin());
  }
  const RecodingPolicy::Scope scope(DuringRecoding::refuse);
  EXPECT_EQ(recodings_error(recodings.begin()), EBUSY) << "it does not begin one either";
}

TEST(Recodings, TheVariableAndTheGroupsAboveItAreBusy) {
  Recodings recodings;
  EXPECT_TRUE(recodings.check_idle(7, "/g/v"));
  std::optional<Recodings::Turn> turn = *recodings.begin();
  EXPECT_TRUE(recodings.check_idle(7, "/g/v")) << "not known yet";
  turn->name(7, "/g/v");
  EXPECT_EQ(recodings_error(recodings.check_idle(7, "/other/name")), EBUSY);
  EXPECT_EQ(recodings_error(recodings.check_idle(1, "/g/v")), EBUSY);
  EXPECT_EQ(recodings_error(recodings.check_idle(2, "/g")), EBUSY);
  EXPECT_EQ(recodings_error(recodings.check_idle(0, "")), EBUSY);
  EXPECT_TRUE(recodings.check_idle(2, "/g/v2"));
  EXPECT_TRUE(recodings.check_idle(2, "/g/v/below"));
  EXPECT_TRUE(recodings.check_idle(2, "/gg"));
  turn.reset();
  EXPECT_TRUE(recodings.check_idle(7, "/g/v"));
}

TEST(Recodings, ProgressIsShownWhileThereIsSome) {
  Recodings recodings;
  std::optional<Recodings::Turn> turn = *recodings.begin();
  turn->name(7, "/v");
  EXPECT_FALSE(recodings.of(7));
  Progress progress;
  progress.total = 5;
  {
    const auto shown = turn->show(progress);
    progress.done = 2;
    ASSERT_TRUE(recodings.of(7));
    EXPECT_EQ(recodings.of(7)->done, 2);
    EXPECT_FALSE(recodings.of(8));
    EXPECT_EQ(recodings.of_all().total, 5);
  }
  EXPECT_FALSE(recodings.of(7));
  turn.reset();
  EXPECT_EQ(recodings.of_all().total, 0);
}

}  // namespace
}  // namespace codecfs::fs

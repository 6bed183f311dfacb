#include "backends/hdf5/compact/run_apart.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>

namespace codecfs::hdf5 {
namespace {

TEST(RunApart, GivesTheAnswer) {
  EXPECT_TRUE(run_apart([] { return Result<>(); }));
  const std::string reason(100000, 'r');
  const auto failed = run_apart([&]() -> Result<> { return fail(EOPNOTSUPP, "{}", reason); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EOPNOTSUPP);
  EXPECT_EQ(failed.error().reason, reason);
}

TEST(RunApart, ChangesNothingHere) {
  int number = 1;
  EXPECT_TRUE(run_apart([&] {
    number = 2;
    return Result<>();
  }));
  EXPECT_EQ(number, 1);
}

TEST(RunApart, SurvivesACrash) {
  const auto crashed = run_apart([]() -> Result<> {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
    return {};
  });
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code, EIO);
  EXPECT_NE(crashed.error().reason.find("Segmentation fault"), std::string::npos) << crashed.error().reason;
  const auto ended = run_apart([]() -> Result<> { ::_exit(1); });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, EIO);
  const auto thrown = run_apart([]() -> Result<> { throw std::runtime_error("a reason"); });
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().reason, "a reason");
}

TEST(RunApart, EndsWhenItIsCancelled) {
  int calls = 0;
  const auto ended = run_apart(
      []() -> Result<> {
        ::pause();
        return {};
      },
      [&] { return ++calls == 3; });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ECANCELED);
  EXPECT_TRUE(run_apart([] { return Result<>(); }, [] { return false; }));
}

}  // namespace
}  // namespace codecfs::hdf5

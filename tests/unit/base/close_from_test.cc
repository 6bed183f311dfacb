#include "base/close_from.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace codecfs {
namespace {

class CloseFrom : public testing::TestWithParam<void (*)(unsigned)> {};

TEST_P(CloseFrom, ClosesTheOthersOnly) {
  const pid_t child = fork();
  if (child == 0) {
    bool opened = dup2(0, 99) == 99;
    for (int i = 100; i < 900; i += 2) opened = opened && dup2(0, i) == i;
    GetParam()(100);
    const bool kept = fcntl(99, F_GETFD) >= 0;
    bool closed = true;
    for (int i = 100; i < 1000; ++i) closed = closed && fcntl(i, F_GETFD) < 0;
    _exit(opened && kept && closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Low ones, among which is the descriptor of the list itself.
TEST_P(CloseFrom, LeavesNothingOfItsOwn) {
  const pid_t child = fork();
  if (child == 0) {
    GetParam()(1);
    bool closed = true;
    for (int i = 1; i < 1000; ++i) closed = closed && fcntl(i, F_GETFD) < 0;
    _exit(closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Both, CloseFrom, testing::Values(&close_from, &close_each_from));

}  // namespace
}  // namespace codecfs

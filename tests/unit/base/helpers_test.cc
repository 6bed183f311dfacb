#include "base/helpers.h"

#include <gtest/gtest.h>

#include <thread>

namespace codecfs {
namespace {

class NoThreads : public Helpers {
 public:
  void help(size_t, const std::function<void()>&) override {}
};

TEST(Helpers, ScopesEnd) {
  NoThreads outer;
  NoThreads inner;
  EXPECT_EQ(Helpers::current(), nullptr);
  {
    const Helpers::Scope scope(outer);
    {
      const Helpers::Scope within(inner);
      EXPECT_EQ(Helpers::current(), &inner);
    }
    EXPECT_EQ(Helpers::current(), &outer);
    std::thread([] { EXPECT_EQ(Helpers::current(), nullptr); }).join();
  }
  EXPECT_EQ(Helpers::current(), nullptr);
}

}  // namespace
}  // namespace codecfs

#include "fs/given/kernel_pages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <thread>

#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

TEST(KernelPages, NothingIsGivenOfWhatSomebodyWrites) {
  KernelPages pages;
  const auto give = [] { return true; };
  EXPECT_TRUE(pages.push_pages(1, give));
  {
    const KernelPages::Writer one(pages, 1);
    KernelPages::Writer other(pages, 1);
    EXPECT_FALSE(pages.push_pages(1, give));
    EXPECT_TRUE(pages.push_pages(2, give));
    other = {};
    EXPECT_FALSE(pages.push_pages(1, give));
  }
  EXPECT_TRUE(pages.push_pages(1, give));
}

TEST(KernelPages, AWriterIsAnsweredWhenAllHasArrived) {
  KernelPages pages;
  std::latch given(1);
  std::latch go_on(1);
  std::atomic<bool> arrived = false;
  std::atomic<int> answers = 0;
  std::thread giver([&] {
    pages.push_pages(1, [&] {
      given.count_down();
      go_on.wait();
      arrived = true;
      return true;
    });
  });
  given.wait();
  const KernelPages::Writer writer(pages, 1);
  pages.after_pushes(1, [&] { answers += arrived ? 1 : 100; });
  EXPECT_EQ(answers, 0) << "and this thread did not wait";
  pages.after_pushes(2, [&] { answers += 10; });
  EXPECT_EQ(answers, 10);
  go_on.count_down();
  giver.join();
  EXPECT_EQ(answers, 11);
  pages.after_pushes(1, [&] { ++answers; });
  EXPECT_EQ(answers, 12);
}

TEST(KernelPages, AChangeWaitsForWhatIsBeingGiven) {
  KernelPages pages;
  std::latch given(1);
  std::latch go_on(1);
  std::atomic<bool> arrived = false;
  std::thread giver([&] {
    pages.push_pages(1, [&] {
      given.count_down();
      go_on.wait();
      arrived = true;
      return true;
    });
  });
  given.wait();
  pages.await_quiet(2);
  EXPECT_FALSE(arrived);
  std::thread writer([&] {
    pages.await_quiet(1);
    EXPECT_TRUE(arrived);
  });
  go_on.count_down();
  giver.join();
  writer.join();
}

TEST(KernelPages, AChangeOfManyWaitsForWhatWasBeingGivenOfEach) {
  KernelPages pages;
  std::latch given(1);
  std::latch go_on(1);
  std::latch end(1);
  std::atomic<bool> arrived = false;
  std::thread giver([&] {
    pages.push_pages(14, [&] {
      given.count_down();
      go_on.wait();
      arrived = true;
      return true;
    });
    // The push began after the change, so the change does not wait for it.
    pages.push_pages(12, [&] {
      end.wait();
      return true;
    });
  });
  given.wait();
  pages.await_quiet(10, 4);
  EXPECT_FALSE(arrived) << "14 is not among these";
  std::thread writer([&] {
    pages.await_quiet(10, 5);
    EXPECT_TRUE(arrived);
    end.count_down();
  });
  go_on.count_down();
  writer.join();
  giver.join();
}

TEST(KernelPages, TheEndWaitsForWhatIsBeingGiven) {
  KernelPages pages;
  std::latch given(1);
  std::atomic<bool> arrived = false;
  std::thread giver([&] {
    pages.push_pages(1, [&] {
      given.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      arrived = true;
      return true;
    });
  });
  given.wait();
  pages.stop();
  EXPECT_TRUE(arrived);
  EXPECT_FALSE(pages.push_pages(2, [] { return true; }));
  giver.join();
}

TEST(KernelPages, APushThatThrowsHasEnded) {
  KernelPages pages;
  std::atomic<int> answers = 0;
  EXPECT_THROW(pages.push_pages(1,
                                [&]() -> bool {
                                  pages.after_pushes(1, [&] { ++answers; });
                                  pages.after_pushes(1, [] { throw std::bad_alloc(); });
                                  pages.after_pushes(1, [&] { ++answers; });
                                  throw std::bad_alloc();
                                }),
               std::bad_alloc);
  EXPECT_EQ(answers, 2) << "the thread that waited goes on";
  EXPECT_TRUE(pages.push_pages(1, [] { return true; }));
  pages.after_pushes(1, [&] { ++answers; });
  EXPECT_EQ(answers, 3);
  pages.await_quiet(1);
  pages.stop();
}

TEST(KernelPages, NothingIsLeftWhenMemoryRunsOut) {
  KernelPages pages;
  step_through_allocations(
      [&]() -> Result<> {
        const KernelPages::Writer writer(pages, 1);
        pages.push_pages(2, [] { return true; });
        return {};
      },
      [&](bool) {
        EXPECT_TRUE(pages.push_pages(1, [] { return true; })) << "there is no writer";
        EXPECT_TRUE(pages.push_pages(2, [] { return true; }));
      });
  pages.stop();
}

}  // namespace
}  // namespace codecfs::fs

#include "fs/passthrough/memory_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

namespace codecfs::fs {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(MemoryFiles, HaveTheirContentAndALimit) {
  const Result<MemoryFiles> made = MemoryFiles::create(4 * kMiB);
  if (!made && made.error().code == EPERM) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  ASSERT_TRUE(made) << made.error().reason;
  std::vector<UniqueFd> files;
  for (int i = 0; i < 4; ++i) {
    const std::vector<std::byte> content(kMiB - 100 * static_cast<size_t>(i), std::byte(i));
    Result<UniqueFd> file = made->make(content);
    ASSERT_TRUE(file) << file.error().reason;
    struct stat status{};
    ASSERT_EQ(fstat(file->get(), &status), 0);
    EXPECT_EQ(static_cast<size_t>(status.st_size), content.size());
    std::vector<std::byte> read(content.size());
    ASSERT_EQ(pread(file->get(), read.data(), read.size(), 0), static_cast<ssize_t>(read.size()));
    EXPECT_EQ(read, content);
    files.push_back(*std::move(file));
  }
  const std::vector<std::byte> one(kMiB);
  const Result<UniqueFd> refused = made->make(one);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  files.pop_back();
  EXPECT_TRUE(made->make(one));
  EXPECT_TRUE(made->make({}));
}

}  // namespace
}  // namespace codecfs::fs

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "backends/api/source_copy.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

class Hdf5CopyFile : public Hdf5Files {
 protected:
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void make() {
    const hdf5::LibraryLock lock;
    const Handle file = create(false, 512);
  }
  const std::string copy_ = path() + ".copy";
};

TEST_F(Hdf5CopyFile, HasAllBytesAndKeepsHoles) {
  make();
  constexpr off_t kSize = off_t{8} << 20;
  std::ofstream(path(), std::ios::in | std::ios::out).seekp(kSize / 2) << "in the middle";
  ASSERT_EQ(::truncate(path().c_str(), kSize), 0);
  std::ofstream(copy_) << "what was there before";
  ASSERT_TRUE(copy_hdf5_file(path(), copy_, [] { return false; }));
  EXPECT_TRUE(content(path()) == content(copy_));
  struct stat status{};
  ASSERT_EQ(::stat(copy_.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, kSize / 16);
}

TEST_F(Hdf5CopyFile, FailsWithReasons) {
  make();
  const auto expect = [&](const std::string& from, const std::string& to, bool cancelled, int code) {
    const Result<> copied = copy_hdf5_file(from, to, [&] { return cancelled; });
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().code, code) << copied.error().reason;
  };
  expect(path() + ".missing", copy_, false, ENOENT);
  expect(path(), path() + "/below", false, ENOTDIR);
  expect(path(), copy_, true, ECANCELED);
  ASSERT_EQ(::symlink(path().c_str(), (path() + ".link").c_str()), 0);
  const std::string before = content(path());
  expect(path(), path() + ".link", false, ELOOP);  // it could be the source
  EXPECT_EQ(content(path()), before);
}

}  // namespace
}  // namespace codecfs

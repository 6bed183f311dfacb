// A directory as the target of a conversion.

#include "commands/convert_target.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class DirectoryTargetTest : public testing::Test {
 protected:
  DirectoryTargetTest() : path(testing::TempDir() + "convert_target_" + std::to_string(getpid())) {
    std::filesystem::create_directory(path);
    target = *make_directory_target(path, true);
  }
  ~DirectoryTargetTest() override { std::filesystem::remove_all(path); }

  std::string path;
  std::unique_ptr<ConvertTarget> target;
};

TEST_F(DirectoryTargetTest, WritesFilesAndDirectories) {
  const auto below = target->make_directory(target->root(), "v");
  ASSERT_TRUE(below);
  EXPECT_TRUE(target->make_directory(target->root(), "v")) << "it may exist";
  for (const char* content : {"first", "2"}) {
    ASSERT_TRUE(target->write(*below, "0", bytes_of(content)));
    std::string found;
    std::ifstream(path + "/v/0") >> found;
    EXPECT_EQ(found, content);
  }
  EXPECT_TRUE(*target->has(*below, "0", 1));
  EXPECT_FALSE(*target->has(*below, "0", 5)) << "of another size";
  EXPECT_FALSE(*target->has(*below, "1", 1));
  ASSERT_TRUE(target->make_link(target->root(), "link", "v"));
  EXPECT_EQ(std::filesystem::read_symlink(path + "/link"), "v");
  EXPECT_TRUE(target->finish());
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::recursive_directory_iterator(path)) ++files;
  EXPECT_EQ(files, 3U) << "v, v/0 and link";
}

TEST_F(DirectoryTargetTest, SizesAreNotTrustedAfterAnotherBoot) {
  ASSERT_TRUE(target->write(target->root(), "0", bytes_of("x")));
  EXPECT_TRUE(*target->has(target->root(), "0", 1));
  EXPECT_FALSE(*(*make_directory_target(path, false))->has(target->root(), "0", 1));
}

TEST_F(DirectoryTargetTest, ErrorsNameThePath) {
  const Result<> written = target->write({path + "/nowhere", 0}, "0", bytes_of("x"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ENOENT);
  EXPECT_NE(written.error().reason.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace codecfs::commands

// A dataset as files, without a mount.

#include "commands/tree_files.h"

#include <gtest/gtest.h>

#include <set>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class TreeFilesTest : public testing::Test {
 protected:
  TreeFilesTest() : TreeFilesTest(std::make_unique<MemorySource>()) {}
  explicit TreeFilesTest(std::unique_ptr<MemorySource> owned) : source(*owned) {
    source.add_group("/g");
    source.add_variable("/g/v", text_variable({8}, {4}, {deflate(1)}));
    source.put("/g/v", 0, "abcd");
    source.add_link("/link", "g/v");
    tree.emplace(std::move(owned), fs::FilesystemOptions{.read_only = false, .view = fs::View::decoded});
  }
  std::set<std::string> names(const std::string& path) {
    std::set<std::string> found;
    EXPECT_TRUE(tree->list(ino(path), [&](const TreeFiles::Item& item) {
      found.insert(item.name);
      return Result<>();
    }));
    return found;
  }
  TreeFiles::Ino ino(const std::string& path) {
    const auto found = tree->find_path(path);
    EXPECT_TRUE(found) << path;
    return found.value_or(0);
  }
  std::string text(const std::string& path) {
    std::string content;
    EXPECT_TRUE(tree->read(ino(path), [&](Bytes bytes) {
      content = text_of(bytes);
      return Result<>();
    }));
    return content;
  }

  MemorySource& source;
  std::optional<TreeFiles> tree;
};

TEST_F(TreeFilesTest, ListsAndReads) {
  EXPECT_TRUE(names("").contains("g") && names("").contains("link"));
  EXPECT_FALSE(names("").contains("."));
  EXPECT_TRUE(names("g/v").contains("0") && !names("g/v").contains("1"));
  EXPECT_EQ(text("g/v/0"), "abcd");
  EXPECT_EQ(*tree->size(ino("g/v/0")), 4U);
  EXPECT_EQ(*tree->link_target(ino("link")), "g/v");
  EXPECT_EQ(tree->find_path("g/nowhere").error().code, ENOENT);
}

TEST_F(TreeFilesTest, WritesAndReplaces) {
  for (const char* content : {"wxyz", "WXYZ"}) {
    ASSERT_TRUE(tree->write(ino("g/v"), "1", bytes_of(content)));
    EXPECT_EQ(text("g/v/1"), content);
  }
  ASSERT_TRUE(tree->finish());
  EXPECT_TRUE(*tree->is_stored(ino("g/v/1")));
}

TEST_F(TreeFilesTest, AWrittenErrorIsReturned) {
  EXPECT_FALSE(tree->write(ino("g/v"), ".zarray", bytes_of("{\"zarr_format\": 7}")));
  EXPECT_FALSE(tree->write(ino("g/v"), "no chunk at all", bytes_of("x")));
}

TEST_F(TreeFilesTest, DirectoriesAndLinksMayExist) {
  const auto made = tree->make_directory(TreeFiles::root(), "new");
  ASSERT_TRUE(made);
  EXPECT_EQ(*tree->make_directory(TreeFiles::root(), "new"), *made);
  EXPECT_TRUE(tree->make_link(TreeFiles::root(), "link", "g/v"));
}

}  // namespace
}  // namespace codecfs::commands

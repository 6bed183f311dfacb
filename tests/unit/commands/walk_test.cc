// Everything in a dataset is visited once; paths lead to it.

#include "commands/walk.h"

#include <gtest/gtest.h>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class WalkTest : public testing::Test {
 protected:
  WalkTest() {
    source.add_group("/a");
    source.add_group("/a/b");
    source.add_variable("/a/b/v", text_variable({4}, {2}));
    source.add_variable("/w", text_variable({4}, {2}));
    source.add_link("/a/up", "../w");
    source.add_link("/a/inner", "b");
    source.add_link("/circle", "circle");
    source.add_link("/outside", "../../etc");
    source.add_link("/absolute", "/a/b/v");
  }
  std::vector<std::string> visited(const std::string& from = "") {
    std::vector<std::string> paths;
    EXPECT_TRUE(walk(
        source, normal_path(from), *find_path(source, from),
        [&](const std::string& path, const Entry&) {
          paths.push_back(path);
          return Result<>();
        },
        [](const std::string&, const Error& error) { return Result<>(std::unexpected(error)); }));
    return paths;
  }
  MemorySource source;
};

TEST_F(WalkTest, VisitsGroupsBeforeTheirMembers) {
  std::vector<std::string> paths = visited();
  ASSERT_EQ(paths.size(), 10U);
  EXPECT_EQ(paths[0], "");
  const auto place = [&](const char* path) { return std::ranges::find(paths, path) - paths.begin(); };
  EXPECT_LT(place("a"), place("a/b"));
  EXPECT_LT(place("a/b"), place("a/b/v"));
  std::ranges::sort(paths);
  EXPECT_EQ(std::ranges::adjacent_find(paths), paths.end());
}

TEST_F(WalkTest, BeginsAtAnyObject) {
  EXPECT_EQ(visited("/a/b/"), (std::vector<std::string>{"a/b", "a/b/v"}));
  EXPECT_EQ(visited("w"), (std::vector<std::string>{"w"}));
}

TEST_F(WalkTest, PathsAreWithinWholeNames) {
  EXPECT_TRUE(is_within("a/b", "a"));
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_TRUE(is_within("a", ""));
  EXPECT_FALSE(is_within("ab", "a"));
  EXPECT_FALSE(is_within("a", "a/b"));
}

TEST_F(WalkTest, EndsWithTheErrorOfAVisitor) {
  const Result<> done = walk(
      source, [](const std::string& path, const Entry&) { return path == "a" ? fail(EINTR, "x") : Result<>(); },
      [](const std::string&, const Error&) { return Result<>(); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EINTR);
}

TEST_F(WalkTest, RefusesGroupsThatAreNestedTooDeep) {
  std::string path;
  for (int depth = 0; depth < 1100; ++depth) source.add_group(path += "/g");
  const Result<> done = walk(
      source, [](const std::string&, const Entry&) { return Result<>(); },
      [](const std::string&, const Error&) { return Result<>(); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EFBIG);
}

TEST_F(WalkTest, FindsObjectsByPath) {
  for (const char* path : {"", "/", ".", "//./"})
    EXPECT_EQ(find_path(source, path)->object, source.root().object) << path;
  for (const char* path : {"a/b/v", "/a//b/./v/", "a/inner/v", "absolute"})
    EXPECT_EQ(find_path(source, path)->object, source.object("/a/b/v")) << path;
  EXPECT_EQ(find_path(source, "a/up")->object, source.object("/w"));
}

TEST_F(WalkTest, SaysWhyThereIsNoSuchObject) {
  const auto error_of = [&](const char* path) {
    const Result<Entry> found = find_path(source, path);
    return found ? Error{0, ""} : found.error();
  };
  EXPECT_EQ(error_of("a/x/y").code, ENOENT);
  EXPECT_EQ(error_of("a/x/y").reason, "there is no /a/x");
  EXPECT_EQ(error_of("w/x").code, ENOTDIR);
  EXPECT_EQ(error_of("w/x").reason, "/w is not a group");
  EXPECT_EQ(error_of("circle").code, ELOOP);
  EXPECT_EQ(error_of("outside").code, ENOENT);
}

TEST(NormalPath, HasNoSlashesToSpare) {
  EXPECT_EQ(normal_path(""), "");
  EXPECT_EQ(normal_path("/"), "");
  EXPECT_EQ(normal_path("//a/./b//"), "a/b");
  EXPECT_EQ(normal_path("..."), "...");
}

}  // namespace
}  // namespace codecfs::commands

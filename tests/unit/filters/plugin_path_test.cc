// Where plugins are looked for. What is done with them is tested on mounts (tests/mount/test_plugins.py).

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "filters/plugins/plugin_path.h"

namespace codecfs::filters {
namespace {

using Paths = std::vector<std::string>;

TEST(PluginPath, OptionThenEnvironment) {
  EXPECT_EQ(plugin_directories("/a:/b", "/c:/a/:/d;/e"), (Paths{"/a", "/b", "/c", "/d;/e"}))
      << "each once; a semicolon is part of a name";
  EXPECT_EQ(plugin_directories("", ""), Paths{}) << "set and empty means none";
  EXPECT_EQ(plugin_directories("::/a:", ":"), Paths{"/a"});
  const Paths relative = plugin_directories("x/../y", "");
  EXPECT_EQ(relative, Paths{(std::filesystem::current_path() / "y").string()});
}

TEST(PluginPath, DefaultsWhereTheEnvironmentSaysNothing) {
  const Paths found = plugin_directories("/a", nullptr);
  ASSERT_GE(found.size(), 2U);
  EXPECT_EQ(found.front(), "/a");
  EXPECT_NE(found.back().find("hdf5"), std::string::npos) << found.back();
}

class PluginFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/pluginsXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(PluginFiles, ByNameEachOnce) {
  for (const char* name : {"libb.so", "liba.so.1.2", "libc.so.old", "x.so", "libd.a", "lib.text"})
    std::ofstream(folder_ + "/" + name) << name;
  ASSERT_EQ(symlink("libb.so", (folder_ + "/liba_link.so").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ + "/libpipe.so").c_str(), 0600), 0);
  const auto files = plugin_files(folder_);
  ASSERT_TRUE(files) << files.error().reason;
  EXPECT_EQ(*files, (Paths{folder_ + "/liba.so.1.2", folder_ + "/liba_link.so", folder_ + "/libc.so.old"}));
}

TEST_F(PluginFiles, SaysWhatIsNoFolder) {
  EXPECT_EQ(plugin_files(folder_ + "/none").error().code, ENOENT);
  std::ofstream(folder_ + "/file") << "";
  EXPECT_EQ(plugin_files(folder_ + "/file").error().code, ENOTDIR);
}

}  // namespace
}  // namespace codecfs::filters

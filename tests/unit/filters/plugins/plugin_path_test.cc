// The search path for plugins. tests/mount/filters/test_plugins.py tests their use on mounts.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "filters/plugins/plugin_path.h"
#include "filters/plugins/plugin_trust.h"

namespace codecfs::filters {
namespace {

using Paths = std::vector<std::string>;

TEST(PluginPath, OptionThenEnvironmentThenDefaults) {
  const Paths defaults = plugin_directories("", nullptr);
  ASSERT_GE(defaults.size(), 1U);
  EXPECT_NE(defaults.back().find("hdf5"), std::string::npos) << defaults.back();
  const auto with_defaults = [&](Paths paths) {
    paths.insert(paths.end(), defaults.begin(), defaults.end());
    return paths;
  };
  EXPECT_EQ(plugin_directories("/a:/b", "/c:/a/:/d;/e"), with_defaults({"/a", "/b", "/c", "/d;/e"}))
      << "each once; a semicolon is part of a name";
  EXPECT_EQ(plugin_directories("::/a:", ":"), with_defaults({"/a"}));
  EXPECT_EQ(plugin_directories("/a", nullptr), with_defaults({"/a"}));
  EXPECT_EQ(plugin_directories("", defaults.back().c_str()).front(), defaults.back()) << "named, it is not the last";
}

TEST(PluginPath, SetAndEmptyExcludesTheDefaults) {
  EXPECT_EQ(plugin_directories("", ""), Paths{});
  EXPECT_EQ(plugin_directories("/a", ""), Paths{"/a"});
  const Paths relative = plugin_directories("x/../y", "");
  EXPECT_EQ(relative, Paths{(std::filesystem::current_path() / "y").string()});
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

TEST_F(PluginFiles, AreTrustedWhereNobodyElseCanWrite) {
  namespace fs = std::filesystem;
  const std::string inner = folder_ + "/inner";
  const std::string file = inner + "/liba.so";
  const std::string link = folder_ + "/libb.so";
  fs::create_directory(inner);
  std::ofstream(file) << "text";
  fs::create_symlink(file, link);
  const auto set = [](const std::string& path, mode_t mode) { ASSERT_EQ(chmod(path.c_str(), mode), 0); };
  set(folder_, 0755);
  set(inner, 0755);
  set(file, 0644);
  ASSERT_TRUE(trusted_path(file)) << trusted_path(file).error().reason;
  EXPECT_EQ(*trusted_path(link), fs::canonical(file).string()) << "what is loaded is no link any more";
  EXPECT_EQ(*trusted_path(inner), fs::canonical(inner).string());
  EXPECT_EQ(trusted_path(folder_ + "/none").error().code, ENOENT);
  for (const mode_t mode : {0646, 0664, 0666}) {
    set(file, mode);
    EXPECT_EQ(trusted_path(file).error().code, EPERM) << std::oct << mode;
    EXPECT_EQ(trusted_path(link).error().code, EPERM) << std::oct << mode;
    EXPECT_TRUE(trusted_path(inner));
  }
  set(file, 0644);
  for (const mode_t mode : {0775, 0757, 01777}) {
    set(inner, mode);
    EXPECT_EQ(trusted_path(inner).error().code, EPERM) << std::oct << mode;
    EXPECT_EQ(trusted_path(file).error().code, EPERM) << std::oct << mode;
  }
  set(inner, 0755);
  set(folder_, 0777);
  EXPECT_EQ(trusted_path(file).error().code, EPERM) << "other users could replace the directory";
  set(folder_, 01777);
  EXPECT_TRUE(trusted_path(file)) << "there they cannot";
  EXPECT_EQ(trusted_path(folder_).error().code, EPERM);
  set(folder_, 0700);
}

}  // namespace
}  // namespace codecfs::filters

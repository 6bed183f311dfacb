// Which mount points and existing sources are refused.

#include "mount/mount_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace codecfs::mount {
namespace {

namespace files = std::filesystem;

class MountChecks : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (files::temp_directory_path() / "codecfs_checks_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = files::canonical(pattern);
    files::create_directory(directory_ / "mnt");
  }
  void TearDown() override { files::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }

  files::path directory_;
};

TEST_F(MountChecks, AnEmptyDirectoryIsResolved) {
  files::create_symlink("mnt", path("link"));
  const Result<std::string> mountpoint = check_mountpoint(path("link/."), path("a.h5"), false);
  ASSERT_TRUE(mountpoint) << mountpoint.error().reason;
  EXPECT_EQ(*mountpoint, path("mnt"));
}

TEST_F(MountChecks, FilesThatTheMountWouldHideAreNamed) {
  std::ofstream(path("mnt/.data")) << "x";
  const Result<std::string> refused = check_mountpoint(path("mnt"), path("a.h5"), false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOTEMPTY);
  EXPECT_NE(refused.error().reason.find("'.data'"), std::string::npos) << refused.error().reason;
  EXPECT_TRUE(check_mountpoint(path("mnt"), path("a.h5"), true));
  EXPECT_TRUE(check_mountpoint(path("mnt"), path("mnt/."), false)) << "the source itself";
}

TEST_F(MountChecks, OtherFilesAreNoMountPoints) {
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(check_mountpoint(path("file"), "a", true).error().code, ENOTDIR);
  EXPECT_EQ(check_mountpoint(path("missing"), "a", true).error().code, ENOENT);
}

TEST(CreatedFormat, IsThatOfTheSource) {
  for (const auto& [create, format] :
       {std::pair("hdf5", "HDF5"), std::pair("hdf5", "netCDF-4"), std::pair("zarr", "Zarr v2"),
        std::pair("zarr3", "Zarr v3"), std::pair("zip", "Zarr v2 in a zip archive"),
        std::pair("zip", "Zarr v3 in a zip archive")})
    EXPECT_TRUE(check_created_format("a", create, format)) << create << " " << format;
  for (const auto& [create, format] :
       {std::pair("hdf5", "Zarr v2"), std::pair("zarr", "Zarr v3"), std::pair("zarr3", "Zarr v2"),
        std::pair("zarr", "Zarr v2 in a zip archive"), std::pair("zip", "Zarr v2"), std::pair("zarr", "folder"),
        std::pair("zarr", "HDF5")}) {
    const Result<> refused = check_created_format("a", create, format);
    ASSERT_FALSE(refused) << create << " " << format;
    EXPECT_EQ(refused.error().code, EEXIST);
    EXPECT_NE(refused.error().reason.find(format), std::string::npos);
  }
}

}  // namespace
}  // namespace codecfs::mount

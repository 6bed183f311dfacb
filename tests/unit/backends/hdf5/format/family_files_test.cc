// Names and bytes of the members of HDF5's family driver, and what its superblocks say.

#include "backends/hdf5/format/family_files.h"

#include <fcntl.h>
#include <hdf5.h>

#include "backends/hdf5/format/superblock.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5 {
namespace {

class FamilyFilesTest : public hdf5_testing::Hdf5Files {
 protected:
  static constexpr hsize_t kMember = 4000;

  /// A file of 10,000 integers in members of kMember bytes.
  void create_family(const std::string& pattern, bool latest) {
    const LibraryLock lock;
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access.get(), latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
    ASSERT_GE(H5Pset_fapl_family(access.get(), kMember, H5P_DEFAULT), 0);
    const Handle file(H5Fcreate(path(pattern).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
    ASSERT_TRUE(file);
    hdf5_testing::write_all(hdf5_testing::make_dataset(file, "v", H5T_NATIVE_INT, {10'000}), H5T_NATIVE_INT, values());
  }
  static std::vector<int> values() {
    std::vector<int> values(10'000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(7 * i);
    return values;
  }
  Result<std::optional<FamilyFiles>> open(const std::string& name) {
    first_ = {.fd = UniqueFd(::open(path(name).c_str(), O_RDONLY | O_CLOEXEC)), .path = path(name)};
    CODECFS_ASSIGN(const File directory, open_directory(folder_.string()));
    return FamilyFiles::open(directory, name, first_);
  }
  std::string reason(const std::string& name) {
    const auto opened = open(name);
    return opened ? "" : opened.error().reason;
  }

  File first_;
};

TEST(FamilyPatterns, CountFromTheZerosOfTheFirstName) {
  EXPECT_EQ(family_patterns("a0.h5"), std::vector<std::string>{"a%d.h5"});
  EXPECT_EQ(family_patterns("a000.h5"), (std::vector<std::string>{"a%03d.h5", "a0%02d.h5", "a00%d.h5"}));
  EXPECT_EQ(family_patterns("100_v0.h5"), (std::vector<std::string>{"100_v%d.h5", "1%02d_v0.h5", "10%d_v0.h5"}));
  EXPECT_EQ(family_patterns("100%_0"), (std::vector<std::string>{"100%%_%d", "1%02d%%_0", "10%d%%_0"}));
  EXPECT_TRUE(family_patterns("a1.h5").empty());
  EXPECT_EQ(family_member("a%03d%%.h5", 12), "a012%.h5");
}

TEST_F(FamilyFilesTest, TheMembersAreOneFile) {
  for (const bool latest : {false, true}) {
    create_family("f%05d.h5", latest);
    const auto family = open("f00000.h5");
    ASSERT_TRUE(family) << family.error().reason;
    ASSERT_TRUE(*family);
    EXPECT_GE((*family)->count(), 11U);
    EXPECT_EQ((*family)->pattern(), path("f%05d.h5"));
    std::string bytes((*family)->size() + 10, '?');
    const auto count = (*family)->read(first_, 0, std::as_writable_bytes(std::span(bytes)));
    ASSERT_TRUE(count);
    EXPECT_EQ(*count, (*family)->size());
    const std::vector<int> wanted = values();
    const std::string_view array(reinterpret_cast<const char*>(wanted.data()), 4 * wanted.size());
    EXPECT_NE(bytes.find(array), std::string::npos);
    std::string part(kMember, '?');
    ASSERT_TRUE((*family)->read(first_, 3 * kMember - 5, std::as_writable_bytes(std::span(part))));
    EXPECT_EQ(part, bytes.substr(3 * kMember - 5, kMember));
  }
}

TEST_F(FamilyFilesTest, TheSourceShowsThem) {
  for (const bool latest : {false, true}) {
    create_family("f%d.h5", latest);
    const auto source = open_hdf5(path("f0.h5"), true);
    ASSERT_TRUE(source) << source.error().reason;
    const ObjectId variable = hdf5_testing::object_at(**source, "v");
    EXPECT_EQ(hdf5_testing::elements_of<int>(*(*source)->read_chunk(variable, 0)), values());
    EXPECT_EQ((*source)->writable().error().code, EROFS);
    EXPECT_NE((*source)->writable().error().reason.find("h5repack " + path("f%d.h5")), std::string::npos);
  }
}

TEST_F(FamilyFilesTest, AMissingMemberIsAnErrorWithItsName) {
  create_family("f%d.h5", false);
  std::filesystem::remove(path("f4.h5"));
  EXPECT_NE(reason("f0.h5").find(path("f4.h5") + " cannot be opened"), std::string::npos) << reason("f0.h5");
  std::filesystem::rename(path("f0.h5"), path("first.h5"));
  EXPECT_NE(reason("first.h5").find("its name has no 0"), std::string::npos) << reason("first.h5");
}

TEST_F(FamilyFilesTest, ATruncatedMemberEndsTheRead) {
  create_family("f%d.h5", false);
  std::filesystem::resize_file(path("f4.h5"), 100);
  const auto family = open("f0.h5");
  ASSERT_TRUE(family && *family);
  std::string bytes(kMember, '?');
  EXPECT_EQ((*family)->read(first_, 4 * kMember - 50, std::as_writable_bytes(std::span(bytes))), 150U);
}

TEST_F(FamilyFilesTest, OtherFilesAreNoFamily) {
  {
    const LibraryLock lock;
    create();
  }
  const auto family = open("t.h5");
  ASSERT_TRUE(family);
  EXPECT_FALSE(*family);
}

TEST_F(FamilyFilesTest, TheSplitDriverIsAnErrorThatTellsWhatToDo) {
  for (const bool latest : {false, true}) {
    {
      const LibraryLock lock;
      const Handle access(H5Pcreate(H5P_FILE_ACCESS));
      H5Pset_libver_bounds(access.get(), latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
      ASSERT_GE(H5Pset_fapl_split(access.get(), "-m.h5", H5P_DEFAULT, "-r.h5", H5P_DEFAULT), 0);
      const Handle file(H5Fcreate(path("s").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
      ASSERT_TRUE(file);
    }
    EXPECT_NE(reason("s-m.h5").find("h5repack " + path("s") + " ONE.h5"), std::string::npos) << reason("s-m.h5");
  }
}

}  // namespace
}  // namespace codecfs::hdf5

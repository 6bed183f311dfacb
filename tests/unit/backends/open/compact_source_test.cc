// What is compacted, by the content of the path.

#include "backends/open/source_opener.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backends/api/source.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

class CompactSource : public hdf5_testing::Hdf5Files {};

TEST_F(CompactSource, LeavesZarrDirectories) {
  ASSERT_TRUE(SourceOpener().create(path("store"), "zarr"));
  EXPECT_EQ(*compact_source(path("store")), path("store") + ": a Zarr directory has no unused space");
}

TEST_F(CompactSource, RewritesAnArchiveOnlyIfItBecomesSmaller) {
  const std::string archive = path("a.zip");
  ASSERT_TRUE(SourceOpener().create(archive, "zip"));
  const auto size = std::filesystem::file_size(archive);
  EXPECT_EQ(*compact_source(archive), fmt::format("{}: {} bytes, cannot become smaller; unchanged", archive, size));
}

TEST_F(CompactSource, RewritesAnHdf5File) {
  hdf5_testing::make_dataset(create(), "v", H5T_NATIVE_INT, {4});
  const auto size = std::filesystem::file_size(path());
  std::filesystem::resize_file(path(), size + 10'000);
  const auto summary = compact_source(path());
  ASSERT_TRUE(summary) << summary.error().reason;
  EXPECT_LE(std::filesystem::file_size(path()), size);
}

TEST_F(CompactSource, RefusesWhatIsNoDataset) {
  const auto folder = compact_source(path(""));
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, EINVAL);
  EXPECT_NE(folder.error().reason.find("a Zarr store has .zgroup"), std::string::npos);
  std::ofstream(path("text")) << "text";
  const auto text = compact_source(path("text"));
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().reason.find(path("text")), std::string::npos) << text.error().reason;
  const auto missing = compact_source(path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ENOENT);
}

}  // namespace
}  // namespace codecfs

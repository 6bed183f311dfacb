#include <gtest/gtest.h>
#include <hdf5.h>

#include "backends/api/source.h"

namespace codecfs {
namespace {

TEST(FormatVersions, NamesTheLibraryInUse) {
  EXPECT_EQ(format_versions(), fmt::format("libhdf5 {}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
}

}  // namespace
}  // namespace codecfs

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "backends/api/newer_format.h"

namespace codecfs {
namespace {

TEST(Hdf5Version, NamesTheLibraryInUse) {
  EXPECT_EQ(hdf5_version(), fmt::format("libhdf5 {}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
}

}  // namespace
}  // namespace codecfs

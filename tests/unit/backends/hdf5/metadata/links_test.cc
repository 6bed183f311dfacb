#include "backends/hdf5/metadata/links.h"

#include <gtest/gtest.h>

namespace codecfs::hdf5 {
namespace {

TEST(Hdf5Links, NamesOfLinks) {
  EXPECT_TRUE(is_link_name("a b"));
  EXPECT_TRUE(is_link_name(".."));  // an ordinary name in HDF5
  for (const std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view("a/b"), std::string_view("a\0b", 3)})
    EXPECT_FALSE(is_link_name(name)) << name;
}

TEST(Hdf5Links, ComponentsOfPaths) {
  using Components = std::vector<std::string_view>;
  EXPECT_EQ(components_of("/a//b/./c/"), (Components{"a", "b", "c"}));
  EXPECT_EQ(components_of("/"), Components());
  EXPECT_EQ(components_of(""), Components());
}

TEST(Hdf5Links, NetcdfNames) {
  EXPECT_EQ(netcdf_name("_nc4_non_coord_x"), "x");
  EXPECT_EQ(netcdf_name("_nc4_non_coord_"), "_nc4_non_coord_");
  EXPECT_EQ(netcdf_name("x"), "x");
}

}  // namespace
}  // namespace codecfs::hdf5

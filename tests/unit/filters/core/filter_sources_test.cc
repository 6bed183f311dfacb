// What to install for a filter that is missing.

#include "filters/core/filter_sources.h"

#include <gtest/gtest.h>

#include "filters/core/filter.h"

namespace codecfs::filters {
namespace {

TEST(FilterSources, NamesTheFilterAndAWayToGetIt) {
  EXPECT_EQ(where_to_get(32015).substr(0, 48), "it is Zstandard: Debian package codecfs-plugins;");
  EXPECT_NE(where_to_get(32013).find("hdf5-filter-plugin-zfp-serial"), std::string::npos);
  EXPECT_NE(where_to_get(32024).find("pip install hdf5plugin"), std::string::npos);
  EXPECT_NE(where_to_get(32020).find("https://github.com/nanoporetech/vbz_compression"), std::string::npos);
}

TEST(FilterSources, SaysWhatAnUnknownNumberMeans) {
  EXPECT_EQ(where_to_get(0), "");
  for (const uint32_t id : {256U, 511U, 32768U, 40000U, 65535U})
    EXPECT_NE(where_to_get(id).find("not a registered filter"), std::string::npos) << id;
  for (const uint32_t id : {512U, 31000U, 32032U, 32767U})
    EXPECT_NE(where_to_get(id).find("names the author"), std::string::npos) << id;
}

TEST(FilterSources, KnowsAllFiltersThatCanBeTakenOutOfUs) {
  for (const FilterPtr& filter : list()) {
    if (filter->id < 256 || !filter->make_coder) continue;
    EXPECT_TRUE(where_to_get(filter->id).starts_with("it is ")) << filter->name;
  }
}

}  // namespace
}  // namespace codecfs::filters

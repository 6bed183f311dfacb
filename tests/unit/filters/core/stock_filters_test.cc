// Pipelines of filters that each program with HDF5 has.

#include "filters/core/stock_filters.h"

#include <gtest/gtest.h>

#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"

namespace codecfs::filters {
namespace {

std::vector<FilterStage> chain(std::string_view spec) { return parse_filter_spec(spec).value(); }
std::string stock(std::string_view spec, uint64_t item_size) {
  return print_filter_spec(stock_chain(chain(spec), item_size)).value();
}

TEST(StockFilters, StayAsTheyAre) {
  EXPECT_TRUE(are_stock({}));
  EXPECT_TRUE(are_stock(chain("fletcher32|shuffle|deflate,9")));
  EXPECT_EQ(stock("deflate,1", 8), "1,1");
  EXPECT_EQ(stock("shuffle", 8), "2");
  EXPECT_TRUE(stock_chain({}, 8).empty());
}

TEST(StockFilters, TakeThePlaceOfOthers) {
  EXPECT_FALSE(are_stock(chain("shuffle|zstd,3")));
  EXPECT_EQ(stock("zstd,3", 8), "2|1,4");
  EXPECT_EQ(stock("zstd,3", 1), "1,4");
  EXPECT_EQ(stock("zstd,3", 0), "1,4");
  EXPECT_EQ(stock("shuffle|blosc,5", 4), "2|1,4");
  EXPECT_EQ(stock("fletcher32|bzip2,9", 2), "3|2|1,4");
  EXPECT_EQ(stock("4,32,32", 4), "2|1,4") << "szip is not in all builds of HDF5";
}

TEST(StockFilters, NameThePluginsThatAreNeeded) {
  EXPECT_EQ(plugins_needed(chain("fletcher32|shuffle|deflate,9")), "");
  EXPECT_EQ(plugins_needed(chain("4,32,32")), "");
  EXPECT_EQ(plugins_needed(chain("shuffle|zstd,3|bzip2,9")), "zstd and bzip2");
  EXPECT_EQ(plugins_needed(chain("40000,1")), "40000");
}

}  // namespace
}  // namespace codecfs::filters

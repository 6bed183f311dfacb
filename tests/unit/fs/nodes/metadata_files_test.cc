// The metadata texts and the extended attributes of a variable created in the test.

#include "fs/nodes/metadata_files.h"

#include <gtest/gtest.h>

#include "filters/core/codec_json.h"
#include "fs/nodes/xattrs.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

VariableView example() {
  auto facts = std::make_shared<Variable>();
  facts->type = *parse_dtype("<f4");
  facts->grid = *ChunkGrid::make({4, 40}, {2, 20});
  facts->chunk_bytes = 160;
  facts->fill_value = Json(-9.0);
  facts->filters = {{.id = 2, .parameters = {4}, .codec = {}, .name = "shuffle", .optional = true},
                    {.id = 1, .parameters = {5}, .codec = {}, .name = "deflate", .optional = true}};
  facts->attributes = {{"units", "K"}, {"valid_range", Json::array({0, 100})}, {"_Storage", "a user's own"}};
  facts->dimensions = std::vector<std::string>{"t", "x"};
  VariableView view;
  view.filter = std::make_shared<const std::string>(*filters::print_filter_spec(facts->filters) + "\n");
  view.codecs = std::make_shared<const std::string>(print_json(filters::print_codecs(facts->filters)) + "\n");
  view.facts = facts;
  return view;
}

std::string value_of(const std::vector<Xattr>& list, const std::string& name) {
  for (const Xattr& xattr : list)
    if (xattr.name == name) return xattr.value;
  return "(absent)";
}

TEST(MetadataFiles, ZarrayIsThatOfAnUncompressedStore) {
  EXPECT_EQ(print_json(zarray_json(*example().facts)),
            R"({"zarr_format": 2, "shape": [4, 40], "dtype": "<f4", "chunks": [2, 20], "fill_value": -9.0, )"
            R"("order": "C", "compressor": null, "filters": null, "dimension_separator": "."})");
}

TEST(MetadataFiles, ObjectCodecStaysInZarray) {
  Variable variable = *example().facts;
  variable.object_codec = Json{{"id", "vlen-utf8"}};
  EXPECT_EQ(print_json(zarray_json(variable)["filters"]), R"([{"id": "vlen-utf8"}])");
}

TEST(MetadataFiles, ZattrsEndWithDimensions) {
  EXPECT_EQ(print_json(zattrs_json(*example().facts)),
            R"({"units": "K", "valid_range": [0, 100], "_Storage": "a user's own", "_ARRAY_DIMENSIONS": ["t", "x"]})");
}

TEST(Xattrs, SpecialOnesWin) {
  const auto list = variable_xattrs(example(), example().facts->attributes);
  EXPECT_EQ(value_of(list, "user._Storage"), "chunked");
  EXPECT_EQ(value_of(list, "user._Filter"), "2,4|1,5");
  EXPECT_EQ(value_of(list, "user._DeflateLevel"), "5");
  EXPECT_EQ(value_of(list, "user._Shuffle"), "true");
  EXPECT_EQ(value_of(list, "user._Fletcher32"), "(absent)");
  EXPECT_EQ(value_of(list, "user.units"), "K");
  EXPECT_EQ(value_of(list, "user.valid_range"), "[0, 100]");
}

TEST(Xattrs, LeaveOutWhatTheKernelRefuses) {
  const auto list = group_xattrs({{"large", std::string(kMaxXattrValue + 1, 'x')},
                                  {std::string(300, 'n'), 1},
                                  {"fits", std::string(kMaxXattrValue, 'x')}});
  ASSERT_EQ(list.size(), 1);
  EXPECT_EQ(list[0].name, "user.fits");
}

}  // namespace
}  // namespace codecfs::fs

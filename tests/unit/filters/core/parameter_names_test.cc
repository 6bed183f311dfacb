// What the parameters of filters mean.

#include "filters/core/parameter_names.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "model/json.h"

namespace codecfs::filters {
namespace {

std::string words(uint32_t id, std::vector<uint32_t> parameters, const std::string& name = "") {
  return parameters_text(name_parameters({.id = id, .parameters = std::move(parameters), .codec = {}, .name = name}));
}

// The numbers that h5py 3.16 and hdf5plugin 7.1 store for chunks of 20 × 25 elements of float32.
TEST(ParameterNames, OfFiltersInFiles) {
  EXPECT_EQ(
      words(32001, {2, 2, 4, 2000, 7, 2, 5}),
      "compressor zstd, level 7, shuffle bits, element bytes 4, chunk bytes 2000, filter revision 2, format version 2");
  EXPECT_EQ(
      words(32026, {1, 0, 4, 2000, 3, 1, 2, 2, 20, 25}),
      "compressor lz4hc, level 3, shuffle bytes, block bytes automatic, element bytes 4, chunk bytes 2000, chunk shape "
      "20 × 25, filter revision 1");
  EXPECT_EQ(words(32026, {1, 0, 4, 100, 9, 3, 5}),
            "compressor zstd, level 9, shuffle delta, block bytes automatic, element bytes 4, chunk bytes 100, filter "
            "revision 1");
  EXPECT_EQ(words(32008, {0, 4, 4, 0, 3, 4}),
            "compressor zstd, level 4, block elements automatic, element bytes 4, version 0.4");
  EXPECT_EQ(words(32008, {0, 4, 4, 256, 0}), "compressor none, block elements 256, element bytes 4, version 0.4");
  EXPECT_EQ(words(32008, {0, 4, 4}), "compressor none, block elements automatic, element bytes 4, version 0.4");
  EXPECT_EQ(words(32015, {17}), "level 17");
  EXPECT_EQ(words(32015, {static_cast<uint32_t>(-5)}), "level -5");
  EXPECT_EQ(words(32004, {4096}), "block bytes 4096");
  EXPECT_EQ(words(32004, {0}), "block bytes 1073741824");
  EXPECT_EQ(words(307, {7}), "level 7");
  EXPECT_EQ(words(32000, {4, 261, 2000}), "chunk bytes 2000, filter revision 4, LZF version 1.5");
  EXPECT_EQ(words(1, {6}), "level 6");
  EXPECT_EQ(words(2, {4}), "element bytes 4");
  EXPECT_EQ(
      words(4, {169, 16, 32, 25}),
      "coding nearest neighbour, block pixels 16, pixel bits 32, scanline pixels 25, byte order little, mode K13");
  EXPECT_EQ(words(4, {4, 8}), "coding entropy, block pixels 8");
}

TEST(ParameterNames, OfNbitAndScaleOffset) {
  EXPECT_EQ(words(5, {8, 0, 128, 1, 4, 1, 12, 3}),
            "type number, bits 12, first bit 3, packed yes, element bytes 4, chunk elements 128, byte order big");
  EXPECT_EQ(words(5, {8, 1, 128, 1, 4, 0, 32, 0}),
            "type number, bits 32, first bit 0, packed no, element bytes 4, chunk elements 128, byte order little");
  // {int32 x; 3 bits of an int8 y;}
  EXPECT_EQ(words(5, {18, 0, 9, 3, 5, 2, 0, 1, 4, 0, 32, 0, 4, 1, 1, 0, 3, 0}),
            "type compound, packed yes, element bytes 5, chunk elements 9");
  std::vector<uint32_t> so(20);
  so = {0, 3, 500, 1, 4, 0, 0, 1, std::bit_cast<uint32_t>(-1.5F)};
  so.resize(20);
  EXPECT_EQ(words(6, so),
            "method decimal digits, digits 3, chunk elements 500, type float, element bytes 4, byte order "
            "little, fill value -1.5");
  so = {0, static_cast<uint32_t>(-2), 500, 1, 8, 0, 1, 1, 0, 0x7ff80000};
  so.resize(20);
  EXPECT_EQ(words(6, so),
            "method decimal digits, digits -2, chunk elements 500, type float, element bytes 8, byte order "
            "big, fill value nan");
  so = {2, 12, 500, 0, 2, 1, 1, 1, 0xfff9};
  so.resize(20);
  EXPECT_EQ(words(6, so),
            "method integers, bits 12, chunk elements 500, type integer, signed yes, element bytes 2, byte "
            "order big, fill value -7");
  so = {2, 0, 500, 0, 8, 0, 0, 1, 1, 0x80000000};
  so.resize(20);
  EXPECT_EQ(words(6, so),
            "method integers, bits as many as each chunk needs, chunk elements 500, type integer, signed no, "
            "element bytes 8, byte order little, fill value 9223372036854775809");
  so[7] = 0;
  EXPECT_EQ(words(6, so).find("fill value"), std::string::npos);
  EXPECT_EQ(words(6, {2, 0}), "method integers, bits as many as each chunk needs");
}

TEST(ParameterNames, OfZfp) {
  const uint32_t version = 0x10105111;
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 175112193}),
            "mode fixed rate, element bits 10.5, zfp version 1.0.1, filter version 1.1.1");
  EXPECT_EQ(words(32013, {version, 91252346, 386, 32505856}),  // of one dimension
            "mode fixed rate, element bits 8.0, zfp version 1.0.1, filter version 1.1.1");
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 2159017985}),
            "mode fixed precision, bit planes 12, zfp version 1.0.1, filter version 1.1.1");
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 3401580545}),
            "mode fixed accuracy, tolerance 0.0078125, zfp version 1.0.1, filter version 1.1.1");
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 2281701377}),
            "mode reversible, zfp version 1.0.1, filter version 1.1.1");
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 4293918721, 3253960704, 527524}),
            "mode expert, minbits 1, maxbits 1000, maxprec 20, minexp -10, zfp version 1.0.1, filter version 1.1.1");
  // Cut short, of another program, and as users give them.
  EXPECT_EQ(words(32013, {version, 91252346, 805306758, 4293918721}), "");
  EXPECT_EQ(words(32013, {version, 91252346}), "");
  EXPECT_EQ(words(32013, {version, 91252347, 805306758, 2281701377}), "");
  EXPECT_EQ(words(32013, {3, 0, 0x47ae147b, 0x3f847ae1}), "");
  EXPECT_EQ(words(32013, {version}), "");
}

TEST(ParameterNames, OfSz3) {
  const auto sz3 = [](std::vector<uint32_t> sizes, std::vector<uint32_t> errors) {
    sizes.insert(sizes.end(), errors.begin(), errors.end());
    return words(32024, sizes);
  };
  const std::vector<uint32_t> flat{2, 0, 25, 20};
  EXPECT_EQ(sz3(flat, {0, 1062232653, 3539053052, 0, 0, 0, 0, 0, 0}),
            "error bound absolute, absolute 0.001, type float32, dimensions 2");
  EXPECT_EQ(sz3(flat, {1, 0, 0, 1065646817, 1202590843, 0, 0, 0, 0}),
            "error bound relative, relative 0.01, type float32, dimensions 2");
  EXPECT_EQ(sz3(flat, {2, 0, 0, 0, 0, 0, 0, 1078853632, 0}), "error bound PSNR, PSNR 60.0, type float32, dimensions 2");
  EXPECT_EQ(sz3({1, 1, 0, 25}, {3, 0, 0, 0, 0, 1071644672, 0, 0, 0}),
            "error bound L2 norm, L2 norm 0.5, type float64, dimensions 1");
  EXPECT_EQ(sz3({3, 7, 5, 10, 5}, {4, 1071644672, 0, 1065646817, 1202590843, 0, 0, 0, 0}),
            "error bound absolute and relative, absolute 0.5, relative 0.01, type int32, dimensions 3");
  EXPECT_EQ(sz3({3, 7, 5, 10}, {4, 1071644672, 0, 1065646817, 1202590843, 0, 0, 0, 0}), "") << "one too few";
  EXPECT_EQ(sz3(flat, {9, 0, 0, 0, 0, 0, 0, 0, 0}), "");
  EXPECT_EQ(words(32024, flat), "");
  // SZ3 3.2 begins with a magic number.
  EXPECT_EQ(sz3({0xf342f310, 0, 25, 20}, {0, 1062232653, 3539053052, 0, 0, 0, 0, 0, 0}), "");
}

TEST(ParameterNames, OfTheQuantizersOfCcr) {
  const char* const groom = "BitGroom filter (Zender, 2016 GMD: http://www.geosci-model-dev.net/9/3199/2016)";
  const char* const round = "BitRound filter (Zender, 2016 GMD: http://www.geosci-model-dev.net/9/3199/2016)";
  const uint32_t fill = std::bit_cast<uint32_t>(-999.0F);
  EXPECT_EQ(words(32022, {3, 4, 0, 0, 0}, groom), "significant digits 3, element bytes 4");
  EXPECT_EQ(words(32022, {10, 4, 1, fill, 0}, round), "significant bits 10, element bytes 4, missing value -999.0");
  EXPECT_EQ(words(32022, {3, 4, 0, 0, 0}), "") << "without the name: digits or bits";
  const auto wide = std::bit_cast<uint64_t>(1e36);
  EXPECT_EQ(words(32023, {4, 8, 1, static_cast<uint32_t>(wide), static_cast<uint32_t>(wide >> 32)}),
            "significant digits 4, element bytes 8, missing value 1e+36");
  EXPECT_EQ(words(32023, {4, 8}), "");
}

TEST(ParameterNames, UnknownCodesStayNumbers) {
  EXPECT_EQ(words(32001, {2, 2, 4, 2000, 7, 9, 8}),
            "compressor 8, level 7, shuffle 9, element bytes 4, chunk bytes 2000, filter revision 2, format version 2");
  EXPECT_EQ(words(32026, {1, 0, 4, 100, 9, 1, 3}).substr(0, 12), "compressor 3");
  EXPECT_EQ(words(32008, {0, 4, 4, 0, 1}).substr(0, 12), "compressor 1");
}

// As netCDF sets them, and as they follow from the JSON of a Zarr codec.
TEST(ParameterNames, OfBloscWithABlockSize) {
  EXPECT_EQ(words(32001, {0, 0, 0, 4096, 5, 1, 1}), "compressor lz4, level 5, shuffle bytes, block bytes 4096");
  EXPECT_EQ(words(32001, {0, 0, 0, 0, 5, UINT32_MAX, 1}), "compressor lz4, level 5, shuffle automatic");
}

TEST(ParameterNames, NoneForUnknownNumbersOfParameters) {
  for (const uint32_t id :
       {1U, 2U, 4U, 5U, 6U, 307U, 32000U, 32001U, 32004U, 32008U, 32013U, 32015U, 32023U, 32024U, 32026U})
    for (const size_t count : {0U, 17U, 33U, 200U})
      EXPECT_EQ(words(id, std::vector<uint32_t>(count, 1)), "") << id << " " << count;
  EXPECT_EQ(words(3, {}), "");
  EXPECT_EQ(words(32017, {2, 0, 25, 20}), "");
  EXPECT_EQ(words(0, {1}), "");
}

TEST(ParameterNames, AreKeysInJson) {
  const auto named = name_parameters({.id = 32001, .parameters = {2, 2, 4, 2000, 7, 2, 5}, .codec = {}, .name = ""});
  EXPECT_EQ(print_json(parameters_json(named)),
            R"({"compressor": "zstd", "level": 7, "shuffle": "bits", "element_bytes": 4, "chunk_bytes": 2000, )"
            R"("filter_revision": 2, "format_version": 2})");
}

}  // namespace
}  // namespace codecfs::filters

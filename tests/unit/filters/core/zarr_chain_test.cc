#include "filters/core/zarr_chain.h"

#include <gtest/gtest.h>

#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

std::string shown(const ZarrChain& chain) { return print_json(print_codecs(chain.stages)); }

ChunkShape chunk_of(uint64_t item_size) {
  return {.bytes = 1000 * item_size, .type = {TypeKind::raw, ByteOrder::none, item_size, {}, {}}};
}

ZarrChain zarr(std::string_view spec, uint64_t item_size = 4) {
  return zarr_chain(*parse_filter_spec(spec), chunk_of(item_size));
}

Result<std::string> hdf5(std::string_view codecs, uint64_t item_size = 4) {
  CODECFS_ASSIGN(const auto stages, parse_zarr_codecs(Json(), *parse_json(codecs), item_size));
  CODECFS_ASSIGN(const auto chain, hdf5_chain(stages, chunk_of(item_size)));
  return print_filter_spec(chain.stages);
}

TEST(ZarrChain, FiltersWithACodecOfTheSameBytes) {
  const ZarrChain chain = zarr("2|1,5|3");
  EXPECT_TRUE(chain.same_bytes);
  EXPECT_EQ(shown(chain), R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}, {"id": "fletcher32"}])");
  EXPECT_TRUE(zarr("307,9").same_bytes);
  EXPECT_TRUE(zarr("32015,3").same_bytes);
  EXPECT_TRUE(zarr("32001,2,2,4,4096,5,1,0").same_bytes);
  EXPECT_TRUE(zarr("none").same_bytes);
}

TEST(ZarrChain, ThoseOfOtherBytesAndWithout) {
  const ZarrChain lz4 = zarr("2|32004,0");
  EXPECT_FALSE(lz4.same_bytes);
  EXPECT_EQ(shown(lz4), R"([{"id": "shuffle", "elementsize": 4}, {"id": "lz4", "acceleration": 1}])");
  for (const char* spec : {"4,32,8", "2|4,32,8", "32000", "32008,0,2", "5|1,4", "6,0", "32013,1", "64999|1,4"}) {
    EXPECT_FALSE(zarr(spec).same_bytes) << spec;
    EXPECT_TRUE(zarr(spec).stages.empty()) << spec;
  }
}

TEST(ZarrChain, WhatNumcodecsCannotUndoIsPutInAnotherOrder) {
  EXPECT_TRUE(zarr("3|2|1,4", 4).same_bytes);
  const ZarrChain chain = zarr("3|2|1,4", 8);
  EXPECT_FALSE(chain.same_bytes);
  EXPECT_EQ(shown(chain), R"([{"id": "shuffle", "elementsize": 8}, {"id": "fletcher32"}, {"id": "zlib", "level": 4}])");
}

TEST(ZarrChain, AShuffleThatNumcodecsCannotUndoIsLeftOut) {
  const ChunkShape text{.bytes = {}, .type = {TypeKind::object, ByteOrder::none, 16, {}, {}}};
  const auto chain = zarr_chain(*parse_filter_spec("2,16|1,3"), text);
  EXPECT_FALSE(chain.same_bytes);
  EXPECT_EQ(shown(chain), R"([{"id": "zlib", "level": 3}])");
  EXPECT_TRUE(zarr_chain(*parse_filter_spec("2,1|1,3"), text).same_bytes) << "shuffling bytes does nothing";
  EXPECT_EQ(shown(zarr("32015,3|2,4")), R"([{"id": "zstd", "level": 3}])");
  EXPECT_EQ(shown(zarr("32004|2,4|1,1")), R"([{"id": "lz4", "acceleration": 1}, {"id": "zlib", "level": 1}])");
  EXPECT_EQ(shown(zarr("2,7|1,1", 4)), R"([{"id": "zlib", "level": 1}])");
  EXPECT_EQ(shown(zarr("3|1,1|2,4", 4)), R"([{"id": "fletcher32"}, {"id": "zlib", "level": 1}])");
  EXPECT_TRUE(zarr("2,5|1,1", 5).same_bytes) << "elements of an odd size are whole all the same";
  EXPECT_EQ(shuffle_of_parts(*parse_filter_spec("2,4|32015|2,4"), chunk_of(4)), 2U);
  EXPECT_EQ(shuffle_of_parts(*parse_filter_spec("3|2,4"), chunk_of(4)), std::nullopt);
}

TEST(ZarrChain, CodecsOfAStoreStayAsTheyAre) {
  const auto stages = parse_zarr_codecs(*parse_json(R"({"id": "nobodys", "x": 1})"),
                                        *parse_json(R"([{"id": "shuffle", "elementsize": 0}])"), 4);
  const ZarrChain chain = zarr_chain(*stages, chunk_of(4));
  EXPECT_TRUE(chain.same_bytes);
  EXPECT_EQ(shown(chain), R"([{"id": "shuffle", "elementsize": 4}, {"id": "nobodys", "x": 1}])");
}

TEST(ZarrChain, Zarr3HasGzipForDeflate) {
  const auto zarr3 = [](std::string_view spec, uint64_t item_size = 4) {
    return zarr3_chain(*parse_filter_spec(spec), chunk_of(item_size), Json());
  };
  const Zarr3Chain deflate = zarr3("2|1,5");
  EXPECT_EQ(shown(deflate), R"([{"id": "shuffle", "elementsize": 4}, {"id": "gzip", "level": 5}])");
  EXPECT_TRUE(deflate.same_bytes);
  EXPECT_EQ(deflate.gzip_size, 4000);
  EXPECT_EQ(zarr3("3|1,5").gzip_size, 4004);
  EXPECT_EQ(shown(zarr3("1,5|3")), R"([{"id": "zlib", "level": 5}, {"id": "fletcher32"}])");
  EXPECT_EQ(zarr3("1,5|3").gzip_size, std::nullopt) << "the checksum is of the zlib stream";
  EXPECT_EQ(zarr3("307,9|1,5").gzip_size, std::nullopt) << "of unknown size";
  EXPECT_EQ(shown(zarr3("2|32015,3")), R"([{"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 3}])");
  EXPECT_TRUE(zarr3("32000").stages.empty());
  EXPECT_FALSE(zarr3("32000").same_bytes);
  // A codec of arrays behind one of bytes.
  const auto stages = parse_zarr_codecs(Json(), *parse_json(R"([{"id": "zstd"}, {"id": "delta", "dtype": "u1"}])"), 4);
  EXPECT_TRUE(zarr3_chain(*stages, chunk_of(4), Json()).stages.empty());
  EXPECT_FALSE(zarr3_chain(*stages, chunk_of(4), Json()).same_bytes);
}

TEST(ZarrChain, GzipOfZarr3IsDeflateInHdf5) {
  const auto stages = parse_zarr_codecs(Json(), *parse_json(R"([{"id": "shuffle"}, {"id": "gzip", "level": 3}])"), 4);
  EXPECT_EQ(print_filter_spec(with_zlib_for_gzip(*stages, 4)).value_or(""), "2,4|1,3");
}

TEST(ZarrChain, OnlyZarr3HasTheTypesizeOfBlosc) {
  for (const char* codec :
       {R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, "typesize": 4})",
        R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, "typesize": 2})",
        R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})"}) {
    const auto stages = *parse_zarr_codecs(*parse_json(codec), Json(), 4);
    const Json printed = print_codecs(for_zarr2(stages, 4))[0];
    EXPECT_FALSE(printed.contains("typesize")) << codec;
    EXPECT_EQ(printed["cname"], "lz4");
  }
  const auto other = *parse_zarr_codecs(*parse_json(R"({"id": "mine", "typesize": 4})"), Json(), 4);
  EXPECT_TRUE(print_codecs(for_zarr2(other, 4))[0].contains("typesize"));
}

TEST(ZarrChain, FiltersOfHdf5ForCodecs) {
  EXPECT_EQ(hdf5(R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}])").value_or(""), "2,4|1,5");
  EXPECT_EQ(hdf5(R"([{"id": "lz4", "acceleration": 5}])").value_or(""), "32004");
  EXPECT_EQ(hdf5("[]").value_or("no"), "");
  for (const char* codecs :
       {R"([{"id": "lzma"}])", R"([{"id": "delta", "dtype": "<i4"}])", R"([{"id": "shuffle", "elementsize": 2}])",
        R"([{"id": "unknown"}])", R"([{"id": "zlib"}, {"id": "lzma"}])"}) {
    const auto chain = hdf5(codecs);
    ASSERT_FALSE(chain) << codecs;
    EXPECT_EQ(chain.error().code, EINVAL);
  }
}

TEST(ZarrChain, ChainsThatNumcodecsLacksAreInHdf5AllTheSame) {
  const auto is_shown_so = [](const char* codecs, uint64_t item_size = 4) {
    const auto chain = hdf5_chain(*parse_zarr_codecs({}, *parse_json(codecs), item_size), chunk_of(item_size));
    return chain && chain->is_shown_so;
  };
  EXPECT_TRUE(is_shown_so(R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}])"));
  constexpr const char* kGzip = R"([{"id": "gzip", "level": 3}])";
  EXPECT_EQ(hdf5(kGzip).value_or(""), "1,3");
  EXPECT_FALSE(is_shown_so(kGzip));
  constexpr const char* kOfNetcdf =
      R"([{"id": "fletcher32"}, {"id": "shuffle", "elementsize": 8}, {"id": "zlib", "level": 2}])";
  EXPECT_EQ(hdf5(kOfNetcdf, 8).value_or(""), "3|2,8|1,2");
  EXPECT_FALSE(is_shown_so(kOfNetcdf, 8));
  constexpr const char* kSzip = R"([{"id": "szip", "mask": 4, "pixels-per-block": 16}])";
  EXPECT_EQ(hdf5(kSzip).value_or(""), "4,4,16");
  EXPECT_FALSE(is_shown_so(kSzip));
  EXPECT_EQ(hdf5(R"([{"id": "hdf5:32000"}])").value_or(""), "32000");
}

TEST(ZarrChain, CodecsOfZarr3AloneAreNotShownToReadersOfZarr2) {
  const auto stages = parse_zarr_codecs({}, *parse_json(R"([{"id": "zarr3:cast_value", "data_type": "uint8"}])"), 4);
  EXPECT_TRUE(zarr_chain(*stages, chunk_of(4)).stages.empty());
  EXPECT_FALSE(zarr_chain(*stages, chunk_of(4)).same_bytes);
  EXPECT_EQ(shown(zarr3_chain(*stages, chunk_of(4), Json())), R"([{"id": "zarr3:cast_value", "data_type": "uint8"}])");
  EXPECT_TRUE(zarr3_chain(*stages, chunk_of(4), Json()).same_bytes);
  const auto unknown = parse_zarr_codecs({}, *parse_json(R"([{"id": "zarr3:unheard_of"}])"), 4);
  EXPECT_TRUE(zarr_chain(*unknown, chunk_of(4)).same_bytes) << "its chunks can only be passed on";
}

TEST(PortableChain, HasOnlyCodecsThatEveryReaderHas) {
  const auto portable = [](std::string_view spec, uint64_t item_size = 4) {
    const Zarr3Chain chain = portable_chain(*parse_filter_spec(spec), chunk_of(item_size));
    EXPECT_TRUE(is_portable(chain.stages));
    EXPECT_FALSE(chain.same_bytes);
    return shown(chain);
  };
  constexpr const char* kBlosc = R"([{"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}])";
  EXPECT_EQ(portable("shuffle|1,5"), kBlosc);
  EXPECT_EQ(portable("32008,0,2"), kBlosc) << "bitshuffle with LZ4";
  EXPECT_EQ(portable("shuffle|1,5", 1), R"([{"id": "zstd", "level": 3}])");
  EXPECT_EQ(portable("shuffle|1,5", 300), R"([{"id": "zstd", "level": 3}])");
  EXPECT_EQ(portable("307,9|fletcher32"), R"([{"id": "zstd", "level": 3}, {"id": "crc32c"}])");
  EXPECT_EQ(portable("shuffle"), "[]");
  EXPECT_EQ(portable("64999"), R"([{"id": "zstd", "level": 3}])");
  const auto is = [](const char* text) { return is_portable(*parse_zarr_codecs({}, *parse_json(text), 4)); };
  EXPECT_TRUE(is(R"([{"id": "blosc"}, {"id": "zstd"}, {"id": "gzip"}, {"id": "crc32c"}])"));
  EXPECT_TRUE(is("[]"));
  for (const char* text :
       {R"([{"id": "zlib"}])", R"([{"id": "gzip"}, {"id": "lz4"}])", R"([{"id": "bitround", "keepbits": 3}])",
        R"([{"id": "crc32c", "location": "start"}])", R"([{"id": "zarr3:packbits"}])"})
    EXPECT_FALSE(is(text)) << text;
}

}  // namespace
}  // namespace codecfs::filters

// The two text forms of a pipeline, `_Filter` and `_Codecs`, and the parser of Zarr's codecs: strict output, liberal
// input.

#include "model/json.h"
#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

std::string codecs_of(const std::vector<FilterStage>& chain) { return print_json(print_codecs(chain)); }

TEST(FilterSpec, NumbersOnly) {
  EXPECT_EQ(*print_filter_spec({}), "");
  EXPECT_EQ(*print_filter_spec({{stage(2, {4}), stage(1, {5})}}), "2,4|1,5");
  EXPECT_EQ(*print_filter_spec({{stage(3), stage(32999, {0, 4294967295})}}), "3|32999,0,4294967295");
}

TEST(FilterSpec, CodecsWithoutAnIdHaveNone) {
  const auto spec = print_filter_spec(zarr_chain(R"([{"id": "zlib", "level": 1}, {"id": "lz4"}])"));
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, ENODATA);
  EXPECT_EQ(spec.error().reason, R"(codec "lz4" has no HDF5 filter id)");
}

TEST(FilterSpec, OfZarrChains) {
  const auto spec = [](const char* filters, const char* compressor) {
    return *print_filter_spec(zarr_chain(filters, compressor, 8));
  };
  EXPECT_EQ(spec(R"([{"id": "shuffle", "elementsize": 4}])", R"({"id": "zlib", "level": 5})"), "2,4|1,5");
  EXPECT_EQ(spec(R"([{"id": "shuffle"}])", R"({"id": "zstd", "level": 3})"), "2,8|32015,3");
  EXPECT_EQ(spec(R"([{"id": "fletcher32"}])", R"({"id": "bz2", "level": 9})"), "3|307,9");
  EXPECT_EQ(spec("null", R"({"id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 2, "blocksize": 64})"),
            "32001,0,0,0,64,7,2,5");
  EXPECT_EQ(spec("null", R"({"id": "szip", "mask": 141, "pixels-per-block": 16})"), "4,141,16");
  EXPECT_EQ(spec("null", R"({"id": "hdf5:32008", "name": "bitshuffle", "parameters": [0, 4, 4]})"), "32008,0,4,4");
  EXPECT_EQ(spec("null", R"({"id": "zstd", "level": -5})"), "32015,4294967291");
}

TEST(Codecs, OfHdf5Chains) {
  const auto json = [](uint32_t id, std::vector<uint32_t> parameters) { return codecs_of({stage(id, parameters)}); };
  EXPECT_EQ(codecs_of({}), "[]");
  EXPECT_EQ(codecs_of({stage(2, {4}), stage(1, {5})}),
            R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}])");
  EXPECT_EQ(json(3, {}), R"([{"id": "fletcher32"}])");
  EXPECT_EQ(json(4, {141, 16, 32, 64}), R"([{"id": "szip", "mask": 141, "pixels-per-block": 16}])");
  EXPECT_EQ(json(307, {9}), R"([{"id": "bz2", "level": 9}])");
  EXPECT_EQ(json(307, {}), R"([{"id": "bz2", "level": 9}])");
  EXPECT_EQ(json(32015, {3}), R"([{"id": "zstd", "level": 3}])");
  EXPECT_EQ(json(32015, {4294967291}), R"([{"id": "zstd", "level": -5}])");
  // The fourth parameter of blosc is the chunk's size, once the element's size is filled in.
  EXPECT_EQ(json(32001, {2, 2, 4, 400, 5, 1, 1}),
            R"([{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}])");
  EXPECT_EQ(json(32001, {0, 0, 0, 256, 9, 2, 5}),
            R"([{"id": "blosc", "cname": "zstd", "clevel": 9, "shuffle": 2, "blocksize": 256}])");
}

TEST(Codecs, WithoutAZarrCodec) {
  EXPECT_EQ(codecs_of({stage(32000, {4, 261, 160})}),
            R"([{"id": "hdf5:32000", "name": "lzf", "parameters": [4, 261, 160]}])");
  EXPECT_EQ(codecs_of({stage(32004)}), R"([{"id": "hdf5:32004", "name": "lz4", "parameters": []}])");
  EXPECT_EQ(codecs_of({stage(32008, {0, 4, 4})}),
            R"([{"id": "hdf5:32008", "name": "bitshuffle", "parameters": [0, 4, 4]}])");
  EXPECT_EQ(codecs_of({stage(5)}), R"([{"id": "hdf5:5", "name": "nbit", "parameters": []}])");
  EXPECT_EQ(codecs_of({stage(6, {1})}), R"([{"id": "hdf5:6", "name": "scaleoffset", "parameters": [1]}])");
  FilterStage unknown = stage(32999, {1, 2});
  EXPECT_EQ(codecs_of({unknown}), R"([{"id": "hdf5:32999", "parameters": [1, 2]}])");
  unknown.name = "mine";
  EXPECT_EQ(codecs_of({unknown}), R"([{"id": "hdf5:32999", "name": "mine", "parameters": [1, 2]}])");
}

TEST(Codecs, GenericFormBackAgain) {
  const auto chain = zarr_chain(R"([{"id": "hdf5:32999", "name": "mine", "parameters": [1, 4294967295]}])");
  ASSERT_EQ(chain.size(), 1U);
  EXPECT_EQ(chain[0].id, 32999U);
  EXPECT_EQ(chain[0].name, "mine");
  EXPECT_EQ(chain[0].parameters, (std::vector<uint32_t>{1, 4294967295}));
  EXPECT_EQ(codecs_of(chain), R"([{"id": "hdf5:32999", "name": "mine", "parameters": [1, 4294967295]}])");
}

// netcdf-c writes an element size of 0 and numbers as texts; numcodecs then returns wrong data or fails.
TEST(Codecs, OfZarrChainsAreCorrected) {
  const auto corrected = [](const char* json) { return codecs_of(zarr_chain(fmt::format("[{}]", json), "null", 8)); };
  EXPECT_EQ(corrected(R"({"id": "shuffle", "elementsize": 0})"), R"([{"id": "shuffle", "elementsize": 8}])");
  EXPECT_EQ(corrected(R"({"id": "shuffle", "elementsize": "0"})"), R"([{"id": "shuffle", "elementsize": 8}])");
  EXPECT_EQ(corrected(R"({"id": "shuffle"})"), R"([{"id": "shuffle", "elementsize": 8}])");
  EXPECT_EQ(corrected(R"({"id": "shuffle", "elementsize": 2})"), R"([{"id": "shuffle", "elementsize": 2}])");
  EXPECT_EQ(corrected(R"({"id": "zlib", "level": "5"})"), R"([{"id": "zlib", "level": 5}])");
  EXPECT_EQ(corrected(R"({"id": "zlib", "level": 5.0})"), R"([{"id": "zlib", "level": 5}])");
  EXPECT_EQ(corrected(R"({"id": "zlib", "level": true})"), R"([{"id": "zlib", "level": 1}])");
  EXPECT_EQ(corrected(R"({"id": "zlib"})"), R"([{"id": "zlib", "level": 1}])");
}

TEST(Codecs, OfZarrChainsAreKept) {
  for (const char* json :
       {R"([{"id": "zstd", "checksum": true, "level": 3}])",
        R"([{"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": -1, "typesize": 4}])",
        R"([{"id": "delta", "dtype": "<f4", "astype": "<f4"}, {"id": "lz4", "acceleration": 1}])",
        R"([{"id": "unheard", "of": [1, {"x": null}]}])", R"([{"id": "gzip", "level": 1}])"}) {
    EXPECT_EQ(codecs_of(zarr_chain(json)), json);
  }
}

TEST(Codecs, FiltersComeBeforeTheCompressor) {
  const auto chain = zarr_chain(R"([{"id": "delta", "dtype": "<i4"}, {"id": "shuffle"}])", R"({"id": "zlib"})", 4);
  ASSERT_EQ(chain.size(), 3U);
  EXPECT_EQ((*chain[0].codec)["id"], "delta");
  EXPECT_EQ(chain[0].id, 0U);
  EXPECT_EQ(chain[1].id, 2U);
  EXPECT_EQ(chain[2].id, 1U);
  EXPECT_TRUE(zarr_chain("null").empty());
  EXPECT_TRUE(zarr_chain("[]").empty());
}

TEST(Codecs, TheLastOneIsTheCompressor) {
  const auto split = [](const std::vector<FilterStage>& chain) {
    const ZarrCodecs codecs = print_zarr_codecs(chain);
    return print_json(codecs.compressor) + " " + print_json(codecs.filters);
  };
  EXPECT_EQ(split({}), "null null");
  EXPECT_EQ(split({stage(1, {5})}), R"({"id": "zlib", "level": 5} null)");
  EXPECT_EQ(split({stage(3), stage(2, {4}), stage(32015, {3})}),
            R"({"id": "zstd", "level": 3} [{"id": "fletcher32"}, {"id": "shuffle", "elementsize": 4}])");
  // And back, whatever the last one is.
  for (const std::vector<FilterStage>& chain :
       {std::vector{stage(2, {8}), stage(1, {1}), stage(307, {9})}, std::vector{stage(1, {4}), stage(3)}}) {
    const ZarrCodecs codecs = print_zarr_codecs(chain);
    const auto again = parse_zarr_codecs(codecs.compressor, codecs.filters, 8);
    ASSERT_TRUE(again);
    EXPECT_EQ(*print_filter_spec(*again), *print_filter_spec(chain));
  }
}

TEST(Codecs, RefusesJsonOfTheWrongKind) {
  const auto code = [](const char* filters, const char* compressor) {
    const auto chain = parse_zarr_codecs(*parse_json(compressor), *parse_json(filters), 4);
    return chain ? 0 : chain.error().code;
  };
  for (const char* json : {"7",
                           "\"zlib\"",
                           "[]",
                           "{}",
                           "true",
                           R"({"id": 7})",
                           R"({"id": null})",
                           R"({"level": 1})",
                           R"({"id": "zlib", "level": "high"})",
                           R"({"id": "zlib", "level": 77})",
                           R"({"id": "zlib", "level": [1]})",
                           R"({"id": "shuffle", "elementsize": -1})",
                           R"({"id": "shuffle", "elementsize": NaN})",
                           R"({"id": "shuffle", "elementsize": 1e30})",
                           R"({"id": "blosc", "cname": "lz5"})",
                           R"({"id": "blosc", "cname": 1})",
                           R"({"id": "hdf5:"})",
                           R"({"id": "hdf5:0"})",
                           R"({"id": "hdf5:-1"})",
                           R"({"id": "hdf5:1x"})",
                           R"({"id": "hdf5:99999999999"})",
                           R"({"id": "hdf5:7", "parameters": 1})",
                           R"({"id": "hdf5:7", "parameters": [-1]})",
                           R"({"id": "hdf5:7", "parameters": [4294967296]})",
                           R"({"id": "hdf5:7", "parameters": ["1"]})",
                           R"({"id": "hdf5:7", "parameters": [1.5]})"}) {
    EXPECT_EQ(code("null", json), EINVAL) << json;
    EXPECT_EQ(code(fmt::format("[{}]", json).c_str(), "null"), EINVAL) << json;
  }
  EXPECT_EQ(code("7", "null"), EINVAL);
  EXPECT_EQ(code("{}", "null"), EINVAL);
  EXPECT_EQ(reason(parse_zarr_codecs(*parse_json(R"({"id": "zlib", "level": "high"})"), nullptr, 4)),
            R"(codec 'zlib': "level": "high" is not an integer)");
}

TEST(Codecs, Versions) {
  const std::string versions = codec_versions();
  for (const char* library : {"libdeflate 1.", "zstd 1.", "blosc 1.", "lz4 1.", "bzip2 1.", "liblzma 5.", "libaec"})
    EXPECT_TRUE(versions.contains(library)) << library << " in " << versions;
  EXPECT_EQ(versions.find("libdeflate"), versions.rfind("libdeflate")) << versions;
}

}  // namespace
}  // namespace codecfs::filters

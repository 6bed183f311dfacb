// Every filter with an encoder: encoded data decodes to the original, is within the promised bound, and does not depend
// on concurrent threads. Working parameters are equal to those of HDF5's set_local.

#include <algorithm>
#include <thread>

#include "model/json.h"
#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

struct Sample {
  const char* name;
  const char* dtype;
  const char* codec;  // JSON; null for HDF5
  uint32_t id = 0;
  std::vector<uint32_t> parameters = {};
  bool lossless = true;    // decodes to the original, not only to its size
  bool repeatable = true;  // LZF does not clear its table: its matches depend on earlier data
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {"deflate 0", "|u1", nullptr, 1, {0}},
      {"deflate 1", "|u1", nullptr, 1, {1}},
      {"deflate 6", "|u1", nullptr, 1, {}},
      {"deflate 9", "|u1", nullptr, 1, {9}},
      {"zlib -1", "|u1", R"({"id": "zlib", "level": -1})"},
      {"shuffle 2", "<i2", nullptr, 2, {2}},
      {"shuffle 3", "|u1", nullptr, 2, {3}},
      {"shuffle dtype", "<f8", nullptr, 2, {}},
      {"shuffle 4", "|u1", R"({"id": "shuffle", "elementsize": 4})"},
      {"shuffle 15", "|V15", nullptr, 2, {}},
      {"shuffle 16", "<c16", nullptr, 2, {}},
      {"fletcher32", "|u1", nullptr, 3},
      {"szip nn 1", "|u1", nullptr, 4, {32, 16}},
      {"szip ec 1", "|u1", nullptr, 4, {4, 8}},
      {"szip nn 2", "<i2", nullptr, 4, {32, 16}},
      {"szip nn 2 big", ">i2", nullptr, 4, {32, 16}},
      {"szip nn 4", "<i4", nullptr, 4, {32, 16}},
      {"szip ec 8", "<f8", nullptr, 4, {4, 32}},
      {"szip padded", "<i2", nullptr, 4, {141 | 32, 8, 16, 13}},
      {"szip padded zeros", "<i2", nullptr, 4, {141, 8, 16, 13}},
      {"bzip2", "|u1", nullptr, 307, {1}},
      {"bzip2 9", "|u1", nullptr, 307, {}},
      {"lzf", "|u1", nullptr, 32000, {}, true, false},
      {"blosc", "<i4", nullptr, 32001, {}},
      {"blosc lz4hc bits", "<i4", R"({"id": "blosc", "cname": "lz4hc", "clevel": 9, "shuffle": 2, "blocksize": 0})"},
      {"blosc zstd auto", "|u1", R"({"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 512})"},
      {"blosc zlib", "<f8", R"({"id": "blosc", "cname": "zlib", "clevel": 5, "shuffle": 1, "blocksize": 0})"},
      {"blosc 0", "<f8", R"({"id": "blosc", "cname": "lz4", "clevel": 0, "shuffle": 1, "blocksize": 0})"},
      {"lz4", "|u1", nullptr, 32004, {}},
      {"lz4 1000", "|u1", nullptr, 32004, {1000}},
      {"bitshuffle", "<i4", nullptr, 32008, {}},
      {"bitshuffle lz4", "<i4", nullptr, 32008, {0, 2}},
      {"bitshuffle lz4 64", "<i2", nullptr, 32008, {64, 2}},
      {"bitshuffle zstd", "<f8", nullptr, 32008, {0, 3, 5}},
      {"bitshuffle 3", "|V3", nullptr, 32008, {0, 3, 3, 0, 2}},
      {"zstd", "|u1", nullptr, 32015, {}},
      {"zstd -5", "|u1", nullptr, 32015, {static_cast<uint32_t>(-5)}},
      {"zstd 9 checksum", "|u1", R"({"id": "zstd", "level": 9, "checksum": true})"},
      {"numcodecs lz4", "|u1", R"({"id": "lz4", "acceleration": 3})"},
      {"gzip", "|u1", R"({"id": "gzip", "level": 5})"},
      {"lzma", "|u1", R"({"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": null})"},
      {"lzma alone", "|u1", R"({"id": "lzma", "format": 2, "check": -1, "preset": 0, "filters": null})"},
      {"lzma raw", "|u1", R"({"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 0}]})"},
      {"delta", "<i4", R"({"id": "delta", "dtype": "<i4"})"},
      {"delta wide", ">i2", R"({"id": "delta", "dtype": ">i2", "astype": "<i8"})"},
      {"fixedscaleoffset", "<i4", R"({"id": "fixedscaleoffset", "scale": 1, "offset": 7, "dtype": "<i4"})"},
      {"fixedscaleoffset f",
       "<f4",
       R"({"id": "fixedscaleoffset", "scale": 10, "offset": 7, "dtype": "<f4", "astype": "<i2"})",
       0,
       {},
       false},
      {"astype", "|u1", R"({"id": "astype", "encode_dtype": "<f4", "decode_dtype": "|u1"})"},
      {"quantize", "<f4", R"({"id": "quantize", "digits": 3, "dtype": "<f4", "astype": "<f4"})", 0, {}, false},
      {"quantize narrow", "<f8", R"({"id": "quantize", "digits": 1, "dtype": "<f8", "astype": ">f4"})", 0, {}, false},
      {"bitround", ">f4", R"({"id": "bitround", "keepbits": 8})", 0, {}, false},
      {"packbits", "|b1", R"({"id": "packbits"})"},
      {"base64", "|u1", R"({"id": "base64"})"},
      {"crc32", "|u1", R"({"id": "crc32"})"},
      {"crc32 end", "|u1", R"({"id": "crc32", "location": "end"})"},
      {"adler32", "|u1", R"({"id": "adler32"})"},
      {"crc32c", "|u1", R"({"id": "crc32c"})"},
      {"cast_value", "<i2", R"({"id": "zarr3:cast_value", "data_type": "float32"})"},
      {"cast_value same", ">i4", R"({"id": "zarr3:cast_value", "data_type": "uint32", "out_of_range": "wrap"})"},
      {"scale_offset", "<f4", R"({"id": "zarr3:scale_offset", "offset": 0.5})", 0, {}, false},
      {"reshape", "<f8", R"({"id": "zarr3:reshape", "shape": [1, -1]})"},
      {"packbits 3", "|b1", R"({"id": "zarr3:packbits", "padding_encoding": "last_byte"})"},
      {"zfp", "<i4", R"({"id": "zarr3:zfp", "mode": "reversible"})"},
      {"zfp 16", "<i2", R"({"id": "zarr3:zfp", "mode": "reversible"})"},
      {"zfp lossy", "<f4", R"({"id": "zarr3:zfp", "mode": "fixed_precision", "precision": 20})", 0, {}, false},
      {"zfpy", "<f8", R"({"id": "zfpy", "mode": 5})"},
      {"packbits 3 low", ">u2", R"({"id": "zarr3:packbits", "first_bit": 5})", 0, {}, false},
  };
  return all;
}

enum class Kind { zeros, ramp, noise };

/// `count` elements, not bytes, of `sample`'s dtype.
ByteVector make_data(const Sample& sample, size_t count, Kind kind) {
  const DataType type = type_of(sample.dtype);
  ByteVector data(count * type.size);
  if (kind == Kind::noise) data = random_bytes(data.size(), 5);
  if (kind == Kind::ramp)
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % type.size == 0 ? i / type.size : 0);
  if (type.kind == TypeKind::boolean)
    for (std::byte& byte : data) byte &= std::byte{1};
  return data;
}

struct Prepared {
  FilterStage filter;
  Result<Coder> coder = Coder{};

  Prepared(const Sample& sample, size_t count) {
    const DataType type = type_of(sample.dtype);
    filter = sample.codec != nullptr ? zarr_chain(fmt::format("[{}]", sample.codec), "null", type.size)[0]
                                     : stage(sample.id, sample.parameters);
    const ChunkShape chunk = {count * type.size, type, {count}, {count}};
    coder = find_for(filter)->make_coder({filter, chunk});
  }
};

/// Whether an encoder may refuse this much data of this kind.
bool may_refuse(const Sample& sample, size_t count, Kind kind) {
  const std::string_view name = sample.name;
  if (name.starts_with("lzf")) return kind == Kind::noise || count < 64;
  if (name == "zfp lossy") return kind == Kind::noise;  // NaN
  return false;
}

/// szip needs a block of pixels in a chunk.
bool may_not_be_made(const Sample& sample, size_t count) {
  return std::string_view(sample.name).starts_with("szip") && count < 32;
}

TEST(Encode, ComesBack) {
  for (const Sample& sample : samples()) {
    for (const size_t count : {0, 1, 2, 3, 7, 8, 9, 63, 4095, 65536, 1000003}) {
      if (count > 70000 && type_of(sample.dtype).size > 8) continue;  // time
      const Prepared made(sample, count);
      if (!made.coder && may_not_be_made(sample, count)) {
        EXPECT_EQ(made.coder.error().code, EINVAL);
        continue;
      }
      ASSERT_TRUE(made.coder) << sample.name << ": " << made.coder.error().reason;
      ASSERT_TRUE(made.coder->encode) << sample.name;
      for (const Kind kind : {Kind::zeros, Kind::ramp, Kind::noise}) {
        SCOPED_TRACE(fmt::format("{}: {} elements of kind {}", sample.name, count, static_cast<int>(kind)));
        const ByteVector data = make_data(sample, count, kind);
        Result<Buffer> encoded = made.coder->encode(data);
        if (!encoded && may_refuse(sample, count, kind)) {
          EXPECT_EQ(encoded.error().code, EINVAL);
          continue;
        }
        ASSERT_TRUE(encoded) << encoded.error().reason;
        const SizeBound exact = SizeBound::exactly(data.size());
        const SizeBound bound = made.coder->encoded ? made.coder->encoded(exact) : exact;
        EXPECT_LE(encoded->size(), bound.max);
        if (bound.exact) {
          EXPECT_EQ(encoded->size(), *bound.exact);
        }
        const Result<Buffer> decoded = made.coder->decode(*std::move(encoded), exact);
        ASSERT_TRUE(decoded) << decoded.error().reason;
        ASSERT_EQ(decoded->size(), data.size());
        if (sample.lossless) {
          EXPECT_TRUE(std::ranges::equal(decoded->bytes(), data)) << "other data";
        }
      }
    }
  }
}

TEST(Encode, EveryFilterThatDecodesEncodes) {
  for (const FilterPtr& filter : list()) {
    if (!filter->make_coder || filter->name.starts_with("test")) continue;
    const bool found = std::ranges::any_of(
        samples(), [&](const Sample& sample) { return find_for(Prepared(sample, 64).filter) == filter; });
    EXPECT_TRUE(found) << filter->name;
  }
}

TEST(Encode, TheSameInManyThreads) {
  constexpr size_t kCount = 20001;
  for (const Sample& sample : samples()) {
    const Prepared made(sample, kCount);
    ASSERT_TRUE(made.coder) << made.coder.error().reason;
    const ByteVector data = make_data(sample, kCount, Kind::ramp);
    const Result<Buffer> once = made.coder->encode(data);
    ASSERT_TRUE(once) << sample.name << ": " << once.error().reason;
    std::array<bool, 4> same{};
    {
      std::vector<std::jthread> threads;
      for (bool& mine : same) {
        threads.emplace_back([&] {
          mine = true;
          for (int round = 0; round < 3; ++round) {
            Result<Buffer> again = made.coder->encode(data);
            if (sample.repeatable) {
              mine = mine && again && std::ranges::equal(again->bytes(), once->bytes());
              continue;
            }
            const auto back = made.coder->decode(*std::move(again), SizeBound::exactly(data.size()));
            mine = mine && back && std::ranges::equal(back->bytes(), data);
          }
        });
      }
    }
    EXPECT_TRUE(std::ranges::all_of(same, std::identity{})) << sample.name;
  }
}

TEST(Encode, RefusesWhatMakesNoSense) {
  const ByteVector data = random_bytes(640);
  const auto refusal = [&](const char* dtype, const char* codec, uint32_t id, std::vector<uint32_t> parameters) {
    const Prepared made({"", dtype, codec, id, std::move(parameters)}, 640 / type_of(dtype).size);
    if (!made.coder) return std::string(made.coder.error().code == EINVAL ? "" : "code ") + made.coder.error().reason;
    const Result<Buffer> encoded = made.coder->encode(data);
    if (encoded) return std::string("no error");
    return std::string(encoded.error().code == EINVAL ? "" : "code ") + encoded.error().reason;
  };
  EXPECT_EQ(refusal("|u1", nullptr, 1, {10}), "level 10 is not between 0 and 9");
  EXPECT_EQ(refusal("|u1", nullptr, 307, {0}), "level 0 is not between 1 and 9");
  EXPECT_EQ(refusal("|u1", nullptr, 32000, {}),
            "the data does not become smaller, and LZF cannot store it uncompressed");
  EXPECT_EQ(refusal("|u1", nullptr, 32001, {0, 0, 0, 0, 10, 1, 0}), "level 10 is not between 0 and 9");
  EXPECT_EQ(refusal("|u1", nullptr, 32001, {0, 0, 0, 0, 5, 3, 0}), "shuffle 3 is not between -1 and 2");
  EXPECT_EQ(refusal("|u1", nullptr, 32001, {0, 0, 0, 0, 5, 1, 6}), "compressor 6 is not known");
  EXPECT_EQ(refusal("|u1", nullptr, 32004, {4}), "no error");  // 640 bytes and their headers are within the bound
  EXPECT_EQ(refusal("<i4", nullptr, 4, {32}), "1 parameters; needs the option mask and the pixels per block");
  EXPECT_EQ(refusal("<i4", nullptr, 4, {32, 15}), "15 pixels per block; must be even and at most 32");
  EXPECT_EQ(refusal("|V10", nullptr, 4, {32, 16}), "elements of 10 bytes; szip takes 1 to 8");
  EXPECT_EQ(refusal("|u1", nullptr, 32008, {12, 2}), "blocks of 12 elements; must be a multiple of 8");
  EXPECT_EQ(refusal("|u1", R"({"id": "lzma", "format": 0})", 0, {}), "\"format\": 0 is for decoding only");
  EXPECT_EQ(refusal("<f4", R"({"id": "bitround", "keepbits": 24})", 0, {}), "\"keepbits\": 24; dtype \"<f4\" has 23");
  EXPECT_EQ(refusal("<i4", R"({"id": "bitround", "keepbits": 4})", 0, {}), "dtype \"<i4\" has no bits to round");
  EXPECT_EQ(refusal("|u1", R"({"id": "delta", "dtype": "|V3"})", 0, {}).substr(0, 4), "does");
}

// A chunk can be read whatever parameters its writer used.
TEST(Encode, WhatOnlyTheEncoderNeedsIsNoReasonNotToDecode) {
  for (const char* codec :
       {R"({"id": "gzip", "level": 99})", R"({"id": "zstd", "level": 3, "checksum": 7})",
        R"({"id": "lz4", "acceleration": "fast"})", R"({"id": "blosc", "cname": "lz4", "typesize": 1000})",
        R"({"id": "lzma", "format": 1, "check": 3})", R"({"id": "lzma", "format": 0})",
        R"({"id": "quantize", "digits": "many", "dtype": "|u1"})", R"({"id": "bitround", "keepbits": 99})"}) {
    const Prepared made({"", "|u1", codec}, 64);
    ASSERT_TRUE(made.coder) << codec << made.coder.error().reason;
    const auto encoded = made.coder->encode(random_bytes(64));
    ASSERT_FALSE(encoded) << codec;
    EXPECT_EQ(encoded.error().code, EINVAL) << codec;
  }
}

TEST(Encode, SmallBlocksDoNotGrowBeyondTheBound) {
  const ByteVector data = random_bytes(100000);
  for (const auto& [id, parameters] :
       {std::pair{32004U, std::vector{1U}}, std::pair{32004U, std::vector{4U}}, std::pair{32008U, std::vector{8U, 2U}},
        std::pair{32008U, std::vector{8U, 3U}}}) {
    const Prepared made({"", "|u1", nullptr, id, parameters}, data.size());
    const auto encoded = made.coder->encode(data);
    ASSERT_TRUE(encoded) << encoded.error().reason;
    EXPECT_GT(encoded->size(), data.size());
    EXPECT_LE(encoded->size(), made.coder->encoded(SizeBound::exactly(data.size())).max);
  }
}

using Parameters = std::vector<uint32_t>;

Parameters working(uint32_t id, const Parameters& given, const char* dtype, std::vector<uint64_t> shape,
                   std::vector<uint64_t> chunks, bool zarr = false) {
  const DataType type = type_of(dtype);
  uint64_t bytes = type.size;
  for (const uint64_t length : chunks) bytes *= length;
  FilterStage filter = stage(id, given);
  if (zarr) filter.codec = Json{{"id", find_by_id(id)->codec}};
  const ChunkShape chunk = {bytes, type, std::move(shape), std::move(chunks)};
  const auto result = find_by_id(id)->working_parameters({filter, chunk});
  if (!result) {
    ADD_FAILURE() << result.error().reason;
    return {};
  }
  FilterStage complete = filter;
  complete.parameters = *result;
  const auto again = find_by_id(id)->working_parameters({complete, chunk});
  EXPECT_TRUE(again && *again == *result) << "complete parameters were changed";
  return *result;
}

TEST(WorkingParameters, AsSetLocalStoresThem) {
  EXPECT_EQ(working(2, {}, "<f8", {100}, {10}), Parameters({8}));
  EXPECT_EQ(working(2, {0}, "<f8", {100}, {10}), Parameters({8}));
  EXPECT_EQ(working(2, {4}, "<f8", {100}, {10}), Parameters({4}));
  EXPECT_EQ(working(32000, {}, "<f8", {100}, {10}), Parameters({4, 261, 80}));
  EXPECT_EQ(working(32001, {0, 0, 0, 0, 9, 2, 5}, "<f8", {100}, {10}), Parameters({2, 2, 8, 80, 9, 2, 5}));
  EXPECT_EQ(working(32001, {0, 0, 0, 512, 9, 2, 5}, "<f8", {100}, {10}, true), Parameters({2, 2, 8, 80, 9, 2, 5}));
  EXPECT_EQ(working(32001, {}, "|V300", {100}, {10}), Parameters({2, 2, 1, 3000, 5, 1, 0}));
  EXPECT_EQ(working(32001, {0, 0, 4, 40, 9, 2, 5}, "<i4", {100}, {10}), Parameters({0, 0, 4, 40, 9, 2, 5}));
  EXPECT_EQ(working(32008, {}, "<i2", {100}, {10}), Parameters({0, 3, 2}));
  EXPECT_EQ(working(32008, {0, 2}, "<i2", {100}, {10}), Parameters({0, 3, 2, 0, 2}));
  EXPECT_EQ(working(32008, {0, 3, 9}, "<i2", {100}, {10}), Parameters({0, 3, 2, 0, 3, 9}));
  EXPECT_EQ(working(32008, {64, 3, 2}, "<i2", {100}, {10}), Parameters({0, 3, 2, 64, 3, 2}));
  EXPECT_EQ(working(32008, {0, 4, 2, 0, 2}, "<i2", {100}, {10}), Parameters({0, 4, 2, 0, 2}));
}

// An (8, 200) array in chunks of (4, 50): HDF5 uses the 50, NCZarr the 200.
TEST(WorkingParameters, SzipLooksAtAnotherRowInZarr) {
  EXPECT_EQ(working(4, {32, 16}, "<i4", {8, 200}, {4, 50}), Parameters({169, 16, 32, 50}));
  EXPECT_EQ(working(4, {32, 16}, "<i4", {8, 200}, {4, 50}, true), Parameters({169, 16, 32, 200}));
  EXPECT_EQ(working(4, {38, 16}, ">i2", {8, 200}, {4, 50}), Parameters({181, 16, 16, 50}));
  // A row shorter than a block: the whole chunk; longer than 4096: 128 blocks.
  EXPECT_EQ(working(4, {4, 32}, "<f8", {8, 20}, {4, 20}), Parameters({141, 32, 64, 80}));
  EXPECT_EQ(working(4, {4, 8}, "<f8", {9999, 2}, {9999, 2}), Parameters({141, 8, 64, 1024}));
  EXPECT_EQ(working(4, {4, 16}, "|u1", {5000}, {5000}), Parameters({141, 16, 8, 2048}));
  EXPECT_EQ(working(4, {4, 8}, "|u1", {3000}, {3000}), Parameters({141, 8, 8, 1024}));
  EXPECT_EQ(working(4, {4, 32}, "|u1", {3001}, {3001}), Parameters({141, 32, 8, 3001}));
}

TEST(WorkingParameters, SzipWithMaskAndBlockOnlyDecodes) {
  const ByteVector data = make_data({"", "<i4", nullptr}, 200, Kind::ramp);
  const auto chain = zarr_chain("null", R"({"id": "szip", "mask": 32, "pixels-per-block": 16})", 4);
  const ChunkShape chunk = {800, type_of("<i4"), {8, 200}, {4, 50}};
  const auto pipeline = Pipeline::make(chain, chunk);
  ASSERT_TRUE(pipeline) << pipeline.error().reason;
  Result<EncodedChunk> encoded = pipeline->encode(data);
  ASSERT_TRUE(encoded) << encoded.error().reason;
  EXPECT_EQ(decode({stage(4, {169, 16, 32, 200})}, chunk, encoded->bytes.bytes()), data);
  EXPECT_EQ(decode(chain, chunk, encoded->bytes.bytes()), data);
}

// The chunk of filter-by-filter samples: 64 times int32, 0 to 63.
TEST(Encode, KnownBytes) {
  ByteVector data(256);
  for (size_t i = 0; i < 64; ++i) data[4 * i] = static_cast<std::byte>(i);
  const auto starts = [&](uint32_t id, Parameters parameters, std::string_view hex) {
    const Prepared made({"", "<i4", nullptr, id, std::move(parameters)}, 64);
    const auto encoded = made.coder->encode(data);
    const ByteVector expected = from_hex(hex);
    return encoded && encoded->size() >= expected.size() &&
           std::ranges::equal(encoded->bytes().first(expected.size()), expected);
  };
  EXPECT_TRUE(starts(32004, {},
                     "0000000000000100"
                     "00000100"
                     "00000100"
                     "00000000"
                     "01000000"));
  EXPECT_TRUE(starts(32004, {64},
                     "0000000000000100"
                     "00000040"
                     "00000040"
                     "00000000"
                     "01000000"));
  EXPECT_TRUE(starts(4, {32, 16},
                     "00010000"
                     "2009249249"));
  EXPECT_TRUE(starts(32001, {0, 0, 0, 0, 5, 1, 1},
                     "02013104"
                     "00010000"
                     "00010000"
                     "68000000"));
  EXPECT_TRUE(starts(32015, {3}, "28b52ffd60"));
}

}  // namespace
}  // namespace codecfs::filters

// The pipeline: order, filter masks, sizes between the stages, memory bounds, and the errors for missing filters.

#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

ByteVector deflated(Bytes data) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(6), libdeflate_free_compressor);
  ByteVector out(libdeflate_zlib_compress_bound(compressor.get(), data.size()));
  out.resize(libdeflate_zlib_compress(compressor.get(), data.data(), data.size(), out.data(), out.size()));
  return out;
}

ByteVector shuffled4(Bytes data) {
  const size_t count = data.size() / 4;
  ByteVector out(data.begin(), data.end());
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < 4; ++j) out[j * count + i] = data[i * 4 + j];
  return out;
}

/// crc32 and adler32 for numcodecs: a prefix.
ByteVector with_crc32(Bytes data) {
  ByteVector out(4);
  const uint32_t sum = libdeflate_crc32(0, data.data(), data.size());
  for (size_t i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(sum >> (8 * i));
  append(out, data);
  return out;
}

TEST(Pipeline, WithoutFiltersTheInputIsTheChunk) {
  const auto pipeline = Pipeline::make({}, chunk_of(100));
  ASSERT_TRUE(pipeline);
  EXPECT_TRUE(pipeline->empty());
  auto buffer = Buffer::copy_of(random_bytes(100));
  const std::byte* place = buffer->data();
  const auto decoded = pipeline->decode(*std::move(buffer));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->data(), place) << "copied";
  EXPECT_EQ(reason(pipeline->decode(*Buffer::copy_of(random_bytes(99)))), "decoded to 99 bytes, not 100");
  EXPECT_EQ(pipeline->decode(*Buffer::copy_of(random_bytes(101))).error().code, EIO);
}

TEST(Pipeline, ChecksumsAreTakenOffInPlace) {
  const auto pipeline = Pipeline::make(zarr_chain(R"([{"id": "crc32"}])"), chunk_of(100));
  auto buffer = Buffer::copy_of(with_crc32(random_bytes(100)));
  const std::byte* place = buffer->data();
  const auto decoded = pipeline->decode(*std::move(buffer));
  ASSERT_TRUE(decoded) << decoded.error().reason;
  EXPECT_EQ(decoded->data(), place + 4) << "copied";
}

TEST(Pipeline, UndoesTheLastFilterFirst) {
  const ByteVector data = random_bytes(400);
  EXPECT_EQ(decode({stage(2, {4}), stage(1, {5})}, chunk_of(400), deflated(shuffled4(data))), data);
  EXPECT_EQ(decode({stage(1, {5}), stage(2, {4})}, chunk_of(400), shuffled4(deflated(data))), data);
}

TEST(Pipeline, MaskedFiltersAreLeftOut) {
  const ByteVector data = random_bytes(400);
  const std::vector chain = {stage(2, {4}), stage(1, {5})};
  EXPECT_EQ(decode(chain, chunk_of(400), deflated(data), 0b01), data);
  EXPECT_EQ(decode(chain, chunk_of(400), shuffled4(data), 0b10), data);
  EXPECT_EQ(decode(chain, chunk_of(400), data, 0b11), data);
  EXPECT_EQ(decode(chain, chunk_of(400), data, 0xffffffff), data);
  EXPECT_FALSE(decode(chain, chunk_of(400), data, 0b01));
}

// At the edge of an array, HDF5 reads chunks of which only the beginning is stored.
TEST(Pipeline, ShortChunksHaveAtLeastWhatIsNeeded) {
  const ByteVector data = random_bytes(200);
  const auto pipeline = Pipeline::make(std::vector{stage(2, {4}), stage(1, {5})}, chunk_of(400));
  ASSERT_TRUE(pipeline);
  const auto decode_short = [&](const ByteVector& stored, uint64_t least, uint32_t mask = 0) {
    return pipeline->decode(*Buffer::copy_of(stored), mask, least);
  };
  const ByteVector stored = deflated(shuffled4(data));
  for (const uint64_t least : {uint64_t{0}, uint64_t{4}, uint64_t{200}}) {
    const auto decoded = decode_short(stored, least);
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_TRUE(std::ranges::equal(decoded->bytes(), data)) << least;
  }
  EXPECT_EQ(reason(decode_short(stored, 201)), "decoded to 200 bytes, not 400, and the array has 201 of them");
  EXPECT_EQ(decode_short(stored, 400).error().code, EIO);
  EXPECT_EQ(pipeline->decode(*Buffer::copy_of(stored)).error().code, EIO);
  const ByteVector cut(stored.begin(), stored.end() - 3);
  EXPECT_EQ(decode_short(cut, 100).error().code, EIO);
  const ByteVector whole = random_bytes(400);
  EXPECT_TRUE(std::ranges::equal(decode_short(deflated(shuffled4(whole)), 100)->bytes(), whole));
  // Never more than a chunk, with or without filters.
  EXPECT_EQ(decode_short(deflated(random_bytes(404)), 100, 0b01).error().code, EIO);
  EXPECT_EQ(decode_short(random_bytes(401), 100, 0b11).error().code, EIO);
  EXPECT_EQ(decode_short(data, 200, 0b11)->size(), 200);
}

TEST(Pipeline, AllFiltersDecodeShortChunks) {
  const ByteVector data(192, std::byte{7});
  for (const FilterStage& last :
       {stage(1, {5}), stage(3), stage(307, {9}), stage(32000), stage(32001, {2, 2, 4, 0, 5, 1}), stage(32004, {0}),
        stage(32008, {0, 4, 4, 0, 2}), stage(32015, {3})}) {
    const auto encoded = Pipeline::make(std::vector{stage(2, {4}), last}, chunk_of(192))->encode(data);
    ASSERT_TRUE(encoded) << last.id << ": " << encoded.error().reason;
    const auto pipeline = Pipeline::make(std::vector{stage(2, {4}), last}, chunk_of(400));
    ASSERT_TRUE(pipeline) << last.id;
    const auto decoded = pipeline->decode(*Buffer::copy_of(encoded->bytes.bytes()), encoded->filter_mask, 192);
    ASSERT_TRUE(decoded) << last.id << ": " << decoded.error().reason;
    EXPECT_TRUE(std::ranges::equal(decoded->bytes(), data)) << last.id;
    EXPECT_EQ(pipeline->decode(*Buffer::copy_of(encoded->bytes.bytes()), encoded->filter_mask, 193).error().code, EIO);
  }
}

// A skipped checksum adds no bytes to the bound for the filters after it.
TEST(Pipeline, MasksCountForSizes) {
  const ByteVector data = random_bytes(400);
  const auto chain = zarr_chain(R"([{"id": "crc32"}, {"id": "zlib"}])");
  EXPECT_EQ(decode(chain, chunk_of(400), deflated(with_crc32(data))), data);
  EXPECT_EQ(decode(chain, chunk_of(400), deflated(data), 0b01), data);
  EXPECT_FALSE(decode(chain, chunk_of(400), deflated(data)));
  EXPECT_FALSE(decode(chain, chunk_of(400), deflated(with_crc32(data)), 0b01));
}

TEST(Pipeline, FiltersThatResizeElements) {
  // dtype <i4 stored as <i2 by delta, then one byte in two: deflate must give 4 bytes for each 8 of the chunk.
  const auto chain = zarr_chain(R"([{"id": "astype", "encode_dtype": "<i4", "decode_dtype": "<i8"},
                     {"id": "delta", "dtype": "<i4", "astype": "<i2"}, {"id": "zlib"}])");
  const ByteVector differences = {std::byte{5}, std::byte{0},    std::byte{1},
                                  std::byte{0}, std::byte{0xfe}, std::byte{0xff}};
  ByteVector expected(24);
  expected[0] = std::byte{5};
  expected[8] = std::byte{6};
  expected[16] = std::byte{4};
  EXPECT_EQ(decode(chain, chunk_of(24, "<i8"), deflated(differences)), expected);
  const auto wrong = decode(chain, chunk_of(32, "<i8"), deflated(differences));
  EXPECT_EQ(reason(wrong), "codec 'zlib': decoded to 6 bytes, not 8");
}

TEST(Pipeline, CompressorsBehindCompressors) {
  const ByteVector data = random_bytes(100000);  // grows a little each time
  EXPECT_EQ(decode({stage(1), stage(1), stage(1)}, chunk_of(data.size()), deflated(deflated(deflated(data)))), data);
}

TEST(Pipeline, ABombIsRefusedBeforeItGrows) {
  const ByteVector bomb = deflated(ByteVector(size_t{64} << 20));
  const auto refused = decode({stage(1)}, chunk_of(1000), bomb);
  EXPECT_EQ(reason(refused),
            "filter 1 (deflate): decodes to more than 1000 bytes, the most that this chunk can have here");
  // The output of another compressor may have 1000 + 1000/4 + 4096 bytes.
  EXPECT_EQ(reason(decode({stage(1), stage(1)}, chunk_of(1000), bomb)),
            "filter 1 (deflate): decodes to more than 5346 bytes, the most that this chunk can have here");
}

TEST(Pipeline, UnknownSizesGrow) {
  const ByteVector data(size_t{10} << 20, std::byte{'x'});
  EXPECT_EQ(decode({stage(1)}, chunk_of(std::nullopt), deflated(data)), data);
  EXPECT_EQ(decode({stage(1)}, chunk_of(std::nullopt), deflated({})), ByteVector{});
}

// Headers that declare sizes near 2^32 and 2^64 give an error at once, without an allocation.
TEST(Pipeline, LyingHeaders) {
  const auto refused = [](std::vector<FilterStage> chain, const char* hex) {
    for (const auto size : {std::optional<uint64_t>(1000), std::optional<uint64_t>()}) {
      const auto decoded = decode(chain, chunk_of(size, "<i4"), from_hex(hex));
      ASSERT_FALSE(decoded) << hex;
      EXPECT_EQ(decoded.error().code, EIO) << hex;
    }
  };
  refused({stage(32004)}, "ffffffffffffffff00000400000000100000");
  refused({stage(32004)}, "000000003fffffff00000000000000100000");
  refused({stage(32008, {0, 4, 4, 0, 2})}, "7fffffffffffffff00002000000000100000");
  refused({stage(32008, {0, 4, 4, 0, 2})}, "0000000000000400ffffffe0000000100000");
  refused({stage(4, {141, 16, 32, 64})}, "ffffffff2009249249");
  refused({stage(4, {141, 16, 32, 64})}, "fcffff3f2009249249");
  refused({stage(32001)}, "02013104ffffff7f000000ff1000000000000000");
  refused({stage(32015)}, "28b52ffde0feffffffffffffff010000");
  refused(zarr_chain(R"([{"id": "lz4"}])"), "ffffffff00");
}

TEST(Pipeline, NamesWhatItDoesNotKnow) {
  const std::string kNowhere = "no directory is searched for plugins (HDF5_PLUGIN_PATH, -o plugin_path=)";
  const std::string kAdvice = "; number 32999 is not a registered filter: ask the author of the file for the plugin";
  const auto unknown = Pipeline::make({{stage(2, {4}), stage(32999)}}, chunk_of(100));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, EIO);
  EXPECT_EQ(unknown.error().reason, "filter 32999 is neither built in nor a plugin's: " + kNowhere + kAdvice);
  FilterStage named = stage(32999);
  named.name = "mine";
  EXPECT_EQ(reason(Pipeline::make({{named}}, chunk_of(100))),
            "filter 32999 (mine) is neither built in nor a plugin's: " + kNowhere + kAdvice);
  EXPECT_EQ(reason(Pipeline::make(zarr_chain(R"([{"id": "jpeg2k"}])"), chunk_of(100))),
            "codec 'jpeg2k' is neither built in nor a plugin's: " + kNowhere);
  EXPECT_EQ(reason(Pipeline::make(zarr_chain(R"([{"id": "hdf5:32999", "parameters": [1]}])"), chunk_of(100))),
            "filter 32999 is neither built in nor a plugin's: " + kNowhere + kAdvice);
}

// Test filters with encoders: 40130 halves data that begins with 0, adds a byte to other data, does not take data that
// begins with 9, and fails for data that begins with 8. 40131 adds one byte to any data.
void register_test_encoders() {
  static const bool registered = [] {
    Filter halves{.id = 40130, .name = "test.halves"};
    halves.make_coder = [](const StageContext&) -> Result<Coder> {
      Coder coder;
      coder.encode = [](Bytes in) -> Result<Buffer> {
        if (in[0] == std::byte{9}) return fail(EINVAL, "not nine");
        if (in[0] == std::byte{8}) return fail(EIO, "crashes");
        const size_t size = in[0] == std::byte{0} ? in.size() / 2 : in.size() + 1;
        ByteVector out(size, std::byte{7});
        return Buffer::copy_of(out);
      };
      coder.decode = [](const Buffer& in, const SizeBound&) { return Buffer::copy_of(in.bytes()); };
      coder.encoded = compressed_size;
      return coder;
    };
    Filter adds{.id = 40131, .name = "test.adds"};
    adds.make_coder = [](const StageContext&) -> Result<Coder> {
      Coder coder;
      coder.encode = [](Bytes in) {
        ByteVector out(in.begin(), in.end());
        out.push_back(std::byte{1});
        return Buffer::copy_of(out);
      };
      coder.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> {
        in.truncate(in.size() - 1);
        return in;
      };
      coder.encoded = adds_bytes(1);
      return coder;
    };
    Filter reads{.id = 40132, .name = "test.reads"};
    reads.make_coder = [](const StageContext&) -> Result<Coder> {
      return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; }};
    };
    return register_filter(halves) && register_filter(adds) && register_filter(reads);
  }();
  ASSERT_TRUE(registered);
}

/// "size mask" of an encoded chunk, or the error.
std::string encode_text(std::vector<FilterStage> chain, const ByteVector& data, std::optional<uint64_t> size = 10) {
  const auto pipeline = Pipeline::make(chain, chunk_of(size));
  if (!pipeline) return pipeline.error().reason;
  const auto encoded = pipeline->encode(data);
  return encoded ? fmt::format("{} {}", encoded->bytes.size(), encoded->filter_mask) : encoded.error().reason;
}

TEST(Pipeline, EncodesFirstToLast) {
  register_test_encoders();
  const ByteVector zeros(10, std::byte{0});
  EXPECT_EQ(encode_text({}, zeros), "10 0");
  EXPECT_EQ(encode_text({stage(40131), stage(40130)}, zeros), "5 0");
  EXPECT_EQ(encode_text({stage(40130), stage(40131)}, zeros), "6 0");
  EXPECT_EQ(encode_text({}, zeros, 11), "a chunk has 11 bytes, not 10");
  EXPECT_EQ(encode_text({stage(40131), stage(40132)}, zeros), "filter 40132 (test.reads): can only be read here");
}

// As libhdf5: a filter is skipped only if it is optional and its function returns 0. Whether the data grows is nothing
// that libhdf5 looks at: a filter may encrypt, or add a checksum.
TEST(Pipeline, LeavesOutOptionalFiltersThatDoNotTakeTheData) {
  register_test_encoders();
  FilterStage halves = stage(40130);
  FilterStage adds = stage(40131);
  FilterStage reads = stage(40132);
  const ByteVector zeros(10, std::byte{0});
  const ByteVector ones(10, std::byte{1});
  const ByteVector nines(10, std::byte{9});
  EXPECT_EQ(encode_text({adds, halves}, ones), "12 0") << "what must be applied is, whatever becomes of the size";
  EXPECT_EQ(encode_text({adds, halves}, nines), "filter 40130 (test.halves): not nine");
  halves.optional = adds.optional = reads.optional = true;
  EXPECT_EQ(encode_text({halves, adds}, zeros), "6 0");
  EXPECT_EQ(encode_text({halves, adds}, ones), "12 0");
  EXPECT_EQ(encode_text({adds, halves}, ones), "12 0");
  EXPECT_EQ(encode_text({halves, adds}, nines), "11 1");
  EXPECT_EQ(encode_text({adds, halves}, nines), "11 2");
  EXPECT_EQ(encode_text({halves, reads, adds}, nines), "11 3");
  EXPECT_EQ(encode_text({halves, adds}, ByteVector(10, std::byte{8})), "filter 40130 (test.halves): crashes")
      << "skipping a filter that protects the data would be worse than an error";
}

// HDF5's filter functions of these return 0 for data that does not become smaller; those of the others never do.
TEST(Pipeline, SkipsTheBuiltInFiltersThatHdf5Skips) {
  const ByteVector noise = random_bytes(4000);
  const auto mask_of = [&](FilterStage stage) -> int {
    stage.optional = true;
    const auto pipeline = Pipeline::make({{stage}}, chunk_of(noise.size(), "<i4"));
    if (!pipeline) return -1;
    const auto encoded = pipeline->encode(noise);
    if (!encoded) return -1;
    const auto decoded = pipeline->decode(*Buffer::copy_of(encoded->bytes.bytes()), encoded->filter_mask);
    return decoded && to_vector(*decoded) == noise ? static_cast<int>(encoded->filter_mask) : -2;
  };
  EXPECT_EQ(mask_of(stage(4, {141, 16, 32, 64})), 1);
  EXPECT_EQ(mask_of(stage(32000)), 1);
  EXPECT_EQ(mask_of(stage(32001)), 1);
  for (const FilterStage& always : {stage(1, {1}), stage(1, {9}), stage(2), stage(3), stage(307), stage(32004),
                                    stage(32004, {1}), stage(32004, {8}), stage(32015), stage(32008, {0, 3, 4, 0}),
                                    stage(32008, {0, 3, 4, 8, 2}), stage(32008, {0, 3, 4, 8, 3})})
    EXPECT_EQ(mask_of(always), 0) << always.id;
}

// Also where another stage follows: what a chain may let a chunk grow to covers such small blocks.
TEST(Pipeline, DecodesWhatSmallBlocksMakeOfNoise) {
  const ByteVector noise = random_bytes(100000);
  for (const FilterStage& grows : {stage(32004, {1}), stage(32008, {0, 3, 4, 8, 3})}) {
    const auto pipeline = Pipeline::make({{grows, stage(1, {1})}}, chunk_of(noise.size(), "<i4"));
    ASSERT_TRUE(pipeline);
    auto encoded = pipeline->encode(noise);
    ASSERT_TRUE(encoded) << encoded.error().reason;
    const auto decoded = pipeline->decode(std::move(encoded->bytes));
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_EQ(to_vector(*decoded), noise);
  }
}

TEST(Pipeline, LeavesToLibhdf5WhatOnlyItHas) {
  for (const auto& [id, name] : {std::pair(5U, "nbit"), std::pair(6U, "scaleoffset")}) {
    EXPECT_TRUE(only_in_libhdf5(id));
    const auto pipeline = Pipeline::make({{stage(id)}}, chunk_of(100));
    ASSERT_FALSE(pipeline);
    EXPECT_EQ(pipeline.error().reason, fmt::format("filter {} ({}): only libhdf5 decodes this", id, name));
  }
  EXPECT_FALSE(only_in_libhdf5(0));
  EXPECT_FALSE(only_in_libhdf5(1));
  EXPECT_FALSE(only_in_libhdf5(32999));
}

TEST(Pipeline, RefusesParametersThatMakeNoSense) {
  const auto code = [](const std::vector<FilterStage>& chain) {
    const auto pipeline = Pipeline::make(chain, chunk_of(100));
    return pipeline ? 0 : pipeline.error().code;
  };
  EXPECT_EQ(code({stage(4)}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 16})}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 0, 32, 64})}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 15, 32, 64})}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 16, 33, 64})}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 16, 32, 8})}), EINVAL);
  EXPECT_EQ(code({stage(4, {141, 16, 32, 0xffffffff})}), EINVAL);
  for (const char* json :
       {R"({"id": "delta"})", R"({"id": "delta", "dtype": "nonsense"})", R"({"id": "delta", "dtype": "<M8[ns]"})",
        R"({"id": "delta", "dtype": "<i4", "astype": "<f4"})", R"({"id": "delta", "dtype": 7})",
        R"({"id": "fixedscaleoffset", "dtype": "<f4", "offset": 0})",
        R"({"id": "fixedscaleoffset", "dtype": "<f4", "offset": 0, "scale": 0})",
        R"({"id": "astype", "encode_dtype": "|O", "decode_dtype": "<f4"})", R"({"id": "crc32", "location": "middle"})",
        R"({"id": "lzma", "format": 4})", R"({"id": "lzma", "format": 3})",
        R"({"id": "lzma", "format": 3, "filters": []})", R"({"id": "lzma", "format": 3, "filters": [{"id": 99}]})",
        R"({"id": "lzma", "format": 3, "filters": [7]})",
        R"({"id": "lzma", "format": 3, "filters": [{"id": 33, "dict_size": 4294967295}]})"}) {
    EXPECT_EQ(code(zarr_chain(fmt::format("[{}]", json))), EINVAL) << json;
  }
  EXPECT_EQ(code(std::vector(33, stage(2, {4}))), EINVAL);
  EXPECT_EQ(code(std::vector(32, stage(2, {4}))), 0);
}

TEST(Pipeline, SizesThatAreNoWholeElements) {
  const ByteVector seven = random_bytes(7);
  EXPECT_EQ(reason(decode(zarr_chain(R"([{"id": "delta", "dtype": "<i4"}])"), chunk_of(7), seven)),
            "codec 'delta': 7 bytes are not a whole number of elements of 4 bytes");
}

TEST(Pipeline, OnePipelineInManyThreads) {
  const ByteVector data = random_bytes(1 << 16);
  const ByteVector stored = deflated(shuffled4(data));
  const auto pipeline = Pipeline::make({{stage(2, {4}), stage(1, {5})}}, chunk_of(data.size()));
  std::vector<std::jthread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto decoded = pipeline->decode(*Buffer::copy_of(stored));
        if (decoded && to_vector(*decoded) == data) ++good;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 80);
}

}  // namespace
}  // namespace codecfs::filters

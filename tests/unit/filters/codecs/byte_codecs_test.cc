// Our own codecs compared with the simplest implementation of their definition: shuffle, bitshuffle and fletcher32 for
// all element sizes and lengths near the limits of the vector code.

#include <algorithm>

#include "base/endian.h"
#include "filters/codecs/number_types.h"
#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

ByteVector shuffled(const ByteVector& data, size_t size) {
  const size_t count = data.size() / size;
  ByteVector out = data;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < size; ++j) out[j * count + i] = data[i * size + j];
  return out;
}

TEST(Shuffle, AllSizesAndLengths) {
  for (const uint32_t size : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 100}) {
    for (const size_t count : {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000}) {
      for (const size_t tail : {size_t{0}, size_t{1}, size_t{size - 1}}) {
        const ByteVector data = random_bytes(count * size + tail);
        const auto decoded = decode({stage(2, {size})}, chunk_of(data.size()), shuffled(data, size));
        ASSERT_TRUE(decoded) << decoded.error().reason;
        ASSERT_EQ(*decoded, data) << size << " * " << count << " + " << tail;
      }
    }
  }
}

TEST(Shuffle, ElementSizeZeroOrMissingIsThatOfTheType) {
  const ByteVector data = random_bytes(64);
  for (const auto& chain :
       {std::vector{stage(2)}, std::vector{stage(2, {0})}, zarr_chain(R"([{"id": "shuffle"}])", "null", 8),
        zarr_chain(R"([{"id": "shuffle", "elementsize": 0}])", "null", 8),
        zarr_chain(R"([{"id": "shuffle", "elementsize": "0"}])", "null", 8)}) {
    const auto decoded = decode(chain, chunk_of(64, "<f8"), shuffled(data, 8));
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_EQ(*decoded, data);
  }
}

// netCDF's order, as netcdf-c stores the doubles 0, 1, 2: the checksum makes a tail of four bytes.
TEST(Shuffle, TailBehindFletcher32) {
  ByteVector doubles(24);
  for (size_t i = 0; i < 3; ++i) store_element<double>(doubles.data() + 8 * i, static_cast<double>(i));
  const auto stored = from_hex(std::string(2 * 19, '0') + "f000003f407ff07fb1");
  const auto decoded = decode({stage(3), stage(2, {8})}, chunk_of(24, "<f8"), stored);
  ASSERT_TRUE(decoded) << decoded.error().reason;
  EXPECT_EQ(*decoded, doubles);
}

ByteVector bit_planes(Bytes data, size_t size) {
  const size_t count = data.size() / size;
  ByteVector out(data.size());
  for (size_t i = 0; i < count; ++i)
    for (size_t bit = 0; bit < size * 8; ++bit)
      if ((data[i * size + bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0})
        out[bit * (count / 8) + i / 8] |= std::byte{1} << (i % 8);
  return out;
}

TEST(Bitshuffle, AllSizesAndLengths) {
  for (const uint32_t size : {1, 2, 3, 4, 8, 12, 16}) {
    for (const uint32_t block : {0, 8, 16, 128}) {
      for (const size_t count : {0, 1, 7, 8, 9, 127, 128, 129, 137, 1023, 5000}) {
        const ByteVector data = random_bytes(count * size);
        const size_t in_block = block != 0 ? block : std::max<size_t>(128, 8192 / size / 8 * 8);
        ByteVector stored;
        size_t done = 0;
        while (count - done >= 8) {
          const size_t now = std::min(in_block, (count - done) / 8 * 8);
          append(stored, bit_planes(Bytes(data).subspan(done * size, now * size), size));
          done += now;
        }
        append(stored, Bytes(data).subspan(done * size));
        const auto decoded = decode({stage(32008, {0, 4, size, block})}, chunk_of(data.size()), stored);
        ASSERT_TRUE(decoded) << decoded.error().reason;
        ASSERT_EQ(*decoded, data) << size << " * " << count << " in " << block;
      }
    }
  }
}

TEST(Bitshuffle, RefusesBadParameters) {
  EXPECT_EQ(Pipeline::make({{stage(32008, {0, 4, 4, 12})}}, chunk_of(64)).error().code, EINVAL);
  EXPECT_EQ(Pipeline::make({{stage(32008, {0, 4, 4, 0, 9})}}, chunk_of(64)).error().code, EINVAL);
  EXPECT_EQ(Pipeline::make({{stage(32008, {0, 4, 0xffffffff, 0, 2})}}, chunk_of(64)).error().code, EINVAL);
}

/// As the HDF5 File Format Specification describes it, one word at a time.
uint32_t plain_fletcher32(Bytes data) {
  uint64_t sum1 = 0;
  uint64_t sum2 = 0;
  const auto add = [&](uint32_t word) {
    sum1 += word;
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 += sum1;
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  };
  for (size_t i = 0; i + 1 < data.size(); i += 2) add(load_be<uint16_t>(data.data() + i));
  if (data.size() % 2 != 0) add(static_cast<uint32_t>(data.back()) << 8);
  return static_cast<uint32_t>(sum2 << 16 | sum1);
}

Result<ByteVector> check_fletcher32(ByteVector data, uint32_t checksum) {
  const size_t size = data.size();
  data.resize(size + 4);
  store_le(data.data() + size, checksum);
  return decode({stage(3)}, chunk_of(size), data);
}

TEST(Fletcher32, AllLengths) {
  for (size_t size = 0; size < 700; ++size) {
    const ByteVector data = random_bytes(size, static_cast<uint32_t>(size));
    ASSERT_EQ(check_fletcher32(data, plain_fletcher32(data)), data) << size;
  }
  for (const size_t size : {8190, 8191, 8192, 8193, 8224, 16384, 100001, 1 << 20}) {
    ByteVector data = random_bytes(size);
    ASSERT_EQ(check_fletcher32(data, plain_fletcher32(data)), data) << size;
    std::ranges::fill(data, std::byte{0xff});  // the largest sums
    ASSERT_EQ(check_fletcher32(data, plain_fletcher32(data)), data) << size;
    std::ranges::fill(data, std::byte{0});
    ASSERT_EQ(check_fletcher32(data, 0), data) << size;
    ASSERT_FALSE(check_fletcher32(data, 0xffffffff)) << size;
  }
}

TEST(Fletcher32, VectorsOfLibhdf5) {
  const auto bytes = [](std::string_view text) {
    const Bytes view = std::as_bytes(std::span(text));
    return ByteVector(view.begin(), view.end());
  };
  ByteVector ramp;
  for (int i = 0; i < 1024; ++i) ramp.push_back(static_cast<std::byte>(i));
  struct Row {
    ByteVector data;
    const char* trailer;
    const char* legacy;
  };
  const std::vector<Row> rows = {
      {from_hex("00010203"), "04020502", "02040205"},
      {from_hex("0001020304"), "04060908", "06040809"},
      {bytes("abcde"), "c729f04f", "29c74ff0"},
      {bytes("abcdef"), "2d2a5650", "2a2d5056"},
      {bytes("abcdefgh"), "9591ebe1", "9195e1eb"},
      {ByteVector(8, std::byte{0}), "00000000", "00000000"},
      {ByteVector(8, std::byte{0xff}), "ffffffff", "ffffffff"},
      {ByteVector(722, std::byte{0xff}), "ffffffff", "ffffffff"},
      {ByteVector(1441, std::byte{0xff}), "00ff00ff", "ff00ff00"},
      {ramp, "ff001615", "00ff1516"},
  };
  for (const Row& row : rows) {
    for (const char* trailer : {row.trailer, row.legacy}) {
      ByteVector stored = row.data;
      append(stored, from_hex(trailer));
      EXPECT_EQ(decode({stage(3)}, chunk_of(row.data.size()), stored), row.data) << trailer;
      stored[0] ^= std::byte{1};
      EXPECT_FALSE(decode({stage(3)}, chunk_of(row.data.size()), stored)) << trailer;
    }
  }
}

TEST(Checksums, VectorsOfNumcodecs) {
  const ByteVector data = from_hex("00010203");
  EXPECT_EQ(decode(zarr_chain(R"([{"id": "crc32"}])"), chunk_of(4), from_hex("1386b98b00010203")), data);
  EXPECT_EQ(decode(zarr_chain(R"([{"id": "adler32"}])"), chunk_of(4), from_hex("07000e0000010203")), data);
}

TEST(Half, EveryValueThereAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double value = half_to_double({static_cast<uint16_t>(bits)});
    const uint32_t back = double_to_half(value).bits;
    if (std::isnan(value)) {
      EXPECT_EQ(back & 0x7c00, 0x7c00U);
      EXPECT_NE(back & 0x3ff, 0U);
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  const auto bits = [](double value) { return double_to_half(value).bits; };
  EXPECT_EQ(bits(1 + 0x1p-11), 0x3c00);  // a tie, to even
  EXPECT_EQ(bits(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(bits(1 + 3 * 0x1p-11), 0x3c02);
  EXPECT_EQ(bits(2047.999), 0x6800);  // carries into the exponent
  EXPECT_EQ(bits(65519.99), 0x7bff);
  EXPECT_EQ(bits(65520), 0x7c00);  // infinity
  EXPECT_EQ(bits(-1e300), 0xfc00);
  EXPECT_EQ(bits(0x1p-25), 0x0000);
  EXPECT_EQ(bits(0x1.8p-25), 0x0001);
  EXPECT_EQ(bits(0x1p-14 - 0x1p-26), 0x0400);  // the largest subnormal carries
  EXPECT_EQ(bits(-0.0), 0x8000);
}

}  // namespace
}  // namespace codecfs::filters

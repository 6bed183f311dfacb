// zfp and zfpy. The streams are those of zfpy 1.0.0, the Python module of zfp, without and with its header.

#include "model/json.h"
#include "support/codec_testing.h"

namespace codecfs::filters::zfp {
namespace {

using Lengths = std::vector<uint64_t>;

ChunkShape chunk_of(const char* dtype, const Lengths& lengths) {
  DataType type = type_of(dtype);
  uint64_t bytes = type.size;
  for (const uint64_t length : lengths) bytes *= length;
  return {.bytes = bytes, .type = type, .shape = lengths, .chunks = lengths};
}

Result<Pipeline> pipeline_of(const std::string& codec, const ChunkShape& chunk) {
  CODECFS_ASSIGN(const auto chain, parse_zarr_codecs(*parse_json(codec), Json(), chunk.type.size));
  return Pipeline::make(chain, chunk);
}

Result<ByteVector> encode(const std::string& codec, const ChunkShape& chunk, Bytes elements) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codec, chunk));
  CODECFS_ASSIGN(const EncodedChunk encoded, pipeline.encode(elements));
  return to_vector(encoded.bytes);
}

Result<ByteVector> decode(const std::string& codec, const ChunkShape& chunk, Bytes stored) {
  CODECFS_ASSIGN(const Pipeline pipeline, pipeline_of(codec, chunk));
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored));
  CODECFS_ASSIGN(const Buffer decoded, pipeline.decode(std::move(copy)));
  return to_vector(decoded);
}

template <class T>
int error_of(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

std::string zfp(const char* members) { return fmt::format(R"({{"id": "zarr3:zfp", {}}})", members); }
std::string zfpy(const char* members) { return fmt::format(R"({{"id": "zfpy", {}}})", members); }

const char* const kReversible = R"("mode": "reversible")";
const char* const kAccuracy = R"("mode": "fixed_accuracy", "tolerance": 0.125)";

/// The stream with zeros up to whole words of 64 bits.
ByteVector padded(ByteVector stream) {
  stream.resize((stream.size() + 7) / 8 * 8);
  return stream;
}

struct Vector {
  const char* codec;
  const char* dtype;
  Lengths lengths;
  const char* elements;
  const char* stream;
  const char* decoded;  // null: the elements
};

const Vector kVectors[] = {
    {R"({"id": "zarr3:zfp", "mode": "fixed_accuracy", "tolerance": 0.125})",
     "<f4",
     {2, 3},
     "0000803f000020c000004040000000006f12833a0000e840",
     "050950c49aa89188401229cc92660800214100",
     "0000803f000020c00000404000000000000000000000e840"},
    {R"({"id": "zarr3:zfp", "mode": "fixed_precision", "precision": 16})",
     "<f4",
     {2, 3},
     "0000803f000020c000004040000000006f12833a0000e840",
     "050950c49aa89188401229cc926608002141000000000000000801",
     "0000803f000020c000004040000080b90000a03a00f6e740"},
    {R"({"id": "zarr3:zfp", "mode": "reversible"})",
     "<f4",
     {2, 3},
     "0000803f000020c000004040000000006f12833a0000e840",
     "ff7e36ab9d00c0006621039048882983c0090081a0dc00400102900148244414000880054c400401a19008c80824162208088544424401042"
     "00212008100",
     nullptr},
    {R"({"id": "zarr3:zfp", "mode": "expert", "minbits": 128, "maxbits": 128, "maxprec": 64, "minexp": -1074})",
     "<f4",
     {2, 3},
     "0000803f000020c000004040000000006f12833a0000e840",
     "050950c49aa89188401229cc92660800",
     "0000803f000020c000004040000000bd0000003d0000e740"},
    {R"({"id": "zarr3:zfp", "mode": "reversible"})",
     "<i4",
     {5},
     "01000000f9ffffffffffff7f0000008000000000",
     "3f01000000000000000000000000b2222500",
     nullptr},
    {R"({"id": "zarr3:zfp", "mode": "reversible"})", "|u1", {4}, "00ff8003", "e86b00002001", nullptr},
    {R"({"id": "zarr3:zfp", "mode": "reversible"})", "<i2", {3}, "0080ff7f0500", "f06b0000000000244403", nullptr},
    {R"({"id": "zfpy", "mode": 4, "tolerance": 0.125, "rate": -1, "precision": -1, "compression_kwargs": {"tolerance": 0.125}})",
     "<f4",
     {2, 3},
     "0000803f000020c000004040000000006f12833a0000e840",
     "7a66700526000010000000cb050950c49aa89188401229cc92660800214100",
     "0000803f000020c00000404000000000000000000000e840"},
    {R"({"id": "zfpy", "mode": 5})",
     "<i4",
     {5},
     "01000000f9ffffffffffff7f0000008000000000",
     "7a66700540000000000000883f01000000000000000000000000b2222500",
     nullptr},
};

TEST(Zfp, StreamsAreThoseOfZfpy) {
  for (const Vector& vector : kVectors) {
    const ChunkShape chunk = chunk_of(vector.dtype, vector.lengths);
    const ByteVector elements = from_hex(vector.elements);
    const ByteVector stream = from_hex(vector.stream);
    const ByteVector decoded = vector.decoded != nullptr ? from_hex(vector.decoded) : elements;
    EXPECT_EQ(*encode(vector.codec, chunk, elements), padded(stream)) << vector.codec;
    EXPECT_EQ(*decode(vector.codec, chunk, stream), decoded) << vector.codec;
    EXPECT_EQ(*decode(vector.codec, chunk, padded(stream)), decoded) << vector.codec;
  }
}

TEST(Zfp, ReversibleModeKeepsAllElementsOfAllTypes) {
  for (const char* const dtype : {"|i1", "|u1", "<i2", "<u2", "<i4", "<i8", "<f4", "<f8"}) {
    for (const Lengths& lengths : {Lengths{}, {1}, {37}, {3, 5}, {4, 8}, {5, 1, 7}, {2, 3, 4, 5}}) {
      const ChunkShape chunk = chunk_of(dtype, lengths);
      const ByteVector elements = random_bytes(*chunk.bytes, static_cast<uint32_t>(lengths.size()));
      const auto stored = encode(zfp(kReversible), chunk, elements);
      ASSERT_TRUE(stored) << dtype << reason(stored);
      EXPECT_EQ(stored->size() % 8, 0) << "whole words, which other builds of libzfp read";
      EXPECT_EQ(*decode(zfp(kReversible), chunk, *stored), elements) << dtype << " " << lengths.size();
    }
  }
}

TEST(Zfp, UnsignedElementsMustFitInSignedOnes) {
  const ChunkShape chunk = chunk_of("<u4", {2});
  const ByteVector fits = from_hex("ffffff7f00000000");
  EXPECT_EQ(*decode(zfp(kReversible), chunk, *encode(zfp(kReversible), chunk, fits)), fits);
  EXPECT_EQ(error_of(encode(zfp(kReversible), chunk, from_hex("0000008000000000"))), EINVAL);
}

TEST(Zfp, LossyModesRefuseWhatTheyWouldDestroy) {
  const ChunkShape floats = chunk_of("<f4", {2});
  EXPECT_EQ(error_of(encode(zfp(kAccuracy), floats, from_hex("0000c07f0000803f"))), EINVAL) << "NaN";
  EXPECT_EQ(error_of(encode(zfp(kAccuracy), floats, from_hex("0000807f0000803f"))), EINVAL) << "infinity";
  const ChunkShape integers = chunk_of("<i4", {1});
  const std::string precision = zfp(R"("mode": "fixed_precision", "precision": 30)");
  EXPECT_EQ(error_of(encode(precision, integers, from_hex("01000040"))), EINVAL) << "2^30 + 1";
  EXPECT_EQ(error_of(encode(precision, integers, from_hex("00000040"))), 0);
}

TEST(Zfp, TheLengthOfAStreamOfFixedRateTellsItsForm) {
  // As specified, a block of one dimension and rate 16 has 64 bits; zarrs makes it 1024.
  const std::string rate = zfp(R"("mode": "fixed_rate", "rate": 16)");
  const std::string blocks = zfp(R"("mode": "expert", "minbits": {0}, "maxbits": {0}, "maxprec": 64, "minexp": -1074)");
  const ChunkShape chunk = chunk_of("<f4", {5});
  const ByteVector elements = from_hex("0000803f0000004000004040000080400000a040");
  for (const char* const bits : {"64", "1024"}) {
    std::string expert = blocks;
    for (size_t at = expert.find("{0}"); at != expert.npos; at = expert.find("{0}")) expert.replace(at, 3, bits);
    const auto stored = encode(expert, chunk, elements);
    ASSERT_TRUE(stored) << reason(stored);
    EXPECT_EQ(stored->size(), std::stoul(bits) / 8 * 2);
    EXPECT_EQ(*decode(rate, chunk, *stored), *decode(expert, chunk, *stored)) << bits;
  }
  EXPECT_EQ(error_of(encode(rate, chunk, elements)), ENOTSUP);
  const ChunkShape cube = chunk_of("<f4", {1, 1, 5});
  EXPECT_EQ(decode(rate, cube, *encode(rate, cube, elements))->size(), elements.size());
}

TEST(Zfp, ParametersAreChecked) {
  const ChunkShape chunk = chunk_of("<f4", {5});
  for (const char* const members :
       {R"("mode": "lossless")", R"("rate": 8)", R"("mode": "reversible", "rate": 8)", R"("mode": "fixed_rate")",
        R"("mode": "fixed_rate", "rate": 0)", R"("mode": "fixed_rate", "rate": 1e300)",
        R"("mode": "fixed_precision", "precision": 0)", R"("mode": "fixed_precision", "precision": 65)",
        R"("mode": "fixed_accuracy", "tolerance": 0)", R"("mode": "fixed_accuracy", "tolerance": -1)",
        R"("mode": "expert", "minbits": 1, "maxbits": 9, "maxprec": 9)",
        R"("mode": "expert", "minbits": 10, "maxbits": 9, "maxprec": 9, "minexp": 0)",
        R"("mode": "expert", "minbits": 1, "maxbits": 8, "maxprec": 9, "minexp": 0)",
        R"("mode": "expert", "minbits": 1, "maxbits": 14, "maxprec": 9, "minexp": -1075)",
        R"("mode": "expert", "minbits": 4000000000, "maxbits": 4000000000, "maxprec": 9, "minexp": 0)"})
    EXPECT_EQ(error_of(pipeline_of(zfp(members), chunk)), EINVAL) << members;
  EXPECT_EQ(error_of(pipeline_of(zfp(kAccuracy), chunk_of("<i4", {5}))), EINVAL);
  for (const char* const dtype : {">f4", "<f2", "<c8", "|b1", "|S4"})
    EXPECT_EQ(error_of(pipeline_of(zfp(kReversible), chunk_of(dtype, {5}))), EINVAL) << dtype;
  // libzfp has no type for halves, and zarr-extensions lists none.
  const auto halves = pipeline_of(zfp(kReversible), chunk_of("<f2", {5}));
  ASSERT_EQ(error_of(halves), EINVAL);
  EXPECT_NE(halves.error().reason.find("<f2"), std::string::npos) << halves.error().reason;
  EXPECT_EQ(error_of(pipeline_of(zfp(kReversible), chunk_of("<f4", {1, 1, 1, 1, 1}))), EINVAL);
  EXPECT_EQ(error_of(pipeline_of(zfpy(R"("mode": 1)"), chunk)), EINVAL);
  EXPECT_EQ(error_of(pipeline_of(zfpy(R"("mode": 4, "tolerance": -1)"), chunk)), EINVAL);
  EXPECT_EQ(error_of(pipeline_of(zfpy(R"("mode": 5)"), chunk_of("<i2", {5}))), EINVAL);
}

TEST(Zfp, DamagedStreamsAreErrorsOrElements) {
  const char* const modes[] = {kReversible,
                               kAccuracy,
                               R"("mode": "fixed_precision", "precision": 20)",
                               R"("mode": "expert", "minbits": 3, "maxbits": 40, "maxprec": 64, "minexp": -1074)",
                               R"("mode": "expert", "minbits": 0, "maxbits": 12, "maxprec": 64, "minexp": -1074)",
                               R"("mode": "expert", "minbits": 0, "maxbits": 19, "maxprec": 64, "minexp": -1075)"};
  std::vector<std::string> codecs;
  for (const char* const mode : modes) codecs.push_back(zfp(mode));
  codecs.push_back(zfpy(R"("mode": 5)"));
  codecs.push_back(zfpy(R"("mode": 3, "precision": 12)"));
  const ChunkShape chunk = chunk_of("<f8", {9, 6, 11});
  ByteVector elements(*chunk.bytes);
  for (size_t i = 0; i < elements.size() / 8; ++i) {
    const auto value = static_cast<double>(i % 17) / 3;
    std::memcpy(elements.data() + i * 8, &value, 8);
  }
  std::mt19937 random(7);
  for (const std::string& codec : codecs) {
    const auto stored = encode(codec, chunk, elements);
    ASSERT_TRUE(stored) << codec << reason(stored);
    for (int round = 0; round < 200; ++round) {
      ByteVector damaged = *stored;
      if (round % 4 == 0) damaged.resize(random() % damaged.size());
      if (round % 4 == 1) append(damaged, random_bytes(random() % 4000 + 8, static_cast<uint32_t>(round)));
      if (round % 4 == 2) damaged = random_bytes(damaged.size(), static_cast<uint32_t>(round));
      if (round % 4 == 3)
        damaged[random() % std::min<size_t>(damaged.size(), 40)] ^= static_cast<std::byte>(1 << random() % 8);
      const auto decoded = decode(codec, chunk, damaged);
      if (decoded)
        EXPECT_EQ(decoded->size(), elements.size());
      else
        EXPECT_EQ(decoded.error().code, EIO) << reason(decoded);
    }
    EXPECT_EQ(error_of(decode(codec, chunk, {})), EIO);
  }
}

TEST(Zfp, AHeaderMustTellTheChunk) {
  const std::string codec = zfpy(R"("mode": 5)");
  const ChunkShape chunk = chunk_of("<i4", {6});
  const ByteVector elements = random_bytes(24);
  const ByteVector stored = *encode(codec, chunk, elements);
  EXPECT_EQ(*decode(codec, chunk, stored), elements);
  EXPECT_EQ(*decode(zfpy(R"("mode": 3, "precision": 9)"), chunk, stored), elements) << "the header tells the mode";
  EXPECT_EQ(*decode(codec, chunk_of("<i4", {2, 3}), stored), elements) << "an encoder before it made it flat";
  EXPECT_EQ(error_of(decode(codec, chunk_of("<f4", {6}), stored)), EIO);
  EXPECT_EQ(error_of(decode(codec, chunk_of("<i4", {7}), stored)), EIO);
  EXPECT_EQ(error_of(decode(codec, chunk_of("<i8", {3}), stored)), EIO);
}

}  // namespace
}  // namespace codecfs::filters::zfp

// Every codec on chunks that other implementations encoded (vectors.inc, made by make_vectors.py): they decode to the
// same bytes, and damage (truncation, flipped bits, a wrong expected size) gives an error or data of the right size.

#include <algorithm>

#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

struct Vector {
  const char* name;
  const char* dtype;
  const char* codec;  // JSON; empty for HDF5
  uint32_t id;
  std::vector<uint32_t> parameters;
  const char* decoded;  // hex
  const char* stored;   // hex
};

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
#include "vectors.inc"
  };
  return all;
}

struct Case {
  const Vector& vector;
  DataType type = type_of(vector.dtype);
  ByteVector decoded = from_hex(vector.decoded);
  ByteVector stored = from_hex(vector.stored);
  std::vector<FilterStage> chain = *vector.codec != '\0'
                                       ? zarr_chain(fmt::format("[{}]", vector.codec), "null", type.size)
                                       : std::vector{stage(vector.id, vector.parameters)};

  [[nodiscard]] Result<ByteVector> decode_as(std::optional<uint64_t> size, Bytes bytes) const {
    return decode(chain, {.bytes = size, .type = type}, bytes);
  }
  [[nodiscard]] bool named(std::string_view part) const { return std::string_view(vector.name).contains(part); }
};

template <class Check>
void for_each_vector(Check check) {
  for (const Vector& vector : vectors()) {
    SCOPED_TRACE(vector.name);
    check(Case{vector});
  }
}

TEST(Codec, DecodesWhatOthersEncoded) {
  for_each_vector([](const Case& c) {
    const auto decoded = c.decode_as(c.decoded.size(), c.stored);
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_EQ(*decoded, c.decoded);
  });
}

TEST(Codec, DecodesWithoutKnowingTheSize) {
  for_each_vector([](const Case& c) {
    const auto decoded = c.decode_as(std::nullopt, c.stored);
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_EQ(*decoded, c.decoded);
  });
}

TEST(Codec, RefusesAnotherSize) {
  for_each_vector([](const Case& c) {
    for (const size_t size : {c.decoded.size() - 1, c.decoded.size() + 1, c.decoded.size() / 2, size_t{1}, size_t{0}}) {
      const auto decoded = c.decode_as(size, c.stored);
      ASSERT_FALSE(decoded) << size;
      EXPECT_EQ(decoded.error().code, EIO);
      EXPECT_FALSE(decoded.error().reason.empty());
    }
  });
}

TEST(Codec, RefusesACutStream) {
  for_each_vector([](const Case& c) {
    // If bytes after the stream are ignored, only truncation within the stream must be detected.
    size_t spare = 0;
    if (c.named("tail") || c.named("bz2 streams")) spare = 4;
    if (c.named("members")) spare = 7;
    for (size_t size = 0; size + spare < c.stored.size(); ++size) {
      const auto decoded = c.decode_as(c.decoded.size(), Bytes(c.stored).first(size));
      // The end of an szip stream may be padding to a whole scanline.
      const bool complete = decoded && c.named("szip") && *decoded == c.decoded;
      EXPECT_TRUE(!decoded || complete) << "cut to " << size << " of " << c.stored.size();
      (void)c.decode_as(std::nullopt, Bytes(c.stored).first(size));  // must not crash
    }
  });
}

TEST(Codec, SurvivesFlippedBits) {
  for_each_vector([](const Case& c) {
    const bool checked = c.named("fletcher32") || c.named("crc32") || c.named("adler32") || c.named("checksum");
    std::mt19937 random(7);
    for (int round = 0; round < 400; ++round) {
      ByteVector damaged = c.stored;
      const int flips = checked ? 1 : 1 + round % 3;
      for (int i = 0; i < flips; ++i) {
        // Headers are short and critical: half of the flips go there.
        const size_t place = random() % std::min(damaged.size(), round % 2 == 0 ? size_t{20} : damaged.size());
        damaged[place] ^= static_cast<std::byte>(1U << random() % 8);
      }
      const auto decoded = c.decode_as(c.decoded.size(), damaged);
      if (decoded) {
        EXPECT_EQ(decoded->size(), c.decoded.size());
      } else {
        EXPECT_EQ(decoded.error().code, EIO) << decoded.error().reason;
      }
      if (checked && decoded) {
        EXPECT_EQ(*decoded, c.decoded) << "a flipped bit went unseen";
      }
      (void)c.decode_as(std::nullopt, damaged);  // must not crash or take much memory
    }
  });
}

TEST(Codec, SurvivesNoise) {
  for_each_vector([](const Case& c) {
    for (uint32_t seed = 0; seed < 100; ++seed) {
      const auto decoded = c.decode_as(c.decoded.size(), random_bytes(seed * 3, seed));
      if (decoded) {
        EXPECT_EQ(decoded->size(), c.decoded.size());
      }
    }
  });
}

TEST(Codec, AllFiltersHaveVectors) {
  for (const FilterPtr& filter : list()) {
    if (!filter->make_coder || filter->name.starts_with("test")) continue;
    if (filter->name == "zarr3-zfp" || filter->name == "zfpy") continue;  // need the shape: zfp_test.cc has theirs
    const bool found = std::ranges::any_of(vectors(), [&](const Vector& vector) {
      if (*vector.codec == '\0') return vector.id == filter->id && filter->id != 0;
      return find_for(zarr_chain(fmt::format("[{}]", vector.codec))[0]) == filter;
    });
    EXPECT_TRUE(found) << filter->name;
  }
}

}  // namespace
}  // namespace codecfs::filters

// The registry: built-in filters, lookups, and conflicting registrations.

#include <algorithm>
#include <set>

#include "model/json.h"
#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

TEST(Registry, EveryBuiltInFilterIsThere) {
  // A filter whose registration conflicts with another would be missing.
  size_t listed = 0;
#define CODECFS_FILTER(name) ++listed;
#include "filters/codecs/all.inc"
#undef CODECFS_FILTER
  EXPECT_GE(list().size(), listed);
  EXPECT_GE(listed, 25U);
}

TEST(Registry, FindsByAllNames) {
  const auto check = [](const char* name, uint32_t id, const char* codec) {
    const FilterPtr by_name = find_by_name(name);
    ASSERT_NE(by_name, nullptr) << name;
    EXPECT_EQ(by_name->id, id) << name;
    EXPECT_EQ(by_name->codec, codec) << name;
    if (id != 0) {
      EXPECT_EQ(find_by_id(id), by_name) << name;
    }
    if (*codec != '\0') {
      EXPECT_EQ(find_by_codec(codec), by_name) << name;
    }
  };
  check("deflate", 1, "zlib");
  check("GZip", 1, "zlib");  // in a filter spec it means HDF5's
  check("zlib", 1, "zlib");
  check("SHUFFLE", 2, "shuffle");
  check("fletcher32", 3, "fletcher32");
  check("szip", 4, "szip");
  check("nbit", 5, "");
  check("scaleoffset", 6, "");
  check("bzip2", 307, "bz2");
  check("bz2", 307, "bz2");
  check("lzf", 32000, "");
  check("blosc", 32001, "blosc");
  check("lz4", 32004, "");  // not numcodecs' lz4
  check("bitshuffle", 32008, "");
  check("zstd", 32015, "zstd");
  check("zstandard", 32015, "zstd");
  check("numcodecs.lz4", 0, "lz4");
  check("numcodecs.gzip", 0, "gzip");
  check("delta", 0, "delta");
  EXPECT_EQ(find_by_name("no such filter"), nullptr);
  EXPECT_EQ(find_by_codec("ZLIB"), nullptr);  // codec ids are case-sensitive
  EXPECT_EQ(find_by_codec(""), nullptr);
  EXPECT_EQ(find_by_id(0), nullptr);
  EXPECT_EQ(find_by_id(32999), nullptr);
}

TEST(Registry, AStageMeansItsCodecBeforeItsId) {
  EXPECT_EQ(find_for(stage(32004)), find_by_id(32004));
  EXPECT_EQ(find_for(zarr_chain(R"([{"id": "lz4"}])")[0]), find_by_name("numcodecs.lz4"));
  EXPECT_EQ(find_for(zarr_chain(R"([{"id": "hdf5:32004"}])")[0]), find_by_id(32004));
  FilterStage odd = stage(1);
  odd.codec = Json{{"id", 7}};
  EXPECT_EQ(find_for(odd), find_by_id(1));
}

TEST(Registry, TakesNewFiltersOnce) {
  const auto identity = [](const StageContext&) -> Result<Coder> {
    return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; }};
  };
  ASSERT_TRUE(
      register_filter({.id = 40123, .name = "test.identity", .codec = "test-identity", .make_coder = identity}));
  const ByteVector data = random_bytes(10);
  EXPECT_EQ(decode({stage(40123)}, chunk_of(10), data), data);
  EXPECT_EQ(decode(zarr_chain(R"([{"id": "test-identity"}])"), chunk_of(10), data), data);

  const auto code = [](Filter filter) {
    const auto result = register_filter(std::move(filter));
    return result ? 0 : result.error().code;
  };
  EXPECT_EQ(code({.id = 40123, .name = "test.other"}), EEXIST);
  EXPECT_EQ(code({.name = "Test.Identity"}), EEXIST);
  EXPECT_EQ(code({.name = "test.other", .codec = "zstd"}), EEXIST);
  EXPECT_EQ(code({.name = "test.other", .aliases = {"gzip"}}), EEXIST);
  EXPECT_EQ(code({.id = 40124}), EINVAL);
}

TEST(Registry, ForgetsFilters) {
  const Filter filter{.id = 40127, .name = "test.passing", .codec = "test-passing"};
  ASSERT_TRUE(register_filter(filter));
  const FilterPtr held = find_by_id(40127);
  ASSERT_NE(held, nullptr);
  EXPECT_TRUE(is_registered_name("TEST.passing"));
  EXPECT_TRUE(unregister_filter(40127));
  EXPECT_EQ(find_by_id(40127), nullptr);
  EXPECT_EQ(find_by_codec("test-passing"), nullptr);
  EXPECT_FALSE(is_registered_name("test.passing"));
  EXPECT_EQ(held->name, "test.passing") << "existing users keep the filter";
  EXPECT_EQ(unregister_filter(40127).error().code, ENOENT);
  EXPECT_EQ(unregister_filter(0).error().code, ENOENT);
  EXPECT_TRUE(register_filter(filter)) << "its place is free again";
  EXPECT_TRUE(unregister_filter(40127));
}

// The output of a plugin's decoder is verified.
TEST(Registry, AFilterThatGivesTheWrongSizeIsCaught) {
  ASSERT_TRUE(register_filter(
      {.id = 40125, .name = "test.doubles", .make_coder = [](const StageContext&) -> Result<Coder> {
         return Coder{.decode = [](const Buffer& in, const SizeBound&) { return Buffer::allocate(in.size() * 2); }};
       }}));
  EXPECT_EQ(reason(decode({stage(40125)}, chunk_of(10), random_bytes(10))),
            "filter 40125 (test.doubles): decoded to 20 bytes, not 10");
  ASSERT_TRUE(
      register_filter({.id = 40126, .name = "test.throws", .make_coder = [](const StageContext&) -> Result<Coder> {
                         return Coder{.decode = [](const Buffer&, const SizeBound&) -> Result<Buffer> {
                           throw std::runtime_error("oops");
                         }};
                       }}));
  EXPECT_EQ(reason(decode({stage(40126)}, chunk_of(10), random_bytes(10))), "a chunk cannot be decoded: oops");
}

TEST(Registry, ListsByIdThenName) {
  const auto all = list();
  for (size_t i = 1; i < all.size(); ++i) {
    const bool ids = all[i - 1]->id != 0 && (all[i]->id == 0 || all[i - 1]->id < all[i]->id);
    EXPECT_TRUE(ids || (all[i - 1]->id == 0 && all[i]->id == 0 && all[i - 1]->name < all[i]->name)) << all[i]->name;
  }
}

}  // namespace
}  // namespace codecfs::filters

// A source in memory, shown in other forms: facts, chunks, and what stays as it is.

#include "backends/api/adapted_source.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/limits.h"
#include "support/memory_source.h"
#include "support/vlen_testing.h"

namespace codecfs {
namespace {

using namespace std::string_literals;
using Shape = std::vector<uint64_t>;

Variable strings(Shape shape, Shape chunks, const std::string& fill = "") {
  Variable variable;
  variable.type = {TypeKind::object, ByteOrder::none, 0, {}, {}};
  variable.object_codec = Json{{"id", "vlen-utf8"}};
  variable.grid = *ChunkGrid::make(std::move(shape), std::move(chunks));
  variable.fill_value = Json(fill);
  const std::string item = vlen_chunk({fill}).substr(4);
  variable.fill.assign(bytes_of(item).begin(), bytes_of(item).end());
  return variable;
}

Variable fixed_text(Shape shape, Shape chunks, const std::string& fill) {
  Variable variable = text_variable(std::move(shape), std::move(chunks));
  variable.type = {TypeKind::string, ByteOrder::none, fill.size(), {}, {}};
  variable.chunk_bytes = variable.grid.elements_per_chunk() * fill.size();
  variable.fill.assign(bytes_of(fill).begin(), bytes_of(fill).end());
  variable.fill_value = fill_json(variable.type, variable.fill);
  return variable;
}

class AdaptedSourceTest : public testing::Test {
 protected:
  MemorySource& memory() { return *memory_; }
  Source& shown(const Adaptation& adaptation) {
    return *(shown_ = adapt_source(std::exchange(made_, nullptr), adaptation));
  }
  Source& fixed() { return shown({.strings = StringForm::fixed}); }
  Source& bytes() { return shown({.strings = StringForm::bytes}); }
  Source& clamped() { return shown({.clamps_chunks = true}); }

  Variable facts(const std::string& path) { return **shown_->facts(memory_->object(path)); }
  std::string chunk(const std::string& path, uint64_t number) {
    const Result<Buffer> read = shown_->read_chunk(memory_->object(path), number);
    return read ? text_of(read->bytes()) : fmt::format("error {}", read.error().code);
  }
  std::vector<uint64_t> stored(const std::string& path) {
    return *shown_->stored_chunks(memory_->object(path), 0, 100);
  }

 private:
  std::unique_ptr<Source> made_ = std::make_unique<MemorySource>();
  MemorySource* const memory_ = static_cast<MemorySource*>(made_.get());
  std::unique_ptr<Source> shown_;
};

const std::string kDamagedChunk = fmt::format("error {}", EIO);
const std::string kNoChunk = fmt::format("error {}", ENOENT);

TEST_F(AdaptedSourceTest, WithoutAFormItIsTheSourceItself) {
  Source* const before = &memory();
  EXPECT_EQ(&shown({}), before);
}

TEST_F(AdaptedSourceTest, VariablesThatFitStayAsTheyAre) {
  memory().add_variable("/v", text_variable({4}, {2}, {deflate(1)}));
  memory().put("/v", 0, "ab");
  Source& source = shown({.strings = StringForm::bytes, .clamps_chunks = true});
  EXPECT_EQ(facts("/v").filters.size(), 1U);
  EXPECT_EQ(chunk("/v", 0), "ab");
  EXPECT_EQ(chunk("/v", 1), kNoChunk);
  EXPECT_TRUE(source.read_stored(memory().object("/v"), 0)->has_value());
}

TEST_F(AdaptedSourceTest, StringsAreAsLongAsTheLongest) {
  memory().add_variable("/s", strings({5}, {2}));
  memory().put("/s", 0, vlen_chunk({"a", "日"}));
  memory().put("/s", 2, vlen_chunk({"bü", ""}));
  fixed();
  const Variable variable = facts("/s");
  EXPECT_EQ(variable.type, (DataType{TypeKind::string, ByteOrder::none, 3, {}, {}}));
  EXPECT_EQ(variable.chunk_bytes, 6U);
  EXPECT_TRUE(variable.object_codec->is_null());
  EXPECT_EQ(*variable.fill_value, Json(""));
  EXPECT_EQ(variable.fill, std::vector<std::byte>(3));
  EXPECT_EQ(chunk("/s", 0), "a\0\0日"s);
  EXPECT_EQ(chunk("/s", 1), kNoChunk);
  EXPECT_EQ(chunk("/s", 2), "bü\0\0\0"s);
  EXPECT_EQ(memory().reads, 2 + 3) << "each chunk once for the length";
}

TEST_F(AdaptedSourceTest, TheLengthIsFoundOnce) {
  memory().add_variable("/s", strings({2}, {2}));
  memory().put("/s", 0, vlen_chunk({"a", "b"}));
  Source& source = fixed();
  EXPECT_EQ(memory().reads, 0) << "before it is asked for";
  for (int i = 0; i < 3; ++i) facts("/s");
  EXPECT_EQ(memory().reads, 1);
  memory().note_changed_outside("/s");
  EXPECT_TRUE(source.changed_outside(memory().object("/s")));
  facts("/s");
  EXPECT_EQ(memory().reads, 2);
}

TEST_F(AdaptedSourceTest, AStringThatHasBecomeLongerIsNotCut) {
  memory().add_variable("/s", strings({2}, {2}));
  memory().put("/s", 0, vlen_chunk({"a", "b"}));
  fixed();
  EXPECT_EQ(chunk("/s", 0), "ab");
  memory().put("/s", 0, vlen_chunk({"a", "bb"}));
  EXPECT_EQ(chunk("/s", 0), kDamagedChunk);
}

TEST_F(AdaptedSourceTest, EmptyStringsHaveALength) {
  memory().add_variable("/s", strings({2}, {2}));
  memory().put("/s", 0, vlen_chunk({"", ""}));
  fixed();
  EXPECT_EQ(facts("/s").type.size, 1U);
  EXPECT_EQ(chunk("/s", 0), "\0\0"s);
}

TEST_F(AdaptedSourceTest, TheFillCounts) {
  memory().add_variable("/s", strings({4}, {2}, "none"));
  memory().put("/s", 0, vlen_chunk({"a", "b"}));
  fixed();
  EXPECT_EQ(facts("/s").type.size, 4U);
  EXPECT_EQ(text_of(facts("/s").fill), "none");
  EXPECT_EQ(*facts("/s").fill_value, Json("bm9uZQ==")) << "base64";
}

TEST_F(AdaptedSourceTest, ADamagedChunkCostsItselfAlone) {
  memory().add_variable("/s", strings({4}, {2}));
  memory().put("/s", 0, "what");
  memory().put("/s", 1, vlen_chunk({"aa", "b"}));
  fixed();
  EXPECT_EQ(facts("/s").type.size, 2U);
  EXPECT_EQ(chunk("/s", 0), kDamagedChunk);
  EXPECT_EQ(chunk("/s", 1), "aab\0"s);
}

TEST_F(AdaptedSourceTest, AChunkThatWouldBeTooLargeIsRefused) {
  const uint64_t limit = max_chunk_bytes();
  set_max_chunk_bytes(1 << 20);
  memory().add_variable("/s", strings({100'000}, {100'000}));
  memory().put("/s", 0, "\xa0\x86\x01\0\xc8\0\0\0"s + std::string(200, 'x') + std::string(4 * 99'999, '\0'));
  memory().add_variable("/small", strings({1}, {1}));
  memory().put("/small", 0, vlen_chunk({"a"}));
  fixed();
  ASSERT_TRUE(facts("/s").unreadable);
  EXPECT_EQ(facts("/s").unreadable->code, EFBIG);
  EXPECT_EQ(chunk("/s", 0), fmt::format("error {}", EFBIG));
  EXPECT_FALSE(facts("/small").unreadable);
  set_max_chunk_bytes(limit);
}

TEST_F(AdaptedSourceTest, BytesHaveOneDimensionMore) {
  Variable variable = strings({3}, {2});
  variable.dimensions = {"x"};
  variable.max_shape = {std::nullopt};
  variable.attributes = {{"_FillValue", Json("zz")}, {"units", Json("1")}};
  memory().add_variable("/s", variable);
  memory().put("/s", 0, vlen_chunk({"ab", "c"}));
  Source& source = bytes();
  const Variable shown = **source.variable(memory().object("/s"));
  EXPECT_EQ(shown.type, (DataType{TypeKind::unsigned_int, ByteOrder::none, 1, {}, {}}));
  EXPECT_EQ(shown.grid.shape(), (Shape{3, 2}));
  EXPECT_EQ(shown.grid.chunks(), (Shape{2, 2}));
  EXPECT_EQ(shown.dimensions, (std::vector<std::string>{"x", "string2"}));
  EXPECT_EQ(shown.max_shape, (std::vector<std::optional<uint64_t>>{std::nullopt, 2}));
  ASSERT_EQ(shown.attributes.size(), 1U);
  EXPECT_EQ(shown.attributes[0].name, "units");
  EXPECT_EQ(*shown.fill_value, Json(0));
  EXPECT_EQ(chunk("/s", 0), "abc\0"s);
  EXPECT_EQ(stored("/s"), (Shape{0}));
}

TEST_F(AdaptedSourceTest, FixedStringsAreBytesToo) {
  memory().add_variable("/chars", fixed_text({2, 3}, {2, 3}, " "));
  memory().add_variable("/names", fixed_text({4}, {2}, "\0\0\0"s));
  memory().put("/chars", 0, "abcdef");
  memory().put("/names", 1, "abcd\0\0"s);
  bytes();
  EXPECT_EQ(facts("/chars").grid.shape(), (Shape{2, 3})) << "no dimension of length 1";
  EXPECT_EQ(*facts("/chars").fill_value, Json(32));
  EXPECT_EQ(facts("/names").grid.shape(), (Shape{4, 3}));
  EXPECT_EQ(chunk("/chars", 0), "abcdef");
  EXPECT_EQ(chunk("/names", 0), kNoChunk);
  EXPECT_EQ(chunk("/names", 1), "abcd\0\0"s);
}

TEST_F(AdaptedSourceTest, AFillThatNoByteIsFillsChunks) {
  memory().add_variable("/s", strings({6}, {2}, "zz"));
  memory().add_variable("/f", fixed_text({4}, {2}, "yz"));
  memory().put("/s", 1, vlen_chunk({"a", "zz"}));
  bytes();
  EXPECT_EQ(stored("/s"), (Shape{0, 1, 2}));
  EXPECT_EQ(chunk("/s", 0), "zzzz");
  EXPECT_EQ(chunk("/s", 1), "a\0zz"s);
  EXPECT_EQ(stored("/f"), (Shape{0, 1}));
  EXPECT_EQ(chunk("/f", 1), "yzyz");
}

TEST_F(AdaptedSourceTest, ChunksAreNotLongerThanTheArray) {
  memory().add_variable("/v", text_variable({3, 4}, {2, 6}, {deflate(1)}));
  memory().put("/v", 0, "abcdefghijkl");
  memory().add_variable("/s", strings({1}, {3}));
  memory().put("/s", 0, vlen_chunk({"aa", "b", ""}));
  memory().add_variable("/empty", text_variable({0}, {3}));
  Source& source = clamped();
  EXPECT_EQ(facts("/v").grid.chunks(), (Shape{2, 4}));
  EXPECT_EQ(facts("/v").chunk_bytes, 8U);
  EXPECT_TRUE(facts("/v").filters.empty());
  EXPECT_EQ(chunk("/v", 0), "abcdghij");
  EXPECT_EQ(chunk("/v", 1), kNoChunk);
  EXPECT_FALSE(source.read_stored(memory().object("/v"), 0)->has_value());
  EXPECT_FALSE(source.stored_bytes(memory().object("/v"), 0)->has_value());
  EXPECT_EQ(facts("/s").grid.chunks(), (Shape{1}));
  EXPECT_EQ(chunk("/s", 0), vlen_chunk({"aa"}));
  EXPECT_EQ(facts("/empty").grid.chunks(), (Shape{1}));
}

TEST_F(AdaptedSourceTest, OtherObjectsAreLeft) {
  Variable variable = strings({1}, {3});
  variable.object_codec = Json{{"id", "json2"}};
  memory().add_variable("/s", variable);
  shown({.strings = StringForm::fixed, .clamps_chunks = true});
  EXPECT_EQ(facts("/s").type.kind, TypeKind::object);
  EXPECT_EQ(facts("/s").grid.chunks(), (Shape{3}));
}

TEST_F(AdaptedSourceTest, BothFormsTogether) {
  memory().add_variable("/s", strings({2, 1}, {4, 2}));
  memory().put("/s", 0, vlen_chunk({"a", "long string", "bb", "", "", "", "", ""}));
  shown({.strings = StringForm::bytes, .clamps_chunks = true});
  EXPECT_EQ(facts("/s").grid.chunks(), (Shape{2, 1, 11}));
  EXPECT_EQ(chunk("/s", 0), "a"s + std::string(10, '\0') + "bb" + std::string(9, '\0'));
}

TEST_F(AdaptedSourceTest, NothingCanBeWritten) {
  memory().add_variable("/v", text_variable({4}, {2}));
  Source& source = clamped();
  const ObjectId id = memory().object("/v");
  EXPECT_EQ(source.writable().error().code, EROFS);
  EXPECT_EQ(source.variable_writable(id).error().code, EROFS);
  EXPECT_EQ(source.write_chunk(id, 0, bytes_of("ab")).error().code, EROFS);
  EXPECT_EQ(source.resize(id, Shape{8}).error().code, EROFS);
  EXPECT_EQ(source.begin_writing_to(id).error().code, EROFS);
  EXPECT_EQ(memory().writes, 0);
}

}  // namespace
}  // namespace codecfs

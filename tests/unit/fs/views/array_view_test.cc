// Reading and writing a variable as one file.

#include "fs/views/array_view.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kHeader = 128;  // bytes, of numpy's format

class ArrayViewTest : public FilesystemTest {
 protected:
  ArrayView& arrays() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return parts_->arrays;
  }
  const Node& raw(std::string_view path) { return node(path, View::raw); }
  std::unique_ptr<OpenArray> open(const Node& node, bool truncated = false) {
    auto array = arrays().open(node);
    EXPECT_TRUE(array);
    (*array)->truncated = truncated;
    return std::move(*array);
  }
  std::string content(const OpenArray& array, uint64_t offset = 0, uint64_t size = 1000) {
    const Result<Slice> slice = arrays().read(array, offset, size);
    return slice ? text_of(slice->bytes) : fmt::format("error {}", slice.error().code);
  }
  Result<size_t> put(OpenArray& array, uint64_t offset, std::string_view text) {
    return arrays().write(array, offset, bytes_of(text), nullptr, {});
  }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(ArrayViewTest, ChunksAreGatheredAndAbsentOnesAreFill) {
  const auto array = open(raw("/v"));
  EXPECT_EQ(content(*array), "abcd....");
  EXPECT_EQ(content(*array, 3, 2), "d.");
  EXPECT_EQ(content(*array, 8, 2), "");
  EXPECT_EQ(content(*array, 7, 10), ".");
}

TEST_F(ArrayViewTest, RowsOfTwoDimensionsCrossChunks) {
  source_->add_variable("/m", text_variable({2, 5}, {1, 3}));
  source_->put("/m", 0, "abc");
  source_->put("/m", 1, "de?");  // padded
  source_->put("/m", 2, "fgh");
  const auto array = open(raw("/m"));
  EXPECT_EQ(content(*array), "abcdefgh..");
  ASSERT_EQ(put(*array, 4, "EFGHI").value(), 5);
  EXPECT_EQ(content(*array), "abcdEFGHI.");
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/m", 1), "dE?");
  EXPECT_EQ(source_->chunk("/m", 2), "FGH");
  EXPECT_EQ(source_->chunk("/m", 3), "I..");
}

TEST_F(ArrayViewTest, OfAnArrayThatTheCacheCannotHoldRandomReadersGetWhatTheyRequest) {
  options_.cache_bytes = 500;
  source_->add_variable("/large", text_variable({8, 100}, {2, 50}));
  source_->add_variable("/packed", text_variable({8, 100}, {2, 50}, {deflate(1)}));
  std::string chunk;
  for (int i = 0; i < 100; ++i) chunk += static_cast<char>('0' + i % 70);
  for (const uint64_t number : {0, 1, 3}) source_->put("/large", number, chunk);
  source_->put("/packed", 0, chunk);
  const auto array = open(raw("/large"));
  EXPECT_EQ(content(*array, 130, 3), chunk.substr(80, 3));
  EXPECT_EQ(content(*array, 48, 4), chunk.substr(48, 2) + chunk.substr(0, 2)) << "of two chunks";
  EXPECT_EQ(source_->part_bytes, 7);
  EXPECT_EQ(source_->reads, 0);
  EXPECT_EQ(content(*array, 210, 3), "...") << "an absent chunk";
  ASSERT_TRUE(put(*array, 131, "X"));
  EXPECT_EQ(content(*array, 130, 3), chunk.substr(80, 1) + "X" + chunk.substr(82, 1)) << "an edit";
  EXPECT_EQ(source_->part_bytes, 7);
  EXPECT_EQ(content(*array, 260, 40), chunk.substr(10, 40)) << "that is most of it";
  EXPECT_EQ(source_->part_bytes, 7);
  EXPECT_EQ(content(*open(raw("/packed")), 7, 2), chunk.substr(7, 2));
  EXPECT_EQ(source_->part_bytes, 7);
}

TEST_F(ArrayViewTest, AnArrayThatTheCacheHoldsIsReadInWholeChunks) {
  source_->add_variable("/small", text_variable({400}, {100}));
  source_->put("/small", 1, std::string(100, 'x'));
  EXPECT_EQ(content(*open(raw("/small")), 130, 3), "xxx");
  EXPECT_EQ(source_->part_bytes, 0);
}

TEST_F(ArrayViewTest, EditsOfOtherViewsAreShown) {
  const auto array = open(raw("/v"));
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  EXPECT_EQ(content(*array), "abcdwxyz");
  ASSERT_TRUE(put(*array, 2, "CDW"));
  EXPECT_EQ(read("/v/0"), "abCD");
  EXPECT_EQ(read("/v/1"), "Wxyz");
}

TEST_F(ArrayViewTest, AWholeChunkIsWrittenWithoutReadingIt) {
  const auto array = open(raw("/v"));
  ASSERT_TRUE(put(*array, 0, "WXYZ"));
  EXPECT_EQ(source_->reads, 0);
  ASSERT_TRUE(put(*array, 0, "w"));
  EXPECT_EQ(content(*array, 0, 4), "wXYZ");
}

TEST_F(ArrayViewTest, TheHeaderCannotChange) {
  const auto array = open(node("/v.npy", View::npy));
  const std::string whole = content(*array);
  EXPECT_EQ(whole.size(), kHeader + 8);
  EXPECT_EQ(whole.substr(0, 6), "\x93NUMPY");
  EXPECT_EQ(whole.substr(kHeader), "abcd....");
  EXPECT_TRUE(put(*array, 0, whole.substr(0, kHeader))) << "the same bytes";
  EXPECT_EQ(error_of(put(*array, 0, "NUMPY")), EINVAL);
  ASSERT_TRUE(put(*array, kHeader + 1, "X"));
  EXPECT_EQ(content(*array, kHeader), "aXcd....");
}

TEST_F(ArrayViewTest, NothingIsWrittenBehindTheEnd) {
  const auto array = open(raw("/v"));
  const Result<size_t> over = put(*array, 6, "1234");
  EXPECT_TRUE(!over || *over == 2);
  EXPECT_EQ(error_of(put(*array, 8, "x")), EFBIG);
  EXPECT_EQ(arrays().check_size(raw("/v"), 8).has_value(), true);
  EXPECT_EQ(error_of(arrays().check_size(raw("/v"), 9)), EINVAL);
  EXPECT_EQ(arrays().check_size(node("/v.npy", View::npy), kHeader + 8).has_value(), true);
}

TEST_F(ArrayViewTest, AGapInATruncatedArrayIsZeros) {
  const auto array = open(raw("/v"), true);
  ASSERT_TRUE(put(*array, 0, "A"));
  ASSERT_TRUE(put(*array, 3, "D"));
  const std::string zeros(2, '\0');
  EXPECT_EQ(content(*array), "A" + zeros + "D....") << "what was not reached stays";
  ASSERT_TRUE(arrays().extend(*array, 6, {}));
  EXPECT_EQ(content(*array), "A" + zeros + "D" + zeros + "..");
  const auto other = open(raw("/g/deep"));
  ASSERT_TRUE(put(*other, 3, "P"));
  EXPECT_EQ(content(*other), "deeP....") << "without truncation";
}

TEST_F(ArrayViewTest, PagesThatAMappingDidNotChangeStoreNothing) {
  const auto array = open(raw("/v"));
  PageCopies::WrittenBack unchanged{ByteMask(8, std::byte{0}), false, {}};
  ASSERT_TRUE(arrays().write(*array, 0, bytes_of("????????"), &unchanged, {}));
  EXPECT_EQ(content(*array), "abcd....");
  PageCopies::WrittenBack one = unchanged;
  one.any = true;
  one.changed[1] = std::byte{0xff};
  ASSERT_TRUE(arrays().write(*array, 0, bytes_of("?X??????"), &one, {}));
  EXPECT_EQ(content(*array), "aXcd....");
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/v", 1), "absent");
}

TEST_F(ArrayViewTest, AnUnchangedPageMakesAChunkThatReadersWouldNotFill) {
  Variable variable = text_variable({8}, {4});
  variable.fill_value = Json();
  variable.is_fill_undefined = true;
  source_->add_variable("/n", variable);
  source_->put("/n", 0, "abcd");
  EXPECT_TRUE(arrays().is_made_by_unchanged(chunk_place("/n", 1)).value());
  EXPECT_FALSE(arrays().is_made_by_unchanged(chunk_place("/n", 0)).value());
  EXPECT_FALSE(arrays().is_made_by_unchanged(chunk_place("/v", 1)).value());
}

TEST_F(ArrayViewTest, AnotherShapeMakesOpenFilesStale) {
  const auto array = open(raw("/v"));
  Json zarray = *parse_json(read("/v/.zarray"));
  zarray["shape"] = {12};
  ASSERT_TRUE(write_file("/v/.zarray", print_json(zarray)));
  EXPECT_EQ(content(*array), fmt::format("error {}", ESTALE));
  EXPECT_EQ(error_of(put(*array, 0, "x")), ESTALE);
  EXPECT_EQ(content(*open(raw("/v"))), "abcd........");
}

TEST_F(ArrayViewTest, ARuleIsAppliedBeforeTheFirstWrite) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  const auto array = open(raw("/v"));
  EXPECT_EQ(content(*array), "abcd....");
  EXPECT_TRUE(source_->described("/v").filters.empty());
  ASSERT_TRUE(put(*array, 0, "X"));
  EXPECT_EQ(source_->described("/v").filters.size(), 1);
  EXPECT_EQ(content(*array), "Xbcd....");
}

TEST_F(ArrayViewTest, TypesWithoutAnEquivalentHaveNoFile) {
  Variable variable = text_variable({8}, {4});
  variable.type = {TypeKind::object, ByteOrder::none, 0, {}, {}};
  variable.chunk_bytes.reset();
  variable.object_codec = *parse_json(R"({"id": "vlen-utf8"})");
  source_->add_variable("/text", variable);
  EXPECT_EQ(error_of(find("/text", View::raw)), EOPNOTSUPP);
  EXPECT_EQ(list("", View::raw), (std::vector<std::string>{"v", "link", "g"}));
}

}  // namespace
}  // namespace codecfs::fs

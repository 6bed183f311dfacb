// Messages between the daemon and codec workers: what is written is read, and a cut message is no message.

#include "filters/plugins/codec_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace codecfs::filters {
namespace {

TEST(CodecCalls, AreReadAsTheyWereWritten) {
  PluginDescription plugin{.path = "not sent", .hdf5 = {}, .codecs = {}, .problems = {"one", ""}};
  plugin.hdf5 = {
      .id = 7, .name = "seven", .encodes = true, .decodes = false, .has_can_apply = false, .has_set_local = true};
  plugin.codecs.push_back({.id = "c", .hdf5_id = 8, .has_modify_parameters = true, .is_default = false});
  const ChunkShape chunk{
      .bytes = 16,
      .type = {.kind = TypeKind::floating, .order = ByteOrder::big, .size = 8, .unit = {}, .members = {}},
      .shape = {10, 20},
      .chunks = {1, 2}};
  const DatasetToPrepare dataset{
      .only_check = true, .flags = 1, .parameters = {9}, .type = std::string("a\0b", 3), .shape = {4}, .chunks = {2}};
  const CodecService::Loaded loaded{.description = plugin, .protections = 3};
  rpc::Encoder out;
  out.put(RequestHead{.serial = 1, .seconds = 2, .memory = uint64_t{1} << 40});
  out.put(Result<CodecService::Loaded>(loaded));
  out.put(chunk);
  out.put(dataset);
  out.put(std::vector<uint32_t>{1, UINT32_MAX});
  out.put(Result<>(fail(5, "why")));

  rpc::Decoder in(out.head);
  const auto head = in.get<RequestHead>();
  EXPECT_EQ(head.serial, 1U);
  EXPECT_EQ(head.memory, uint64_t{1} << 40);
  const auto answer = in.get<Result<CodecService::Loaded>>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->protections, 3U);
  const PluginDescription& read = answer->description;
  ASSERT_TRUE(read.hdf5);
  EXPECT_EQ(read.hdf5->id, 7U);
  EXPECT_EQ(read.hdf5->name, "seven");
  EXPECT_TRUE(read.hdf5->encodes && !read.hdf5->decodes && read.hdf5->has_set_local && !read.hdf5->has_can_apply);
  ASSERT_EQ(read.codecs.size(), 1U);
  EXPECT_EQ(read.codecs[0].id, "c");
  EXPECT_EQ(read.codecs[0].hdf5_id, 8U);
  EXPECT_TRUE(read.codecs[0].has_modify_parameters && !read.codecs[0].is_default);
  EXPECT_EQ(read.problems, plugin.problems);
  const auto shape = in.get<ChunkShape>();
  EXPECT_EQ(shape.bytes, chunk.bytes);
  EXPECT_EQ(shape.type, chunk.type);
  EXPECT_EQ(shape.shape, chunk.shape);
  EXPECT_EQ(shape.chunks, chunk.chunks);
  const auto prepared = in.get<DatasetToPrepare>();
  EXPECT_TRUE(prepared.only_check);
  EXPECT_EQ(prepared.flags, 1U);
  EXPECT_EQ(prepared.parameters, dataset.parameters);
  EXPECT_EQ(prepared.type, dataset.type);
  EXPECT_EQ(prepared.shape, dataset.shape);
  EXPECT_EQ(prepared.chunks, dataset.chunks);
  EXPECT_EQ(in.get<std::vector<uint32_t>>(), (std::vector<uint32_t>{1, UINT32_MAX}));
  const auto error = in.get<Result<>>();
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, 5);
  EXPECT_EQ(error.error().reason, "why");
  EXPECT_TRUE(in.is_complete());

  for (size_t size = 0; size < out.head.size(); ++size) {
    rpc::Decoder cut(std::string_view(out.head).substr(0, size));
    (void)cut.get<RequestHead>();
    (void)cut.get<Result<CodecService::Loaded>>();
    (void)cut.get<ChunkShape>();
    (void)cut.get<DatasetToPrepare>();
    (void)cut.get<std::vector<uint32_t>>();
    (void)cut.get<Result<>>();
    EXPECT_TRUE(cut.failed()) << size;
  }
}

TEST(CodecCalls, LengthsThatLieAllocateNothing) {
  rpc::Encoder out;
  out.put(UINT64_MAX);
  out.put(UINT64_MAX);
  EXPECT_TRUE(rpc::Decoder(out.head).get<std::string>().empty());
  EXPECT_TRUE(rpc::Decoder(out.head).get<std::vector<uint64_t>>().empty());
  EXPECT_TRUE(rpc::Decoder(out.head).get<std::vector<uint32_t>>().empty());
  EXPECT_TRUE(rpc::Decoder(out.head).get<std::vector<std::string>>().empty());
}

}  // namespace
}  // namespace codecfs::filters

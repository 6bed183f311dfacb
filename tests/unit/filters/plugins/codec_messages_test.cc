// Messages between the daemon and codec workers: what is written is read, and a cut message is no message.

#include "filters/plugins/codec_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace codecfs::filters {
namespace {

TEST(CodecMessages, AreReadAsTheyWereWritten) {
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
  MessageWriter writer;
  writer.head(RequestHead{.serial = 1, .seconds = 2, .memory = uint64_t{1} << 40}).description(plugin).chunk(chunk);
  writer.dataset(dataset).parameters(std::vector<uint32_t>{1, UINT32_MAX}).head(AnswerHead{.code = 5, .reason = "why"});

  MessageReader reader(writer.bytes());
  const RequestHead head = reader.request_head();
  EXPECT_EQ(head.serial, 1U);
  EXPECT_EQ(head.memory, uint64_t{1} << 40);
  const PluginDescription read = reader.description();
  ASSERT_TRUE(read.hdf5);
  EXPECT_EQ(read.hdf5->name, "seven");
  EXPECT_TRUE(read.hdf5->encodes && !read.hdf5->decodes && read.hdf5->has_set_local && !read.hdf5->has_can_apply);
  ASSERT_EQ(read.codecs.size(), 1U);
  EXPECT_TRUE(read.codecs[0].has_modify_parameters && !read.codecs[0].is_default);
  EXPECT_EQ(read.problems, plugin.problems);
  const ChunkShape shape = reader.chunk();
  EXPECT_EQ(shape.bytes, chunk.bytes);
  EXPECT_EQ(shape.type, chunk.type);
  EXPECT_EQ(shape.shape, chunk.shape);
  EXPECT_EQ(shape.chunks, chunk.chunks);
  const DatasetToPrepare prepared = reader.dataset();
  EXPECT_TRUE(prepared.only_check);
  EXPECT_EQ(prepared.type, dataset.type);
  EXPECT_EQ(prepared.chunks, dataset.chunks);
  EXPECT_EQ(reader.parameters(), (std::vector<uint32_t>{1, UINT32_MAX}));
  const AnswerHead answer = reader.answer_head();
  EXPECT_EQ(answer.code, 5);
  EXPECT_EQ(answer.reason, "why");
  EXPECT_TRUE(reader.is_valid());

  for (size_t size = 0; size < writer.bytes().size(); ++size) {
    MessageReader cut(std::string_view(writer.bytes()).substr(0, size));
    (void)cut.request_head();
    (void)cut.description();
    (void)cut.chunk();
    (void)cut.dataset();
    (void)cut.parameters();
    (void)cut.answer_head();
    EXPECT_FALSE(cut.is_valid()) << size;
  }
}

TEST(CodecMessages, LengthsThatLieAllocateNothing) {
  MessageWriter writer;
  writer.number(UINT64_MAX).number(UINT64_MAX);
  EXPECT_TRUE(MessageReader(writer.bytes()).text().empty());
  EXPECT_LE(MessageReader(writer.bytes()).numbers().size(), 2U);
  EXPECT_TRUE(MessageReader(writer.bytes()).parameters().empty());
}

}  // namespace
}  // namespace codecfs::filters

// What crosses the border between processes arrives as it was sent, and bytes that mean nothing are an error.

#include "backends/worker/calls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/json.h"

namespace codecfs::worker {
namespace {

Variable sample() {
  Variable variable;
  variable.type = {TypeKind::structured,
                   ByteOrder::none,
                   12,
                   "",
                   {{"a", {TypeKind::signed_int, ByteOrder::big, 4, "", {}}, {}},
                    {"b", {TypeKind::floating, ByteOrder::little, 4, "", {}}, {2}}}};
  variable.type_text = "a text";
  variable.grid = *ChunkGrid::make({10, 20}, {3, 7});
  variable.storage = Storage::external;
  variable.max_shape = {10, std::nullopt};
  variable.chunk_bytes = 252;
  variable.fill_value = Json(std::numeric_limits<double>::quiet_NaN());
  variable.fill = {std::byte{1}, std::byte{0}, std::byte{255}};
  variable.is_fill_undefined = true;
  variable.filters = {{4, {1, 2, 3}, Json{{"id", "x"}}, "a filter", true}};
  variable.attributes = {
      {"units", Json("K")}, {"list", Json{1, 2.5, -0.0, UINT64_MAX}}, {"not UTF-8", Json("\xFF\xFE")}};
  variable.dimensions = std::vector<std::string>{"y", "x"};
  variable.unreadable = Error{EIO, "a reason"};
  variable.unreadable_attributes = Error{EIO, "another"};
  return variable;
}

template <class T>
Result<T> answer_in(std::string_view head, Bytes bulk = {}) {
  Result<T> answer;
  rpc::get_answer(rpc::Decoder(head, bulk), answer);
  return answer;
}
template <class T>
Result<T> answer_in(const rpc::Encoder& sent) {
  return answer_in<T>(sent.head, sent.bulk);
}

TEST(WorkerCalls, AVariableArrivesAsItWas) {
  const Variable sent = sample();
  rpc::Encoder out;
  out.put(Result<VariablePtr>(std::make_shared<const Variable>(sent)));
  const auto got = answer_in<VariablePtr>(out);
  ASSERT_TRUE(got) << got.error().reason;
  const Variable& variable = **got;
  EXPECT_EQ(variable.type, sent.type);
  EXPECT_EQ(variable.type_text, sent.type_text);
  EXPECT_EQ(variable.grid.shape(), sent.grid.shape());
  EXPECT_EQ(variable.grid.chunks(), sent.grid.chunks());
  EXPECT_EQ(variable.storage, sent.storage);
  EXPECT_EQ(variable.max_shape, sent.max_shape);
  EXPECT_EQ(variable.chunk_bytes, sent.chunk_bytes);
  EXPECT_TRUE(std::isnan(variable.fill_value->get<double>()));
  EXPECT_EQ(variable.fill, sent.fill);
  EXPECT_TRUE(variable.is_fill_undefined);
  EXPECT_TRUE(variable.object_codec.is_null());
  ASSERT_EQ(variable.filters.size(), 1U);
  EXPECT_EQ(variable.filters[0].parameters, sent.filters[0].parameters);
  EXPECT_EQ(variable.filters[0].codec, sent.filters[0].codec);
  EXPECT_TRUE(variable.filters[0].optional);
  ASSERT_EQ(variable.attributes.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(variable.attributes[i].value, sent.attributes[i].value) << i;
  EXPECT_TRUE(std::signbit((*variable.attributes[1].value)[2].get<double>()));
  EXPECT_EQ(variable.dimensions, sent.dimensions);
  EXPECT_EQ(variable.unreadable->reason, "a reason");
  EXPECT_EQ(variable.unreadable_attributes->reason, "another");
}

TEST(WorkerCalls, ErrorsArriveAsErrors) {
  rpc::Encoder out;
  out.put(Result<Entry>(fail(ENOENT, "there is no {}", "x")));
  const auto got = answer_in<Entry>(out);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ENOENT);
  EXPECT_EQ(got.error().reason, "there is no x");
}

TEST(WorkerCalls, BytesOfChunksTravelBeside) {
  rpc::Encoder out;
  auto bytes = *Buffer::copy_of(std::as_bytes(std::span("chunk")));
  out.put(Result<DecodedChunk>(DecodedChunk{std::move(bytes), 77}));
  const auto got = answer_in<DecodedChunk>(out);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->stored_size, 77U);
  EXPECT_STREQ(reinterpret_cast<const char*>(got->bytes.data()), "chunk");
}

TEST(WorkerCalls, EveryTruncationIsAnError) {
  rpc::Encoder out;
  out.put(Result<VariablePtr>(std::make_shared<const Variable>(sample())));
  for (size_t size = 0; size < out.head.size(); ++size)
    EXPECT_FALSE(answer_in<VariablePtr>(std::string_view(out.head).substr(0, size))) << size;
}

TEST(WorkerCalls, FlippedBytesAreAValueOrAnError) {
  rpc::Encoder out;
  out.put(Result<VariablePtr>(std::make_shared<const Variable>(sample())));
  for (size_t at = 0; at < out.head.size(); ++at)
    for (const int bits : {1, 0x80, 0xFF}) {
      std::string bytes = out.head;
      bytes[at] = static_cast<char>(bytes[at] ^ bits);
      (void)answer_in<VariablePtr>(bytes);
    }
}

TEST(WorkerCalls, ACountThatTheBytesCannotHoldIsAnError) {
  rpc::Encoder out;
  out.put(true);
  out.put(uint64_t{1} << 62);
  EXPECT_FALSE(answer_in<std::vector<Entry>>(out.head));
  EXPECT_FALSE(answer_in<std::vector<uint64_t>>(out.head));
  EXPECT_FALSE(answer_in<std::vector<std::string>>(out.head));
}

TEST(WorkerCalls, WhatFollowsAnAnswerIsAnError) {
  rpc::Encoder out;
  out.put(Result<VariablePtr>(std::make_shared<const Variable>(sample())));
  EXPECT_TRUE(answer_in<VariablePtr>(out));
  EXPECT_FALSE(answer_in<VariablePtr>(out.head + '\0'));
  EXPECT_FALSE(answer_in<VariablePtr>(out.head, std::as_bytes(std::span("bulk"))));
}

TEST(WorkerCalls, WhatTypesDoNotSayIsChecked) {
  const auto is_refused = [](const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    rpc::Encoder out;
    out.put(Result<T>(value));
    return !answer_in<T>(out);
  };
  EXPECT_FALSE(is_refused(Entry{.name = "x", .kind = EntryKind::file, .object = 1, .target = ""}));
  EXPECT_TRUE(is_refused(Entry{.name = "x", .kind = EntryKind{5}, .object = 1, .target = ""}));
  Variable variable = sample();
  variable.ended_strings = {{.offset = 8, .size = 4}};
  EXPECT_FALSE(is_refused(VariablePtr(std::make_shared<const Variable>(variable))));
  variable.ended_strings = {{.offset = 8, .size = 5}};
  EXPECT_TRUE(is_refused(VariablePtr(std::make_shared<const Variable>(variable))));
  variable.ended_strings = {{.offset = UINT64_MAX, .size = 2}};
  EXPECT_TRUE(is_refused(VariablePtr(std::make_shared<const Variable>(variable))));
  EXPECT_TRUE(is_refused(VariablePtr()));
  EXPECT_TRUE(is_refused(hdf5::IsolatedSource::Layout()));
  EXPECT_TRUE(is_refused(VariableSummary()));
  EXPECT_FALSE(is_refused(hdf5::StoredPlaces{.layout = 1, .slot = 255, .generation = 0, .places = {}}));
  EXPECT_TRUE(is_refused(hdf5::StoredPlaces{.layout = 1, .slot = 256, .generation = 0, .places = {}}));
}

TEST(WorkerCalls, HaveDistinctNumbersAndAKind) {
  EXPECT_NE(call_of<&Source::list>, call_of<&Source::find>);
  EXPECT_STREQ(kind_of(call_of<&Source::find>).action, "when it searches a name in");
  EXPECT_STREQ(kind_of(call_of<&hdf5::IsolatedSource::places>).action, "in the chunk index of");
  EXPECT_TRUE(kind_of(call_of<&Source::rename>).is_edit);
  EXPECT_TRUE(kind_of(call_of<&Source::commit>).takes_long);
  EXPECT_TRUE(kind_of(call_of<&hdf5::IsolatedSource::layout>).is_metadata);
  EXPECT_FALSE(kind_of(call_of<&WorkerService::summaries>).is_metadata);
  EXPECT_STREQ(kind_of(Call{0}).action, "when it reads");
  EXPECT_STREQ(kind_of(Call{1000}).action, "when it reads");
}

}  // namespace
}  // namespace codecfs::worker

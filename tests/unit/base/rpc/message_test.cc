// What is put is got, and a Decoder does not trust its bytes.

#include "base/rpc/message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace codecfs::rpc {
namespace {

struct Part {
  std::string name;
  std::vector<Part> parts;
};
enum class Colour : uint8_t { red, green };
struct Whole {
  bool is_set = false;
  int32_t number = 0;
  Colour colour = Colour::red;
  std::optional<std::string> text;
  std::vector<uint16_t> numbers;
  std::vector<std::byte> bytes;
  std::vector<Part> parts;
  std::pair<uint64_t, Error> pair;
  std::shared_ptr<const Part> pointer;
  Result<> outcome;
};

}  // namespace

template <>
inline constexpr auto fields<Part> = [](auto& it) { return std::tie(it.name, it.parts); };
template <>
inline constexpr auto is_valid<Colour> = [](Colour colour) { return colour <= Colour::green; };
template <>
inline constexpr auto fields<Whole> = [](auto& it) {
  return std::tie(it.is_set, it.number, it.colour, it.text, it.numbers, it.bytes, it.parts, it.pair, it.pointer,
                  it.outcome);
};

namespace {

Whole sample() {
  Whole whole;
  whole.is_set = true;
  whole.number = -7;
  whole.colour = Colour::green;
  whole.text = std::string("a\0b", 3);
  whole.numbers = {1, 65535};
  whole.bytes = {std::byte{9}};
  whole.parts = {{"one", {{"two", {}}}}, {"", {}}};
  whole.pair = {5, {ENOENT, "why"}};
  whole.pointer = std::make_shared<const Part>("three", std::vector<Part>());
  whole.outcome = fail(EBUSY, "busy");
  return whole;
}

template <class T>
std::string encoded(const T& value) {
  Encoder out;
  out.put(value);
  return out.head;
}

TEST(RpcMessage, ArrivesAsItWasSent) {
  const std::string head = encoded(sample());
  Decoder in(head);
  const auto got = in.get<Whole>();
  EXPECT_TRUE(in.is_complete());
  EXPECT_TRUE(got.is_set);
  EXPECT_EQ(got.number, -7);
  EXPECT_EQ(got.colour, Colour::green);
  EXPECT_EQ(got.text, std::string("a\0b", 3));
  EXPECT_EQ(got.numbers, (std::vector<uint16_t>{1, 65535}));
  EXPECT_EQ(got.bytes, (std::vector<std::byte>{std::byte{9}}));
  ASSERT_EQ(got.parts.size(), 2U);
  EXPECT_EQ(got.parts[0].parts.at(0).name, "two");
  EXPECT_EQ(got.pair.first, 5U);
  EXPECT_EQ(got.pair.second.code, ENOENT);
  EXPECT_EQ(got.pointer->name, "three");
  EXPECT_EQ(got.outcome.error().reason, "busy");
}

TEST(RpcMessage, EveryTruncationIsRefused) {
  const std::string head = encoded(sample());
  for (size_t size = 0; size < head.size(); ++size) {
    Decoder in(std::string_view(head).substr(0, size));
    (void)in.get<Whole>();
    EXPECT_TRUE(in.failed()) << size;
  }
}

TEST(RpcMessage, WhatFollowsIsSeen) {
  const std::string head = encoded(sample()) + "x";
  Decoder in(head);
  (void)in.get<Whole>();
  EXPECT_FALSE(in.failed());
  EXPECT_FALSE(in.is_complete());
  const auto bulk = std::as_bytes(std::span("x"));
  EXPECT_FALSE(Decoder("", bulk).is_complete());
}

TEST(RpcMessage, CountsThatTheBytesCannotHoldAreRefused) {
  for (const uint64_t count : {uint64_t{17}, uint64_t{1} << 32, (uint64_t{1} << 63) + 1, UINT64_MAX}) {
    const std::string head = encoded(count) + std::string(16, 'x');
    const auto is_refused = [&](auto value) {
      Decoder in(head);
      in.get(value);
      EXPECT_TRUE(value.empty() || value.capacity() < 100) << count;
      return in.failed();
    };
    EXPECT_TRUE(is_refused(std::string()));
    EXPECT_TRUE(is_refused(std::vector<std::byte>()));
    EXPECT_TRUE(is_refused(std::vector<uint64_t>()));
    EXPECT_TRUE(is_refused(std::vector<std::string>()));
    EXPECT_TRUE(is_refused(std::vector<Part>()));
  }
  // As many bytes as items, but each item takes more.
  Decoder in(std::string_view("\x10\0\0\0\0\0\0\0................", 24));
  EXPECT_LE(in.get<std::vector<Part>>().size(), 2U);
  EXPECT_TRUE(in.failed());
}

TEST(RpcMessage, NestingIsLimited) {
  const auto nested = [](int depth) {
    Part part{"x", {}};
    for (int i = 1; i < depth; ++i) part = {"x", std::vector<Part>{part}};
    return encoded(part);
  };
  const auto is_read = [](const std::string& head) {
    Decoder in(head);
    (void)in.get<Part>();
    return in.is_complete();
  };
  EXPECT_TRUE(is_read(nested(100)));
  EXPECT_FALSE(is_read(nested(200)));
}

TEST(RpcMessage, ValuesWithoutAMeaningAreRefused) {
  Decoder colour("\x02");
  (void)colour.get<Colour>();
  EXPECT_TRUE(colour.failed());
  for (const int code : {0, -1, 4096}) {
    const std::string head = encoded(Error{code, "x"});
    Decoder in(head);
    (void)in.get<Error>();
    EXPECT_TRUE(in.failed()) << code;
  }
  EXPECT_TRUE(Decoder("\x05").get<bool>());
}

TEST(RpcMessage, ReasonsArePrintable) {
  const std::string head = encoded(Error{EIO, "a\nb\x1b[2J"});
  EXPECT_EQ(Decoder(head).get<Error>().reason.find_first_of("\n\x1b"), std::string::npos);
}

TEST(RpcMessage, TheBulkIsNotCopiedByTheEncoder) {
  auto buffer = *Buffer::copy_of(std::as_bytes(std::span("chunk")));
  const std::byte* const at = buffer.data();
  Encoder out;
  out.put(Result<std::optional<Buffer>>(std::optional(std::move(buffer))));
  EXPECT_EQ(out.bulk.data(), at);
  Decoder in(out.head, out.bulk);
  const auto got = in.get<Result<std::optional<Buffer>>>();
  ASSERT_TRUE(in.is_complete() && got && *got);
  EXPECT_EQ((*got)->size(), sizeof "chunk");
  Decoder twice("", out.bulk);
  EXPECT_EQ(twice.get<Bytes>().size(), sizeof "chunk");
  EXPECT_TRUE(twice.get<Bytes>().empty());
}

}  // namespace
}  // namespace codecfs::rpc

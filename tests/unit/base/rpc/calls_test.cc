// A call has the arguments and the result of its function, and one with other bytes is not made.

#include "base/rpc/calls.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace codecfs::rpc {
namespace {

struct Counter {
  int count = 0;
};

class Service {
 public:
  virtual ~Service() = default;
  virtual Result<std::string> join(std::string_view text, std::span<const uint32_t> numbers, const std::string& end) {
    std::string joined(text);
    for (const uint32_t number : numbers) joined += std::to_string(number);
    return joined + end;
  }
  virtual Result<> count(uint64_t number, Counter& counter) {
    ++calls;
    counter.count = static_cast<int>(number);
    return number > 5 ? Result<>(fail(ERANGE, "{} is too large", number)) : Result<>();
  }
  virtual uint64_t twice(Bytes bytes) { return 2 * bytes.size(); }
  int calls = 0;
};

using Calls = Table<Call<&Service::join>, Call<&Service::count>, Call<&Service::twice>>;
using Joined = TableOf<std::tuple<Call<&Service::join>>, std::tuple<Call<&Service::count>, Call<&Service::twice>>>;

template <auto function, class... Own>
Result<ValueOf<function>> answer(Service& service, const Encoder& request, Own&... own) {
  Decoder in(request.head, request.bulk);
  Encoder out;
  serve<function>(in, out, service, own...);
  Result<ValueOf<function>> answer;
  get_answer(Decoder(out.head, out.bulk), answer);
  return answer;
}

TEST(RpcCalls, AreNumberedByTheirPlace) {
  EXPECT_EQ(Calls::number<&Service::join>, 1U);
  EXPECT_EQ(Calls::number<&Service::twice>, 3U);
  EXPECT_EQ(Joined::number<&Service::twice>, 3U);
  int visited = 0;
  EXPECT_TRUE(Calls::visit(2, [&]<class Call>() {
    visited += std::is_same_v<Function<Call::function>, Function<&Service::count>> ? 1 : 100;
  }));
  EXPECT_EQ(visited, 1);
  for (const uint32_t number : {0U, 4U, UINT32_MAX})
    EXPECT_FALSE(Calls::visit(number, [&]<class Call>() { ++visited; }));
  EXPECT_EQ(visited, 1);
}

TEST(RpcCalls, AnswerWhatTheFunctionReturns) {
  Service service;
  Encoder join;
  put_arguments<&Service::join>(join, "a", std::vector<uint32_t>{1, 2}, "z");
  EXPECT_EQ(*answer<&Service::join>(service, join), "a12z");
  Encoder twice;
  put_arguments<&Service::twice>(twice, std::as_bytes(std::span("12345")));
  EXPECT_EQ(*answer<&Service::twice>(service, twice), 12U);
  Counter counter;
  Encoder count;
  put_arguments<&Service::count>(count, 4U, counter);
  EXPECT_EQ(count.head.size(), sizeof(uint64_t));  // the counter is not sent
  Counter own;
  EXPECT_TRUE((answer<&Service::count>(service, count, own)));
  EXPECT_EQ(own.count, 4);
  EXPECT_EQ(counter.count, 0);
  Encoder many;
  put_arguments<&Service::count>(many, 6U, counter);
  const auto refused = answer<&Service::count>(service, many, own);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ERANGE);
  EXPECT_EQ(refused.error().reason, "6 is too large");
}

TEST(RpcCalls, WithOtherBytesAreNotMade) {
  Service service;
  Counter own;
  Encoder request;
  put_arguments<&Service::count>(request, 4U, own);
  for (const std::string& head : {request.head.substr(1), request.head + "x", std::string()}) {
    Encoder other;
    other.head = head;
    const auto refused = answer<&Service::count>(service, other, own);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EPROTO);
  }
  EXPECT_EQ(service.calls, 0);
}

TEST(RpcCalls, AnAnswerWithOtherBytesIsAnError) {
  Encoder out;
  out.put(Result<uint64_t>(uint64_t{7}));
  const auto read = [](const std::string& head, auto answer) {
    get_answer(Decoder(head), answer);
    return answer;
  };
  EXPECT_EQ(*read(out.head, Result<uint64_t>()), 7U);
  for (const std::string& head : {out.head + "x", out.head.substr(0, 5), std::string()})
    EXPECT_EQ(read(head, Result<uint64_t>()).error().code, EIO);
  EXPECT_TRUE(read(out.head, Result<>()));  // of any value
  EXPECT_FALSE(read("", Result<>()));
}

}  // namespace
}  // namespace codecfs::rpc

// Calls of a plugin that this process has loaded, as a process that may crash does it.

#include "filters/plugins/direct_calls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace codecfs::filters {
namespace {

TEST(DirectCalls, RunTheFilterInThisProcess) {
  auto library = open_plugin(CODECFS_HOSTILE_FILTER, "hostile.so");
  ASSERT_TRUE(library) << library.error().reason;
  EXPECT_EQ(describe(*library).hdf5->name, "hostile");
  DirectCalls calls(*std::move(library));
  const std::string text = "these bytes are not changed";
  const Bytes in = std::as_bytes(std::span(text));
  const auto out = calls.filter(0x0100, {}, in, in.size());
  ASSERT_TRUE(out) << out.error().reason;
  EXPECT_EQ(std::memcmp(out->data(), text.data(), text.size()), 0);
  EXPECT_EQ(calls.filter(0x0100, {}, in, 5).error().reason, "hostile.so made 27 bytes, more than 5");
  EXPECT_TRUE(calls.state().empty());
}

TEST(DirectCalls, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(shown_name("zfp; see http://..."), "zfp");
  EXPECT_EQ(shown_name("a\nb\x01 "), "a?b?");
  EXPECT_EQ(shown_name(std::string(1000, 'x')).size(), 64U);
}

}  // namespace
}  // namespace codecfs::filters

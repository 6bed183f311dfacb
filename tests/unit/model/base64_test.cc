// The vectors of RFC 4648, section 10, and what is not base64.

#include "model/base64.h"

#include <gtest/gtest.h>

#include <random>

namespace codecfs {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Base64, Vectors) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, encoded] : vectors) {
    EXPECT_EQ(encode_base64(bytes_of(text)), encoded);
    const auto decoded = decode_base64(encoded);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(decoded->data()), decoded->size()), text);
  }
}

TEST(Base64, RandomBytesComeBack) {
  std::mt19937 random(3);
  for (size_t size = 0; size < 300; ++size) {
    std::vector<std::byte> bytes(size);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatIsNotCanonical) {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "=Zg=", "Z===", "Zm 9", "Zm9v\n", "Zm-_"})
    EXPECT_FALSE(decode_base64(bad)) << bad;
}

}  // namespace
}  // namespace codecfs

#include "remote/certificates.h"

#include <curl/curl.h>
#include <gtest/gtest.h>

#include <array>

namespace codecfs::remote {
namespace {

TEST(Certificates, TakesTheFirstFileThatIsThere) {
  EXPECT_EQ(first_readable(std::array{"/nonexistent/a.pem", "/proc/self/status", "/proc/self/stat"}),
            "/proc/self/status");
  EXPECT_EQ(first_readable(std::array{"/nonexistent/a.pem"}), "");
}

TEST(Certificates, LeavesALibcurlAloneThatKnowsItsOwn) {
  const curl_version_info_data* const built = curl_version_info(CURLVERSION_NOW);
  if (!built->cainfo && !built->capath) GTEST_SKIP() << "this libcurl knows no certificates";
  EXPECT_EQ(system_certificates(), "");
}

}  // namespace
}  // namespace codecfs::remote

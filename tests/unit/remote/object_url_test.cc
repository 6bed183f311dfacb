#include "remote/object_url.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

TEST(ObjectUrl, S3) {
  const auto url = parse_object_url("s3://my.bucket/a b/c%20d?e#f").value();
  EXPECT_TRUE(url.is_s3);
  EXPECT_EQ(url.bucket, "my.bucket");
  EXPECT_EQ(url.key, "a b/c%20d?e#f") << "a key is as it is";
  EXPECT_EQ(parse_object_url("s3://bucket").value().key, "");
  EXPECT_EQ(parse_object_url("s3://bucket/").value().key, "");
}

TEST(ObjectUrl, Http) {
  const auto url = parse_object_url("https://host:8080/a b/c%20d.zarr?X-Signature=1&y=2#part").value();
  EXPECT_FALSE(url.is_s3);
  EXPECT_EQ(url.base, "https://host:8080");
  EXPECT_EQ(url.key, "a%20b/c%20d.zarr");
  EXPECT_EQ(url.query, "X-Signature=1&y=2");
}

TEST(ObjectUrl, RefusesOthers) {
  for (const char* const text :
       {"s3://", "s3://a/b", "s3:///key", "https://", "http:///x", "https://user:password@host/x", "ftp://host/x",
        "s3://bucket/a\nb", "https://host/a\x01"})
    EXPECT_FALSE(parse_object_url(text)) << text;
  const auto refused = parse_object_url("https://user:password@host/x");
  EXPECT_EQ(refused.error().reason.find("password@"), std::string::npos);
  EXPECT_FALSE(is_object_url("/data/s3://x"));
}

TEST(ObjectUrl, ShowsNoSecrets) {
  EXPECT_EQ(shown_url("https://host/a/b?secret#c"), "https://host/a/b");
  EXPECT_EQ(shown_url("https://user:secret@host/a"), "https://host/a");
  EXPECT_EQ(shown_url("s3://bucket/a?b"), "s3://bucket/a?b");
}

}  // namespace
}  // namespace codecfs::remote

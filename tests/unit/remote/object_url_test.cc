#include "remote/object_url.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

TEST(ObjectUrl, S3) {
  const auto url = parse_object_url("s3://my.bucket/a b/c%20d?e#f").value();
  EXPECT_EQ(url.scheme, Scheme::s3);
  EXPECT_EQ(url.bucket, "my.bucket");
  EXPECT_EQ(url.key, "a b/c%20d?e#f") << "a key is as it is";
  EXPECT_EQ(parse_object_url("s3://bucket").value().key, "");
  EXPECT_EQ(parse_object_url("s3://bucket/").value().key, "");
}

TEST(ObjectUrl, Http) {
  const auto url = parse_object_url("https://host:8080/a b/c%20d.zarr?X-Signature=1&y=2#part").value();
  EXPECT_EQ(url.scheme, Scheme::http);
  EXPECT_EQ(url.base, "https://host:8080");
  EXPECT_EQ(url.key, "a%20b/c%20d.zarr");
  EXPECT_EQ(url.query, "X-Signature=1&y=2");
}

TEST(ObjectUrl, Google) {
  for (const char* const text : {"gs://my_bucket.org/a b/c%20d?e#f", "gcs://my_bucket.org/a b/c%20d?e#f"}) {
    const auto url = parse_object_url(text).value();
    EXPECT_EQ(url.scheme, Scheme::gcs);
    EXPECT_EQ(url.bucket, "my_bucket.org");
    EXPECT_EQ(url.key, "a b/c%20d?e#f");
  }
  EXPECT_NE(parse_object_url("gs://a/k").error().reason.find("gs://BUCKET/KEY"), std::string::npos);
}

TEST(ObjectUrl, Azure) {
  const auto url = parse_object_url("az://box/a b/c%20d?e#f").value();
  EXPECT_EQ(url.scheme, Scheme::azure);
  EXPECT_EQ(url.bucket, "box");
  EXPECT_EQ(url.key, "a b/c%20d?e#f") << "a key is as it is";
  EXPECT_EQ(url.account, "");
  for (const char* const text :
       {"abfss://box@account.dfs.core.windows.net/k@l", "abfs://box@account.blob.core.windows.net/k@l",
        "az://box@account.dfs.core.windows.net/k@l"}) {
    const auto named = parse_object_url(text).value();
    EXPECT_EQ(named.bucket, "box") << text;
    EXPECT_EQ(named.account, "account") << text;
    EXPECT_EQ(named.base, "https://account.blob.core.windows.net") << text;
    EXPECT_EQ(named.key, "k@l") << text;
  }
  for (const char* const text :
       {"az://", "az://b/k", "az://Box/k", "az:///k", "abfss://box@/k", "abfss://box@account/k",
        "abfss://box@Account.dfs.core.windows.net/k", "abfss://box@account.example.org/k",
        "abfss://box@account.dfs.core.windows.net:80/k", "abfss://box@account.dfs.x?y/k"})
    EXPECT_EQ(parse_object_url(text).error().code, EINVAL) << text;
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

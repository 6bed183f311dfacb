#include "remote/object_endpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/environment.h"

namespace codecfs::remote {
namespace {

// The URLs that botocore 1.44 requests for the same bucket, endpoint and addressing_style.
constexpr const char* kPoint = "arn:aws:s3:us-west-2:123456789012:accesspoint/my-ap";

class Endpoint : public testing::Test {
 protected:
  Endpoint() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_endpoint_XXXXXX").string();
    home_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(home_ / ".aws");
    environment_.unset_all("AWS_");
    environment_.set("HOME", home_.string());
  }
  ~Endpoint() override { std::filesystem::remove_all(home_); }
  void config(const std::string& text) const { std::ofstream(home_ / ".aws/config") << text; }

  static Result<ObjectEndpoint> find(const std::string& bucket, const std::string& endpoint,
                                     Addressing addressing = Addressing::unset) {
    ObjectOptions options;
    options.endpoint = endpoint;
    options.region = "eu-west-1";
    options.addressing = addressing;
    return ObjectEndpoint::find({.scheme = Scheme::s3, .base = {}, .bucket = bucket, .key = {}, .query = {}}, options);
  }
  static std::string url_of(const std::string& bucket, const std::string& endpoint,
                            Addressing addressing = Addressing::unset) {
    const auto found = find(bucket, endpoint, addressing);
    return found ? found->url_of("a b/k", {}) : found.error().reason;
  }

  ScopedEnvironment environment_;
  std::filesystem::path home_;
};

TEST_F(Endpoint, WithoutAnEndpointBucketsAreInTheHost) {
  using enum Addressing;
  for (const Addressing addressing : {unset, automatic, host}) {
    EXPECT_EQ(url_of("bucket", "", addressing), "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/k");
    EXPECT_EQ(url_of("my.bucket", "", addressing), "https://s3.eu-west-1.amazonaws.com/my.bucket/a%20b/k");
    EXPECT_EQ(url_of("My_bucket", "", addressing), "https://s3.eu-west-1.amazonaws.com/My_bucket/a%20b/k");
    const std::string alias = "my-ap-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias";
    EXPECT_EQ(url_of(alias, "", addressing), "https://" + alias + ".s3.eu-west-1.amazonaws.com/a%20b/k");
  }
  EXPECT_EQ(url_of("bucket", "", path), "https://s3.eu-west-1.amazonaws.com/bucket/a%20b/k");
}

TEST_F(Endpoint, WithAnEndpointBucketsAreInThePathUnlessTheHostIsWanted) {
  using enum Addressing;
  const std::string https = "https://minio.example.org";
  const std::string http = "http://minio.example.org:9000";
  for (const Addressing addressing : {unset, automatic, path})
    EXPECT_EQ(url_of("bucket", https, addressing), "https://minio.example.org/bucket/a%20b/k");
  EXPECT_EQ(url_of("bucket", https, host), "https://bucket.minio.example.org/a%20b/k");
  EXPECT_EQ(url_of("my.bucket", https, host), "https://minio.example.org/my.bucket/a%20b/k");
  EXPECT_EQ(url_of("my.bucket", http, host), "http://my.bucket.minio.example.org:9000/a%20b/k");
  EXPECT_EQ(url_of("Bucket", http, host), "http://minio.example.org:9000/Bucket/a%20b/k");
  EXPECT_EQ(url_of("bucket", "http://127.0.0.1:9000", host), "http://127.0.0.1:9000/bucket/a%20b/k");
  EXPECT_EQ(url_of("bucket", "http://127.0.0.1", host), "http://127.0.0.1/bucket/a%20b/k");
  EXPECT_EQ(url_of("bucket", "http://[::1]:9000", host), "http://[::1]:9000/bucket/a%20b/k");
  EXPECT_EQ(url_of("bucket", "http://localhost:9000", host), "http://bucket.localhost:9000/a%20b/k");
}

TEST_F(Endpoint, TheProfileSaysWhereTheBucketIs) {
  const std::string endpoint = "https://minio.example.org";
  config("[default]\ns3 =\n  max_concurrent_requests = 20\n  addressing_style = virtual\nregion = us-east-1\n");
  EXPECT_EQ(url_of("bucket", endpoint), "https://bucket.minio.example.org/a%20b/k");
  EXPECT_EQ(url_of("bucket", endpoint, Addressing::automatic), "https://minio.example.org/bucket/a%20b/k")
      << "the option comes first";
  config("[default]\ns3 =\n  addressing_style = path\n");
  EXPECT_EQ(url_of("bucket", ""), "https://s3.eu-west-1.amazonaws.com/bucket/a%20b/k");
  config("[default]\naddressing_style = path\n");
  EXPECT_EQ(url_of("bucket", ""), "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/k") << "it must be nested";
  config("[default]\ns3 =\n  addressing_style = hidden\n");
  EXPECT_EQ(find("bucket", "").error().code, EINVAL);
}

TEST_F(Endpoint, AccessPointsAreHosts) {
  using enum Addressing;
  for (const Addressing addressing : {unset, automatic, path, host}) {
    const auto found = find(kPoint, "", addressing).value();
    EXPECT_EQ(found.url_of("a b/k", {}), "https://my-ap-123456789012.s3-accesspoint.us-west-2.amazonaws.com/a%20b/k");
    EXPECT_EQ(found.url_of("", {{"list-type", "2"}}),
              "https://my-ap-123456789012.s3-accesspoint.us-west-2.amazonaws.com/?list-type=2");
    EXPECT_EQ(found.region(), "us-west-2") << "not that of the options";
    EXPECT_EQ(found.name_of("k"), std::string("s3://") + kPoint + "/k");
    EXPECT_EQ(url_of(kPoint, "http://localhost:90", addressing), "http://my-ap-123456789012.localhost:90/a%20b/k");
  }
  EXPECT_EQ(url_of("arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/my-ap", ""),
            "https://my-ap-123456789012.s3-accesspoint.cn-north-1.amazonaws.com.cn/a%20b/k");
  EXPECT_EQ(find(kPoint, "http://127.0.0.1:90").error().code, EINVAL) << "an address has no names below it";
}

}  // namespace
}  // namespace codecfs::remote

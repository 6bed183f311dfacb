#include "remote/access_point.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "remote/object_url.h"

namespace codecfs::remote {
namespace {

TEST(AccessPoint, Arn) {
  for (const std::string delimiter : {"/", ":"}) {
    const auto point = parse_access_point("arn:aws:s3:us-west-2:123456789012:accesspoint" + delimiter + "my-ap");
    ASSERT_TRUE(point) << point.error().reason;
    EXPECT_EQ(point->name, "my-ap");
    EXPECT_EQ(point->account, "123456789012");
    EXPECT_EQ(point->region, "us-west-2");
  }
  EXPECT_TRUE(parse_access_point("arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/my-ap"));
  EXPECT_TRUE(parse_access_point("arn:aws-us-gov:s3:us-gov-west-1:123456789012:accesspoint/my-ap"));
}

TEST(AccessPoint, TheArnOfAUrlEndsBeforeTheKey) {
  const std::string slash = "arn:aws:s3:us-west-2:123456789012:accesspoint/my-ap";
  const std::string colon = "arn:aws:s3:us-west-2:123456789012:accesspoint:my-ap";
  for (const std::string& arn : {slash, colon}) {
    for (const std::string key : {"", "a", "a/b:c d/e.zarr"}) {
      const auto url = parse_object_url("s3://" + arn + "/" + key);
      ASSERT_TRUE(url) << url.error().reason;
      EXPECT_TRUE(url->scheme == Scheme::s3);
      EXPECT_EQ(url->bucket, arn);
      EXPECT_EQ(url->key, key);
    }
    EXPECT_EQ(parse_object_url("s3a://" + arn).value().bucket, arn);
  }
}

TEST(AccessPoint, OthersAreRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"arn:aws:s3:::bucket/key", "write s3://BUCKET/KEY"},
      {"arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/key", "Version 4A"},
      {"arn:aws:s3-outposts:us-west-2:123456789012:outpost/op-01ac5d28a6a232904/accesspoint/ap/key", "Outposts"},
      {"arn:aws:s3-object-lambda:us-west-2:123456789012:accesspoint/ap/key", "Object Lambda"},
      {"arn:aws:iam::123456789012:role/r", "no ARN of S3"},
      {"arn:aws:s3:us-west-2:123456789012:bucket/b", "is no access point"},
      {"arn:aws:s3:us-west-2:123456789012:accesspoint", "is no access point"},
      {"arn:aws:s3:us-west-2:123456789012:accesspoint/", "is no access point"},
      {"arn:aws:s3:us-west-2:123456789012:accesspointless/a/b", "is no access point"},
      {"arn:aws-iso:s3:us-iso-east-1:123456789012:accesspoint/ap", "partitions"},
      {"arn:aws:s3:cn-north-1:123456789012:accesspoint/ap", "another partition"},
      {"arn:aws-cn:s3:us-west-2:123456789012:accesspoint/ap", "another partition"},
      {"arn:aws:s3:us-gov-west-1:123456789012:accesspoint/ap", "another partition"},
      {"arn:aws:s3:us-west-2:12345678901:accesspoint/ap", "12 digits"},
      {"arn:aws:s3:us-west-2:123456789012:accesspoint/evil.example.org", "12 digits"},
      {"arn:aws:s3:us-west-2:123456789012:accesspoint/a@b", "12 digits"},
      {"arn:aws:s3:us.evil:123456789012:accesspoint/ap", "12 digits"},
      {"arn:", "no ARN of S3"},
      {"arn:aws:s3", "no access point"},
  };
  for (const auto& [arn, reason] : cases) {
    const auto url = parse_object_url("s3://" + arn);
    ASSERT_FALSE(url) << arn;
    EXPECT_EQ(url.error().code, EINVAL) << arn;
    EXPECT_NE(url.error().reason.find(reason), std::string::npos) << url.error().reason;
  }
}

}  // namespace
}  // namespace codecfs::remote

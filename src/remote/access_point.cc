#include "remote/access_point.h"

#include <algorithm>
#include <array>

namespace codecfs::remote {
namespace {

constexpr std::string_view kKind = "accesspoint";

/// The fields of an ARN; the last one is all of the rest.
std::array<std::string_view, 6> fields_of(std::string_view arn) {
  std::array<std::string_view, 6> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = i + 1 < fields.size() ? std::min(arn.find(':'), arn.size()) : arn.size();
    fields[i] = arn.substr(0, end);
    arn.remove_prefix(std::min(end + 1, arn.size()));
  }
  return fields;
}

bool is_label(std::string_view text, size_t most) {
  return !text.empty() && text.size() <= most && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

bool is_account(std::string_view text) {
  return text.size() == 12 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

size_t arn_length(std::string_view text) {
  const std::string_view resource = fields_of(text)[5];
  const size_t at = static_cast<size_t>(resource.data() - text.data());
  const size_t name = resource.starts_with(kKind) && resource.size() > kKind.size() ? kKind.size() + 1 : 0;
  return resource.empty() ? text.size() : std::min(text.find('/', at + name), text.size());
}

Result<AccessPoint> parse_access_point(std::string_view arn) {
  const auto [begin, partition, service, region, account, resource] = fields_of(arn);
  const auto refused = [&](std::string_view why) { return fail(EINVAL, "\"{}\": {}", arn, why); };
  if (service == "s3-outposts") return refused("access points of S3 on Outposts are not supported");
  if (service == "s3-object-lambda") return refused("access points of S3 Object Lambda are not supported");
  if (service != "s3") return refused("is no ARN of S3");
  if (!resource.starts_with(kKind) || resource.size() < kKind.size() + 2 ||
      (resource[kKind.size()] != '/' && resource[kKind.size()] != ':'))
    return refused(region.empty() && account.empty() && !resource.empty()
                       ? "is the ARN of a bucket: write s3://BUCKET/KEY"
                       : "is no access point: write s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/KEY");
  if (region.empty())
    return refused(
        "Multi-Region Access Points need signatures of Version 4A, which codecfs does not make: name the bucket, or an "
        "access point of one Region");
  if (partition != "aws" && partition != "aws-cn" && partition != "aws-us-gov")
    return refused("only the partitions aws, aws-cn and aws-us-gov are known");
  const bool is_chinese = region.starts_with("cn-");
  const bool is_government = region.starts_with("us-gov-");
  if (is_chinese != (partition == "aws-cn") || is_government != (partition == "aws-us-gov"))
    return refused("its Region is in another partition");
  const std::string_view name = resource.substr(kKind.size() + 1);
  if (!is_label(region, 64) || !is_account(account) || !is_label(name, 50))
    return refused(
        "must have a Region, an account of 12 digits and a name: arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME");
  return AccessPoint{std::string(name), std::string(account), std::string(region)};
}

}  // namespace codecfs::remote

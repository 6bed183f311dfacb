// The instance metadata service of EC2, version 2: a session token, the name of the role, its credentials.
// Source: "Amazon EC2 User Guide", use the instance metadata service.
#include <fmt/format.h>

#include "base/ascii.h"
#include "remote/credential_answers.h"
#include "remote/credential_places.h"

namespace codecfs::remote {
namespace {

constexpr int kInstanceAttempts = 2;

std::string metadata_endpoint() {
  std::string endpoint = environment_value("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) {
    const bool is_v6 = lower_case(environment_value("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")) == "ipv6";
    return is_v6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

HttpRequest metadata_request(const std::string& url) {
  HttpRequest request;
  request.avoids_proxies = true;  // the address is of this machine
  request.url = url;
  request.max_body = kMaxCredentialAnswer;
  // On other machines the address does not answer.
  request.connect_time = std::chrono::milliseconds(1000);
  request.stall_time = std::chrono::seconds(1);
  return request;
}

bool is_metadata_token(std::string_view token) {
  for (const char c : token) {
    if (c <= ' ' || c > '~') return false;
  }
  return !token.empty();
}

}  // namespace

FoundCredentials instance_credentials(HttpClient& http) {
  if (lower_case(environment_value("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  const std::string endpoint = metadata_endpoint();
  const std::string place = fmt::format("the instance metadata at {}", host_of(endpoint));

  HttpRequest session = metadata_request(endpoint + "/latest/api/token");
  session.method = "PUT";
  session.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const Result<HttpResponse> opened = request_credentials(http, session, kInstanceAttempts);
  if (!opened || opened->status != 200) return std::nullopt;  // another cloud, or no instance
  const std::string token(trim(body_text(*opened)));
  if (!is_metadata_token(token)) return std::nullopt;

  HttpRequest request = metadata_request(endpoint + "/latest/meta-data/iam/security-credentials/");
  request.headers = {{"X-aws-ec2-metadata-token", token}};
  const Result<HttpResponse> roles = request_credentials(http, request, kInstanceAttempts);
  if (!roles) return fail(EACCES, "{}: {}", place, roles.error().reason);
  if (roles->status == 404) return std::nullopt;  // the instance has no role
  if (roles->status != 200) return fail(EACCES, "{}: status {} for the roles", place, roles->status);
  std::string_view role = trim(body_text(*roles));
  role = trim(role.substr(0, role.find('\n')));
  if (role.empty()) return std::nullopt;

  request.url += percent_encode(role, false);
  const Result<HttpResponse> answer = request_credentials(http, request, kInstanceAttempts);
  if (!answer) return fail(EACCES, "{}: {}", place, answer.error().reason);
  if (answer->status != 200) return fail(EACCES, "{}: status {} for the credentials", place, answer->status);
  CODECFS_ASSIGN(Credentials credentials, parse_credentials(body_text(*answer), "Token", place));
  return credentials;
}

}  // namespace codecfs::remote

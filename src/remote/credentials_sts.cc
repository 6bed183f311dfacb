// STS, which gives temporary credentials for a role.
// Source: "AWS Security Token Service API Reference", AssumeRole and AssumeRoleWithWebIdentity.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/terminal_text.h"
#include "remote/credential_answers.h"
#include "remote/credential_places.h"
#include "remote/signature.h"
#include "remote/text_file.h"
#include "remote/xml.h"

namespace codecfs::remote {
namespace {

constexpr int kStsAttempts = 3;
constexpr size_t kMaxTokenBytes = size_t{64} << 10;
constexpr size_t kMaxShownBytes = 300;

Result<std::string> sts_url(const std::string& region) {
  for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
    std::string url = environment_value(name);
    if (url.empty()) continue;
    if (!url.starts_with("https://") && !url.starts_with("http://")) {
      return fail(EINVAL, "{} is neither an https:// nor an http:// URL", name);
    }
    if (url.find('/', url.find("://") + 3) == std::string::npos) url += '/';
    return url;
  }
  const bool is_valid = !region.empty() && std::ranges::all_of(region, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!is_valid) return fail(EINVAL, "'{}' is not a region", printable(region));
  return fmt::format("https://sts.{}.amazonaws.com{}/", region, region.starts_with("cn-") ? ".cn" : "");
}

struct Parameter {
  const char* name;
  std::string value;  // not sent if it is empty
};

std::string form_of(const char* action, const Role& role, std::vector<Parameter> more) {
  std::string name = role.session_name;
  if (name.empty()) name = fmt::format("codecfs-{}", std::chrono::system_clock::now().time_since_epoch().count());
  std::vector<Parameter> parameters{{"Version", "2011-06-15"},
                                    {"RoleArn", role.arn},
                                    {"RoleSessionName", std::move(name)},
                                    {"DurationSeconds", role.duration}};
  std::ranges::move(more, std::back_inserter(parameters));
  std::string form = fmt::format("Action={}", action);
  for (const Parameter& parameter : parameters) {
    if (!parameter.value.empty()) form += fmt::format("&{}={}", parameter.name, percent_encode(parameter.value, false));
  }
  return form;
}

/// Code and message of an error, unless the message holds a secret: that about a wrong signature quotes the request.
std::string refusal(const HttpResponse& response, const std::vector<std::string>& secrets) {
  const Result<XmlElement> root = parse_xml(body_text(response));
  const XmlElement* error = root ? root->child("Error") : nullptr;
  if (!error) return fmt::format("status {}", response.status);
  std::string code = cut_to(printable(error->child_text("Code")), kMaxShownBytes);
  const std::string_view message = error->child_text("Message");
  const bool shows_secret = std::ranges::any_of(secrets, [&](const std::string& secret) {
    return !secret.empty() && (message.contains(secret) || message.contains(percent_encode(secret, false)));
  });
  if (message.empty() || shows_secret || code == "SignatureDoesNotMatch") return code;
  return fmt::format("{}: {}", code, cut_to(printable(message), kMaxShownBytes));
}

Result<Credentials> ask_sts(HttpClient& http, const HttpRequest& request, const char* action, const Role& role,
                            const std::vector<std::string>& secrets) {
  const std::string place = fmt::format("the role '{}' (STS at {})", printable(role.arn), host_of(request.url));
  const Result<HttpResponse> response = request_credentials(http, request, kStsAttempts);
  if (!response) return fail(EACCES, "{}: {}", place, response.error().reason);
  if (response->status != 200) return fail(EACCES, "{} is refused: {}", place, refusal(*response, secrets));
  const Result<XmlElement> root = parse_xml(body_text(*response));
  if (!root) return fail(EACCES, "{}: {}", place, root.error().reason);
  const XmlElement* result = root->child(fmt::format("{}Result", action));
  const XmlElement* found = result ? result->child("Credentials") : nullptr;
  if (!found) return fail(EACCES, "{}: the answer has no credentials", place);
  Credentials credentials{.access_key = std::string(trim(found->child_text("AccessKeyId"))),
                          .secret_key = std::string(trim(found->child_text("SecretAccessKey"))),
                          .session_token = std::string(trim(found->child_text("SessionToken"))),
                          .expires = parse_expiration(trim(found->child_text("Expiration")))};
  if (!credentials.expires) return fail(EACCES, "{}: the answer has no valid Expiration", place);
  return check_credentials(std::move(credentials), place);
}

}  // namespace

Result<Credentials> assume_role(HttpClient& http, const std::string& region, const Role& role,
                                const Credentials& source) {
  CODECFS_ASSIGN(const std::string url, sts_url(region));
  const std::string form = form_of("AssumeRole", role, {{"ExternalId", role.external_id}});
  HttpRequest request = form_request(url, form);
  sign(request, source, {.region = region, .service = "sts"}, std::chrono::system_clock::now());
  return ask_sts(http, request, "AssumeRole", role, {source.secret_key, source.session_token, role.external_id});
}

Result<Credentials> assume_role_with_web_identity(HttpClient& http, const std::string& region, const Role& role,
                                                  const std::string& token_path) {
  CODECFS_ASSIGN(const std::string url, sts_url(region));
  CODECFS_ASSIGN(const std::string text, read_text_file(expand_home(token_path), kMaxTokenBytes));
  const std::string token(trim(text));
  if (token.empty()) return fail(EACCES, "the web identity token '{}' is empty", token_path);
  const std::string form = form_of("AssumeRoleWithWebIdentity", role, {{"WebIdentityToken", token}});
  return ask_sts(http, form_request(url, form), "AssumeRoleWithWebIdentity", role, {token});
}

FoundCredentials web_identity_credentials(HttpClient& http, const std::string& region) {
  const std::string token_path = environment_value("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (token_path.empty()) return std::nullopt;
  const Role role{.arn = environment_value("AWS_ROLE_ARN"),
                  .session_name = environment_value("AWS_ROLE_SESSION_NAME"),
                  .external_id = {},
                  .duration = {}};
  if (role.arn.empty()) return fail(EACCES, "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
  CODECFS_ASSIGN(Credentials credentials, assume_role_with_web_identity(http, region, role, token_path));
  return credentials;
}

}  // namespace codecfs::remote

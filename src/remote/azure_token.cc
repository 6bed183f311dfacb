// Tokens of Microsoft Entra. Sources: "Microsoft identity platform and the OAuth 2.0 client credentials flow", "How to
// use managed identities for Azure resources on an Azure VM to acquire an access token".
#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/ascii.h"
#include "remote/azure_account.h"
#include "remote/credential_answers.h"
#include "remote/text_file.h"
#include "remote/web_url.h"

namespace codecfs::remote {
namespace {

constexpr int kTokenAttempts = 3;
constexpr size_t kMaxAssertion = size_t{64} << 10;
constexpr const char* kScope = "https://storage.azure.com/.default";
constexpr const char* kResource = "https://storage.azure.com/";

/// A token for an application that proves itself with `proof`, a form.
Result<Credentials> application_token(HttpClient& http, const std::string& tenant, const std::string& client,
                                      const std::string& proof) {
  std::string authority = environment_value("AZURE_AUTHORITY_HOST");
  if (authority.empty()) authority = "https://login.microsoftonline.com";
  if (!authority.contains("://")) authority.insert(0, "https://");
  while (authority.ends_with('/')) authority.pop_back();
  const Result<Origin> origin = origin_of(authority);
  if (!origin || !origin->is_private()) return fail(EACCES, "AZURE_AUTHORITY_HOST is no URL of https");
  const std::string form = fmt::format("grant_type=client_credentials&client_id={}&scope={}&{}",
                                       percent_encode(client, false), percent_encode(kScope, false), proof);
  const std::string url = fmt::format("{}/{}/oauth2/v2.0/token", authority, percent_encode(tenant, false));
  return parse_token_response(request_credentials(http, form_request(url, form), kTokenAttempts),
                              fmt::format("a token of {}", host_of(url)));
}

/// The managed identity of a virtual machine, a node of Kubernetes, ...
Result<Credentials> machine_token(HttpClient& http, const std::string& client) {
  std::string endpoint = environment_value("AZURE_POD_IDENTITY_AUTHORITY_HOST");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  HttpRequest request;
  request.url = fmt::format("{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={}", endpoint,
                            percent_encode(kResource, false));
  if (!client.empty()) request.url += "&client_id=" + percent_encode(client, false);
  request.headers = {{"Metadata", "true"}};
  request.max_body = kMaxCredentialAnswer;
  request.avoids_proxies = true;                           // the address is of this machine
  request.connect_time = std::chrono::milliseconds(1000);  // on other machines the address does not answer
  request.stall_time = std::chrono::seconds(10);
  const std::string place = fmt::format("the managed identity at {}", host_of(endpoint));
  const Result<HttpResponse> response = request_credentials(http, request, kTokenAttempts);
  // Other clouds have other services at this address.
  const bool is_azure = response && (response->status == 200 || body_text(*response).contains("\"error\""));
  if (!is_azure)
    return fail(EACCES,
                "no credentials found (looked in the environment and for a managed identity): set "
                "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or use -o anon for a public container; {}: {}",
                place, response ? fmt::format("status {}", response->status) : response.error().reason);
  return parse_token_response(response, place);
}

}  // namespace

std::string federated_token_file() {
  const std::string file = environment_value("AZURE_FEDERATED_TOKEN_FILE");
  return file.empty() ? file : std::filesystem::absolute(file).string();
}

Result<Credentials> azure_token(HttpClient& http, const std::string& file) {
  const std::string client = environment_value("AZURE_CLIENT_ID");
  const std::string tenant = environment_value("AZURE_TENANT_ID");
  const std::string secret = environment_value("AZURE_CLIENT_SECRET");
  if (file.empty() && secret.empty()) return machine_token(http, client);
  const char* const name = file.empty() ? "AZURE_CLIENT_SECRET" : "AZURE_FEDERATED_TOKEN_FILE";
  if (client.empty() || tenant.empty())
    return fail(EACCES, "{} is set, but {} is not", name, client.empty() ? "AZURE_CLIENT_ID" : "AZURE_TENANT_ID");
  if (file.empty()) return application_token(http, tenant, client, "client_secret=" + percent_encode(secret, false));
  // It is replaced while codecfs runs.
  const Result<std::string> text = read_text_file(file, kMaxAssertion);
  if (!text) return fail(EACCES, "AZURE_FEDERATED_TOKEN_FILE: {}", text.error().reason);
  const std::string assertion(trim(*text));
  if (assertion.empty()) return fail(EACCES, "AZURE_FEDERATED_TOKEN_FILE: {} is empty", file);
  return application_token(http, tenant, client,
                           "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
                           "&client_assertion=" +
                               percent_encode(assertion, false));
}

}  // namespace codecfs::remote

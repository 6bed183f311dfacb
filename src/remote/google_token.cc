#include "remote/google_token.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <utility>

#include "base/ascii.h"
#include "model/json.h"
#include "remote/credential_answers.h"
#include "remote/credential_cache.h"
#include "remote/credential_places.h"
#include "remote/encodings.h"
#include "remote/text_file.h"
#include "remote/web_url.h"

namespace codecfs::remote {
namespace {

constexpr int kGoogleAttempts = 3;
constexpr size_t kMaxKeyFile = size_t{64} << 10;
constexpr const char* kGoogleScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kGoogleTokens = "https://oauth2.googleapis.com/token";
constexpr std::chrono::seconds kAssertionTime{3600};  // the longest that Google accepts

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using SigningContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

/// As URLs have it: without padding.
std::string base64_of_urls(std::string_view bytes) {
  std::string text = base64_encoded(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

Key read_private_key(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> source(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                         &BIO_free);
  // A password would be asked for in the terminal.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  return {source ? PEM_read_bio_PrivateKey(source.get(), nullptr, no_password, nullptr) : nullptr, &EVP_PKEY_free};
}

Result<Credentials> request_google_token(HttpClient& http, const std::string& url, const std::string& form) {
  const Result<Origin> origin = origin_of(url);
  if (!origin || !origin->is_private()) return fail(EACCES, "the \"token_uri\" of the credentials is no URL of https");
  return parse_token_response(request_credentials(http, form_request(url, form), kGoogleAttempts),
                              fmt::format("a token of {}", host_of(url)));
}

/// A file of Google's: a service account, or what "gcloud auth application-default login" has made for a user.
Result<Credentials> token_for_file(HttpClient& http, const std::string& path) {
  const Result<std::string> content = read_text_file(path, kMaxKeyFile);
  if (!content) return fail(EACCES, "{}", content.error().reason);
  const Result<Json> parsed = parse_json(*content);  // its error may quote the text
  const auto text = [&](const char* name) {
    const Json found = parsed ? member(*parsed, name) : Json();
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  std::string url = text("token_uri");
  if (url.empty()) url = kGoogleTokens;
  const std::string type = text("type");
  if (type == "authorized_user") {
    if (text("client_id").empty() || text("client_secret").empty() || text("refresh_token").empty())
      return fail(EACCES, "{}: has no \"client_id\", \"client_secret\" or \"refresh_token\"", path);
    return request_google_token(
        http, url,
        fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                    percent_encode(text("client_id"), false), percent_encode(text("client_secret"), false),
                    percent_encode(text("refresh_token"), false)));
  }
  if (type != "service_account")
    return fail(EACCES,
                "{}: is neither of a service account nor of a user; for others, use "
                "-o credential_process='gcloud auth print-access-token'",
                path);
  if (text("client_email").empty() || text("private_key").empty())
    return fail(EACCES, "{}: has no \"client_email\" or \"private_key\"", path);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const Json claims{{"iss", text("client_email")},
                    {"scope", kGoogleScope},
                    {"aud", url},
                    {"iat", now.count()},
                    {"exp", (now + kAssertionTime).count()}};
  const auto assertion = make_web_token(text("private_key_id"), print_json(claims), text("private_key"));
  if (!assertion) return fail(EACCES, "{}: {}", path, assertion.error().reason);
  return request_google_token(
      http, url, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + *assertion);
}

std::string file_of_gcloud() {
  std::string folder = environment_value("CLOUDSDK_CONFIG");
  if (folder.empty()) folder = home_directory() + "/.config/gcloud";
  return folder + "/application_default_credentials.json";
}

/// The service account of a virtual machine, a node of Kubernetes, ... Other clouds have other services at such
/// addresses, so the answer must say that it is Google's.
Result<Credentials> google_machine_token(HttpClient& http) {
  std::string host = environment_value("GCE_METADATA_HOST");
  if (host.empty()) host = "metadata.google.internal";
  HttpRequest request;
  request.url = fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/token?scopes={}", host,
                            percent_encode(kGoogleScope, false));
  request.headers = {{"Metadata-Flavor", "Google"}};
  request.max_body = kMaxCredentialAnswer;
  request.avoids_proxies = true;
  request.connect_time = std::chrono::milliseconds(1000);  // on other machines there is no such name
  request.stall_time = std::chrono::seconds(5);
  const Result<HttpResponse> response = request_credentials(http, request, kGoogleAttempts);
  if (!response || response->header("metadata-flavor") != "Google")
    return fail(EACCES,
                "no credentials found (looked for GOOGLE_APPLICATION_CREDENTIALS, {}, and the metadata server {}): use "
                "\"gcloud auth application-default login\", or -o anon for a public bucket",
                file_of_gcloud(), host);
  return parse_token_response(response, fmt::format("the metadata server {}", host));
}

}  // namespace

Result<std::string> make_web_token(const std::string& key_id, const std::string& claims,
                                   const std::string& private_key) {
  const Key key = read_private_key(private_key);
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA)
    return fail(EACCES, "the private key is no RSA key in PEM");
  Json header{{"alg", "RS256"}, {"typ", "JWT"}};
  if (!key_id.empty()) header["kid"] = key_id;
  std::string token = base64_of_urls(print_json(header)) + "." + base64_of_urls(claims);
  const SigningContext context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const auto* const text = reinterpret_cast<const unsigned char*>(token.data());
  size_t size = 0;
  if (!context || EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, text, token.size()) != 1)
    return fail(EACCES, "the private key cannot sign");
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, text, token.size()) != 1)
    return fail(EACCES, "the private key cannot sign");
  signature.resize(size);
  return token + "." + base64_of_urls(signature);
}

Result<Credentials> parse_google_token(std::string_view text, const std::string& place) {
  const std::string_view given = trim(text);
  if (given.starts_with('{')) {
    Result<HttpResponse> answer = HttpResponse{.status = 200, .headers = {}, .body = {}};
    CODECFS_ASSIGN(answer->body, Buffer::copy_of(std::as_bytes(std::span(given))));
    return parse_token_response(answer, place);
  }
  const bool is_token = std::ranges::all_of(given, [](char c) { return c > ' ' && c <= '~'; });
  if (given.empty() || !is_token) return fail(EACCES, "{}: does not print a token", place);
  return Credentials{.access_key = {}, .secret_key = {}, .session_token = std::string(given), .expires = {}};
}

GooglePlaces find_google_places(const std::string& process) {
  GooglePlaces places{.process = process, .file = environment_value("GOOGLE_APPLICATION_CREDENTIALS")};
  std::error_code error;
  if (places.file.empty() && std::filesystem::exists(file_of_gcloud(), error)) places.file = file_of_gcloud();
  if (!places.file.empty()) places.file = std::filesystem::absolute(places.file).string();
  return places;
}

Result<Credentials> google_token(HttpClient& http, const GooglePlaces& places) {
  if (!places.process.empty()) {
    CODECFS_ASSIGN(const ProcessOutput output, run_credential_process(places.process));
    return parse_google_token(output.text, output.place);
  }
  return places.file.empty() ? google_machine_token(http) : token_for_file(http, places.file);
}

std::unique_ptr<CredentialProvider> make_google_provider(HttpClient& http, const GooglePlaces& places) {
  return std::make_unique<CredentialCache>([&http, places] { return google_token(http, places); });
}

}  // namespace codecfs::remote

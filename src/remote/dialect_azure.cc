// Blobs of Azure Storage. Source: Azure Storage REST API, "Blob service REST API".
#include <curl/curl.h>

#include <cstdlib>

#include "base/terminal_text.h"
#include "remote/azure_account.h"
#include "remote/azure_list.h"
#include "remote/azure_signature.h"
#include "remote/dialect.h"
#include "remote/encodings.h"
#include "remote/web_url.h"

namespace codecfs::remote {
namespace {

// Of the protocol. Put Blob takes up to 5,000 MiB from 2019-12-12 on.
constexpr const char* kVersion = "2020-10-02";
// Requests are valid for 15 minutes.
constexpr std::chrono::minutes kMaxClockError{14};

bool is_off(const HttpResponse& response) {
  const time_t there = ::curl_getdate(std::string(response.header("date")).c_str(), nullptr);
  if (there == -1) return false;
  const auto distance = std::chrono::system_clock::from_time_t(there) - std::chrono::system_clock::now();
  return std::chrono::abs(distance) > kMaxClockError;
}

/// Of an account with hierarchical namespaces, which has directories beside the blobs.
bool is_directory(const HttpResponse& response) {
  return response.header("x-ms-resource-type") == "directory" || response.header("x-ms-meta-hdi_isfolder") == "true";
}

class AzureDialect final : public Dialect {
 public:
  AzureDialect(AzureAccount account, std::string container)
      : account_(std::move(account)), container_(std::move(container)) {}

  [[nodiscard]] std::string name_of(const std::string& key) const override {
    return fmt::format("az://{}/{}", container_, key);
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override {
    return account_.endpoint + " " + name_of(key);
  }

  [[nodiscard]] std::unique_ptr<CredentialProvider> find_credentials(HttpClient& http) const override {
    return make_azure_provider(http, account_);
  }

  void address(HttpRequest& http, const std::string& key, const Query& query, const Credentials* credentials,
               Time now) const override {
    http.url = fmt::format("{}/{}{}{}", account_.endpoint, percent_encode(container_, false), key.empty() ? "" : "/",
                           percent_encode(key, true));
    http.url += query_text(query);
    http.headers.push_back({"x-ms-version", kVersion});
    if (credentials == nullptr) return;
    if (account_.login == AzureLogin::signature && credentials->access_key != kBearer) {
      http.url += (query.empty() ? "?" : "&") + credentials->session_token;
    } else if (account_.login == AzureLogin::shared_key) {
      sign_for_azure(http, account_.name, credentials->secret_key, query, now);
    } else {
      http.headers.push_back({"Authorization", "Bearer " + credentials->session_token});
    }
  }

  [[nodiscard]] bool has_secrets_in_urls() const override { return account_.login == AzureLogin::signature; }
  /// The code is also in a header, as answers to HEAD have no body.
  [[nodiscard]] ObjectError error_of(const HttpResponse& response) const override {
    ObjectError error = parse_object_error(text_of(response));
    if (const std::string_view code = response.header("x-ms-error-code"); !code.empty())
      error.code = printable(code.substr(0, 100));
    if (has_secrets_in_urls()) error.message.resize(std::min(error.message.find('?'), error.message.size()));
    error.message.resize(std::min(error.message.find(" RequestId:"), error.message.size()));
    return error;
  }

  /// Only BlobNotFound in that header means absent: an account that refuses anonymous requests answers them with 404
  /// ResourceNotFound.
  [[nodiscard]] Meaning meaning_of(const std::string& key, const HttpResponse& response,
                                   const ObjectError& error) const override {
    const std::string& code = error.code;
    const bool is_not_found = response.status == 404 && response.header("x-ms-error-code") == "BlobNotFound";
    if (!key.empty() && is_not_found) return Meaning::absent;
    switch (response.status) {
      case 200:
      case 206:
      case 416: return !key.empty() && is_directory(response) ? Meaning::absent : Meaning::answer;
      case 404: return code == "ContainerNotFound" ? Meaning::no_bucket : Meaning::failed;
      // Others are of leases.
      case 412: return code == "ConditionNotMet" || code == "TargetConditionNotMet" ? Meaning::unmet : Meaning::failed;
      // Others are of the state of a blob or an account, which stays.
      case 409:
        if (code == "BlobAlreadyExists") return Meaning::unmet;
        return code == "PublicAccessNotPermitted" ? Meaning::keys_refused : Meaning::failed;
      case 401:
      case 403:
        if (account_.login == AzureLogin::shared_key && is_off(response)) return Meaning::other_clock;
        return code.starts_with("Authentication") || code.contains("AuthenticationInfo") || code.contains("Expired")
                   ? Meaning::keys_refused
                   : Meaning::failed;
      default: return meaning_of_status(response.status);
    }
  }
  [[nodiscard]] std::string_view absent_code() const override { return "BlobNotFound"; }

  [[nodiscard]] Result<Query> list_query(const std::string& prefix, bool delimited,
                                         const std::string& token) const override {
    Query query{{"restype", "container"},
                {"comp", "list"},
                {"maxresults", "1000"},
                {"include", "metadata"},
                {"prefix", prefix}};
    if (delimited) query.emplace_back("delimiter", "/");
    if (!token.empty()) query.emplace_back("marker", token);
    return query;
  }
  [[nodiscard]] Result<ObjectList> parse_list(std::string_view text, std::string_view prefix) const override {
    return parse_azure_list(text, prefix);
  }

  /// An answer with a part has that of the whole blob in a header of its own.
  [[nodiscard]] std::string md5_of(const HttpResponse& response) const override {
    std::string_view hash = response.header("x-ms-blob-content-md5");
    if (hash.empty() && response.status == 200) hash = response.header("content-md5");
    const auto bytes = base64_decoded(hash);
    return bytes ? hex_of(*bytes) : "";
  }
  [[nodiscard]] std::string etag_of_none() const override { return "\"0x8D0000000000001\""; }
  [[nodiscard]] bool has_suffix_ranges() const override { return false; }
  [[nodiscard]] std::vector<HttpHeader> put_headers() const override { return {{"x-ms-blob-type", "BlockBlob"}}; }

 private:
  const AzureAccount account_;
  const std::string container_;
};

}  // namespace

Result<std::unique_ptr<Dialect>> make_azure_dialect(const ObjectUrl& url, const ObjectOptions& options) {
  CODECFS_ASSIGN(AzureAccount account, find_azure_account(url, options));
  CODECFS_ASSIGN(const Origin origin, origin_of(account.endpoint));
  const bool sends_secret = account.login != AzureLogin::anonymous && account.login != AzureLogin::shared_key;
  if (sends_secret && !origin.is_private())
    return fail(EACCES,
                "{}: tokens and signatures are only sent over https, or to this machine; -o anon sends none, and a key "
                "is not sent",
                origin.shown());
  return std::make_unique<AzureDialect>(std::move(account), url.bucket);
}

}  // namespace codecfs::remote

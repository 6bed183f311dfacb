// Files below a URL of a web server: read only, without lists, and with no more exact word for "absent" than 404.
#include "remote/dialect.h"
#include "remote/object_endpoint.h"

namespace codecfs::remote {
namespace {

class HttpDialect final : public Dialect {
 public:
  HttpDialect(ObjectEndpoint endpoint, const ObjectOptions& options)
      : requester_pays_(options.requester_pays), endpoint_(std::move(endpoint)) {}

  [[nodiscard]] bool is_bucket() const override { return false; }
  [[nodiscard]] bool has_secrets_in_urls() const override { return true; }
  [[nodiscard]] std::string name_of(const std::string& key) const override { return endpoint_.name_of(key); }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return endpoint_.identity_of(key); }
  [[nodiscard]] std::string key_of(const std::string& prefix, const std::string& name) const override {
    return prefix + percent_encode(name, true);
  }

  [[nodiscard]] std::unique_ptr<CredentialProvider> find_credentials(HttpClient& /*http*/) const override {
    return nullptr;
  }
  void address(HttpRequest& http, const std::string& key, const Query& query, const Credentials* /*credentials*/,
               Time /*now*/) const override {
    http.url = endpoint_.url_of(key, query);
    if (requester_pays_) http.headers.push_back({"x-amz-request-payer", "requester"});
  }

  /// Some are object stores whose objects anyone may read.
  [[nodiscard]] ObjectError error_of(const HttpResponse& response) const override {
    return parse_object_error(text_of(response));
  }
  [[nodiscard]] Meaning meaning_of(const std::string& key, const HttpResponse& response,
                                   const ObjectError& error) const override {
    switch (response.status) {
      case 404:
      case 410: return key.empty() ? Meaning::failed : Meaning::absent;
      case 403: return Meaning::forbidden;
      default: return meaning_of_s3_code(response.status, error.code);
    }
  }
  [[nodiscard]] std::string_view absent_code() const override { return {}; }

  [[nodiscard]] Result<Query> list_query(const std::string& prefix, bool /*delimited*/,
                                         const std::string& /*token*/) const override {
    return fail(EOPNOTSUPP,
                "{}: a web server has no lists of its files: what is there must be in consolidated metadata",
                name_of(prefix));
  }
  [[nodiscard]] Result<ObjectList> parse_list(std::string_view /*text*/, std::string_view prefix) const override {
    return fail(EOPNOTSUPP, "{}: a web server has no lists of its files", prefix);
  }

  [[nodiscard]] bool may_want_unquoted_etags() const override { return true; }

 private:
  const bool requester_pays_;
  const ObjectEndpoint endpoint_;
};

}  // namespace

Result<std::unique_ptr<Dialect>> make_http_dialect(const ObjectUrl& url, const ObjectOptions& options) {
  CODECFS_ASSIGN(ObjectEndpoint endpoint, ObjectEndpoint::find(url, options));
  return std::make_unique<HttpDialect>(std::move(endpoint), options);
}

}  // namespace codecfs::remote

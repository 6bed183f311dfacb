// S3 of AWS, Ceph, MinIO and others. Source: "Amazon S3 API Reference".
#include "base/log.h"
#include "base/mutex.h"
#include "remote/credential_cache.h"
#include "remote/credential_places.h"
#include "remote/dialect.h"
#include "remote/object_endpoint.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

/// Whether the keys of the request are the reason, so that others may succeed. Not AccessDenied: other keys of the same
/// place have the same permissions.
bool is_refusal_of_keys(std::string_view code) {
  return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired" ||
         code == "InvalidAccessKeyId" || code == "XAdminUserNotFound";
}

class S3Dialect final : public Dialect {
 public:
  S3Dialect(ObjectEndpoint endpoint, const ObjectOptions& options, bool anonymous)
      : options_(options), anonymous_(anonymous), endpoint_(std::move(endpoint)) {}

  [[nodiscard]] std::string name_of(const std::string& key) const override {
    const LockGuard lock(mutex_);
    return endpoint_.name_of(key);
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override {
    const LockGuard lock(mutex_);
    return endpoint_.identity_of(key);
  }

  [[nodiscard]] std::unique_ptr<CredentialProvider> find_credentials(HttpClient& http) const override {
    if (anonymous_) return nullptr;
    if (!options_.credential_process.empty())
      return std::make_unique<CredentialCache>(
          [command = options_.credential_process] { return process_credentials(command); });
    const LockGuard lock(mutex_);
    return make_credential_provider(http, {options_.profile, endpoint_.region()});
  }

  void address(HttpRequest& http, const std::string& key, const Query& query, const Credentials* credentials,
               Time now) const override {
    std::string region;
    {
      const LockGuard lock(mutex_);
      http.url = endpoint_.url_of(key, query);
      region = endpoint_.region();
    }
    if (options_.requester_pays) http.headers.push_back({"x-amz-request-payer", "requester"});
    if (credentials != nullptr) sign(http, *credentials, {region}, now);
  }

  [[nodiscard]] ObjectError error_of(const HttpResponse& response) const override {
    return parse_object_error(text_of(response));
  }

  /// Only NoSuchKey means absent: gateways answer 404 for a key that they do not know, a backend that they do not
  /// reach, and a missing bucket.
  [[nodiscard]] Meaning meaning_of(const std::string& key, const HttpResponse& response,
                                   const ObjectError& error) const override {
    if (!key.empty() && response.status == 404 && error.code == "NoSuchKey") return Meaning::absent;
    return meaning_of_s3_code(response.status, error.code);
  }
  [[nodiscard]] std::string_view absent_code() const override { return "NoSuchKey"; }

  bool follows_move(const HttpResponse& response, const ObjectError& error) override {
    const bool is_elsewhere = response.status == 301 || response.status == 307 ||
                              error.code == "AuthorizationHeaderMalformed" ||
                              error.code == "IllegalLocationConstraintException";
    if (!is_elsewhere) return false;
    std::string region(response.header("x-amz-bucket-region"));
    if (region.empty()) region = error.region;
    const LockGuard lock(mutex_);
    if (!is_region(region) || region == endpoint_.region()) return false;
    log::info("{}: is in region {}, not {}; -o region={} saves a request", endpoint_.name_of(""), region,
              endpoint_.region(), region);
    endpoint_.move_to(region);
    return true;
  }

  [[nodiscard]] Result<Query> list_query(const std::string& prefix, bool delimited,
                                         const std::string& token) const override {
    Query query{{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    if (delimited) query.emplace_back("delimiter", "/");
    if (!token.empty()) query.emplace_back("continuation-token", token);
    return query;
  }
  [[nodiscard]] Result<ObjectList> parse_list(std::string_view text, std::string_view prefix) const override {
    return parse_object_list(text, prefix);
  }

  /// Ceph 16.
  [[nodiscard]] bool may_want_unquoted_etags() const override { return true; }

 private:
  const ObjectOptions options_;
  const bool anonymous_;
  mutable Mutex mutex_;
  ObjectEndpoint endpoint_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace

Meaning meaning_of_s3_code(int status, std::string_view code) {
  const Meaning meaning = meaning_of_status(status);
  if (meaning == Meaning::answer) return meaning;
  if (status == 412) return Meaning::unmet;
  if (is_refusal_of_keys(code)) return Meaning::keys_refused;
  if (code == "RequestTimeTooSkewed") return Meaning::other_clock;
  if (code == "NoSuchBucket") return Meaning::no_bucket;
  if (status == 403 && code == "AccessDenied") return Meaning::forbidden;
  return code == "RequestTimeout" || code == "SlowDown" ? Meaning::busy : meaning;
}

Result<std::unique_ptr<Dialect>> make_s3_dialect(const ObjectUrl& url, const ObjectOptions& options) {
  CODECFS_ASSIGN(ObjectEndpoint endpoint, ObjectEndpoint::find(url, options));
  return std::make_unique<S3Dialect>(std::move(endpoint), options, is_anonymous(url, options));
}

}  // namespace codecfs::remote

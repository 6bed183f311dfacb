// Google Cloud Storage by its XML API, which says exactly what is absent: downloads of the JSON API answer any 404 with
// a plain text. Source: Cloud Storage, "XML API reference".
//
// Reads may depend on an ETag, but writes only on a generation, a number that each write of an object changes. So what
// ObjectPart and ListedObject have as an ETag is here both, "ETAG#GENERATION".
#include <cstdlib>

#include "base/ascii.h"
#include "remote/credential_answers.h"
#include "remote/dialect.h"
#include "remote/encodings.h"
#include "remote/google_token.h"
#include "remote/web_url.h"

namespace codecfs::remote {
namespace {

constexpr const char* kServer = "https://storage.googleapis.com";

class GcsDialect final : public Dialect {
 public:
  struct Settings {
    std::string endpoint;  // "https://host[:port]", perhaps with a path
    std::string bucket;
    GooglePlaces places;
    std::string project;  // that pays for requests; empty: that of the bucket
    bool anonymous = false;
  };
  explicit GcsDialect(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::string name_of(const std::string& key) const override {
    return fmt::format("gs://{}/{}", settings_.bucket, key);
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override {
    return settings_.endpoint + " " + name_of(key);
  }

  [[nodiscard]] std::unique_ptr<CredentialProvider> find_credentials(HttpClient& http) const override {
    return settings_.anonymous ? nullptr : make_google_provider(http, settings_.places);
  }

  void address(HttpRequest& http, const std::string& key, const Query& query, const Credentials* credentials,
               Time /*now*/) const override {
    http.url = fmt::format("{}/{}{}{}", settings_.endpoint, percent_encode(settings_.bucket, false),
                           key.empty() ? "" : "/", percent_encode(key, true));
    http.url += query_text(query);
    if (!settings_.project.empty()) http.headers.push_back({"x-goog-user-project", settings_.project});
    if (credentials != nullptr) http.headers.push_back({"Authorization", "Bearer " + credentials->session_token});
  }

  [[nodiscard]] ObjectError error_of(const HttpResponse& response) const override {
    return parse_object_error(text_of(response));
  }
  /// The codes are those of S3. Of a token, there is none but that it is no valid one.
  [[nodiscard]] Meaning meaning_of(const std::string& key, const HttpResponse& response,
                                   const ObjectError& error) const override {
    if (!key.empty() && response.status == 404 && error.code == "NoSuchKey") return Meaning::absent;
    return response.status == 401 ? Meaning::keys_refused : meaning_of_s3_code(response.status, error.code);
  }
  [[nodiscard]] std::string_view absent_code() const override { return "NoSuchKey"; }

  [[nodiscard]] Result<Query> list_query(const std::string& prefix, bool delimited,
                                         const std::string& token) const override {
    Query query{{"list-type", "2"}, {"prefix", prefix}};
    if (delimited) query.emplace_back("delimiter", "/");
    if (!token.empty()) query.emplace_back("continuation-token", token);
    return query;
  }
  [[nodiscard]] Result<ObjectList> parse_list(std::string_view text, std::string_view prefix) const override {
    return parse_object_list(text, prefix, true);
  }

  [[nodiscard]] std::string etag_of(const HttpResponse& response) const override {
    return with_generation(response.header("etag"), response.header("x-goog-generation"));
  }
  /// There are several such headers, or one with several hashes.
  [[nodiscard]] std::string md5_of(const HttpResponse& response) const override {
    for (const HttpHeader& header : response.headers) {
      const size_t at = header.name == "x-goog-hash" ? header.value.find("md5=") : std::string::npos;
      if (at == std::string::npos) continue;
      const std::string_view hash = std::string_view(header.value).substr(at + 4);
      const auto bytes = base64_decoded(trim(hash.substr(0, hash.find(','))));
      if (bytes) return hex_of(*bytes);
    }
    return {};
  }
  [[nodiscard]] HttpHeader header_of(Condition condition, const std::string& etag) const override {
    constexpr const char* kGeneration = "x-goog-if-generation-match";
    const size_t mark = std::min(etag.rfind('#'), etag.size());
    if (condition == Condition::is_new) return {kGeneration, "0"};
    if (condition == Condition::has_changed) return {"If-None-Match", etag.substr(0, mark)};
    if (mark == etag.size()) return {"If-Match", etag};
    return {kGeneration, etag.substr(mark + 1)};
  }
  /// An object that was written again with the same bytes has the same ETag, and another generation.
  [[nodiscard]] bool says_unchanged(const HttpResponse& response, const std::string& etag) const override {
    return etag_of(response) == etag;
  }
  [[nodiscard]] bool can_be_condition_of_write(std::string_view etag) const override { return etag.contains('#'); }
  [[nodiscard]] std::string etag_of_none() const override { return "\"none\"#1"; }

 private:
  const Settings settings_;
};

}  // namespace

Result<std::unique_ptr<Dialect>> make_gcs_dialect(const ObjectUrl& url, const ObjectOptions& options) {
  std::string endpoint = options.endpoint;
  if (endpoint.empty()) endpoint = environment_value("STORAGE_EMULATOR_HOST");
  if (endpoint.empty()) endpoint = kServer;
  CODECFS_ASSIGN(endpoint, checked_endpoint(std::move(endpoint), "https://HOST[:PORT]"));
  GooglePlaces places = find_google_places(options.credential_process);
  CODECFS_ASSIGN(const Origin origin, origin_of(endpoint));
  if (!options.anonymous && !origin.is_private())
    return fail(EACCES, "{}: tokens are only sent over https, or to this machine; -o anon sends none", origin.shown());
  std::string project;
  if (options.requester_pays) {
    project = environment_value("GOOGLE_CLOUD_PROJECT");
    if (project.empty()) return fail(EINVAL, "requester_pays: set GOOGLE_CLOUD_PROJECT to the project that pays");
  }
  return std::make_unique<GcsDialect>(GcsDialect::Settings{.endpoint = std::move(endpoint),
                                                           .bucket = url.bucket,
                                                           .places = std::move(places),
                                                           .project = std::move(project),
                                                           .anonymous = options.anonymous});
}

}  // namespace codecfs::remote

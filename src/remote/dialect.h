#pragma once
// What one protocol of object stores has of its own: where a key is, what authenticates a request, what an answer
// means, how a list is requested and read, and which conditions a read or a write may have.
//
// ObjectRequests sends, repeats and counts requests, and ObjectClient reads and writes objects, the same way in all of
// them. A new protocol is a scheme in object_url.cc and an implementation in one file, made by make_dialect().
// Thread-safe.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "remote/credentials.h"
#include "remote/http_client.h"
#include "remote/object_client.h"
#include "remote/object_list.h"
#include "remote/object_url.h"

namespace codecfs::remote {

/// Names and values as they are.
using Query = std::vector<std::pair<std::string, std::string>>;

/// What an answer to a request means. Only `absent` lets a chunk be read as the fill value.
enum class Meaning {
  answer,        // to what was requested: 2xx, 304, 416
  unmet,         // a condition of the request does not hold
  absent,        // there is no object of this key
  no_bucket,     // nor a bucket
  forbidden,     // to keys that are valid; also for an object that may not exist: -o absent=403
  keys_refused,  // others may be accepted
  other_clock,   // the clock of this machine differs too much from that of the server
  busy,          // the same request may succeed later
  failed,
};

/// A condition of a request, with an ETag or, for is_new, without one.
enum class Condition {
  is_same,      // the object has this ETag
  has_changed,  // it has another one
  is_new,       // there is no such object
};

class Dialect {
 public:
  using Time = std::chrono::system_clock::time_point;
  virtual ~Dialect() = default;

  /// A bucket has lists, can be written, and its server says exactly that an object is absent. A web server has none of
  /// this.
  [[nodiscard]] virtual bool is_bucket() const { return true; }
  /// "s3://bucket/key", "https://host/key", for messages.
  [[nodiscard]] virtual std::string name_of(const std::string& key) const = 0;
  /// ObjectClient::identity_of().
  [[nodiscard]] virtual std::string identity_of(const std::string& key) const = 0;
  /// ObjectClient::key_of().
  [[nodiscard]] virtual std::string key_of(const std::string& prefix, const std::string& name) const {
    return prefix + name;
  }

  /// Where the credentials are found; null: requests are anonymous. `http` must outlive the result.
  [[nodiscard]] virtual std::unique_ptr<CredentialProvider> find_credentials(HttpClient& http) const = 0;
  /// Sets the URL of a request for `key` ("" for the bucket), adds the headers that the protocol wants, and what
  /// authenticates it. `credentials`: null if it is anonymous. `now`: by the clock of the server.
  virtual void address(HttpRequest& http, const std::string& key, const Query& query, const Credentials* credentials,
                       Time now) const = 0;

  /// Whether answers may repeat the query of a URL, in which there are secrets: their text is then in no message.
  [[nodiscard]] virtual bool has_secrets_in_urls() const { return false; }
  /// Code and message of a response with a status from 300 on.
  [[nodiscard]] virtual ObjectError error_of(const HttpResponse& response) const = 0;
  /// `key`: of the request.
  [[nodiscard]] virtual Meaning meaning_of(const std::string& key, const HttpResponse& response,
                                           const ObjectError& error) const = 0;
  /// What alone says that an object does not exist, for messages; empty if that is not so exact.
  [[nodiscard]] virtual std::string_view absent_code() const = 0;
  /// Whether the answer tells where the bucket is, which is another place than that of the request: from now on,
  /// address() goes there.
  virtual bool follows_move(const HttpResponse& /*response*/, const ObjectError& /*error*/) { return false; }

  /// The query of a request for a list: ObjectClient::list(). EOPNOTSUPP if there are none.
  [[nodiscard]] virtual Result<Query> list_query(const std::string& prefix, bool delimited,
                                                 const std::string& token) const = 0;
  /// EIO if it is no list, or has other keys than those with the prefix.
  [[nodiscard]] virtual Result<ObjectList> parse_list(std::string_view text, std::string_view prefix) const = 0;

  /// What a server says of the identity of an object, as header_of() wants it; empty if it says nothing.
  [[nodiscard]] virtual std::string etag_of(const HttpResponse& response) const;
  /// The same; without an ETag, its time and size, marked by "~", which are no condition.
  [[nodiscard]] std::string version_of(const HttpResponse& response, uint64_t total) const;
  /// The MD5 hash of the whole object in hexadecimal digits; another text if the server does not tell it.
  [[nodiscard]] virtual std::string md5_of(const HttpResponse& response) const;
  /// The header of a condition.
  [[nodiscard]] virtual HttpHeader header_of(Condition condition, const std::string& etag) const;
  /// Whether servers of this protocol are known that compare ETags without their quotes.
  [[nodiscard]] virtual bool may_want_unquoted_etags() const { return false; }
  /// Whether an answer 304 to Condition::has_changed, with this ETag, means that nothing else of the state differs.
  [[nodiscard]] virtual bool says_unchanged(const HttpResponse& /*response*/, const std::string& /*etag*/) const {
    return true;
  }
  /// Whether a write can depend on an object being the one with this ETag.
  [[nodiscard]] virtual bool can_be_condition_of_write(std::string_view etag) const { return is_strong_etag(etag); }
  /// An ETag that no object has.
  [[nodiscard]] virtual std::string etag_of_none() const;
  /// Whether the last bytes of an object can be requested without knowing its size.
  [[nodiscard]] virtual bool has_suffix_ranges() const { return true; }
  /// Headers of each PUT of an object.
  [[nodiscard]] virtual std::vector<HttpHeader> put_headers() const { return {}; }
};

/// EINVAL, EACCES for settings that cannot be right; errors of profile_setting().
Result<std::unique_ptr<Dialect>> make_dialect(const ObjectUrl& url, const ObjectOptions& options);

/// Those of the protocols that have a file each.
Result<std::unique_ptr<Dialect>> make_s3_dialect(const ObjectUrl& url, const ObjectOptions& options);
Result<std::unique_ptr<Dialect>> make_azure_dialect(const ObjectUrl& url, const ObjectOptions& options);
Result<std::unique_ptr<Dialect>> make_gcs_dialect(const ObjectUrl& url, const ObjectOptions& options);
Result<std::unique_ptr<Dialect>> make_http_dialect(const ObjectUrl& url, const ObjectOptions& options);

/// An endpoint without a "/" at its end, and with "https://" if it has no scheme. EINVAL if it is no URL, with `form`.
Result<std::string> checked_endpoint(std::string endpoint, std::string_view form);
/// What statuses mean in all protocols, where no code says more: answer, busy, failed.
Meaning meaning_of_status(int status);
/// The same with the codes of S3, which other object stores answer, too.
Meaning meaning_of_s3_code(int status, std::string_view code);
/// The text of a response.
std::string_view text_of(const HttpResponse& response);
/// Without the quotes around it.
std::string_view unquoted(std::string_view etag);

}  // namespace codecfs::remote

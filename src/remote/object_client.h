#pragma once
// Objects of a bucket (S3) or below a URL (plain HTTP): reads, conditional writes, lists.
//
// It signs, follows a bucket to its region, and repeats what failed for a while. Functions wait for the answer.
// Thread-safe.
//
// Errors: EACCES (credentials, permissions), ESTALE (the object is not the one that was expected), EIO (the server
// failed for longer than ObjectOptions::retry_time, or sent what it must not), EOPNOTSUPP (the server cannot do this),
// EINVAL, ENOMEM, ECANCELED, EINTR (Interruption of the thread; not of changes); with the host, the status and the id
// of the request, never with secrets.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "remote/object_url.h"
#include "remote/request_statistics.h"

namespace codecfs::remote {

/// Where a request names the bucket.
enum class Addressing {
  unset,      // as the profile says, else automatic
  automatic,  // path with an endpoint, else in the name of the host
  path,
  host,  // where the name of the bucket can be a part of a host's name
};

struct ObjectOptions {
  std::string endpoint;   // "https://host[:port]"; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, else AWS.
                          // Of Azure also with a path; empty: see find_azure_account()
  std::string region;     // empty: AWS_REGION, AWS_DEFAULT_REGION, the profile, else us-east-1, or what the server says
  std::string profile;    // empty: AWS_PROFILE, else "default"
  std::string ca_file{};  // PEM: certificates of authorities that https trusts; empty: see ObjectEndpoint::ca_file()
  std::string account{};  // of Azure; empty: see find_azure_account()
  std::string token_file{};          // of a server that wants a login: WebLogin
  std::string header_file{};         // the same
  std::string credential_url{};      // that answers with keys of s3://: url_credentials(); empty: as AWS's own programs
  std::string credential_process{};  // a command that prints keys, a token or a signature
  bool anonymous = false;            // without credentials; see is_anonymous()
  Addressing addressing = Addressing::unset;
  bool requester_pays = false;
  bool absent_403 =
      false;  // an object that may not be read is absent: S3's answer without the right to list the bucket
  size_t connections = 64;
  std::chrono::seconds retry_time{45};
  std::string cache_directory;                      // of a DiskCache; empty: none
  uint64_t cache_bytes = uint64_t{10} << 30;        // that it may have
  std::shared_ptr<RequestStatistics> statistics{};  // in which the client counts; null: in its own
};

/// Whether no credentials are used: as the options or, for s3:// without a profile in them, AWS_NO_SIGN_REQUEST says.
bool is_anonymous(const ObjectUrl& url, const ObjectOptions& options);

/// A whole object or a part of it.
struct ObjectPart {
  Buffer bytes;
  std::string etag;      // as the server writes it; empty if it has none
  std::string md5{};     // of the whole object, in hexadecimal digits; another text if the server does not tell it
  uint64_t total = 0;    // size of the object
  int64_t modified = 0;  // Unix time; 0 if unknown
};

/// Whether an ETag equals only itself and stands for the same bytes, so that it can be a condition: weak ones, and
/// those that the client makes up where a server has none, do not.
bool is_strong_etag(std::string_view etag);

struct ObjectRange {
  uint64_t offset = 0;
  uint64_t size = 0;       // bytes, not 0
  bool is_at_end = false;  // the last `size` bytes; `offset` is ignored
};

struct ListedObject {
  std::string key;  // whole, not relative to the prefix
  uint64_t size = 0;
  std::string etag;
  int64_t modified = 0;  // Unix time
};
struct ObjectList {
  std::vector<ListedObject> objects;
  std::vector<std::string> prefixes;  // of keys with a further "/", which ends each
  std::string next;                   // token of the next page; empty at the end
};

/// What must be true of the object for a change to take place.
struct WriteCondition {
  bool is_new = false;  // there is none of this key
  std::string etag;     // it is this one; empty: any
};

class ObjectClient {
 public:
  /// EINVAL, EACCES for settings that cannot be right. Requests nothing yet.
  static Result<std::unique_ptr<ObjectClient>> make(const ObjectUrl& url, const ObjectOptions& options);
  virtual ~ObjectClient() = default;

  /// The key of a file of this name below a prefix that is a key: a web server gets names percent-encoded.
  [[nodiscard]] virtual std::string key_of(const std::string& prefix, const std::string& name) const {
    return prefix + name;
  }
  /// None if the object does not exist, which the server must say exactly (docs/object-stores.md). `range`: what is
  /// there of it, so it may be shorter at the end of the object; empty for an object that ends before it. Without: the
  /// whole, EFBIG if it has more than `limit` bytes. `etag`: ESTALE if the object has another one.
  virtual Result<std::optional<ObjectPart>> get(const std::string& key, std::optional<ObjectRange> range,
                                                uint64_t limit, const std::string& etag = {}) = 0;
  /// As get(), unless the object still has this ETag: then a part without bytes, with that ETag.
  virtual Result<std::optional<ObjectPart>> get_if_changed(const std::string& key, const ObjectRange& range,
                                                           const std::string& etag) = 0;
  /// The objects with this prefix, a page (1,000 as a rule) at a time. `delimited`: those with a further "/" are told
  /// as prefixes. EOPNOTSUPP for plain HTTP.
  virtual Result<ObjectList> list(const std::string& prefix, bool delimited, const std::string& token) = 0;
  /// Returns the new ETag. EEXIST or ESTALE if the condition does not hold, unless the object has this content already:
  /// then the answer to an earlier attempt may have been lost.
  virtual Result<std::string> put(const std::string& key, Bytes content, const WriteCondition& condition) = 0;
  /// Tries with a new object of this key, which is removed afterwards, whether the server heeds WriteCondition, and in
  /// which form. EOPNOTSUPP if it does not: then put() must not be called with a condition.
  virtual Result<> check_conditions(const std::string& key) = 0;
  /// Removes an object. It is no error if there is none, and the server says exactly that.
  virtual Result<> remove(const std::string& key) = 0;

  /// From now on a server that is only believed if it still has the store (a web server, -o absent=403) is asked for
  /// this object, which get() returned as a whole, before get() returns none: AbsenceCheck.
  virtual void rely_on(const std::string& /*key*/, const ObjectPart& /*part*/) {}
  /// Asks for the object of rely_on() now, for the objects that get() found absent before it was called. EIO, EACCES.
  virtual Result<> confirm_absences() { return {}; }

  /// Names the object among those of all servers, without secrets.
  [[nodiscard]] virtual std::string identity_of(const std::string& key) const = 0;
  [[nodiscard]] virtual RequestStatistics& statistics() const = 0;
};

}  // namespace codecfs::remote

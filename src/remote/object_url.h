#pragma once
// Names of datasets in object stores: s3://bucket/key, gs://bucket/key, az://container/key,
// abfss://container@account.host/key, https://host/path, http://host/path.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

enum class Scheme { http, s3, gcs, azure };

struct ObjectUrl {
  Scheme scheme = Scheme::http;
  std::string base;       // plain HTTP: "https://host[:port]"; Azure: the server of the account, if the URL names one
  std::string bucket;     // all but plain HTTP; a container of Azure, or the ARN of an AccessPoint
  std::string key;        // HTTP: the path without the first "/", percent-encoded as it was given; all others: as it is
  std::string query;      // HTTP: what follows "?", which may be a signature: never shown
  std::string account{};  // Azure, if the URL names one

  /// Whether it is of an object store, which has lists and can be written, and not of a web server.
  [[nodiscard]] bool is_bucket() const { return scheme != Scheme::http; }
};

/// Whether a text can be the name of a storage account of Azure, and so be a part of a host's name.
bool is_account_name(std::string_view name);
/// Whether a name of a dataset is a URL, and not a path.
bool is_object_url(std::string_view text);
/// EINVAL with the reason.
Result<ObjectUrl> parse_object_url(std::string_view text);
/// For messages and the mount table: without the query, and without what precedes "@".
std::string shown_url(std::string_view text);

}  // namespace codecfs::remote

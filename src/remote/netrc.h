#pragma once
// Logins of ~/.netrc, by names of hosts. Thread-safe. Errors show no content of the file.
//
// Source: the manual of ftp(1), and curl, of which quotes, comments and the rule are that unknown words are ignored.
// "default" is ignored: it is a login for any host.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

struct NetrcLogin {
  std::string user;
  std::string password;
};

/// By the names of hosts in lower case; of several logins for a host, the first one that is complete. EINVAL with
/// `path` if it is malformed.
Result<std::map<std::string, NetrcLogin>> parse_netrc(std::string_view text, const std::string& path);

}  // namespace codecfs::remote

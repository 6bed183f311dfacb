#pragma once
// Requests to web servers behind a login: which login, header and cookie goes to which server, over all redirects.
//
// What a server may see is bound to its scheme, host and port:
// - The headers of ObjectOptions::header_file and the token of token_file go to the server of the URL that was named.
// - A login of the netrc file goes to its host: by https on its usual port, or where the host is that of the URL.
// - EARTHDATA_USERNAME and EARTHDATA_PASSWORD go to urs.earthdata.nasa.gov, EARTHDATA_TOKEN to hosts of Earthdata: by
//   https on its usual port.
// - Cookies go back to the server that set them.
// All others get the request alone. Nothing of this is sent without encryption but to this machine. The files are read
// for each request, as other programs may renew them. Thread-safe. Secrets appear in no error and no log.

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/lru_map.h"
#include "base/mutex.h"
#include "base/result.h"
#include "remote/cookies.h"
#include "remote/http_client.h"
#include "remote/web_url.h"

namespace codecfs::remote {

struct WebLoginFiles {
  std::string token_file;   // whose content is the token; empty: none
  std::string header_file;  // lines "Name: value"; empty: none
};

class WebLogin {
 public:
  /// `url`: that was named. EINVAL if it is no URL of https or http, EACCES if a file of the options cannot be used, or
  /// would be sent without encryption.
  static Result<std::unique_ptr<WebLogin>> make(const std::string& url, WebLoginFiles files);

  /// A GET, with redirects followed: `redirects` of the response counts them. Of many requests that must log in, one
  /// does so, and the others wait for it. Redirects that say how long they hold (Cache-Control: max-age), such as those
  /// to signed URLs, are used again, unless the request has a Cache-Control of its own, and until they lead to an
  /// error. EPROTO for redirects that are not followed (from https to http, too many), EACCES for files that cannot be
  /// read any more, and the errors of HttpClient::perform().
  ///
  /// `advice` of a response that wants a login (401, 403, is_page()) says what was sent, or what could be.
  Result<HttpResponse> perform(HttpClient& http, const HttpRequest& request);

 private:
  /// What goes to a server, and where it is from: "the token in 'FILE'".
  struct Login {
    std::vector<HttpHeader> headers;
    std::string from;
    std::string withheld;  // why there is none, though one was found
  };
  struct Redirect {
    std::string target;
    std::chrono::steady_clock::time_point until;
  };
  class Turn;

  WebLogin(Origin home, WebLoginFiles files) : home_(std::move(home)), files_(std::move(files)) {}
  /// EACCES if a file cannot be used: other errors would mean that there is no such object.
  [[nodiscard]] Result<Login> login_for(const Origin& origin) const;
  [[nodiscard]] Result<Login> find_login(const Origin& origin) const;
  [[nodiscard]] Result<> add_files(Login& login) const;
  [[nodiscard]] Result<> add_netrc(Login& login, const Origin& origin) const;
  Result<HttpResponse> send(HttpClient& http, const HttpRequest& request, const std::string& url, const Login& login);
  [[nodiscard]] std::string advice_for(const Origin& origin, const Login& login) const;

  /// Where a kept redirect leads from there; the URL itself if there is none.
  [[nodiscard]] std::string follow_kept(const std::string& url);

  /// Whether the latest answer of this server, to which redirects lead, was data: so it wants no detour.
  bool accepts(const Origin& origin);
  void note_accepted(const Origin& origin, bool is_accepted);

  const Origin home_;
  const WebLoginFiles files_;
  Cookies cookies_;
  LruMap<std::string, Redirect> redirects_{1024};  // by URL
  Mutex mutex_;
  ConditionVariable turn_ended_;
  bool is_logging_in_ CODECFS_GUARDED_BY(mutex_) = false;
  unsigned logins_ CODECFS_GUARDED_BY(mutex_) = 0;         // that have ended
  std::set<Origin> accepting_ CODECFS_GUARDED_BY(mutex_);  // see accepts()
};

/// Whether a response with content is a page for people, such as that of a login, in place of data.
bool is_page(const HttpResponse& response);

}  // namespace codecfs::remote

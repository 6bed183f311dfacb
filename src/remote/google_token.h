#pragma once
// Access tokens for Google Cloud Storage, and the places where they are found, in the order of Google's own clients
// ("Application Default Credentials").
//
// Sources: Google Cloud, "How Application Default Credentials works"; "Using OAuth 2.0 for Server to Server
// Applications"; "View and query VM metadata". Thread-safe. Secrets appear in no error.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "remote/credentials.h"
#include "remote/http_client.h"

namespace codecfs::remote {

/// Where tokens are looked for before the metadata server (GCE_METADATA_HOST) is asked.
struct GooglePlaces {
  std::string process;  // a command that prints a token; empty: none
  std::string file;     // an absolute path; empty: none
};

/// The file: GOOGLE_APPLICATION_CREDENTIALS, or that of "gcloud auth application-default login" if there is one. To be
/// called while relative paths still mean what the user meant: a daemon changes its directory.
GooglePlaces find_google_places(const std::string& process);

/// A token, as Credentials::session_token, of the first of these places that is there. EACCES with what can be done.
Result<Credentials> google_token(HttpClient& http, const GooglePlaces& places);

/// The same again 5 minutes before a token expires. `http` must outlive the result.
std::unique_ptr<CredentialProvider> make_google_provider(HttpClient& http, const GooglePlaces& places);

/// What a program prints: a token, as "gcloud auth print-access-token" does, which is used until the server refuses it;
/// or a JSON object with "access_token" and "expires_in". EACCES.
Result<Credentials> parse_google_token(std::string_view text, const std::string& place);

/// A JSON Web Token that is signed with RS256. `claims`: a JSON object. EACCES if `private_key` is no RSA key in PEM.
Result<std::string> make_web_token(const std::string& key_id, const std::string& claims,
                                   const std::string& private_key);

}  // namespace codecfs::remote

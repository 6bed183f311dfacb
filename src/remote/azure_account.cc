#include "remote/azure_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "model/json.h"
#include "remote/credential_answers.h"
#include "remote/credential_cache.h"
#include "remote/credential_places.h"
#include "remote/dialect.h"
#include "remote/encodings.h"
#include "remote/http_client.h"

namespace codecfs::remote {
namespace {

constexpr double kLatestTime = 9e9;  // seconds since 1970: later ones are no std::chrono time

// Of the emulators Azurite and its predecessor; documented, and the same everywhere.
constexpr const char* kEmulatorAccount = "devstoreaccount1";
constexpr const char* kEmulatorKey =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
constexpr const char* kEmulatorEndpoint = "http://127.0.0.1:10000/devstoreaccount1";

/// "Name=value;Name=value"; names in small letters.
std::map<std::string, std::string> parse_connection_string(std::string_view text) {
  std::map<std::string, std::string> settings;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view setting = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = std::min(setting.find('='), setting.size());
    if (equals == setting.size()) continue;
    settings[lower_case(setting.substr(0, equals))] = setting.substr(equals + 1);
  }
  if (lower_case(settings["usedevelopmentstorage"]) == "true") {
    settings.try_emplace("accountname", kEmulatorAccount);
    settings.try_emplace("accountkey", kEmulatorKey);
    settings.try_emplace("blobendpoint", kEmulatorEndpoint);
  }
  // Those of signatures have the name only there: https://ACCOUNT.blob.core.windows.net
  if (const std::string host = host_of(settings["blobendpoint"]); settings["accountname"].empty()) {
    const size_t scheme = host.find("://");
    const std::string name = scheme == host.npos ? "" : host.substr(scheme + 3, host.find('.') - scheme - 3);
    if (is_account_name(name) && host.contains(".blob.")) settings["accountname"] = name;
  }
  return settings;
}

/// The query without a "?" at its start. EINVAL if it has characters that are none of a query.
Result<std::string> checked_signature(std::string_view text, const char* place) {
  text = trim(text);
  if (text.starts_with('?')) text.remove_prefix(1);
  const bool is_query = std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '#' && c != '"'; });
  if (!is_query || !text.contains("sig=")) return fail(EINVAL, "{}: is no shared access signature", place);
  return std::string(text);
}

Result<> use_key(AzureAccount& account, const std::string& key, const char* place) {
  const auto decoded = base64_decoded(key);
  if (!decoded || decoded->empty()) return fail(EINVAL, "{}: the account key is not in base64", place);
  account.login = AzureLogin::shared_key;
  account.secret = *decoded;
  return {};
}

Result<> use_signature(AzureAccount& account, const std::string& signature, const char* place) {
  CODECFS_ASSIGN(account.secret, checked_signature(signature, place));
  account.login = AzureLogin::signature;
  return {};
}

}  // namespace

Result<AzureAccount> find_azure_account(const ObjectUrl& url, const ObjectOptions& options) {
  constexpr const char* kString = "AZURE_STORAGE_CONNECTION_STRING";
  auto settings = parse_connection_string(environment_value(kString));
  const std::string variable = environment_value("AZURE_STORAGE_ACCOUNT");
  AzureAccount account;
  for (const std::string& name : {url.account, options.account, settings["accountname"], variable}) {
    if (account.name.empty()) account.name = name;
  }
  if (account.name.empty())
    return fail(EINVAL,
                "the storage account of the container {} is not known: set AZURE_STORAGE_ACCOUNT, give -o account=, or "
                "write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY",
                url.bucket);
  if (!is_account_name(account.name))
    return fail(EINVAL, "\"{}\" is no name of a storage account: 3 to 24 small letters and digits", account.name);
  // A connection string of signatures need not name the account.
  const std::string& named = settings["accountname"];
  const bool is_of_string = named.empty() ? url.account.empty() && options.account.empty() : named == account.name;
  if (!is_of_string) settings.clear();

  std::string endpoint = options.endpoint;
  if (endpoint.empty()) endpoint = url.base;
  if (endpoint.empty()) endpoint = settings["blobendpoint"];
  if (endpoint.empty()) {
    const std::string protocol = lower_case(settings["defaultendpointsprotocol"]);
    const std::string& suffix = settings["endpointsuffix"];
    endpoint = fmt::format("{}://{}.blob.{}", protocol.empty() ? "https" : protocol, account.name,
                           suffix.empty() ? "core.windows.net" : suffix);
  }
  CODECFS_ASSIGN(account.endpoint, checked_endpoint(std::move(endpoint), "https://HOST[:PORT][/ACCOUNT]"));

  account.process = options.credential_process;
  // Those of variables are of the account that they name, if they name one.
  const bool is_of_variables = variable.empty() || variable == account.name;
  if (options.anonymous) {
    account.login = AzureLogin::anonymous;
  } else if (!account.process.empty()) {
    account.login = AzureLogin::signature;
  } else if (!settings["accountkey"].empty()) {
    CODECFS_TRY(use_key(account, settings["accountkey"], kString));
  } else if (!settings["sharedaccesssignature"].empty()) {
    CODECFS_TRY(use_signature(account, settings["sharedaccesssignature"], kString));
  } else if (const auto key = environment_value("AZURE_STORAGE_KEY"); is_of_variables && !key.empty()) {
    CODECFS_TRY(use_key(account, key, "AZURE_STORAGE_KEY"));
  } else if (const auto text = environment_value("AZURE_STORAGE_SAS_TOKEN"); is_of_variables && !text.empty()) {
    CODECFS_TRY(use_signature(account, text, "AZURE_STORAGE_SAS_TOKEN"));
  }
  return account;
}

Result<Credentials> parse_azure_signature(std::string_view text, const std::string& place) {
  std::string given(trim(text));
  if (given.starts_with('{')) {
    const Result<Json> parsed = parse_json(given);
    const Json token = parsed ? member(*parsed, "token") : Json();
    if (!token.is_string()) return fail(EACCES, "{}: the JSON object has no text \"token\"", place);
    given = token.get<std::string>();
  }
  const auto checked = checked_signature(given, place.c_str());
  if (!checked) return fail(EACCES, "{}", checked.error().reason);
  Credentials found{.access_key = {}, .secret_key = {}, .session_token = *checked, .expires = {}};
  std::string_view rest = found.session_token;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    if (rest.starts_with("se=")) found.expires = parse_expiration(percent_decoded(rest.substr(3, end - 3)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (found.expires && *found.expires <= std::chrono::system_clock::now())
    return fail(EACCES, "{}: the shared access signature has expired", place);
  return found;
}

Result<Credentials> parse_azure_process(std::string_view text, const std::string& place) {
  const Result<Json> parsed = parse_json(trim(text));
  const Json token = parsed ? member(*parsed, "accessToken") : Json();
  if (!token.is_string()) return parse_azure_signature(text, place);
  Credentials found{.access_key = kBearer, .secret_key = {}, .session_token = token.get<std::string>(), .expires = {}};
  const bool is_token = !found.session_token.empty() &&
                        std::ranges::all_of(found.session_token, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_token) return fail(EACCES, "{}: does not print a token", place);
  // Older ones print only a local time; the server says then when the token has expired.
  if (const Json end = member(*parsed, "expires_on"); end.is_number())
    found.expires =
        std::chrono::system_clock::from_time_t(static_cast<time_t>(std::clamp(end.get<double>(), 0.0, kLatestTime)));
  if (found.expires && *found.expires <= std::chrono::system_clock::now())
    return fail(EACCES, "{}: the token has expired", place);
  return found;
}

std::unique_ptr<CredentialProvider> make_azure_provider(HttpClient& http, const AzureAccount& account) {
  switch (account.login) {
    case AzureLogin::anonymous: return nullptr;
    case AzureLogin::shared_key:
      return std::make_unique<CredentialCache>([account]() -> Result<Credentials> {
        return Credentials{
            .access_key = account.name, .secret_key = account.secret, .session_token = {}, .expires = {}};
      });
    case AzureLogin::signature:
      return std::make_unique<CredentialCache>([account]() -> Result<Credentials> {
        if (account.process.empty()) return parse_azure_signature(account.secret, "the account " + account.name);
        CODECFS_ASSIGN(const ProcessOutput output, run_credential_process(account.process));
        return parse_azure_process(output.text, output.place);
      });
    case AzureLogin::token: break;
  }
  return std::make_unique<CredentialCache>([&http, file = federated_token_file()] { return azure_token(http, file); });
}

}  // namespace codecfs::remote

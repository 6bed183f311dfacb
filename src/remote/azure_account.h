#pragma once
// Which storage account of Azure is used, where its server is, and what authenticates requests.
//
// Sources: "Configure Azure Storage connection strings", and the variables of the environment that the Azure CLI and
// the Azure SDKs read. Thread-safe. Secrets appear in no error.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "remote/credentials.h"
#include "remote/object_client.h"
#include "remote/object_url.h"

namespace codecfs::remote {

enum class AzureLogin {
  anonymous,
  shared_key,  // Credentials::secret_key, decoded
  signature,   // a shared access signature, which is a query: Credentials::session_token; or see kBearer
  token,       // of Microsoft Entra: Credentials::session_token
};

struct AzureAccount {
  std::string name;
  std::string endpoint;  // "https://ACCOUNT.blob.core.windows.net", without a "/" at the end
  AzureLogin login = AzureLogin::token;
  std::string secret{};   // a shared key, decoded, or a signature
  std::string process{};  // the command that prints a signature
};

/// The account: that of the URL, else -o account=, else of AZURE_STORAGE_CONNECTION_STRING, else AZURE_STORAGE_ACCOUNT.
/// The server: -o endpoint=, else of the URL, else of the connection string, else of Azure. What authenticates, first
/// that is there: -o anon; -o credential_process=; key or signature of the connection string; AZURE_STORAGE_KEY;
/// AZURE_STORAGE_SAS_TOKEN; else a token of azure_token(). Keys of another account are not used. EINVAL.
Result<AzureAccount> find_azure_account(const ObjectUrl& url, const ObjectOptions& options);

/// What authenticates requests, renewed 5 minutes before it expires; null if they are anonymous. `http` must outlive
/// the result.
std::unique_ptr<CredentialProvider> make_azure_provider(HttpClient& http, const AzureAccount& account);

/// A token of Microsoft Entra for Azure Storage: for AZURE_FEDERATED_TOKEN_FILE (a workload identity) or
/// AZURE_CLIENT_SECRET, with AZURE_CLIENT_ID and AZURE_TENANT_ID; else for the managed identity of this machine
/// (AZURE_CLIENT_ID if it has several). EACCES with what can be done.
/// `file`: of the workload identity; empty: none.
Result<Credentials> azure_token(HttpClient& http, const std::string& file);
/// AZURE_FEDERATED_TOKEN_FILE as an absolute path, as a daemon changes its directory; empty: it is not set.
std::string federated_token_file();

/// A shared access signature as it is given: a query, perhaps after a "?"; or, as Microsoft's Planetary Computer
/// answers, a JSON object that has it as "token". It expires when its own "se" says. `place` begins the message of
/// errors. EACCES.
Result<Credentials> parse_azure_signature(std::string_view text, const std::string& place);

/// Credentials::access_key of a token of Microsoft Entra, where signatures are possible, too.
inline constexpr const char* kBearer = "Bearer";

/// What a program prints: a shared access signature as above; or a token as "az account get-access-token" prints it, a
/// JSON object with "accessToken" and "expires_on" (Unix time). EACCES.
Result<Credentials> parse_azure_process(std::string_view text, const std::string& place);

}  // namespace codecfs::remote

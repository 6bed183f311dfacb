#include "remote/azure_account.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

class Azure : public CredentialTest {
 protected:
  Azure() {
    environment_.unset_all("AZURE_");
    environment_.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1");
  }
  static Result<AzureAccount> find(const std::string& url, const ObjectOptions& options = {}) {
    return find_azure_account(parse_object_url(url).value(), options);
  }
};

TEST_F(Azure, TheAccountOfTheUrlComesFirst) {
  environment_.set("AZURE_STORAGE_ACCOUNT", "ofvariable");
  ObjectOptions options;
  const auto of_variable = find("az://box/k", options).value();
  EXPECT_EQ(of_variable.name, "ofvariable");
  EXPECT_EQ(of_variable.endpoint, "https://ofvariable.blob.core.windows.net");
  EXPECT_EQ(of_variable.login, AzureLogin::token);
  environment_.set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=ofstring;EndpointSuffix=core.chinacloudapi.cn");
  EXPECT_EQ(find("az://box/k", options)->endpoint, "https://ofstring.blob.core.chinacloudapi.cn");
  options.account = "ofoption";
  EXPECT_EQ(find("az://box/k", options)->endpoint, "https://ofoption.blob.core.windows.net");
  const auto of_url = find("abfss://box@ofurl.dfs.core.usgovcloudapi.net/k", options).value();
  EXPECT_EQ(of_url.name, "ofurl");
  EXPECT_EQ(of_url.endpoint, "https://ofurl.blob.core.usgovcloudapi.net");
  options.endpoint = "http://127.0.0.1:10000/ofurl/";
  EXPECT_EQ(find("abfss://box@ofurl.dfs.core.windows.net/k", options)->endpoint, "http://127.0.0.1:10000/ofurl");
}

TEST_F(Azure, TheEmulatorHasAnAccountOfItsOwn) {
  environment_.set("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true;");
  const auto found = find("az://box/k").value();
  EXPECT_EQ(found.name, "devstoreaccount1");
  EXPECT_EQ(found.endpoint, "http://127.0.0.1:10000/devstoreaccount1");
  EXPECT_EQ(found.login, AzureLogin::shared_key);
  EXPECT_EQ(found.secret.size(), 64U);
}

TEST_F(Azure, TheFirstPlaceWithCredentialsIsUsed) {
  const auto login = [&](const ObjectOptions& options = {}) { return find("az://box/k", options).value(); };
  environment_.set("AZURE_STORAGE_ACCOUNT", "account");
  environment_.set("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=a%2Bb");
  EXPECT_EQ(login().login, AzureLogin::signature);
  EXPECT_EQ(login().secret, "sv=1&sig=a%2Bb");
  environment_.set("AZURE_STORAGE_KEY", "a2V5");
  EXPECT_EQ(login().login, AzureLogin::shared_key);
  EXPECT_EQ(login().secret, "key");
  environment_.set("AZURE_STORAGE_CONNECTION_STRING",
                   "BlobEndpoint=https://account.blob.core.windows.net/;SharedAccessSignature=sv=2&sig=c");
  EXPECT_EQ(login().login, AzureLogin::signature);
  EXPECT_EQ(login().secret, "sv=2&sig=c");
  ObjectOptions options;
  options.credential_process = "program";
  EXPECT_EQ(login(options).process, "program");
  options.anonymous = true;
  EXPECT_EQ(login(options).login, AzureLogin::anonymous);
}

TEST_F(Azure, KeysStayWithTheirAccount) {
  environment_.set("AZURE_STORAGE_ACCOUNT", "mine");
  environment_.set("AZURE_STORAGE_KEY", "a2V5");
  environment_.set("AZURE_STORAGE_SAS_TOKEN", "sig=a");
  environment_.set("AZURE_STORAGE_CONNECTION_STRING", "AccountName=mine;AccountKey=a2V5;BlobEndpoint=http://mine:1");
  const auto other = find("abfss://box@other.dfs.core.windows.net/k").value();
  EXPECT_EQ(other.login, AzureLogin::token);
  EXPECT_EQ(other.endpoint, "https://other.blob.core.windows.net");
  EXPECT_EQ(find("abfss://box@mine.dfs.core.windows.net/k")->login, AzureLogin::shared_key);
}

TEST_F(Azure, RefusesSettingsThatCannotBeRight) {
  EXPECT_EQ(find("az://box/k").error().code, EINVAL);
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"AZURE_STORAGE_ACCOUNT", "Upper"},
           {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=account;AccountKey=no base64"},
           {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=account;SharedAccessSignature=x y"},
           {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=account;BlobEndpoint=ftp://host"},
           {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=account;BlobEndpoint=https://"},
           {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=account;BlobEndpoint=https://host?sig=x"}}) {
    ScopedEnvironment environment;
    environment.set(name, value);
    const auto refused = find("az://box/k");
    ASSERT_FALSE(refused) << value;
    EXPECT_EQ(refused.error().code, EINVAL) << value;
  }
}

TEST_F(Azure, Signatures) {
  const auto of_text = parse_azure_signature("?sv=1&se=2099-01-02T03%3A04%3A05Z&sig=a\n", "place").value();
  EXPECT_EQ(of_text.session_token, "sv=1&se=2099-01-02T03%3A04%3A05Z&sig=a");
  EXPECT_EQ(time_text(*of_text.expires), kFarFuture);
  const auto of_json = parse_azure_signature(R"({"msft:expiry": "x", "token": "sig=a&sv=1"})", "place").value();
  EXPECT_EQ(of_json.session_token, "sig=a&sv=1");
  EXPECT_FALSE(of_json.expires);
  EXPECT_TRUE(is_refusal(parse_azure_signature("sig=a&se=2001-01-01T00:00:00Z", "place"), {"place", "expired"}));
  for (const char* const text : {"", "sv=1", "sig=a b", "sig=a#b", "sig=a\nX-Header: b", "{}", "{\"token\": 1}", "{"})
    EXPECT_TRUE(is_refusal(parse_azure_signature(text, "place"), {"place"})) << text;
}

TEST_F(Azure, ProgramsPrintSignaturesOrTokens) {
  EXPECT_EQ(parse_azure_process("sig=a&sv=1\n", "place").value().session_token, "sig=a&sv=1");
  EXPECT_EQ(parse_azure_process(R"({"token": "sig=a"})", "place").value().access_key, "");
  const auto token = parse_azure_process(
      R"({"accessToken": "T", "expiresOn": "2099-01-02 03:04:05.000000", "expires_on": 4071006245, "tenant": "t"})",
      "place");
  ASSERT_TRUE(token) << token.error().reason;
  EXPECT_EQ(token->access_key, kBearer);
  EXPECT_EQ(token->session_token, "T");
  EXPECT_EQ(time_text(*token->expires), kFarFuture);
  EXPECT_FALSE(parse_azure_process(R"({"accessToken": "T", "expiresOn": "x"})", "place").value().expires);
  for (const char* const text : {R"({"accessToken": ""})", R"({"accessToken": "a b"})", R"({"accessToken": 1})",
                                 R"({"accessToken": "T", "expires_on": 1})", "", "az: not found"})
    EXPECT_TRUE(is_refusal(parse_azure_process(text, "place"), {"place"})) << text;
}

TEST_F(Azure, WorkloadIdentity) {
  std::string seen;
  std::string answer = http_answer(200, R"({"access_token": "T", "expires_in": 3599, "token_type": "Bearer"})");
  HttpServer server([&](const ServedRequest& request) {
    seen = request.method + " " + request.target + " " + request.body;
    return answer;
  });
  environment_.set("AZURE_AUTHORITY_HOST", server.url() + "/");
  environment_.set("AZURE_FEDERATED_TOKEN_FILE", write("token", "a.b.c\n"));
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"AZURE_CLIENT_ID"}));
  environment_.set("AZURE_CLIENT_ID", "id&1");
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"AZURE_TENANT_ID"}));
  environment_.set("AZURE_TENANT_ID", "tenant");
  environment_.set("AZURE_AUTHORITY_HOST", "http://192.0.2.1");
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"AZURE_AUTHORITY_HOST"})) << "not encrypted";
  environment_.set("AZURE_AUTHORITY_HOST", server.url() + "/");
  const auto found = azure_token(*http_, federated_token_file());
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->session_token, "T");
  const auto left = *found->expires - std::chrono::system_clock::now();
  EXPECT_GT(left, std::chrono::seconds(3500));
  EXPECT_LE(left, std::chrono::seconds(3599));
  EXPECT_EQ(seen,
            "POST /tenant/oauth2/v2.0/token grant_type=client_credentials&client_id=id%261"
            "&scope=https%3A%2F%2Fstorage.azure.com%2F.default"
            "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
            "&client_assertion=a.b.c");
  answer = http_answer(401, R"({"error": "invalid_client", "error_description": "AADSTS1: no\r\nTrace ID: x"})");
  const auto refused = azure_token(*http_, federated_token_file());
  EXPECT_TRUE(is_refusal(refused, {server.url(), "401", "invalid_client", "AADSTS1: no"}));
  EXPECT_FALSE(refused.error().reason.contains("Trace"));
  for (const char* const text :
       {"", "[]", R"({"access_token": "T"})", R"({"expires_in": 10})", R"({"access_token": "T", "expires_in": -1})",
        R"({"access_token": "T\n", "expires_in": 1})", R"({"access_token": "T", "expires_in": "x"})"}) {
    answer = http_answer(200, text);
    EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"the answer"})) << text;
  }
  environment_.set("AZURE_FEDERATED_TOKEN_FILE", write("token", "\n"));
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"is empty"}));
}

TEST_F(Azure, ManagedIdentity) {
  std::string seen;
  std::string answer = http_answer(200, R"({"access_token": "T", "expires_in": "3599", "expires_on": "1"})");
  HttpServer server([&](const ServedRequest& request) {
    seen = request.method + " " + request.target + " " + request.header("metadata");
    return answer;
  });
  environment_.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url());
  environment_.set("AZURE_CLIENT_ID", "id");
  EXPECT_EQ(azure_token(*http_, federated_token_file()).value().session_token, "T");
  EXPECT_EQ(seen,
            "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F"
            "&client_id=id true");
  answer = http_answer(400, R"({"error": "invalid_request", "error_description": "Identity not found"})");
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"400", "Identity not found"}));
  answer = http_answer(404, "<html>another cloud</html>");
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()), {"no credentials found", "404"}));
  environment_.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1");
  EXPECT_TRUE(is_refusal(azure_token(*http_, federated_token_file()),
                         {"no credentials found", "AZURE_STORAGE_KEY", "-o anon"}));
}

}  // namespace
}  // namespace codecfs::remote

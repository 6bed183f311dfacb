#include "remote/google_token.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <filesystem>

#include "model/json.h"
#include "remote/encodings.h"
#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

std::string pem_of(EVP_PKEY* key) {
  BIO* const memory = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(memory, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(memory);
  return pem;
}

std::string decoded(std::string text) {
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  return base64_decoded(text).value();
}

class Google : public CredentialTest {
 protected:
  Google() {
    for (const char* const prefix : {"GOOGLE_", "CLOUDSDK_", "GCE_"}) environment_.unset_all(prefix);
    environment_.set("GCE_METADATA_HOST", "127.0.0.1:1");
  }
  ~Google() override { EVP_PKEY_free(key_); }

  [[nodiscard]] std::string account(const std::string& url) const {
    const Json file{{"type", "service_account"},
                    {"client_email", "a@b"},
                    {"private_key_id", "id"},
                    {"private_key", pem_of(key_)},
                    {"token_uri", url + "/t"}};
    return print_json(file);
  }

  EVP_PKEY* key_ = EVP_RSA_gen(2048);
  std::string seen_;
  std::string answer_ = http_answer(200, R"({"access_token": "T", "expires_in": 3599})");
  HttpServer server_{[this](const ServedRequest& request) {
    seen_ = request.method + " " + request.target + " " + request.header("metadata-flavor") + " " + request.body;
    return answer_;
  }};
};

TEST_F(Google, ServiceAccountsSignAnAssertion) {
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", write("account.json", account(server_.url())));
  const auto found = google_token(*http_, find_google_places(""));
  ASSERT_TRUE(found) << found.error().reason;
  EXPECT_EQ(found->session_token, "T");
  EXPECT_GT(*found->expires, std::chrono::system_clock::now() + std::chrono::seconds(3500));
  const std::string start = "POST /t  grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
  ASSERT_TRUE(seen_.starts_with(start)) << seen_;
  const std::string token = seen_.substr(start.size());
  const size_t first = token.find('.');
  const size_t second = token.rfind('.');
  ASSERT_LT(first, second);
  EXPECT_EQ(parse_json(decoded(token.substr(0, first))).value(),
            parse_json(R"({"alg": "RS256", "typ": "JWT", "kid": "id"})").value());
  const Json claims = parse_json(decoded(token.substr(first + 1, second - first - 1))).value();
  EXPECT_EQ(claims["iss"], "a@b");
  EXPECT_EQ(claims["aud"], server_.url() + "/t");
  EXPECT_EQ(claims["scope"], "https://www.googleapis.com/auth/devstorage.read_write");
  EXPECT_EQ(claims["exp"].get<int64_t>() - claims["iat"].get<int64_t>(), 3600);
  const std::string signature = decoded(token.substr(second + 1));
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key_);
  EXPECT_EQ(EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                             reinterpret_cast<const unsigned char*>(token.data()), second),
            1);
  EVP_MD_CTX_free(context);
}

TEST_F(Google, UsersOfGcloudRefreshTheirToken) {
  std::filesystem::create_directories(home_ / ".config/gcloud");
  const auto store = [&](const std::string& more) {
    (void)write(".config/gcloud/application_default_credentials.json",
                R"({"type": "authorized_user", "client_id": "c&1", "client_secret": "s", )" + more +
                    R"("token_uri": ")" + server_.url() + "/t\"}");
  };
  store(R"("refresh_token": "r/1", )");
  EXPECT_EQ(google_token(*http_, find_google_places("")).value().session_token, "T");
  EXPECT_EQ(seen_, "POST /t  grant_type=refresh_token&client_id=c%261&client_secret=s&refresh_token=r%2F1");
  answer_ = http_answer(400, R"({"error": "invalid_grant", "error_description": "Token has been revoked."})");
  EXPECT_TRUE(is_refusal(google_token(*http_, find_google_places("")), {"invalid_grant", "revoked"}));
  store("");
  EXPECT_TRUE(is_refusal(google_token(*http_, find_google_places("")), {"refresh_token"}));
}

TEST_F(Google, TheMetadataServerMustSayThatItIsGoogles) {
  environment_.set("GCE_METADATA_HOST", server_.url().substr(7));
  EXPECT_TRUE(is_refusal(google_token(*http_, find_google_places("")), {"no credentials found", "-o anon"}));
  answer_ = http_answer(200, R"({"access_token": "T", "expires_in": 3599})", {{"Metadata-Flavor", "Google"}});
  EXPECT_EQ(google_token(*http_, find_google_places("")).value().session_token, "T");
  EXPECT_EQ(seen_,
            "GET /computeMetadata/v1/instance/service-accounts/default/token?scopes="
            "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fdevstorage.read_write Google ");
  answer_ = http_answer(404, "no account", {{"Metadata-Flavor", "Google"}});
  EXPECT_TRUE(is_refusal(google_token(*http_, find_google_places("")), {"the metadata server", "404"}));
}

TEST_F(Google, TheFirstPlaceThatIsThereIsUsed) {
  environment_.set("GCE_METADATA_HOST", server_.url().substr(7));
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", (home_ / "absent.json").string());
  EXPECT_TRUE(is_refusal(google_token(*http_, find_google_places("")), {"absent.json"}));
  environment_.set("GOOGLE_APPLICATION_CREDENTIALS", "relative.json");
  EXPECT_EQ(find_google_places("").file, std::filesystem::current_path() / "relative.json");
  EXPECT_EQ(google_token(*http_, find_google_places("echo token")).value().session_token, "token");
  EXPECT_EQ(server_.requests(), 0U);
}

TEST_F(Google, FilesThatCannotBeUsed) {
  const auto refused = [&](const std::string& text, std::string_view reason) {
    environment_.set("GOOGLE_APPLICATION_CREDENTIALS", write("account.json", text));
    return is_refusal(google_token(*http_, find_google_places("")), {reason});
  };
  EXPECT_TRUE(refused("", "neither"));
  EXPECT_TRUE(refused("[1]", "neither"));
  EXPECT_TRUE(refused(R"({"type": "external_account"})", "credential_process"));
  EXPECT_TRUE(refused(R"({"type": "service_account", "client_email": "a"})", "private_key"));
  EXPECT_TRUE(refused(R"({"type": "service_account", "client_email": "a", "private_key": "x"})", "no RSA key"));
  EXPECT_TRUE(refused(account("ftp://host"), "no URL"));
  EXPECT_EQ(server_.requests(), 0U);
}

TEST_F(Google, OnlyRsaKeysSign) {
  EVP_PKEY* const elliptic = EVP_EC_gen("P-256");
  EXPECT_TRUE(is_refusal(make_web_token("", "{}", pem_of(elliptic)), {"no RSA key"}));
  EVP_PKEY_free(elliptic);
  EXPECT_TRUE(make_web_token("", "{}", pem_of(key_)));
}

TEST_F(Google, TokensOfPrograms) {
  const auto text = parse_google_token(" ya29.T\n", "place").value();
  EXPECT_EQ(text.session_token, "ya29.T");
  EXPECT_FALSE(text.expires);
  EXPECT_TRUE(parse_google_token(R"({"access_token": "T", "expires_in": 10})", "place").value().expires);
  for (const char* const bad : {"", " \n", "a b", "a\nX-Header: b", "{", R"({"access_token": "T"})"})
    EXPECT_TRUE(is_refusal(parse_google_token(bad, "place"), {"place"})) << bad;
}

}  // namespace
}  // namespace codecfs::remote

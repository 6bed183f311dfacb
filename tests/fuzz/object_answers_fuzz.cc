// What servers of object stores and web servers answer, and the files of credentials: the first byte says which.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/zarr/store/object_texts.h"
#include "remote/access_point.h"
#include "remote/aws_profile.h"
#include "remote/azure_account.h"
#include "remote/azure_list.h"
#include "remote/cookies.h"
#include "remote/credential_answers.h"
#include "remote/google_token.h"
#include "remote/netrc.h"
#include "remote/object_list.h"
#include "remote/object_url.h"
#include "remote/web_url.h"
#include "require.h"

namespace {

using namespace codecfs;

/// A store that has one file.
class OneObject final : public remote::ObjectClient {
 public:
  OneObject(std::string key, std::string_view text) : key_(std::move(key)), text_(text) {}
  Result<std::optional<remote::ObjectPart>> get(const std::string& key, std::optional<remote::ObjectRange>, uint64_t,
                                                const std::string&) override {
    if (key != key_) return std::nullopt;
    remote::ObjectPart part;
    CODECFS_ASSIGN(part.bytes, Buffer::copy_of(std::as_bytes(std::span(text_))));
    part.total = text_.size();
    return part;
  }
  Result<std::optional<remote::ObjectPart>> get_if_changed(const std::string& key, const remote::ObjectRange& range,
                                                           const std::string&) override {
    return get(key, range, range.size, {});
  }
  [[nodiscard]] std::string identity_of(const std::string& key) const override { return key; }
  Result<remote::ObjectList> list(const std::string&, bool, const std::string&) override {
    return remote::ObjectList();
  }
  Result<std::string> put(const std::string&, Bytes, const remote::WriteCondition&) override {
    return fail(EROFS, "no");
  }
  Result<> check_conditions(const std::string&) override { return fail(EROFS, "no"); }
  Result<> remove(const std::string&) override { return fail(EROFS, "no"); }
  [[nodiscard]] remote::RequestStatistics& statistics() const override { return statistics_; }

 private:
  mutable remote::RequestStatistics statistics_;
  std::string key_;
  std::string_view text_;
};

void read_store(const char* file, std::string_view text) {
  zarr::ObjectTexts texts(std::make_shared<OneObject>(file, text), "");
  if (!texts.open()) return;
  const auto members = texts.members("");
  if (!members) return;
  for (const std::string& name : *members) {
    require(!name.empty() || text.contains("\"/"), "a name of a member");
    (void)texts.is_node(name);
    (void)texts.is_array(name);
    (void)texts.is_in_array(name + "/0");
  }
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

/// A header Set-Cookie on each line.
void store_cookies(std::string_view text) {
  const remote::Origin home{.scheme = "https", .host = "a.org", .port = "443"};
  const remote::Cookies::Time now = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);
  remote::Cookies cookies;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    cookies.store(home, "/a/b", line, now);
  }
  require(!has_control(cookies.header_for(home, "/a/b", now)), "a header of one line");
  require(cookies.header_for({.scheme = "http", .host = "a.org", .port = "443"}, "/a/b", now).empty(),
          "a cookie goes back to its server only");
}

/// The header Location of an answer.
void follow_redirect(std::string_view text) {
  const auto url = remote::resolve_url("https://a.org/b/c?d", std::string(text));
  if (!url) return;
  require(!has_control(*url) && !url->contains(' '), "a URL that can be requested");
  const auto origin = remote::origin_of(*url);
  require(origin && (origin->scheme == "https" || origin->scheme == "http"), "a URL of https or http");
  const std::string_view authority = std::string_view(*url).substr(url->find("://") + 3);
  require(!authority.substr(0, authority.find_first_of("/?#")).contains('@'), "no user and password");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l':
      if (const auto list = remote::parse_object_list(text, "a/"))
        for (const auto& object : list->objects) require(object.key.starts_with("a/"), "a key of another prefix");
      break;
    case 'a':
      if (const auto list = remote::parse_azure_list(text, "a/"))
        for (const auto& object : list->objects) require(object.key.starts_with("a/"), "a blob of another prefix");
      break;
    case 'g':
      if (const auto found = remote::parse_google_token(text, "place"))
        require(!found->session_token.contains('\n') && !found->session_token.contains(' '), "a token of one word");
      break;
    case 's':
      if (const auto found = remote::parse_azure_process(text, "place"))
        require(!found->session_token.contains('\n') && !found->session_token.contains(' '),
                "a signature or a token of one word");
      break;
    case 'e': require(remote::parse_object_error(text).message.size() <= 200, "a message of bounded size"); break;
    case 'u':
      if (const auto url = remote::parse_object_url(text); url && url->scheme == remote::Scheme::http)
        require(!remote::shown_url(text).contains('?'), "a query is shown");
      break;
    case '2': read_store(".zmetadata", text); break;
    case '3': read_store("zarr.json", text); break;
    case 'c': store_cookies(text); break;
    case 'r': follow_redirect(text); break;
    case 'n': (void)remote::parse_netrc(text, "netrc"); break;
    case 'k': (void)remote::parse_earthdata_credentials(text, "keys"); break;
    case 'd':
      if (const auto point = remote::parse_access_point(text))
        require(!point->name.contains('.') && point->account.size() == 12, "a part of a host's name");
      break;
    case 'p': (void)remote::parse_aws_profiles(text, remote::AwsFileKind::config, "config"); break;
    default: break;
  }
  return 0;
}

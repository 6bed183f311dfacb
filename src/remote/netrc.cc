#include "remote/netrc.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/ascii.h"

namespace codecfs::remote {
namespace {

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  /// Empty quotes are a token, too. None at the end. EINVAL if quotes do not end. A value may begin with "#".
  Result<std::optional<std::string>> next(bool is_value) {
    for (;;) {
      text_.remove_prefix(std::min(text_.find_first_not_of(kAsciiSpaces), text_.size()));
      if (text_.empty()) return std::nullopt;
      if (is_value || text_.front() != '#') break;
      skip_line();
    }
    return text_.front() == '"' ? quoted() : plain();
  }

  /// What follows macdef, up to an empty line.
  void skip_macro() {
    do skip_line();
    while (!text_.empty() && text_.front() != '\n' && !text_.starts_with("\r\n"));
  }

 private:
  void skip_line() { text_.remove_prefix(std::min(text_.find('\n'), text_.size() - 1) + 1); }

  std::optional<std::string> plain() {
    const std::string_view token = text_.substr(0, text_.find_first_of(kAsciiSpaces));
    text_.remove_prefix(token.size());
    return std::string(token);
  }

  Result<std::optional<std::string>> quoted() {
    std::string token;
    for (size_t i = 1; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] == '"') {
        text_.remove_prefix(i + 1);
        return token;
      }
      if (text_[i] == '\\' && i + 1 < text_.size()) {
        const char c = text_[++i];
        token += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
      } else {
        token += text_[i];
      }
    }
    return fail(EINVAL, "quotes do not end");
  }

  std::string_view text_;
};

}  // namespace

Result<std::map<std::string, NetrcLogin>> parse_netrc(std::string_view text, const std::string& path) {
  std::map<std::string, NetrcLogin> logins;
  std::string host;
  std::optional<std::string> user;
  std::optional<std::string> password;
  const auto end_entry = [&] {
    if (!host.empty() && user && password) logins.try_emplace(lower_case(host), NetrcLogin{*user, *password});
    host.clear();
    user.reset();
    password.reset();
  };
  Tokens tokens(text);
  const auto next = [&](bool is_value) -> Result<std::optional<std::string>> {
    auto token = tokens.next(is_value);
    if (!token) return fail(EINVAL, "'{}': {}", path, token.error().reason);
    return token;
  };
  for (;;) {
    CODECFS_ASSIGN(const auto word, next(false));
    if (!word) break;
    if (*word == "default") {
      end_entry();
    } else if (*word == "macdef") {
      tokens.skip_macro();
    } else if (*word == "machine" || *word == "login" || *word == "password" || *word == "account") {
      CODECFS_ASSIGN(auto value, next(true));
      if (!value) return fail(EINVAL, "'{}': nothing follows the last \"{}\"", path, *word);
      if (*word == "machine") {
        end_entry();
        host = *value;
      }
      if (*word == "login") user = *value;
      if (*word == "password") password = *value;
    }
  }
  end_entry();
  return logins;
}

}  // namespace codecfs::remote

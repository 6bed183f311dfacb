#include "remote/aws_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/ascii.h"
#include "remote/credentials.h"
#include "remote/text_file.h"

namespace codecfs::remote {
namespace {

constexpr std::array<const char*, 3> kKeySettings{"aws_access_key_id", "aws_secret_access_key", "aws_session_token"};

/// Without a comment that follows white space.
std::string_view without_comment(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if ((text[i] == '#' || text[i] == ';') && kAsciiSpaces.contains(text[i - 1])) return trim(text.substr(0, i));
  }
  return text;
}

/// What a section header names.
struct Section {
  std::string profile;      // empty: another kind of section
  bool has_prefix = false;  // "profile "
};

Section section_of(std::string_view header, AwsFileKind kind) {
  header = trim(header);
  if (kind == AwsFileKind::credentials) return {.profile = std::string(header)};
  if (header == "default") return {.profile = "default"};
  constexpr std::string_view kPrefix = "profile";
  if (!header.starts_with(kPrefix)) return {};
  const std::string_view rest = header.substr(kPrefix.size());
  std::string_view name = trim(rest);
  if (name.empty() || !kAsciiSpaces.contains(rest.front())) return {};
  if (name.size() > 2 && (name.front() == '"' || name.front() == '\'') && name.front() == name.back()) {
    name = name.substr(1, name.size() - 2);
  }
  return {.profile = std::string(name), .has_prefix = true};
}

class ProfileParser {
 public:
  ProfileParser(AwsFileKind kind, const std::string& path) : kind_(kind), path_(path) {}

  Result<> add(std::string_view line) {
    ++number_;
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') return {};
    const size_t indent = line.find_first_not_of(kAsciiSpaces);
    if (setting_indent_ && indent > *setting_indent_) {
      add_nested(content);
      return {};
    }
    if (content.front() == '[') return begin_section(content);
    if (!is_in_section_) return fail(EINVAL, "'{}', line {}: a setting before the first section", path_, number_);
    const size_t equals = content.find('=');
    const std::string name = lower_case(trim(content.substr(0, std::min(equals, content.size()))));
    if (equals == content.npos || name.empty()) {
      return fail(EINVAL, "'{}', line {}: neither a section nor 'name = value'", path_, number_);
    }
    setting_indent_ = indent;
    const std::string_view after = content.substr(equals + 1);
    // Before it is trimmed, so that a value that is only a comment is empty.
    const std::string_view value = trim(without_comment(after));
    parent_ = value.empty() ? name : "";
    set(name, value);
    return {};
  }

  std::map<std::string, AwsProfile> take() {
    // [profile default] hides [default].
    if (has_prefixed_default_) profiles_["default"] = std::move(prefixed_default_);
    return std::move(profiles_);
  }

 private:
  void set(const std::string& name, std::string_view value) {
    if (!profile_) return;
    if (value.empty()) {
      profile_->erase(name);
    } else {
      (*profile_)[name] = value;
    }
  }

  /// A line below a setting. What is no setting itself, or continues a value, is of no use here.
  void add_nested(std::string_view content) {
    const size_t equals = content.find('=');
    const std::string_view name = trim(content.substr(0, std::min(equals, content.size())));
    if (equals == content.npos || name.empty() || parent_.empty()) return;
    set(parent_ + "." + lower_case(name), trim(without_comment(content.substr(equals + 1))));
  }

  Result<> begin_section(std::string_view content) {
    const size_t end = content.find(']');
    const std::string_view rest = end == content.npos ? content : trim(content.substr(end + 1));
    if (end == content.npos || (!rest.empty() && rest.front() != '#' && rest.front() != ';')) {
      return fail(EINVAL, "'{}', line {}: a malformed section header", path_, number_);
    }
    const Section section = section_of(content.substr(1, end - 1), kind_);
    is_in_section_ = true;
    setting_indent_.reset();
    parent_.clear();
    if (section.has_prefix && section.profile == "default") {
      has_prefixed_default_ = true;
      profile_ = &prefixed_default_;
    } else {
      profile_ = section.profile.empty() ? nullptr : &profiles_[section.profile];
    }
    return {};
  }

  const AwsFileKind kind_;
  const std::string& path_;
  size_t number_ = 0;  // of the line
  std::map<std::string, AwsProfile> profiles_;
  AwsProfile prefixed_default_;
  bool has_prefixed_default_ = false;
  bool is_in_section_ = false;
  AwsProfile* profile_ = nullptr;         // null: in a section of another kind
  std::optional<size_t> setting_indent_;  // of the last setting of this section
  std::string parent_;                    // the last setting, if it has no value: settings may be nested in it
};

struct AwsFile {
  std::string path;
  std::map<std::string, AwsProfile> profiles;
};

Result<AwsFile> load_file(AwsFileKind kind) {
  const bool is_config = kind == AwsFileKind::config;
  const char* path = std::getenv(is_config ? "AWS_CONFIG_FILE" : "AWS_SHARED_CREDENTIALS_FILE");
  AwsFile file;
  if (path && *path) {
    file.path = expand_home(path);
  } else if (const std::string home = home_directory(); !home.empty()) {
    file.path = home + (is_config ? "/.aws/config" : "/.aws/credentials");
  } else {
    return file;
  }
  const Result<std::string> text = read_text_file(file.path, kMaxAwsFileBytes);
  if (!text) {
    const int code = text.error().code;
    if (code == ENOENT || code == ENOTDIR) return file;
    return fail(code == EINVAL || code == EFBIG ? EINVAL : EACCES, "{}", text.error().reason);
  }
  CODECFS_ASSIGN(file.profiles, parse_aws_profiles(*text, kind, file.path));
  return file;
}

}  // namespace

Result<std::map<std::string, AwsProfile>> parse_aws_profiles(std::string_view text, AwsFileKind kind,
                                                             const std::string& path) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  ProfileParser parser(kind, path);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    CODECFS_TRY(parser.add(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.take();
}

Result<AwsProfiles> AwsProfiles::load() {
  CODECFS_ASSIGN(AwsFile config, load_file(AwsFileKind::config));
  CODECFS_ASSIGN(AwsFile credentials, load_file(AwsFileKind::credentials));
  AwsProfiles all;
  all.files_ = fmt::format("'{}' and '{}'", credentials.path, config.path);
  all.profiles_ = std::move(config.profiles);
  for (auto& [name, settings] : credentials.profiles) {
    AwsProfile& merged = all.profiles_[name];
    if (settings.contains(kKeySettings[0]) || settings.contains(kKeySettings[1])) {
      for (const char* key : kKeySettings) merged.erase(key);
    }
    for (auto& [setting, value] : settings) merged[setting] = std::move(value);
  }
  return all;
}

const AwsProfile* AwsProfiles::find(const std::string& name) const {
  const auto found = profiles_.find(name);
  return found == profiles_.end() ? nullptr : &found->second;
}

std::string profile_name(const std::string& name) {
  if (!name.empty()) return name;
  const char* variable = std::getenv("AWS_PROFILE");
  return variable && *variable ? variable : "default";
}

std::string setting_of(const AwsProfile& profile, const std::string& name) {
  const auto found = profile.find(name);
  return found == profile.end() ? std::string() : found->second;
}

Result<std::optional<std::string>> profile_setting(const std::string& profile, const std::string& name) {
  CODECFS_ASSIGN(const AwsProfiles profiles, AwsProfiles::load());
  const AwsProfile* found = profiles.find(profile_name(profile));
  if (!found) return std::nullopt;
  const auto setting = found->find(lower_case(name));
  if (setting == found->end()) return std::nullopt;
  return setting->second;
}

}  // namespace codecfs::remote

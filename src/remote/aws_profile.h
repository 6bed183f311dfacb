#pragma once
// Profiles of AWS's clients: ~/.aws/credentials and ~/.aws/config, or the files that AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE name.
//
// Source: "AWS SDKs and Tools Reference Guide", shared config and credentials files. Thread-safe. Errors show no
// content of the files.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

/// Settings by their names in lower case, nested ones as "s3.addressing_style"; empty values are left out.
using AwsProfile = std::map<std::string, std::string>;

enum class AwsFileKind { config, credentials };

/// The profiles in the text of one file: sections [x] of the credentials; [profile x], [profile "x y"] and [default] of
/// the configuration. Comments begin with '#' or ';', after white space also behind a value. Lines that are indented
/// more than the setting before them belong to it: they are its nested settings if it has no value, and are ignored
/// otherwise. EINVAL with `path` and the line if it is malformed.
Result<std::map<std::string, AwsProfile>> parse_aws_profiles(std::string_view text, AwsFileKind kind,
                                                             const std::string& path);

class AwsProfiles {
 public:
  /// Reads both files; one that does not exist is empty. EACCES if a file that exists cannot be read, EINVAL if it is
  /// malformed or too long.
  static Result<AwsProfiles> load();

  /// Null if neither file has it. Settings of the credentials file replace those of the configuration; the keys
  /// (aws_access_key_id, aws_secret_access_key, aws_session_token) come together from one file.
  [[nodiscard]] const AwsProfile* find(const std::string& name) const;
  /// "'/home/x/.aws/credentials' and '/home/x/.aws/config'", for messages.
  [[nodiscard]] const std::string& files() const { return files_; }

 private:
  std::map<std::string, AwsProfile> profiles_;
  std::string files_;
};

/// `name`, or if it is empty AWS_PROFILE, else "default".
std::string profile_name(const std::string& name);
/// A setting, empty if there is none.
std::string setting_of(const AwsProfile& profile, const std::string& name);

inline constexpr size_t kMaxAwsFileBytes = size_t{1} << 20;

}  // namespace codecfs::remote

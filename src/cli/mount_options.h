#pragma once
// The options of -o, with which users, mount(8) and fstab configure a mount.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/filter_options.h"
#include "mount/options.h"

namespace codecfs::cli {

/// What a command line says about a mount.
struct MountArguments {
  mount::Options options;
  FilterOptions filters;
  bool may_be_missing = false;  // -o nofail: succeed without a mount if the source does not exist
  bool is_fake = false;         // mount -f: do everything but the mount itself
};

/// Sets what the lists of options ("ro,cache=64M") say. EINVAL with a reason that names the option.
Result<> apply_options(MountArguments& arguments, const std::vector<std::string>& lists);

/// The options, filter rules and exit codes, for --help.
std::string mount_options_help();

/// Splits "a,b=1\,2,c" at commas. A backslash escapes the next character. Double quotes, in which mount(8) passes
/// filter="v,307,9", escape all characters between them and are removed.
std::vector<std::string> split_options(const std::string& text);
/// Bytes of "64M", "1G", "4096". EINVAL.
Result<uint64_t> parse_size(const std::string& text);

}  // namespace codecfs::cli

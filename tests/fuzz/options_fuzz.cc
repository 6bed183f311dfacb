// Any text as the list of -o, as mount(8) and the command line pass it: options with numbers in their ranges, or an
// error of one line. And as the value of an extended attribute that changes an ordinary attribute: it is JSON or text.

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/mount.h"
#include "model/json.h"
#include "require.h"

namespace {

using namespace codecfs;

void check(const Result<std::unique_ptr<cli::Command>>& command) {
  if (!command) {
    require(command.error().code == EINVAL && !command.error().reason.empty(), "an error is EINVAL with a reason");
    return;
  }
  const mount::Options& options = dynamic_cast<const cli::MountCommand&>(**command).arguments().options;
  require(options.cache_bytes >= uint64_t{1} << 20, "a cache is not too small");
  require(options.dirty_bytes >= uint64_t{1} << 20, "nor is what may be dirty");
  require(options.threads <= 256, "threads are bounded");
  require(options.commit_seconds >= 1 && options.commit_seconds <= 3600, "a commit is in time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string list = text.substr(0, text.find('\0'));  // program arguments end at a zero byte
  const char* const ours[] = {"codecfs", "-o", list.c_str(), "source", "mountpoint"};
  check(cli::parse_command_line(5, ours));
  const char* const helper[] = {"/sbin/mount.codecfs", "source", "mountpoint", "-o", list.c_str()};
  check(cli::parse_command_line(5, helper));
  for (const std::string& option : cli::split_options(list)) require(!option.empty(), "no option is empty");
  if (const auto bytes = cli::parse_size(text); !bytes) require(!bytes.error().reason.empty(), "an error has a reason");
  if (const auto json = parse_json(text)) {
    const auto again = parse_json(print_json(*json));
    require(again && print_json(*again) == print_json(*json), "JSON that is printed reads back");
  }
  return 0;
}

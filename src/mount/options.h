#pragma once
// The command line: `codecfs [-F VARS,SPEC]... [-o OPTIONS] [-f] SOURCE MOUNTPOINT`, and the arguments with which
// mount(8) calls mount.codecfs.

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "filters/core/filter_rules.h"
#include "fs/namespace/nodes.h"
#include "model/limits.h"

namespace codecfs::mount {

struct Options {
  /// The text of a filter rule. It may name filters of plugins, so it is parsed after these are known.
  struct Rule {
    std::string option;  // "-F" or "-o filter", for messages
    std::string text;
  };

  std::string source;
  std::string mountpoint;
  bool foreground = false;
  bool debug = false;                           // log every FUSE request
  uint64_t cache_bytes = uint64_t{64} << 20;    // -o cache=SIZE
  uint64_t max_chunk_bytes = kDefaultMaxChunk;  // -o max_chunk=SIZE
  bool read_only = false;                       // -o ro
  fs::View view = fs::View::decoded;            // -o view=NAME: what the root of the mount shows
  bool coherent = false;                        // -o coherent
  bool may_be_missing = false;                  // -o nofail: succeed without a mount if the source does not exist
  bool make_mountpoint = false;                 // -o mkdir
  unsigned idle_seconds = 0;                    // -o idle=SECONDS, 0: never
  std::string log_file;                         // -o log=FILE; empty: stderr or syslog
  log::Level log_level = log::Level::info;      // -o loglevel=LEVEL
  std::string create;                           // -o create=FORMAT: create the source if it does not exist
  uint64_t dirty_bytes = uint64_t{128} << 20;   // -o dirty=SIZE
  unsigned commit_seconds = 5;                  // -o commit=SECONDS
  unsigned threads = 0;                         // -o threads=N, 0: number of cores, at least 8
  std::vector<Rule> rules;                      // -F VARS,SPEC and -o filter=VARS,SPEC, in this order
  std::string plugin_path;                      // -o plugin_path=DIR:DIR, searched before HDF5_PLUGIN_PATH
  bool plugins = true;                          // false: -o plugins=off
  bool builtin = true;                          // false: -o builtin=off
  std::vector<std::string> not_builtin;         // -o builtin=off:NAME:NAME, names or ids
  std::vector<std::string> fuse;                // -o options passed to libfuse and the kernel
};

/// The action that a command line requests.
struct Command {
  enum class Kind { mount, check, unmount, print, check_log, recover, compact } kind = Kind::mount;
  // For mount and check; check (mount -f) does everything but the mount itself. Unmount uses only the mount point, the
  // last three only the source.
  Options options;
  std::string text;  // for print: --help, --version
};

/// EINVAL with a reason that names the argument.
Result<Command> parse_command_line(int argc, const char* const* argv);

/// Sets the plugin path and the built-in filters to replace, and parses the rules. EINVAL with a reason that names the
/// option.
Result<filters::FilterRules> set_up_filters(const Options& options);

/// Splits "a,b=1\,2,c" at commas. A backslash escapes the next character. Double quotes, in which mount(8) passes
/// filter="v,307,9", escape all characters between them and are removed.
std::vector<std::string> split_options(const std::string& text);
/// Bytes of "64M", "1G", "4096". EINVAL.
Result<uint64_t> parse_size(const std::string& text);

}  // namespace codecfs::mount

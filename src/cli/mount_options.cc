#include "cli/mount_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/open/source_opener.h"
#include "base/closest_name.h"

namespace codecfs::cli {
namespace {

constexpr uint64_t kSmallestCache = uint64_t{1} << 20;

struct OwnOption {
  std::string_view name;
  std::string_view help;
  Result<> (*set)(MountArguments&, const std::string& value);
};

Result<> set_size(uint64_t& field, std::string_view name, const std::string& value) {
  const Result<uint64_t> bytes = parse_size(value);
  if (!bytes) return fail(EINVAL, "-o {}={}: {}", name, value, bytes.error().reason);
  if (*bytes < kSmallestCache) return fail(EINVAL, "-o {}={}: at least 1M", name, value);
  field = *bytes;
  return {};
}

Result<> set_text(std::string& field, std::string_view name, const std::string& value) {
  if (value.empty()) return fail(EINVAL, "-o {}=: needs a value", name);
  field = value;
  return {};
}

Result<> set_max_chunk(MountArguments& arguments, const std::string& value) {
  CODECFS_TRY(set_size(arguments.options.max_chunk_bytes, "max_chunk", value));
  if (arguments.options.max_chunk_bytes > kLargestMaxChunk)
    return fail(EINVAL, "-o max_chunk={}: at most {}M", value, kLargestMaxChunk >> 20);
  return {};
}

Result<> set_number(unsigned& field, std::string_view name, const std::string& value, unsigned most) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), field);
  if (error != std::errc{} || end != value.data() + value.size() || field < 1 || field > most)
    return fail(EINVAL, "-o {}={}: a number from 1 to {}", name, value, most);
  return {};
}

const std::array kOwnOptions{
    OwnOption{"cache=SIZE", "decoded chunks kept in memory (default 64M)",
              [](MountArguments& arguments, const std::string& value) {
                return set_size(arguments.options.cache_bytes, "cache", value);
              }},
    OwnOption{"dirty=SIZE", "changed chunks kept in memory until they are stored (default 128M)",
              [](MountArguments& arguments, const std::string& value) {
                return set_size(arguments.options.dirty_bytes, "dirty", value);
              }},
    OwnOption{"index=SIZE", "places of chunks of HDF5 files kept in memory (default 32M)",
              [](MountArguments& arguments, const std::string& value) {
                return set_size(arguments.options.sources.hdf5.index_bytes, "index", value);
              }},
    OwnOption{"max_chunk=SIZE", "larger chunks are neither read nor made, 1M to 2047M decoded (default 1G)",
              set_max_chunk},
    OwnOption{"commit=SECONDS", "time after which closed files are stored and durable, 1 to 3600 (default 5)",
              [](MountArguments& arguments, const std::string& value) {
                return set_number(arguments.options.commit_seconds, "commit", value, 3600);
              }},
    OwnOption{"threads=N", "threads that serve requests, 1 to 256 (default: one a core, at least 8)",
              [](MountArguments& arguments, const std::string& value) {
                return set_number(arguments.options.threads, "threads", value, 256);
              }},
    OwnOption{
        "transport=HOW",
        "how decoded chunks reach readers: passthrough (in memory; root, ro), push (into the page cache), read (on "
        "request), or auto (default): passthrough where it is possible and not slower, else push",
        [](MountArguments& arguments, const std::string& value) -> Result<> {
          const std::optional<fs::Transport> transport = fs::transport_named(value);
          if (!transport) return fail(EINVAL, "-o transport={}: auto, passthrough, push or read", value);
          arguments.options.transport = *transport;
          return {};
        }},
    OwnOption{"passthrough_size=SIZE", "memory for chunks that are passed through, at most (default: an eighth)",
              [](MountArguments& arguments, const std::string& value) {
                return set_size(arguments.options.passthrough_bytes, "passthrough_size", value);
              }},
    OwnOption{"idle=SECONDS", "close the source after this time without use, until the next (default: never)",
              [](MountArguments& arguments, const std::string& value) {
                return set_number(arguments.options.idle_seconds, "idle", value, 31'536'000);
              }},
    OwnOption{"follow=all|beneath",
              "which files HDF5 files may refer to (default: all; with allow_other, beneath SOURCE's directory)",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "all" && value != "beneath")
                  return fail(EINVAL, "-o follow={}: is neither all nor beneath", value);
                arguments.options.follow = value == "all" ? Follow::all : Follow::beneath;
                return {};
              }},
    OwnOption{"isolate=HOW", "on (default): libhdf5 runs in a process of its own; off: in this process, to debug it",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "on" && value != "off") return fail(EINVAL, "-o isolate={}: is neither on nor off", value);
                arguments.options.sources.hdf5.isolated = value == "on";
                return {};
              }},
    OwnOption{"endpoint=URL", "the server of s3:// (default: AWS_ENDPOINT_URL_S3, the profile, AWS)",
              [](MountArguments& arguments, const std::string& value) {
                return set_text(arguments.options.sources.objects.endpoint, "endpoint", value);
              }},
    OwnOption{"region=NAME", "of the bucket (default: AWS_REGION, the profile, what the server says)",
              [](MountArguments& arguments, const std::string& value) {
                return set_text(arguments.options.sources.objects.region, "region", value);
              }},
    OwnOption{"profile=NAME", "of ~/.aws, with the keys of s3:// (default: AWS_PROFILE, default)",
              [](MountArguments& arguments, const std::string& value) {
                return set_text(arguments.options.sources.objects.profile, "profile", value);
              }},
    OwnOption{"absent=403",
              "an object that may not be read is absent, as S3 answers without the right to list the bucket",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "403") return fail(EINVAL, "-o absent={}: only 403 can mean that", value);
                arguments.options.sources.objects.absent_403 = true;
                return {};
              }},
    OwnOption{"connections=N", "requests to an object store at a time, 1 to 1024 (default 64)",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                unsigned number = 0;
                CODECFS_TRY(set_number(number, "connections", value, 1024));
                arguments.options.sources.objects.connections = number;
                return {};
              }},
    OwnOption{"cache_dir=DIR", "keep what is read of HDF5 files and zip archives in object stores in this directory",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value.empty()) return fail(EINVAL, "-o cache_dir=: needs the name of a directory");
                arguments.options.sources.objects.cache_directory = std::filesystem::absolute(value).string();
                return {};
              }},
    OwnOption{"cache_size=SIZE", "of this directory, at most (default 10G)",
              [](MountArguments& arguments, const std::string& value) {
                return set_size(arguments.options.sources.objects.cache_bytes, "cache_size", value);
              }},
    OwnOption{"retry=SECONDS", "how long failed requests are repeated, 1 to 3600 (default 45)",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                unsigned number = 0;
                CODECFS_TRY(set_number(number, "retry", value, 3600));
                arguments.options.sources.objects.retry_time = std::chrono::seconds(number);
                return {};
              }},
    OwnOption{"log=FILE", "append messages to FILE (default: syslog; with -f stderr)",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value.empty()) return fail(EINVAL, "-o log=: needs the name of a file");
                // The daemon has another working directory.
                arguments.options.log_file = std::filesystem::absolute(value).string();
                return {};
              }},
    OwnOption{"loglevel=LEVEL", "least that is logged: debug, info (default), warning or error",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                const std::optional<log::Level> level = log::level_named(value);
                if (!level) return fail(EINVAL, "-o loglevel={}: debug, info, warning or error", value);
                arguments.options.log_level = *level;
                return {};
              }},
    OwnOption{"create=FORMAT", "create an empty SOURCE if it does not exist: hdf5, zarr, zarr3, zip or nczarr",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "hdf5" && value != "zarr" && value != "zarr3" && value != "zip" && value != "nczarr")
                  return fail(EINVAL, "-o create={}: hdf5, zarr, zarr3, zip or nczarr", value);
                arguments.options.create = value;
                return {};
              }},
    OwnOption{"view=NAME",
              "show this view of .codecfs/view in the mount point: decoded (default), encoded, decoded3, encoded3, npy "
              "or raw",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                const std::optional<fs::View> view = fs::view_named(value);
                if (!view)
                  return fail(EINVAL,
                              "-o view={}: there are the views decoded, encoded, decoded3, encoded3, npy and raw",
                              value);
                arguments.options.view = *view;
                return {};
              }},
    OwnOption{"strings=vlen|fixed|bytes",
              "strings as they are (default), of fixed length, or as arrays of bytes: for netCDF-C; read-only",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                using enum StringForm;
                if (value != "vlen" && value != "fixed" && value != "bytes")
                  return fail(EINVAL, "-o strings={}: vlen, fixed or bytes", value);
                arguments.options.adaptation.strings = value == "vlen" ? vlen : value == "fixed" ? fixed : bytes;
                return {};
              }},
    OwnOption{"chunks=stored|clamped",
              "chunks as they are (default), or no longer than the array: for netCDF-C; read-only",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "stored" && value != "clamped")
                  return fail(EINVAL, "-o chunks={}: is neither stored nor clamped", value);
                arguments.options.adaptation.clamps_chunks = value == "clamped";
                return {};
              }},
    OwnOption{"filter=VARS,SPEC", "the same as -F; its commas are written \\, or the value in \"double quotes\"",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                arguments.filters.rules.push_back({"-o filter", value});
                return {};
              }},
    OwnOption{"plugin_path=DIR:...", "directories of filter plugins, searched before those of HDF5_PLUGIN_PATH",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                arguments.filters.plugin_path += ":" + value;
                return {};
              }},
    OwnOption{"plugins=off", "load no plugins; built-in filters stay",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value != "on" && value != "off") return fail(EINVAL, "-o plugins={}: on or off", value);
                arguments.filters.plugins = value == "on";
                return {};
              }},
    OwnOption{"builtin=off[:NAME...]", "use plugins instead of all built-in filters, or of these (names or ids)",
              [](MountArguments& arguments, const std::string& value) -> Result<> {
                if (value == "on") return {};
                if (value == "off") {
                  arguments.filters.builtin = false;
                  return {};
                }
                if (!value.starts_with("off:") || value.ends_with(':'))
                  return fail(EINVAL, "-o builtin={}: on, off, or off:NAME:NAME", value);
                for (size_t at = 4; at <= value.size();) {
                  const size_t end = std::min(value.find(':', at), value.size());
                  arguments.filters.not_builtin.push_back(value.substr(at, end - at));
                  at = end + 1;
                }
                return {};
              }},
};

// Options of mount(8) and fstab that do not concern a filesystem, or that codecfs always behaves as.
constexpr std::array<std::string_view, 19> kIgnored{
    "defaults", "auto", "noauto", "user",   "nouser", "users", "owner", "group",  "_netdev",   "nodev",
    "nosuid",   "suid", "dev",    "silent", "loud",   "async", "mand",  "nomand", "noiversion"};
// Options that are passed to the kernel and libfuse.
constexpr std::array<std::string_view, 14> kHandedOn{"exec",        "noexec",     "atime",        "noatime",
                                                     "diratime",    "nodiratime", "relatime",     "norelatime",
                                                     "allow_other", "allow_root", "auto_unmount", "default_permissions",
                                                     "sync",        "dirsync"};

// Options without a value.
constexpr std::array<std::string_view, 12> kFlags{"ro",       "rw",       "mkdir",      "nonempty",
                                                  "nodelete", "coherent", "portable",   "debug",
                                                  "nofail",   "anon",     "path_style", "requester_pays"};

std::string hint_for(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OwnOption& own : kOwnOptions) names.push_back(own.name.substr(0, own.name.find('=')));
  names.insert(names.end(), kFlags.begin(), kFlags.end());
  names.insert(names.end(), kHandedOn.begin(), kHandedOn.end());
  names.insert(names.end(), kIgnored.begin(), kIgnored.end());
  return did_you_mean(name, names);
}

Result<> apply_option(MountArguments& arguments, const std::string& option) {
  mount::Options& options = arguments.options;
  const size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  for (const OwnOption& own : kOwnOptions) {
    if (own.name.substr(0, own.name.find('=')) != name) continue;
    if (equals == std::string::npos) return fail(EINVAL, "-o {}: needs a value: {}", option, own.name);
    return own.set(arguments, option.substr(equals + 1));
  }
  if (name.starts_with("x-") || name == "comment" || std::ranges::find(kIgnored, name) != kIgnored.end()) return {};
  if (name == "ro" || name == "rw") {
    options.read_only = name == "ro";
    return {};
  }
  if (option == "coherent") {
    options.coherent = true;
    return {};
  }
  if (option == "nonempty") {
    options.nonempty = true;
    return {};
  }
  if (option == "nodelete") {
    options.nodelete = true;
    return {};
  }
  if (option == "portable") {
    options.portable = true;
    return {};
  }
  if (option == "anon" || option == "path_style" || option == "requester_pays") {
    remote::ObjectOptions& objects = options.sources.objects;
    (option == "anon"         ? objects.anonymous
     : option == "path_style" ? objects.path_style
                              : objects.requester_pays) = true;
    return {};
  }
  if (name == "nofail") {
    arguments.may_be_missing = true;
    return {};
  }
  if (option == "mkdir") {
    options.make_mountpoint = true;
    return {};
  }
  if (option == "debug") {
    options.debug = options.foreground = true;
    options.log_level = log::Level::debug;
    return {};
  }
  if (std::ranges::find(kHandedOn, name) != kHandedOn.end()) {
    options.fuse.push_back(option);
    return {};
  }
  return fail(EINVAL, "unknown mount option: {} (codecfs --help lists them){}", option, hint_for(name));
}

}  // namespace

Result<> apply_options(MountArguments& arguments, const std::vector<std::string>& lists) {
  for (const std::string& list : lists) {
    std::string_view rule;
    for (const std::string& option : split_options(list)) {
      const Result<> applied = apply_option(arguments, option);
      if (!applied && !rule.empty())
        return fail(EINVAL, "{}; if it is part of {}: there a comma is written \\,", applied.error().reason, rule);
      if (!applied) return applied;
      rule = option.starts_with("filter=") ? "-o filter" : "";
    }
  }
  if (arguments.options.coherent && arguments.options.adaptation.is_any())
    return fail(EINVAL, "-o coherent: not with strings= or chunks=, which show the source as it was when first read");
  if (arguments.options.coherent && is_source_url(arguments.options.source))
    return fail(EINVAL,
                "-o coherent: not for {}: each look at an object would be a request. Without it, chunks that this "
                "mount writes and lists follow other programs; mount again to see other metadata",
                shown_source(arguments.options.source));
  return {};
}

std::string mount_options_help() {
  std::string text = "Options of -o (separated by commas):\n";
  for (const OwnOption& own : kOwnOptions) text += fmt::format("  {:<27} {}\n", own.name, own.help);
  text +=
      "  ro                          read-only; so is the mount of a source that cannot be written\n"
      "  mkdir                       create MOUNTPOINT if it does not exist, and remove it at the unmount\n"
      "  nonempty                    mount on a directory that is not empty, or on another codecfs mount\n"
      "  nodelete                    variables and groups cannot be removed (EPERM)\n"
      "  anon                        s3:// without credentials, for public buckets\n"
      "  path_style                  s3:// with the bucket in the path, not in the name of the host\n"
      "  requester_pays              agree to pay for requests to buckets that want that\n"
      "  coherent                    show changes by other programs in a Zarr directory within a second (not: URLs)\n"
      "  portable                    view encoded3: only codecs that every reader of Zarr v3 has\n"
      "  allow_other, allow_root     let other users access the mount (they need the source's permissions)\n"
      "  auto_unmount                unmount when the daemon dies\n"
      "  debug                       log every request; implies -f and loglevel=debug\n"
      "  nofail                      if SOURCE does not exist, do nothing and report success\n"
      "  noexec, noatime, ...        the usual options of mount(8) and fstab (noauto, x-*)\n"
      "\nFilter rules: VARS is * or names joined by & (v&/group/w; a backslash escapes a character);\n"
      "SPEC is none, or a pipeline of ids or names with their parameters: shuffle|zstd,3 or 2|32015,3. The\n"
      "attribute user._FilterOut shows the pipeline that a rule gives a variable: new variables have it, and an\n"
      "existing one is re-encoded with it when it is first written to.\n"
      "\n`codecfs -u MOUNTPOINT` returns when everything is stored; so does umount, for root, where "
      "umount.fuse.codecfs\n"
      "is installed. `fusermount3 -u MOUNTPOINT` returns at once; the daemon then stores what was written.\n"
      "\nExit codes: 0, success (in the background: the mount is ready); 1, the command line is wrong;\n"
      "32, the mount failed or, with -f, not all data could be stored. A line on stderr gives the reason.\n"
      "\nSee codecfs(8), and codecfs-filters(7) for filters, their plugins and what to install.\n";
  return text;
}

std::vector<std::string> split_options(const std::string& text) {
  std::vector<std::string> options;
  std::string option;
  bool quoted = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !quoted)) {
      if (!option.empty()) options.push_back(std::exchange(option, {}));
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      option += text[i];
    }
  }
  return options;
}

Result<uint64_t> parse_size(const std::string& text) {
  uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, last);
  unsigned shift = 0;
  if (unit == "K" || unit == "k")
    shift = 10;
  else if (unit == "M" || unit == "m")
    shift = 20;
  else if (unit == "G" || unit == "g")
    shift = 30;
  else if (!unit.empty())
    shift = 64;
  if (error != std::errc{} || shift == 64 || number > UINT64_MAX >> shift)
    return fail(EINVAL, "not a size (examples: 512K, 64M, 2G)");
  return number << shift;
}

}  // namespace codecfs::cli

#include "cli/mount_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/open/source_opener.h"
#include "base/closest_name.h"

namespace codecfs::cli {
namespace {

constexpr uint64_t kSmallestCache = uint64_t{1} << 20;

/// An option as a list has it: all of it ("cache=64M"), and its value ("64M"; empty if it has none).
struct Given {
  std::string text;
  std::string value;
};

struct Option {
  // As --help shows it: "cache=SIZE", "ro". Options that are treated alike may share a row: "allow_other, allow_root".
  std::string_view form;
  std::string_view help;  // empty: --help does not list it
  Result<> (*set)(MountArguments&, const Given&);
};

Result<> refuse_unknown(const Given& given);

// The field that an option sets, in the struct that has it.
template <typename T>
T& field(MountArguments& arguments, T MountArguments::* member) {
  return arguments.*member;
}
template <typename T>
T& field(MountArguments& arguments, T mount::Options::* member) {
  return arguments.options.*member;
}
template <typename T>
T& field(MountArguments& arguments, T Hdf5Options::* member) {
  return arguments.options.sources.hdf5.*member;
}
template <typename T>
T& field(MountArguments& arguments, T remote::ObjectOptions::* member) {
  return arguments.options.sources.objects.*member;
}

/// Options of mount(8) and fstab are accepted with a value, too.
template <auto kField, bool kValue>
Result<> set_bool(MountArguments& arguments, const Given&) {
  field(arguments, kField) = kValue;
  return {};
}

template <auto kField>
Result<> set_flag(MountArguments& arguments, const Given& given) {
  return given.text.contains('=') ? refuse_unknown(given) : set_bool<kField, true>(arguments, given);
}

template <auto kField>
Result<> set_size(MountArguments& arguments, const Given& given) {
  const Result<uint64_t> bytes = parse_size(given.value);
  if (!bytes) return fail(EINVAL, "-o {}: {}", given.text, bytes.error().reason);
  if (*bytes < kSmallestCache) return fail(EINVAL, "-o {}: at least 1M", given.text);
  field(arguments, kField) = *bytes;
  return {};
}

/// A number from 1 to kMax.
template <auto kField, unsigned kMax>
Result<> set_number(MountArguments& arguments, const Given& given) {
  unsigned number = 0;
  const char* const last = given.value.data() + given.value.size();
  const auto [end, error] = std::from_chars(given.value.data(), last, number);
  if (error != std::errc{} || end != last || number < 1 || number > kMax)
    return fail(EINVAL, "-o {}: a number from 1 to {}", given.text, kMax);
  auto& value = field(arguments, kField);
  value = std::remove_reference_t<decltype(value)>(number);
  return {};
}

template <auto kField>
Result<> set_text(MountArguments& arguments, const Given& given) {
  if (given.value.empty()) return fail(EINVAL, "-o {}: needs a value", given.text);
  field(arguments, kField) = given.value;
  return {};
}

/// Absolute, as the daemon has another working directory. `kind`: of what it is the path, for the error.
Result<> set_path(std::string& path, const Given& given, std::string_view kind) {
  if (given.value.empty()) return fail(EINVAL, "-o {}: needs the name of a {}", given.text, kind);
  path = std::filesystem::absolute(given.value).string();
  return {};
}

/// Whether the value is the first of two words.
Result<bool> is_first(const Given& given, std::string_view first, std::string_view second) {
  if (given.value != first && given.value != second)
    return fail(EINVAL, "-o {}: is neither {} nor {}", given.text, first, second);
  return given.value == first;
}

Result<> pass_to_libfuse(MountArguments& arguments, const Given& given) {
  arguments.options.fuse.push_back(given.text);
  return {};
}

Result<> ignore(MountArguments&, const Given&) { return {}; }

Result<> set_builtin(MountArguments& arguments, const Given& given) {
  const std::string& value = given.value;
  if (value == "on") return {};
  if (value == "off") {
    arguments.filters.builtin = false;
    return {};
  }
  if (!value.starts_with("off:") || value.ends_with(':'))
    return fail(EINVAL, "-o {}: on, off, or off:NAME:NAME", given.text);
  for (size_t at = 4; at <= value.size();) {
    const size_t end = std::min(value.find(':', at), value.size());
    arguments.filters.not_builtin.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  return {};
}

// All options, in the order of --help.
constexpr std::array kOptions{
    Option{"cache=SIZE", "decoded chunks kept in memory (default 64M)", set_size<&mount::Options::cache_bytes>},
    Option{"dirty=SIZE", "changed chunks kept in memory until they are stored (default 128M)",
           set_size<&mount::Options::dirty_bytes>},
    Option{"index=SIZE", "places of chunks of HDF5 files kept in memory (default 32M)",
           set_size<&Hdf5Options::index_bytes>},
    Option{"max_chunk=SIZE", "larger chunks are neither read nor made, 1M to 2047M decoded (default 1G)",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             CODECFS_TRY(set_size<&mount::Options::max_chunk_bytes>(arguments, given));
             if (arguments.options.max_chunk_bytes > kLargestMaxChunk)
               return fail(EINVAL, "-o {}: at most {}M", given.text, kLargestMaxChunk >> 20);
             return {};
           }},
    Option{"commit=SECONDS", "time after which closed files are stored and durable, 1 to 3600 (default 5)",
           set_number<&mount::Options::commit_seconds, 3600>},
    Option{"threads=N", "threads that serve requests, 1 to 256 (default: one a core, at least 8)",
           set_number<&mount::Options::threads, 256>},
    Option{"transport=HOW",
           "how decoded chunks reach readers: passthrough (in memory; root, ro), push (into the page cache), read (on "
           "request), or auto (default): passthrough where it is possible and not slower, else push",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             const std::optional<fs::Transport> transport = fs::transport_named(given.value);
             if (!transport) return fail(EINVAL, "-o {}: auto, passthrough, push or read", given.text);
             arguments.options.transport = *transport;
             return {};
           }},
    Option{"passthrough_size=SIZE", "memory for chunks that are passed through, at most (default: an eighth)",
           set_size<&mount::Options::passthrough_bytes>},
    Option{"idle=SECONDS", "close the source after this time without use, until the next (default: never)",
           set_number<&mount::Options::idle_seconds, 31'536'000>},
    Option{"follow=all|beneath",
           "which files HDF5 files may refer to (default: all; with allow_other, beneath SOURCE's directory)",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             CODECFS_ASSIGN(const bool is_all, is_first(given, "all", "beneath"));
             arguments.options.follow = is_all ? Follow::all : Follow::beneath;
             return {};
           }},
    Option{"isolate=HOW", "on (default): libhdf5 runs in a process of its own; off: in this process, to debug it",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             CODECFS_ASSIGN(arguments.options.sources.hdf5.isolated, is_first(given, "on", "off"));
             return {};
           }},
    Option{"endpoint=URL",
           "the server of s3://, gs:// or az:// (default: AWS_ENDPOINT_URL_S3, the profile, AWS; Google; Azure)",
           set_text<&remote::ObjectOptions::endpoint>},
    Option{"account=NAME", "the storage account of az:// (default: AZURE_STORAGE_ACCOUNT)",
           set_text<&remote::ObjectOptions::account>},
    Option{"credential_process=COMMAND",
           "a program that prints keys for s3://, a token for gs:// or a signature for az://",
           set_text<&remote::ObjectOptions::credential_process>},
    Option{"region=NAME", "of the bucket (default: AWS_REGION, the profile, what the server says)",
           set_text<&remote::ObjectOptions::region>},
    Option{
        "addressing=HOW",
        "where s3:// requests name the bucket: path, virtual (in the name of the host), or auto (default): path with "
        "endpoint=, else virtual",
        [](MountArguments& arguments, const Given& given) -> Result<> {
          using enum remote::Addressing;
          const std::string& value = given.value;
          if (value != "auto" && value != "path" && value != "virtual")
            return fail(EINVAL, "-o {}: auto, path or virtual", given.text);
          arguments.options.sources.objects.addressing = value == "path" ? path : value == "auto" ? automatic : host;
          return {};
        }},
    Option{"profile=NAME", "of ~/.aws, with the keys of s3:// (default: AWS_PROFILE, default)",
           set_text<&remote::ObjectOptions::profile>},
    Option{"ca_file=FILE",
           "certificates (PEM) that https trusts (default: AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE)",
           [](MountArguments& arguments, const Given& given) {
             return set_path(arguments.options.sources.objects.ca_file, given, "file");
           }},
    Option{"token_file=FILE", "the token that the server of https:// wants (Authorization: Bearer)",
           [](MountArguments& arguments, const Given& given) {
             return set_path(arguments.options.sources.objects.token_file, given, "file");
           }},
    Option{"header_file=FILE", "headers that the server of https:// wants, as lines NAME: VALUE",
           [](MountArguments& arguments, const Given& given) {
             return set_path(arguments.options.sources.objects.header_file, given, "file");
           }},
    Option{"credential_url=URL", "where keys of s3:// come from, as the s3credentials of NASA's archives",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             std::string& url = arguments.options.sources.objects.credential_url;
             CODECFS_TRY(set_text<&remote::ObjectOptions::credential_url>(arguments, given));
             if (!url.starts_with("https://") && !url.starts_with("http://"))
               return fail(EINVAL, "-o {}: a URL, https://HOST/PATH", given.text);
             return {};
           }},
    Option{"absent=403", "an object that may not be read is absent, as S3 answers without the right to list the bucket",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             if (given.value != "403") return fail(EINVAL, "-o {}: only 403 can mean that", given.text);
             arguments.options.sources.objects.absent_403 = true;
             return {};
           }},
    Option{"connections=N", "requests to an object store at a time, 1 to 1024 (default 64)",
           set_number<&remote::ObjectOptions::connections, 1024>},
    Option{"cache_dir=DIR", "keep what is read of chunks and files in object stores in this directory",
           [](MountArguments& arguments, const Given& given) {
             return set_path(arguments.options.sources.objects.cache_directory, given, "directory");
           }},
    Option{"cache_size=SIZE", "of this directory, at most (default 10G)",
           set_size<&remote::ObjectOptions::cache_bytes>},
    Option{"retry=SECONDS", "how long failed requests are repeated, 1 to 3600 (default 45)",
           set_number<&remote::ObjectOptions::retry_time, 3600>},
    Option{"log=FILE", "append messages to FILE (default: syslog; with -f stderr)",
           [](MountArguments& arguments, const Given& given) {
             return set_path(arguments.options.log_file, given, "file");
           }},
    Option{"loglevel=LEVEL", "least that is logged: debug, info (default), warning or error",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             const std::optional<log::Level> level = log::level_named(given.value);
             if (!level) return fail(EINVAL, "-o {}: debug, info, warning or error", given.text);
             arguments.options.log_level = *level;
             return {};
           }},
    Option{"create=FORMAT", "create an empty SOURCE if it does not exist: hdf5, zarr, zarr3, zip or nczarr",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             const std::vector<std::string_view> formats = formats_of_new_sources();
             if (std::ranges::find(formats, given.value) == formats.end())
               return fail(EINVAL, "-o {}: is none of {}", given.text, fmt::join(formats, ", "));
             arguments.options.create = given.value;
             return {};
           }},
    Option{"view=NAME",
           "show this view of .codecfs/view in the mount point: decoded (default), encoded, decoded3, encoded3, npy "
           "or raw; netcdf: decoded, with what ncdump, NCO, CDO and R read of it, read-only",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             const bool is_netcdf = given.value == "netcdf";
             const std::optional<fs::View> view = is_netcdf ? fs::View::decoded : fs::view_named(given.value);
             if (!view) return fail(EINVAL, "-o {}: there are the views {}, and netcdf", given.text, fs::view_names());
             arguments.options.adaptation.suits_netcdf = is_netcdf;
             arguments.options.view = *view;
             return {};
           }},
    Option{"strings=vlen|fixed|bytes",
           "strings as they are (default), of fixed length, or as arrays of bytes: for netCDF-C; read-only",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             using enum StringForm;
             const std::string& value = given.value;
             if (value != "vlen" && value != "fixed" && value != "bytes")
               return fail(EINVAL, "-o {}: vlen, fixed or bytes", given.text);
             arguments.options.adaptation.strings = value == "vlen" ? vlen : value == "fixed" ? fixed : bytes;
             return {};
           }},
    Option{"chunks=stored|clamped",
           "chunks as they are (default), or no longer than the array: for netCDF-C; read-only",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             CODECFS_ASSIGN(const bool is_stored, is_first(given, "stored", "clamped"));
             arguments.options.adaptation.clamps_chunks = !is_stored;
             return {};
           }},
    Option{"filter=VARS,SPEC", "the same as -F; its commas are written \\, or the value in \"double quotes\"",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             arguments.filters.rules.push_back({"-o filter", given.value});
             return {};
           }},
    Option{"plugin_path=DIR:...", "directories of filter plugins, searched before those of HDF5_PLUGIN_PATH",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             arguments.filters.plugin_path += ":" + given.value;
             return {};
           }},
    Option{"plugins=off", "load no plugins; built-in filters stay",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             if (given.value != "on" && given.value != "off") return fail(EINVAL, "-o {}: on or off", given.text);
             arguments.filters.plugins = given.value == "on";
             return {};
           }},
    Option{"builtin=off[:NAME...]", "use plugins instead of all built-in filters, or of these (names or ids)",
           set_builtin},

    Option{"ro", "read-only; so is the mount of a source that cannot be written",
           set_bool<&mount::Options::read_only, true>},
    Option{"rw", "", set_bool<&mount::Options::read_only, false>},
    Option{"mkdir", "create MOUNTPOINT if it does not exist, and remove it at the unmount",
           set_flag<&mount::Options::make_mountpoint>},
    Option{"nonempty", "mount on a directory that is not empty, or on another codecfs mount",
           set_flag<&mount::Options::nonempty>},
    Option{"nodelete", "variables and groups cannot be removed (EPERM)", set_flag<&mount::Options::nodelete>},
    Option{"anon", "s3://, gs:// or az:// without credentials, for public buckets",
           set_flag<&remote::ObjectOptions::anonymous>},
    Option{"path_style", "the same as addressing=path",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             if (given.text.contains('=')) return refuse_unknown(given);
             arguments.options.sources.objects.addressing = remote::Addressing::path;
             return {};
           }},
    Option{"requester_pays", "agree to pay for requests to buckets that want that",
           set_flag<&remote::ObjectOptions::requester_pays>},
    Option{"coherent", "show changes by other programs in a Zarr directory within a second (not: URLs)",
           set_flag<&mount::Options::coherent>},
    Option{"stock-filters", "HDF5: store with deflate what would need a plugin of h5py and ncdump",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             if (given.text.contains('=')) return refuse_unknown(given);
             arguments.filters.stock = true;
             return {};
           }},
    Option{"portable", "view encoded3: only codecs that every reader of Zarr v3 has",
           set_flag<&mount::Options::portable>},
    Option{"allow_other, allow_root", "let other users access the mount (they need the source's permissions)",
           pass_to_libfuse},
    Option{"auto_unmount", "unmount when the daemon dies", pass_to_libfuse},
    Option{"debug", "log every request; implies -f and loglevel=debug",
           [](MountArguments& arguments, const Given& given) -> Result<> {
             CODECFS_TRY(set_flag<&mount::Options::debug>(arguments, given));
             arguments.options.foreground = true;
             arguments.options.log_level = log::Level::debug;
             return {};
           }},
    Option{"nofail", "if SOURCE does not exist, do nothing and report success",
           set_bool<&MountArguments::may_be_missing, true>},
    Option{"exec, noexec, atime, noatime, diratime, nodiratime, relatime, norelatime, default_permissions, sync, "
           "dirsync",
           "", pass_to_libfuse},
    // They do not concern a filesystem, or codecfs always behaves so.
    Option{
        "defaults, auto, noauto, user, nouser, users, owner, group, _netdev, nodev, nosuid, suid, dev, silent, loud, "
        "async, mand, nomand, noiversion",
        "", ignore},
};

/// "a, b" has the names a and b; "a=VALUE" has a.
std::vector<std::string_view> names_of(const Option& option) {
  std::vector<std::string_view> names;
  for (std::string_view rest = option.form.substr(0, option.form.find('=')); !rest.empty();) {
    const size_t end = std::min(rest.find(", "), rest.size());
    names.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return names;
}

std::string_view name_of(const Given& given) { return std::string_view(given.text).substr(0, given.text.find('=')); }

Result<> refuse_unknown(const Given& given) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions)
    for (const std::string_view name : names_of(option)) names.push_back(name);
  return fail(EINVAL, "unknown mount option: {} (codecfs --help lists them){}", given.text,
              did_you_mean(name_of(given), names));
}

Result<> apply_option(MountArguments& arguments, const std::string& text) {
  const size_t equals = text.find('=');
  const Given given{text, equals == text.npos ? "" : text.substr(equals + 1)};
  for (const Option& option : kOptions) {
    if (std::ranges::count(names_of(option), name_of(given)) == 0) continue;
    if (option.form.contains('=') && equals == text.npos)
      return fail(EINVAL, "-o {}: needs a value: {}", text, option.form);
    return option.set(arguments, given);
  }
  if (text.starts_with("x-") || name_of(given) == "comment") return {};  // for other programs that read fstab
  return refuse_unknown(given);
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
  Adaptation& adaptation = arguments.options.adaptation;
  if (adaptation.suits_netcdf) {
    adaptation.clamps_chunks = true;
    if (adaptation.strings == StringForm::vlen) adaptation.strings = StringForm::bytes;
  }
  if (arguments.options.coherent && adaptation.is_any())
    return fail(EINVAL,
                "-o coherent: not with view=netcdf, strings= or chunks=, which show the source as it was when first "
                "read");
  if (arguments.options.coherent && is_source_url(arguments.options.source))
    return fail(EINVAL,
                "-o coherent: not for {}: each look at an object would be a request. Without it, chunks that this "
                "mount writes and lists follow other programs; mount again to see other metadata",
                shown_source(arguments.options.source));
  return {};
}

std::string mount_options_help() {
  std::string text = "Options of -o (separated by commas):\n";
  for (const Option& option : kOptions)
    if (!option.help.empty()) text += fmt::format("  {:<27} {}\n", option.form, option.help);
  text +=
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

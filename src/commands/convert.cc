#include "commands/convert.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "backends/api/adapted_source.h"
#include "backends/api/file_names.h"
#include "backends/api/newer_format.h"
#include "backends/api/source_copy.h"
#include "backends/open/source_opener.h"
#include "base/ascii.h"
#include "base/closest_name.h"
#include "base/file_io.h"
#include "base/progress_reporter.h"
#include "commands/changed_variables.h"
#include "commands/conversion.h"
#include "commands/convert_file.h"
#include "commands/convert_objects.h"
#include "commands/convert_target.h"
#include "commands/copy_access.h"
#include "commands/dataset_info.h"
#include "commands/netcdf_booleans.h"
#include "commands/noted_fills.h"
#include "commands/noted_types.h"
#include "commands/omissions.h"
#include "commands/partial.h"
#include "commands/sized_frames.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "filters/core/stock_filters.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr std::array<std::string_view, 5> kFormats{"hdf5", "zarr", "zarr3", "zip", "nczarr"};

/// What has to be the same when an interrupted conversion is resumed.
Json identity_of(const Source& source, const std::string& name, const ConvertOptions& options) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(name.c_str(), nullptr), &std::free);
  const struct stat& status = source.status();
  return {{"source", real ? real.get() : name},
          {"bytes", status.st_size},
          {"modified", fmt::format("{}.{:09}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec)},
          {"format", name_of(options.format)},
          {"filters", options.rules_text},
          {"skip", options.skip},
          {"skip_unsupported", options.skip_unsupported},
          {"portable", options.portable},
          {"libver", options.libver}};
}

/// Whether a new `path` would be in `directory`, or in a directory of it.
bool is_below(const std::string& path, const std::string& directory) {
  std::error_code error;
  const auto parent = std::filesystem::canonical(split_path(path).first, error);
  const auto top = std::filesystem::canonical(directory, error);
  return !error && std::ranges::mismatch(top, parent).in1 == top.end();
}

bool has_shards(const DatasetInfo& info) {
  return std::ranges::any_of(info.nodes, [](const InfoNode& node) {
    return node.variable && node.variable->facts && node.variable->facts->shards;
  });
}

/// The view through which the files go. Both sides have the same.
fs::View view_for(DatasetFormat format, const Source& source, const DatasetInfo& info) {
  if (format == DatasetFormat::zarr3) return fs::View::encoded3;
  // HDF5 has no shards, but takes v3's gzip.
  if (format == DatasetFormat::hdf5 && source.is_zarr3() && !has_shards(info)) return fs::View::encoded3;
  return fs::View::encoded;
}

/// The chunk files that will be copied.
uint64_t count_files(const DatasetInfo& info, bool as_shards) {
  uint64_t count = 0;
  for (const InfoNode& node : info.nodes) {
    if (!node.variable || !node.variable->facts) continue;
    if (as_shards && node.variable->facts->shards)
      count += node.variable->facts->shards->grid.count();
    else
      count += node.variable->stored_chunks;
  }
  return count;
}

}  // namespace

std::optional<DatasetFormat> format_named(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name);
  if (found == kFormats.end()) return std::nullopt;
  return static_cast<DatasetFormat>(found - kFormats.begin());
}

std::string_view name_of(DatasetFormat format) { return kFormats[static_cast<size_t>(format)]; }

namespace {

/// Names of files of other formats: a Zarr directory of such a name would be a mistake.
struct OtherEnding {
  std::string_view ending;
  const char* what;
};
constexpr OtherEnding kOtherEndings[] = {
    {".cdf", "a .cdf file is netCDF-3 or NASA's CDF, which codecfs does not write"},
    {".nc3", "a .nc3 file is netCDF-3, which codecfs does not write"},
    {".mat",
     "MATLAB loads a .mat file only if it has MATLAB's own header and attributes, which codecfs does not write"},
    {".h4", "a .h4 file is HDF4, which codecfs does not write"},
    {".hdf4", "a .hdf4 file is HDF4, which codecfs does not write"},
    {".n5", "codecfs does not write N5"},
    {".npy", "codecfs does not write .npy files; the view npy of a mount has them"},
    {".npz", "codecfs does not write .npz files; the view npy of a mount has .npy files"},
    {".grib", "codecfs does not write GRIB"},
    {".tif", "codecfs does not write TIFF"},
    {".tiff", "codecfs does not write TIFF"},
    {".parquet", "codecfs convert does not write Parquet; codecfs refs does"},
};

bool is_zip_name(const std::string& name) { return name.ends_with(".zip") || name.ends_with(".ZIP"); }

}  // namespace

Result<DatasetFormat> format_for(const std::string& destination, const Source& source) {
  const std::string name = lower_case(split_path(destination).second);
  if (has_hdf5_name(name) || name.ends_with(".hdf")) return DatasetFormat::hdf5;
  if (is_zip_name(name)) return DatasetFormat::zip;
  for (const OtherEnding& other : kOtherEndings)
    if (name.ends_with(other.ending))
      return fail(EINVAL, "{}: {}; --format chooses hdf5, zarr, zarr3, zip or nczarr for this name", destination,
                  other.what);
  return source.is_zarr3() ? DatasetFormat::zarr3 : DatasetFormat::zarr;
}

namespace {

/// Normalises the paths. EINVAL if the source has no object at one of them, and none of which it can be an attribute
/// (OBJECT@NAME), where those can be skipped.
Result<> check_skips(std::vector<std::string>& skip, const DatasetInfo& info, bool skips_attributes) {
  const auto is_object = [&](const std::string& path) {
    return std::ranges::any_of(info.nodes, [&](const InfoNode& node) { return "/" + node.path == path; });
  };
  for (std::string& skipped : skip) {
    const std::string path = "/" + normal_path(skipped);
    if (path != "/" && is_object(path)) {
      skipped = path;
      continue;
    }
    bool is_attribute = false;
    for (size_t at = skipped.find('@'); skips_attributes && at != std::string::npos && !is_attribute;
         at = skipped.find('@', at + 1)) {
      const std::string object = "/" + normal_path(skipped.substr(0, at));
      is_attribute = is_object(object);
      if (is_attribute) skipped.replace(0, at, object);
    }
    if (is_attribute) continue;
    std::vector<std::string> paths;
    for (const InfoNode& node : info.nodes) paths.push_back("/" + node.path);
    return fail(EINVAL, "--skip {}: not in {}{}", path, info.source,
                did_you_mean(path, std::vector<std::string_view>(paths.begin(), paths.end())));
  }
  return {};
}

/// ENAMETOOLONG for the first node whose files in a new directory could not be opened by their paths.
Result<> check_path_lengths(const DatasetInfo& info, const std::vector<std::string>& skip,
                            const std::string& destination) {
  constexpr size_t kMetadata = std::string_view("zarr.json").size();  // the longest name
  constexpr size_t kChunkPrefix = std::string_view("c/").size();
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(destination, error);
  const size_t above = (error ? destination : absolute.string()).size();
  for (const InfoNode& node : info.nodes) {
    const auto covers = [&](const std::string& top) { return is_within("/" + node.path, top); };
    if (std::ranges::any_of(skip, covers)) continue;
    size_t name = kMetadata;
    if (node.variable && node.variable->facts && node.variable->facts->grid.count() > 0) {
      const ChunkGrid& grid = node.variable->facts->grid;
      name = std::max(name, kChunkPrefix + grid.name_of(grid.count() - 1).size());
    }
    const size_t bytes = above + 1 + node.path.size() + 1 + name;
    if (bytes >= PATH_MAX)
      return fail(ENAMETOOLONG,
                  "/{}: its files would have paths of {} bytes, and the system opens none of more than {}; write a zip "
                  "archive or an HDF5 file, or leave it out with --skip",
                  node.path, bytes, PATH_MAX - 1);
  }
  return {};
}

/// EINVAL for a rule that names a variable and cannot give it its filters.
Result<> check_rules(TreeFiles& from, fs::View view, const DatasetInfo& info, const Omissions& omissions,
                     std::vector<std::string>& warnings) {
  fs::MountRules& rules = from.filesystem().rules();
  CODECFS_TRY(rules.check(fs::MountRules::Unknown::is_refused));
  if (from.filesystem().context().options.rules.empty()) return {};
  std::string first;
  size_t count = 0;
  for (const InfoNode& node : info.nodes) {
    const std::string path = node.path.empty() ? "" : "/" + node.path;
    if (!node.variable || !node.variable->facts || omissions.covers("/" + node.path)) continue;
    const Result<> ruled = from.filesystem().forms().check_ruled(view, path, *node.variable->facts);
    if (ruled) continue;
    const std::string& reason = ruled.error().reason;
    if (ruled.error().code == EINVAL || rules.have_name_of(path))
      return fail(EINVAL, "filter rule {}: {}", rules.texts_for(path), reason);
    if (count++ == 0) first = reason;
  }
  if (count > 0)
    warnings.push_back(fmt::format("{} not given the filters of the rule for all variables: {}{}",
                                   count == 1 ? "1 variable is" : fmt::format("{} variables are", count),
                                   count == 1 ? "" : "the first is ", first));
  return {};
}

/// Warns of variables with filters that have no codec in Zarr.
void tell_what_stays(TreeFiles& from, fs::View view, const DatasetInfo& info, const Omissions& omissions,
                     std::vector<std::string>& warnings) {
  std::string first;
  size_t count = 0;
  for (const InfoNode& node : info.nodes) {
    const std::string path = node.path.empty() ? "" : "/" + node.path;
    if (!node.variable || !node.variable->facts || omissions.covers("/" + node.path)) continue;
    const Variable& facts = *node.variable->facts;
    if (facts.shards || from.filesystem().rules().pipeline_for(path, facts)) continue;
    const Result<> crosses = from.filesystem().forms().check_crossing(view, path, facts, facts.filters);
    if (!crosses && count++ == 0) first = crosses.error().reason;
  }
  if (count > 0)
    warnings.push_back(fmt::format("{} stored without filters: {}{}; -F gives others",
                                   count == 1 ? "1 variable is" : fmt::format("{} variables are", count),
                                   count == 1 ? "" : "the first is ", first));
}

/// Adds to the warnings: `count` variables `are` so, with the first reason.
void warn_of(size_t count, const char* are, const std::string& first, std::vector<std::string>& warnings) {
  if (count == 0) return;
  warnings.push_back(fmt::format("{} {}: {}{}", count == 1 ? "1 variable is" : fmt::format("{} variables are", count),
                                 are, count == 1 ? "" : "the first is ", first));
}

/// Warns of what a new HDF5 file lacks: codecs without a filter, and names of some dimensions only; and of filters for
/// which other programs need a plugin.
void tell_what_hdf5_lacks(TreeFiles& from, fs::View view, const DatasetInfo& info, const Omissions& omissions,
                          std::vector<std::string>& warnings) {
  std::string first_codec;
  std::string first_name;
  size_t with_codec = 0;
  size_t with_names = 0;
  std::string first_plugin;
  size_t with_plugin = 0;
  for (const InfoNode& node : info.nodes) {
    const std::string path = node.path.empty() ? "" : "/" + node.path;
    if (!node.variable || !node.variable->facts || omissions.covers("/" + node.path)) continue;
    const Variable& facts = *node.variable->facts;
    const std::string shown = path.empty() ? "/" : path;
    const std::optional<OptionalNames> names = all_names_of(facts);
    if (names && has_unnamed(*names) && with_names++ == 0) first_name = shown;
    const auto ruled = from.filesystem().rules().pipeline_for(path, facts);
    const std::string plugins = filters::plugins_needed(ruled ? *ruled : facts.filters);
    if (facts.grid.rank() > 0 && !plugins.empty() && with_plugin++ == 0)
      first_plugin = fmt::format("{} with {}", shown, plugins);
    if (ruled) continue;
    const Result<> whole = from.filesystem().forms().check_for_hdf5(view, shown, facts);
    if (!whole && with_codec++ == 0) first_codec = whole.error().reason;
  }
  warn_of(with_codec, "stored without codecs that HDF5 has no filter for", first_codec + "; -F gives other filters",
          warnings);
  warn_of(with_plugin,
          "stored with filters for which other programs need a plugin of HDF5 (h5py: `import hdf5plugin`; ncdump: "
          "HDF5_PLUGIN_PATH; or convert with --stock-filters)",
          first_plugin, warnings);
  warn_of(with_names, "stored without names of dimensions, as some have none", first_name, warnings);
}

/// The names of dimensions that are not generated.
std::set<std::string> real_dimensions(const DatasetInfo& info) {
  std::set<std::string> names;
  for (const InfoNode& node : info.nodes) {
    if (!node.variable || !node.variable->facts || !node.variable->facts->dimensions) continue;
    const Variable& facts = *node.variable->facts;
    for (const std::optional<std::string>& name : named_dimensions(*facts.dimensions, facts.attributes))
      if (name) names.insert(*name);
  }
  return names;
}

/// A target for the files of this view, and whether it has some of an interrupted conversion.
using MakeTarget = std::function<Result<ConvertTarget*>(fs::View view)>;

/// What is done so that netCDF-C reads a new HDF5 file.
struct ForNetcdf {
  bool is_netcdf = false;            // becomes_netcdf()
  bool numbers_booleans = false;     // its name says so: h5py's users keep booleans in a .h5 file with dimensions
  std::vector<InfoNode> lost_links;  // what follow_links() could not follow
};

Result<Converted> convert_tree(std::unique_ptr<Source> source, const DatasetInfo& info, ConvertOptions options,
                               bool resumed, const ForNetcdf& netcdf, const MakeTarget& make_target) {
  Omissions omissions(options);
  omissions.add_found(info, false);
  for (const InfoNode& link : netcdf.lost_links)
    omissions.add("/" + link.path,
                  Error{EOPNOTSUPP, link.entry.kind == EntryKind::symlink
                                        ? fmt::format("a link to \"{}\", which is no group or array here: netCDF could "
                                                      "not open a file with it",
                                                      link.entry.target)
                                        : "a group that a link shows in itself: netCDF could not open a file with it"},
                  true);
  CODECFS_TRY(omissions.add_attributes(*source, info));
  std::vector<std::string> warnings;
  omissions.add_unreadable_sources(*source, info, warnings);
  if (options.format == DatasetFormat::hdf5) omissions.add_unequal_dimensions(info);
  ProgressReporter progress(fmt::format("converting {}", info.source), ProgressReporter::Unit::chunks);
  progress.expect(count_files(info, options.format == DatasetFormat::zarr3));
  const fs::View view = view_for(options.format, *source, info);
  const bool is_of_zarr = options.format != DatasetFormat::hdf5 && options.format != DatasetFormat::nczarr;
  const bool is_of_zarr2 = options.format != DatasetFormat::hdf5 && options.format != DatasetFormat::zarr3;
  const bool is_from_zarr = info.format.starts_with("Zarr");
  if (is_of_zarr && !is_from_zarr)
    source = std::make_unique<NotedTypes>(std::move(source), options.format != DatasetFormat::zarr3);
  if (options.format == DatasetFormat::zarr3 && is_from_zarr && !source->is_zarr3())
    source = std::make_unique<ChangedVariables>(std::move(source), take_fill);
  if (is_of_zarr2 && source->is_zarr3()) source = std::make_unique<SizedFrames>(std::move(source));
  if (netcdf.is_netcdf)
    source = std::make_unique<ChangedVariables>(std::move(source),
                                                netcdf.numbers_booleans ? number_booleans : mark_booleans);
  if (options.format == DatasetFormat::nczarr)
    source = std::make_unique<ChangedVariables>(std::move(source), number_booleans_for_nczarr);
  // Programs of netCDF skip a variable with the type that h5py has for these.
  if (netcdf.is_netcdf) source = adapt_source(std::move(source), {.strings = StringForm::utf8});
  // Readers of a group find its members in the consolidated metadata of the root. One for each group would be quadratic
  // in the depth.
  TreeFiles from(std::move(source), {.rules = std::move(options.rules),
                                     .view = view,
                                     .consolidates_groups = false,
                                     .portable = options.portable,
                                     .for_netcdf = options.format == DatasetFormat::nczarr,
                                     .for_hdf5 = options.format == DatasetFormat::hdf5,
                                     .tells_types = options.format == DatasetFormat::hdf5,
                                     .real_dimensions = real_dimensions(info),
                                     .shows_fill_of_big_endian = options.format == DatasetFormat::nczarr});
  CODECFS_TRY(check_rules(from, view, info, omissions, warnings));
  if (options.format == DatasetFormat::hdf5)
    tell_what_hdf5_lacks(from, view, info, omissions, warnings);
  else if (!options.portable)
    tell_what_stays(from, view, info, omissions, warnings);
  std::optional<NczarrLayout> nczarr;
  if (options.format == DatasetFormat::nczarr) {
    CODECFS_ASSIGN(nczarr, NczarrLayout::make(from.filesystem().context().dataset.source(), info, omissions));
  }
  const bool is_hopeless = omissions.fails();
  const bool may_refuse = options.format == DatasetFormat::hdf5 || options.format == DatasetFormat::zip;
  const std::unique_ptr<ConvertTarget> none = make_checking_target();
  ConvertTarget* target = none.get();
  if (!is_hopeless || may_refuse) {
    CODECFS_ASSIGN(target, make_target(view));
  }
  Result<Converted> done =
      Conversion(from, *target, resumed, info, omissions, progress, nczarr ? &*nczarr : nullptr, netcdf.is_netcdf)
          .run();
  if (!done && !target->keeps_parts()) return done;
  const Result<> finished = target->finish();  // what was done so far is kept after an error, too
  if (!done && is_hopeless && !resumed) return fail(EINVAL, "{}", done.error().reason);  // nothing is worth keeping
  if (!done) return done;
  CODECFS_TRY(finished);
  omissions.warn_of_links(info, warnings);
  omissions.tell_allowed();
  done->warnings.insert(done->warnings.begin(), warnings.begin(), warnings.end());
  return done;
}

bool is_name_of_netcdf_file(const std::string& name) { return name.ends_with(".nc") || name.ends_with(".nc4"); }

/// Whether a new HDF5 file is netCDF: its source names dimensions or is of netCDF, or its name says so.
bool becomes_netcdf(Source& source, const DatasetInfo& info, const std::string& destination) {
  if (is_name_of_netcdf_file(destination) || !real_dimensions(info).empty()) return true;
  return std::ranges::any_of(info.nodes, [&](const InfoNode& node) {
    if (node.variable && node.variable->facts && node.variable->facts->dimension_paths) return true;
    if (node.entry.kind != EntryKind::group || node.error) return false;
    const auto defined = source.dimensions(node.entry.object);
    return defined && !defined->empty();
  });
}

/// Shows what links lead to in their place, as netCDF-C follows the links of a file when it opens it, and fails at many
/// of them. Changes `info`, and returns the links that lead to nothing that can be copied.
Result<std::vector<InfoNode>> follow_links(Source& source, const std::string& name, DatasetInfo& info) {
  std::vector<InfoNode> lost;
  for (const InfoNode& node : info.nodes)
    if (node.entry.kind == EntryKind::symlink) lost.push_back(node);
  if (lost.empty()) return lost;
  source.show_links(false);
  CODECFS_ASSIGN(info, read_info(source, name));
  std::set<std::string> paths;
  for (const InfoNode& node : info.nodes) paths.insert(node.path);
  const std::vector<InfoNode> links = lost;
  std::erase_if(lost, [&](const InfoNode& link) { return paths.contains(link.path); });
  // A group that is in itself by way of a link is listed there, but not found.
  std::vector<InfoNode> cycles;
  for (const InfoNode& node : info.nodes) {
    const auto is_above = [&](const InfoNode& other) { return is_within(node.path, other.path); };
    if (node.entry.kind != EntryKind::group || std::ranges::none_of(links, is_above) ||
        std::ranges::any_of(cycles, is_above))
      continue;
    const Result<Entry> found = find_path(source, node.path);
    if (!found && found.error().code == ENOENT) cycles.push_back(node);
  }
  std::erase_if(info.nodes, [&](const InfoNode& node) {
    return std::ranges::any_of(cycles, [&](const InfoNode& cycle) { return is_within(node.path, cycle.path); });
  });
  std::ranges::move(cycles, std::back_inserter(lost));
  return lost;
}

Result<Converted> convert_into(Partial& partial, std::unique_ptr<Source> source, const std::string& name,
                               const std::string& destination, ConvertOptions options) {
  const DatasetFormat format = options.format;
  CODECFS_ASSIGN(DatasetInfo info, read_info(*source, name));
  const bool is_file_copy = format == DatasetFormat::hdf5 && !info.format.starts_with("Zarr");
  ForNetcdf netcdf;
  if (format == DatasetFormat::hdf5 && !is_file_copy && becomes_netcdf(*source, info, destination)) {
    netcdf = {.is_netcdf = true, .numbers_booleans = is_name_of_netcdf_file(destination), .lost_links = {}};
    CODECFS_ASSIGN(netcdf.lost_links, follow_links(*source, name, info));
  }
  CODECFS_TRY(check_skips(options.skip, info, !is_file_copy));
  if (is_file_copy) return convert_file(partial, std::move(source), info, std::move(options));
  const bool is_directory = format != DatasetFormat::hdf5 && format != DatasetFormat::zip && !is_zip_name(destination);
  if (is_directory) CODECFS_TRY(check_path_lengths(info, options.skip, partial.path()));
  const bool resumed = is_there(partial.path());
  const bool is_array = source->root().kind == EntryKind::variable;
  const bool is_zip = is_zip_name(destination);
  // netCDF-C gives the top folder of an archive the archive's name.
  const std::string top = std::filesystem::path(destination).stem().string();
  std::optional<TreeFiles> tree;
  std::unique_ptr<ConvertTarget> target;
  const SourceOpener opener = options.opener;
  return convert_tree(
      std::move(source), info, std::move(options), resumed, netcdf, [&](fs::View view) -> Result<ConvertTarget*> {
        if (format == DatasetFormat::nczarr && is_zip) {
          CODECFS_ASSIGN(target, make_zip_target(partial.path(), top));
          return target.get();
        }
        if (format == DatasetFormat::zip && is_array) {  // a new archive would have a group as its root
          CODECFS_ASSIGN(target, make_zip_target(partial.path(), ""));
          return target.get();
        }
        if (format != DatasetFormat::hdf5 && format != DatasetFormat::zip) {
          if (!resumed && mkdir(partial.path().c_str(), 0700) != 0) return fail_errno(errno, "{}", partial.path());
          CODECFS_ASSIGN(target, make_directory_target(partial.path(), partial.is_of_this_boot()));
          return target.get();
        }
        if (!resumed) CODECFS_TRY(opener.create(partial.path(), name_of(format), netcdf.is_netcdf));
        if (!resumed && chmod(partial.path().c_str(), 0600) != 0) return fail_errno(errno, "{}", partial.path());
        CODECFS_ASSIGN(std::unique_ptr<Source> made, opener.open(partial.path(), true));
        CODECFS_TRY(made->writable());
        // What an interruption loses is made again by --resume.
        CODECFS_TRY(made->change_in_bulk());
        tree.emplace(std::move(made), fs::FilesystemOptions{.read_only = false, .view = view, .new_are_fixed = true});
        target = make_tree_target(*tree);
        return target.get();
      });
}

/// Another attempt would fail in the same way.
bool is_lasting(int code) {
  constexpr std::array kCodes{EINVAL, EOPNOTSUPP, kNewerFormat, ESTALE, ENAMETOOLONG, EFBIG};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

/// The user knows what to do before another attempt.
bool is_temporary(int code) {
  constexpr std::array kCodes{ECANCELED, ENOSPC, EDQUOT, ENOMEM, EBUSY, EINTR};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

/// Into an object store: below the key of the new store itself.
Result<Converted> convert_to_url(std::unique_ptr<Source> source, const std::string& name,
                                 const std::string& destination, ConvertOptions options) {
  const std::string shown = shown_source(destination);
  if (options.format == DatasetFormat::hdf5 || options.format == DatasetFormat::zip || is_zip_name(destination))
    return fail(EINVAL, "{}: only Zarr can be written to object stores, with --format zarr, zarr3 or nczarr", shown);
  const Json identity = identity_of(*source, shown_source(name), options);
  CODECFS_ASSIGN(const DatasetInfo info, read_info(*source, shown_source(name)));
  CODECFS_TRY(check_skips(options.skip, info, true));
  CODECFS_ASSIGN(ObjectPlace place, options.opener.place_to_write(destination));
  CODECFS_ASSIGN(const auto target,
                 ObjectTarget::begin(std::move(place.client), place.key, shown, identity, options.resume));
  auto done = convert_tree(std::move(source), info, std::move(options), target->is_resumed(), {},
                           [&](fs::View) -> Result<ConvertTarget*> { return target.get(); });
  if (done) {
    CODECFS_TRY(target->complete());
    return done;
  }
  const Error& error = done.error();
  if (is_lasting(error.code)) {
    target->discard();
    return done;
  }
  return fail(error.code, "{}; what was done so far is below {}: {}--resume goes on with it", error.reason, shown,
              is_temporary(error.code) ? "" : "if the error does not last, ");
}

}  // namespace

Result<Converted> convert(std::unique_ptr<Source> source, const std::string& name, const std::string& destination,
                          ConvertOptions options) {
  if (options.format == DatasetFormat::hdf5) source->show_links(true);
  if (source->root().kind == EntryKind::folder)
    return fail(
        EINVAL,
        "{}: is a folder of datasets; convert each of them. A Zarr store has .zgroup, .zarray or zarr.json at its "
        "top: if its .zgroup is lost, make it anew with the text {{\"zarr_format\": 2}}",
        name);
  if (is_source_url(destination)) return convert_to_url(std::move(source), name, destination, std::move(options));
  if (is_below(destination, name)) return fail(EINVAL, "{}: is in the source itself", destination);
  CODECFS_ASSIGN(Partial partial, Partial::begin(destination, identity_of(*source, name, options), options.resume));
  const Result<CopyUmask> umask = CopyUmask::of(name);
  if (!umask) {
    if (!is_there(partial.path())) partial.discard();
    return std::unexpected(umask.error());
  }
  Result<Converted> done = convert_into(partial, std::move(source), name, destination, std::move(options));
  if (done) {
    CODECFS_TRY(partial.finish(name));
    return done;
  }
  const Error& error = done.error();
  if (is_lasting(error.code) || !is_there(partial.path())) {
    partial.discard();
    return done;
  }
  if (is_temporary(error.code))
    return fail(error.code, "{}; what was done so far is in {}: --resume goes on with it", error.reason,
                partial.path());
  return fail(error.code,
              "{}; what was done so far is in {}: if the error does not last, --resume goes on with it; "
              "else remove: {}",
              error.reason, partial.path(), partial.leftovers());
}

}  // namespace codecfs::commands

#include "commands/convert.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

#include "backends/api/source_copy.h"
#include "base/file_io.h"
#include "base/progress_reporter.h"
#include "commands/convert_file.h"
#include "commands/convert_objects.h"
#include "commands/convert_target.h"
#include "commands/dataset_info.h"
#include "commands/partial.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr std::array<std::string_view, 4> kFormats{"hdf5", "zarr", "zarr3", "zip"};

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
          {"portable", options.portable}};
}

/// Whether a new `path` would be in `directory`, or in a directory of it.
bool is_below(const std::string& path, const std::string& directory) {
  std::error_code error;
  const auto parent = std::filesystem::canonical(split_path(path).first, error);
  const auto top = std::filesystem::canonical(directory, error);
  return !error && std::ranges::mismatch(top, parent).in1 == top.end();
}

class Conversion {
 public:
  Conversion(TreeFiles& from, ConvertTarget& to, bool resumed, const std::vector<std::string>& skip,
             ProgressReporter& progress)
      : from_(from), to_(to), resumed_(resumed), skip_(skip), progress_(progress) {}

  Result<Converted> run() {
    CODECFS_TRY(copy_directory(TreeFiles::root(), to_.root(), ""));
    CODECFS_TRY(copy_batch());
    warn_of_links();
    done_.chunks = chunks_;
    done_.bytes = bytes_;
    done_.present = present_;
    return std::move(done_);
  }

 private:
  using Directory = ConvertTarget::Directory;
  struct Chunk {
    TreeFiles::Ino from;
    Directory to;
    std::string name;
    std::string path;
  };

  struct LinksMade {
    uint64_t count = 0;
    std::string first;
    [[nodiscard]] std::string text() const {
      return count == 1 ? "the link " + first : fmt::format("{} links (the first is {})", count, first);
    }
  };

  /// Whether it is the content of the variable that fails, and not the disk.
  static bool is_of_variable(int code) { return code == EOPNOTSUPP || code == EIO; }

  static bool is_metadata(std::string_view name) { return name.starts_with(".z") || name == "zarr.json"; }

  Result<> copy_directory(TreeFiles::Ino from, const Directory& to, const std::string& path) {
    bool has_attributes = false;
    return from_.list(from, [&](const TreeFiles::Item& item) -> Result<> {
      if (interrupted) return fail(ECANCELED, "interrupted");
      const std::string item_path = path + "/" + item.name;
      if (is_skipped(item_path)) return {};
      if (item.type == S_IFLNK) return copy_link(from, to, item.name, item_path);
      if (item.type == S_IFDIR) {
        CODECFS_ASSIGN(const TreeFiles::Ino below, from_.find(from, item.name));
        CODECFS_ASSIGN(const Directory made, to_.make_directory(to, item.name));
        return copy_directory(below, made, item_path);
      }
      if (item.name == "_Filter" || item.name == "_Codecs") return {};
      if (item.name == ".zarray" && to_.consolidates()) {
        CODECFS_ASSIGN(has_attributes, copy_attributes_first(from, to, path));
      }
      if (item.name == ".zattrs" && has_attributes) return {};
      if (is_metadata(item.name)) return copy_metadata(from, to, item.name, item_path);
      chunks_waiting_.push_back({from, to, item.name, item_path});
      return chunks_waiting_.size() < kBatch ? Result<>() : copy_batch();
    });
  }

  /// Copies .zattrs before .zarray, so that the array is made with its attributes and dimensions: to set them later
  /// looks at all dimensions of an HDF5 file. Returns whether it was copied: there, and without a _FillValue, which
  /// would have to be compared with that of the array.
  Result<bool> copy_attributes_first(TreeFiles::Ino from, const Directory& to, const std::string& path) {
    constexpr const char* kAttributes = ".zattrs";
    const Result<TreeFiles::Ino> file = from_.find(from, kAttributes);
    if (!file && file.error().code == ENOENT) return false;
    if (!file) return std::unexpected(file.error());
    bool has_fill = false;
    CODECFS_TRY(from_.read(*file, [&](Bytes content) -> Result<> {
      const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
      has_fill = text.find(kFillAttribute) != text.npos;
      return {};
    }));
    if (has_fill) return false;
    CODECFS_TRY(copy_metadata(from, to, kAttributes, path + "/" + kAttributes));
    return true;
  }

  Result<> copy_metadata(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path) {
    if (name == ".zmetadata" && (to_.consolidates() || path != "/.zmetadata")) return {};
    CODECFS_ASSIGN(const TreeFiles::Ino file, from_.find(from, name));
    return from_.read(file, [&](Bytes content) -> Result<> {
      std::string shortened;
      if (!skip_.empty()) {
        const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
        const std::string directory = path.substr(0, path.size() - name.size());
        CODECFS_ASSIGN(shortened, without_skipped(text, name, directory));
        content = std::as_bytes(std::span(shortened));
      }
      const Result<> written = to_.write(to, name, content);
      if (written) return {};
      const bool is_for_filters = written.error().reason.find("no filter") != std::string::npos;
      return fail(written.error().code, "{}: {}{}", path, written.error().reason,
                  is_for_filters ? "; -F gives the variable other filters" : "");
    });
  }

  [[nodiscard]] bool is_skipped(std::string_view path) const {
    return std::ranges::any_of(skip_, [&](const std::string& skipped) { return is_within(path, skipped); });
  }

  /// A metadata file of `directory` ("/g/") without what it says about skipped members.
  [[nodiscard]] Result<std::string> without_skipped(std::string_view text, std::string_view name,
                                                    const std::string& directory) const {
    CODECFS_ASSIGN(Json json, parse_json(text));
    Json* members = &json;
    if (name == "zarr.json" && json.contains("consolidated_metadata")) {
      members = &json["consolidated_metadata"];
    } else if (name != ".zmetadata") {
      return std::string(text);
    }
    if (!members->contains("metadata") || !(*members)["metadata"].is_object()) return std::string(text);
    members = &(*members)["metadata"];
    for (auto member = members->begin(); member != members->end();)
      member = is_skipped(directory + member.key()) ? members->erase(member) : std::next(member);
    return print_json(json, 4) + "\n";
  }

  Result<> copy_link(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path) {
    CODECFS_ASSIGN(const TreeFiles::Ino link, from_.find(from, name));
    CODECFS_ASSIGN(const std::string target, from_.link_target(link));
    if (const Result<> made = to_.make_link(to, name, target); !made) {
      done_.warnings.push_back(fmt::format("{}: the link to {} was left out: {}", path, target, made.error().reason));
      return {};
    }
    LinksMade& links = target.starts_with(kExternalLink) ? external_links_ : links_;
    if (links.count++ == 0) links.first = fmt::format("{} -> {}", path, target);
    return {};
  }

  /// HDF5's links are part of the file; Zarr has none.
  void warn_of_links() {
    if (links_.count > 0)
      done_.warnings.push_back(fmt::format(
          "{} became symbolic links, which Zarr does not know: readers see what they lead to once more, and object "
          "stores do not keep them",
          links_.text()));
    if (external_links_.count > 0)
      done_.warnings.push_back(
          fmt::format("{} to other files became symbolic links that lead nowhere", external_links_.text()));
  }

  Result<> copy_batch() {
    CODECFS_TRY(in_parallel(
        chunks_waiting_.size(), [&](uint64_t i) { return copy_chunk(chunks_waiting_[i]); },
        std::max(from_.reads_at_once(), to_.files_at_once())));
    chunks_waiting_.clear();
    return {};
  }

  Result<> copy_chunk(const Chunk& chunk) {
    CODECFS_ASSIGN(const TreeFiles::Ino file, from_.find(chunk.from, chunk.name));
    progress_.add(1);
    if (resumed_) {
      CODECFS_ASSIGN(const uint64_t size, from_.size(file));
      CODECFS_ASSIGN(const bool is_done, to_.has(chunk.to, chunk.name, size));
      if (is_done) {
        ++present_;
        return {};
      }
    }
    const Result<> copied = [&]() -> Result<> {
      CODECFS_TRY(from_.check_shard(file));  // its bytes are not looked at
      return from_.read(file, [&](Bytes content) -> Result<> {
        bytes_ += content.size();
        return to_.write(chunk.to, chunk.name, content);
      });
    }();
    if (!copied)
      return fail(copied.error().code, "{}: {}{}", chunk.path, copied.error().reason,
                  is_of_variable(copied.error().code) ? "; --skip VAR leaves a variable out" : "");
    ++chunks_;
    return {};
  }

  static constexpr size_t kBatch = 1024;  // chunks

  TreeFiles& from_;
  ConvertTarget& to_;
  const bool resumed_;
  const std::vector<std::string>& skip_;
  ProgressReporter& progress_;
  std::vector<Chunk> chunks_waiting_;
  LinksMade links_;
  LinksMade external_links_;
  std::atomic<uint64_t> chunks_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> present_ = 0;
  Converted done_;
};

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

DatasetFormat format_for(const std::string& destination, const Source& source) {
  std::string name = split_path(destination).second;
  std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* ending : {".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4"})
    if (name.ends_with(ending)) return DatasetFormat::hdf5;
  if (name.ends_with(".zip")) return DatasetFormat::zip;
  return source.is_zarr3() ? DatasetFormat::zarr3 : DatasetFormat::zarr;
}

namespace {

/// Normalises the paths. EINVAL if the source has nothing at one of them.
Result<> check_skips(std::vector<std::string>& skip, const DatasetInfo& info) {
  for (std::string& skipped : skip) {
    skipped = "/" + normal_path(skipped);
    const auto is_it = [&](const InfoNode& node) { return !node.path.empty() && "/" + node.path == skipped; };
    if (std::ranges::none_of(info.nodes, is_it)) return fail(EINVAL, "--skip {}: not in {}", skipped, info.source);
  }
  for (const InfoNode& node : info.nodes) {
    const std::string node_path = "/" + node.path;
    const auto covers = [&](const std::string& skipped) { return is_within(node_path, skipped); };
    if (node.error && std::ranges::none_of(skip, covers))
      return fail(node.error->code, "{}: {}; --skip {} leaves it out", node_path, node.error->reason, node_path);
  }
  return {};
}

/// A target for the files of this view, and whether it has some of an interrupted conversion.
using MakeTarget = std::function<Result<ConvertTarget*>(fs::View view)>;

Result<Converted> convert_tree(std::unique_ptr<Source> source, const DatasetInfo& info, ConvertOptions options,
                               bool resumed, const MakeTarget& make_target) {
  ProgressReporter progress(fmt::format("converting {}", info.source), ProgressReporter::Unit::chunks);
  progress.expect(count_files(info, options.format == DatasetFormat::zarr3));
  const fs::View view = view_for(options.format, *source, info);
  // Readers of a group find its members in the consolidated metadata of the root. One for each group would be quadratic
  // in the depth.
  TreeFiles from(
      std::move(source),
      {.rules = std::move(options.rules), .view = view, .consolidates_groups = false, .portable = options.portable});
  CODECFS_TRY(from.filesystem().rules().check());
  CODECFS_ASSIGN(ConvertTarget* const target, make_target(view));
  Result<Converted> done = Conversion(from, *target, resumed, options.skip, progress).run();
  const Result<> finished = target->finish();  // what was done so far is kept after an error, too
  if (done) CODECFS_TRY(finished);
  return done;
}

Result<Converted> convert_into(Partial& partial, std::unique_ptr<Source> source, const std::string& name,
                               ConvertOptions options) {
  const DatasetFormat format = options.format;
  CODECFS_ASSIGN(const DatasetInfo info, read_info(*source, name));
  CODECFS_TRY(check_skips(options.skip, info));
  if (format == DatasetFormat::hdf5 && !info.format.starts_with("Zarr"))
    return convert_file(partial, std::move(source), info, std::move(options));
  const bool resumed = is_there(partial.path());
  std::optional<TreeFiles> tree;
  std::unique_ptr<ConvertTarget> target;
  return convert_tree(std::move(source), info, std::move(options), resumed,
                      [&](fs::View view) -> Result<ConvertTarget*> {
                        if (format == DatasetFormat::zarr || format == DatasetFormat::zarr3) {
                          if (!resumed && mkdir(partial.path().c_str(), 0777) != 0)
                            return fail_errno(errno, "{}", partial.path());
                          CODECFS_ASSIGN(target, make_directory_target(partial.path(), partial.is_of_this_boot()));
                          return target.get();
                        }
                        if (!resumed) CODECFS_TRY(create_source(partial.path(), name_of(format)));
                        CODECFS_ASSIGN(std::unique_ptr<Source> made, open_source(partial.path(), true));
                        CODECFS_TRY(made->writable());
                        // What an interruption loses is made again by --resume.
                        CODECFS_TRY(made->change_in_bulk());
                        tree.emplace(std::move(made), fs::FilesystemOptions{.read_only = false, .view = view});
                        target = make_tree_target(*tree);
                        return target.get();
                      });
}

/// Another attempt would fail in the same way.
bool is_lasting(int code) {
  constexpr std::array kCodes{EINVAL, EOPNOTSUPP, ESTALE, ENAMETOOLONG, EFBIG};
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
  if (options.format != DatasetFormat::zarr && options.format != DatasetFormat::zarr3)
    return fail(EINVAL, "{}: only Zarr can be written to object stores, with --format zarr or zarr3", shown);
  const Json identity = identity_of(*source, shown_source(name), options);
  CODECFS_ASSIGN(const DatasetInfo info, read_info(*source, shown_source(name)));
  CODECFS_TRY(check_skips(options.skip, info));
  CODECFS_ASSIGN(ObjectPlace place, object_to_write(destination));
  CODECFS_ASSIGN(const auto target,
                 ObjectTarget::begin(std::move(place.client), place.key, shown, identity, options.resume));
  auto done = convert_tree(std::move(source), info, std::move(options), target->is_resumed(),
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
  if (source->root().kind == EntryKind::folder)
    return fail(
        EINVAL,
        "{}: is a folder of datasets; convert each of them. A Zarr store has .zgroup, .zarray or zarr.json at its "
        "top: if its .zgroup is lost, make it anew with the text {{\"zarr_format\": 2}}",
        name);
  if (is_source_url(destination)) return convert_to_url(std::move(source), name, destination, std::move(options));
  if (is_below(destination, name)) return fail(EINVAL, "{}: is in the source itself", destination);
  CODECFS_ASSIGN(Partial partial, Partial::begin(destination, identity_of(*source, name, options), options.resume));
  Result<Converted> done = convert_into(partial, std::move(source), name, std::move(options));
  if (done) {
    CODECFS_TRY(partial.finish());
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
              "else remove it and {}.json",
              error.reason, partial.path(), partial.path());
}

}  // namespace codecfs::commands

#include "commands/convert.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "base/file_io.h"
#include "base/progress_reporter.h"
#include "base/unique_fd.h"
#include "commands/convert_target.h"
#include "commands/dataset_info.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr std::array<std::string_view, 4> kFormats{"hdf5", "zarr", "zarr3", "zip"};

/// The directory of a path, and its last name.
std::pair<std::string, std::string> split_path(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::filesystem::path whole(path);
  std::string parent = whole.parent_path().string();
  return {parent.empty() ? "." : parent, whole.filename().string()};
}

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

bool is_there(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

/// Whether a new `path` would be in `directory`, or in a directory of it.
bool is_below(const std::string& path, const std::string& directory) {
  std::error_code error;
  const auto parent = std::filesystem::canonical(split_path(path).first, error);
  const auto top = std::filesystem::canonical(directory, error);
  return !error && std::ranges::mismatch(top, parent).in1 == top.end();
}

/// A text that differs after each boot.
std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

/// DESTINATION.codecfs-partial and the note beside it: a line that says of what it is a part, and the boot during which
/// it was begun.
class Partial {
 public:
  static Result<Partial> begin(const std::string& destination, const Json& identity, bool resume) {
    Partial partial;
    std::tie(partial.directory_, partial.name_) = split_path(destination);
    if (partial.name_.empty() || partial.name_ == "." || partial.name_ == "..")
      return fail(EINVAL, "{}: not the name of a new dataset", destination);
    if (is_there(destination)) return fail(EEXIST, "{}: exists", destination);
    const std::string note = partial.path() + ".json";
    const bool is_left = is_there(partial.path()) || is_there(note);
    if (is_left && !resume)
      return fail(EEXIST,
                  "{}: is left of an interrupted conversion; --resume goes on with it, or remove it and {}.json",
                  partial.path(), partial.path());
    partial.note_ = UniqueFd(open(note.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!partial.note_) return fail_errno(errno, "{}", note);
    if (flock(partial.note_.get(), LOCK_EX | LOCK_NB) != 0)
      return fail(EBUSY, "{}: another process is converting into it", partial.path());
    const std::string line = print_json(identity) + "\n";
    const std::string text = line + boot_id() + "\n";
    if (is_left) {
      std::string before(text.size() + 1, '\0');
      const ssize_t count = pread(partial.note_.get(), before.data(), before.size(), 0);
      if (count < 0) return fail_errno(errno, "{}", note);
      before.resize(static_cast<size_t>(count));
      if (!before.starts_with(line))
        return fail(
            EINVAL,
            "{}: is of another conversion, or the source has changed since: remove it and {}.json, and start anew",
            partial.path(), partial.path());
      partial.is_of_this_boot_ = before == text;
    } else if (pwrite(partial.note_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      return fail_errno(errno, "{}", note);
    }
    return partial;
  }

  [[nodiscard]] std::string path() const { return directory_ + "/" + name_ + ".codecfs-partial"; }

  /// After another boot, a file may have its size and not its content.
  [[nodiscard]] bool is_of_this_boot() const { return is_of_this_boot_; }

  /// Removes everything.
  void discard() const {
    std::error_code ignored;
    std::filesystem::remove_all(path(), ignored);
    std::filesystem::remove(path() + ".json", ignored);
  }

  /// Gives the complete result its name.
  Result<> finish() const {
    CODECFS_ASSIGN(const File directory, open_directory(directory_));
    FileIo& io = real_file_io();
    CODECFS_TRY(io.move(directory, name_ + ".codecfs-partial", directory, name_));
    CODECFS_TRY(io.unlink(directory, name_ + ".codecfs-partial.json"));
    return io.sync(directory);
  }

 private:
  std::string directory_;
  std::string name_;
  UniqueFd note_;
  bool is_of_this_boot_ = true;
};

class Conversion {
 public:
  Conversion(TreeFiles& from, ConvertTarget& to, bool to_hdf5, bool resumed, const std::vector<std::string>& skip,
             ProgressReporter& progress)
      : from_(from), to_(to), to_hdf5_(to_hdf5), resumed_(resumed), skip_(skip), progress_(progress) {}

  Result<Converted> run() {
    CODECFS_TRY(copy_directory(TreeFiles::root(), to_.root(), ""));
    CODECFS_TRY(copy_batch());
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

  static bool is_metadata(std::string_view name) { return name.starts_with(".z") || name == "zarr.json"; }

  Result<> copy_directory(TreeFiles::Ino from, const Directory& to, const std::string& path) {
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
      if (is_metadata(item.name)) return copy_metadata(from, to, item.name, item_path);
      chunks_waiting_.push_back({from, to, item.name, item_path});
      return chunks_waiting_.size() < kBatch ? Result<>() : copy_batch();
    });
  }

  Result<> copy_metadata(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path) {
    if (name == ".zmetadata" && to_.consolidates()) return {};
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
    } else if (name == ".zattrs" && to_hdf5_ && has_generated_dimensions(json)) {
      json.erase("_ARRAY_DIMENSIONS");  // their numbers are others now, and HDF5 would keep them as names
      return print_json(json, 4) + "\n";
    } else if (name != ".zmetadata") {
      return std::string(text);
    }
    if (!members->contains("metadata") || !(*members)["metadata"].is_object()) return std::string(text);
    members = &(*members)["metadata"];
    for (auto member = members->begin(); member != members->end();)
      member = is_skipped(directory + member.key()) ? members->erase(member) : std::next(member);
    return print_json(json, 4) + "\n";
  }

  static bool has_generated_dimensions(const Json& attributes) {
    const auto is_generated = [](const Json& name) {
      return name.is_string() && name.get_ref<const std::string&>().starts_with("phony_dim_");
    };
    return attributes.contains("_ARRAY_DIMENSIONS") &&
           std::ranges::all_of(attributes["_ARRAY_DIMENSIONS"], is_generated);
  }

  Result<> copy_link(TreeFiles::Ino from, const Directory& to, const std::string& name, const std::string& path) {
    CODECFS_ASSIGN(const TreeFiles::Ino link, from_.find(from, name));
    CODECFS_ASSIGN(const std::string target, from_.link_target(link));
    if (const Result<> made = to_.make_link(to, name, target); !made)
      done_.warnings.push_back(fmt::format("{}: the link to {} was left out: {}", path, target, made.error().reason));
    return {};
  }

  Result<> copy_batch() {
    CODECFS_TRY(in_parallel(chunks_waiting_.size(), [&](uint64_t i) { return copy_chunk(chunks_waiting_[i]); }));
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
    const Result<> copied = from_.read(file, [&](Bytes content) -> Result<> {
      bytes_ += content.size();
      return to_.write(chunk.to, chunk.name, content);
    });
    if (!copied)
      return fail(copied.error().code, "{}: {}{}", chunk.path, copied.error().reason,
                  copied.error().code == EOPNOTSUPP ? "; --skip VAR leaves a variable out" : "");
    ++chunks_;
    return {};
  }

  static constexpr size_t kBatch = 1024;  // chunks

  TreeFiles& from_;
  ConvertTarget& to_;
  const bool to_hdf5_;
  const bool resumed_;
  const std::vector<std::string>& skip_;
  ProgressReporter& progress_;
  std::vector<Chunk> chunks_waiting_;
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

Result<Converted> convert_into(const Partial& partial, std::unique_ptr<Source> source, const std::string& name,
                               ConvertOptions options) {
  const bool is_v3 = options.format == DatasetFormat::zarr3;
  ProgressReporter progress(fmt::format("converting {}", name), ProgressReporter::Unit::chunks);
  CODECFS_ASSIGN(const DatasetInfo info, read_info(*source, name));
  progress.expect(count_files(info, is_v3));
  const fs::View view = view_for(options.format, *source, info);
  TreeFiles from(std::move(source), {.rules = std::move(options.rules), .view = view, .portable = options.portable});
  CODECFS_TRY(from.filesystem().rules().check());
  for (std::string& skipped : options.skip) {
    skipped = "/" + normal_path(skipped);
    const auto is_it = [&](const InfoNode& node) { return !node.path.empty() && "/" + node.path == skipped; };
    if (std::ranges::none_of(info.nodes, is_it)) return fail(EINVAL, "--skip {}: not in {}", skipped, name);
  }
  for (const InfoNode& node : info.nodes) {
    const std::string node_path = "/" + node.path;
    const auto covers = [&](const std::string& skipped) { return is_within(node_path, skipped); };
    if (node.error && std::ranges::none_of(options.skip, covers))
      return fail(node.error->code, "{}: {}; --skip {} leaves it out", node_path, node.error->reason, node_path);
  }
  const bool resumed = is_there(partial.path());
  std::optional<TreeFiles> tree;
  std::unique_ptr<ConvertTarget> target;
  if (options.format == DatasetFormat::zarr || is_v3) {
    if (!resumed && mkdir(partial.path().c_str(), 0777) != 0) return fail_errno(errno, "{}", partial.path());
    target = make_directory_target(partial.path(), partial.is_of_this_boot());
  } else {
    if (!resumed) CODECFS_TRY(create_source(partial.path(), name_of(options.format)));
    CODECFS_ASSIGN(std::unique_ptr<Source> made, open_source(partial.path(), true));
    CODECFS_TRY(made->writable());
    tree.emplace(std::move(made), fs::FilesystemOptions{.read_only = false, .view = view});
    target = make_tree_target(*tree);
  }
  const bool is_hdf5_to_hdf5 = options.format == DatasetFormat::hdf5 && !info.format.starts_with("Zarr");
  Result<Converted> done =
      Conversion(from, *target, options.format == DatasetFormat::hdf5, resumed, options.skip, progress).run();
  const Result<> finished = target->finish();  // what was done so far is kept after an error, too
  if (done) CODECFS_TRY(finished);
  if (done && is_hdf5_to_hdf5)
    done->warnings.emplace_back(
        "from HDF5 to HDF5 only what Zarr can represent is kept (no enumerations, committed types, widths of "
        "attributes, "
        "limits of dimensions); copy the file and use codecfs recode to keep everything");
  return done;
}

}  // namespace

Result<Converted> convert(std::unique_ptr<Source> source, const std::string& name, const std::string& destination,
                          ConvertOptions options) {
  if (source->root().kind == EntryKind::folder)
    return fail(EINVAL, "{}: is a folder of datasets; convert each of them", name);
  if (is_below(destination, name)) return fail(EINVAL, "{}: is in the source itself", destination);
  CODECFS_ASSIGN(const Partial partial,
                 Partial::begin(destination, identity_of(*source, name, options), options.resume));
  Result<Converted> done = convert_into(partial, std::move(source), name, std::move(options));
  if (done) {
    CODECFS_TRY(partial.finish());
    return done;
  }
  const Error& error = done.error();
  // Another attempt would fail in the same way.
  const bool is_hopeless = error.code == EINVAL || error.code == EOPNOTSUPP;
  if (is_hopeless || !is_there(partial.path())) {
    partial.discard();
    return done;
  }
  return fail(error.code, "{}; what was done so far is in {}: --resume goes on with it", error.reason, partial.path());
}

}  // namespace codecfs::commands

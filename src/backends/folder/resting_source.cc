// A dataset that can be closed and opened again while its tree is used (Source::close_idle()). It is shown like a
// dataset of a mounted folder (dataset_calls.h): its objects keep their ids, and are looked up by their names in the
// reopened file.

#include "backends/folder/resting_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "backends/api/source.h"
#include "backends/folder/dataset_calls.h"

namespace codecfs {
namespace {

using folder::DatasetCalls;
using folder::DatasetPtr;
using folder::FolderFiles;
using folder::Found;

/// What tells whether a file was changed.
struct FileState {
  dev_t device = 0;
  ino_t ino = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  bool operator==(const FileState&) const = default;
};

FileState state_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

using Open = std::function<Result<std::unique_ptr<Source>>(const std::string& path, bool may_write)>;

/// The one file or directory of the dataset, whose key is "".
class OneFile final : public FolderFiles {
 public:
  OneFile(const Source& source, std::string path, Open open)
      : path_(std::move(path)),
        open_(std::move(open)),
        status_(source.status()),
        is_archive_(source.format().contains("zip")) {}

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override {
    struct statvfs numbers{};
    if (::statvfs(path_.c_str(), &numbers) != 0) numbers = {};
    return numbers;
  }
  [[nodiscard]] bool are_replaced_by_commits() const override { return is_archive_; }
  // A file that could not be opened may be readable again later.
  [[nodiscard]] bool remembers_failures() const override { return false; }
  [[nodiscard]] std::string path_of(const std::string&) const override { return path_; }
  [[nodiscard]] std::optional<std::string> key_of(const std::string&) const override { return std::nullopt; }
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string&) const override {
    struct stat status{};
    if (::stat(path_.c_str(), &status) == 0) return status;
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<struct stat>();
    return fail_errno(errno, "{}", path_);
  }
  [[nodiscard]] Result<std::optional<Found>> look(const std::string&) const override { return not_a_folder(); }
  [[nodiscard]] Result<Names> list(const std::string&, const std::optional<std::string>&) const override {
    return not_a_folder();
  }
  [[nodiscard]] Result<UniqueFd> open_file(const std::string&) const override { return not_a_folder(); }
  [[nodiscard]] Result<std::shared_ptr<Source>> open_dataset(const std::string&, const Found& expected,
                                                             bool may_write) const override {
    Result<std::unique_ptr<Source>> opened = open_(path_, may_write);
    if (!opened && (opened.error().code == ENOENT || opened.error().code == ENOTDIR))
      return fail(ESTALE, "{}: no longer exists", path_);
    if (!opened) return pass_on(opened);
    std::shared_ptr<Source> source = *std::move(opened);
    // Its lock is held from here on, unless it has none. Its own status may be that of a directory in an archive.
    CODECFS_ASSIGN(const auto now, stat(""));
    if (!now || state_of(*now) != state_of(expected.status) || source->root().kind != expected.kind)
      return fail(ESTALE, "{}: was changed by another program", path_);
    if (!excluded_.empty()) CODECFS_TRY(source->exclude_path(excluded_));
    return source;
  }
  void exclude(const std::string& path) { excluded_ = path; }

 private:
  [[nodiscard]] std::unexpected<Error> not_a_folder() const { return fail(ENOTDIR, "{}: is not a folder", path_); }

  const std::string path_;  // absolute
  const Open open_;
  const struct stat status_;
  const bool is_archive_;
  std::string excluded_;  // set before the first request
};

class RestingSource final : public DatasetCalls {
 public:
  /// `status`: of the file.
  RestingSource(std::unique_ptr<Source> source, std::unique_ptr<OneFile> files, const struct stat& status,
                bool may_write)
      : DatasetCalls(std::move(files), may_write),
        format_(source->format()),
        is_zarr3_(source->is_zarr3()),
        shares_metadata_(source->shares_metadata()),
        reads_at_once_(source->reads_at_once()),
        writable_(source->writable()) {
    root_.kind = source->root().kind;
    const Found found{root_.kind, status, {}};
    dataset_ = datasets_.adopt("", found, std::move(source));
    root_.object = ids_.of_root(dataset_);
  }

  [[nodiscard]] const struct stat& status() const override { return files_->status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return files_->filesystem(); }
  [[nodiscard]] std::string format() const override { return format_; }
  [[nodiscard]] bool is_zarr3() const override { return is_zarr3_; }
  [[nodiscard]] bool shares_metadata() const override { return shares_metadata_; }
  [[nodiscard]] size_t reads_at_once() const override { return reads_at_once_; }
  [[nodiscard]] Entry root() const override { return root_; }
  /// The status of an object; that of the root is known without opening the source.
  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override {
    auto& self = const_cast<RestingSource&>(*this);  // it may have to be opened
    if (id != root_.object) {
      CODECFS_ASSIGN(const Target there, self.target(id, Purpose::describing));
      return there.source.status_of(there.id);
    }
    const auto use = self.datasets_.use_if_open(now());
    return use ? use->source->status_of(use->source->root().object) : files_->status();
  }

  Result<> exclude_path(const std::string& path) override {
    const auto use = datasets_.use_if_open(now());
    if (use) CODECFS_TRY(use->source->exclude_path(path));
    static_cast<OneFile&>(*files_).exclude(path);
    return {};
  }
  Result<> writable() override { return writable_; }
  Result<> commit() override {
    const auto use = datasets_.use_if_open(now());
    return use ? use->source->commit() : datasets_.commit();  // the latter reports what closing it has lost
  }
  Result<bool> commit_at_interval() override {
    const auto use = datasets_.use_if_open(now());
    return use ? use->source->commit_at_interval() : true;
  }
  Result<> relocate_log() override {
    const auto use = datasets_.use_if_open(now());
    return use ? use->source->relocate_log() : Result<>();
  }
  void release_idle(std::chrono::seconds unused_for) override {
    if (const auto use = datasets_.use_if_open(now())) use->source->release_idle(unused_for);
  }

  [[nodiscard]] bool can_rest() const override { return true; }
  bool close_idle() override {
    const DatasetPtr dataset = now();
    datasets_.close_unused(std::chrono::seconds(0));
    if (datasets_.is_open(*dataset)) return false;
    members_ = state_of_members();
    return true;
  }
  Result<bool> wake() override {
    const DatasetPtr before = now();
    CODECFS_ASSIGN(const auto status, files_->stat(""));
    if (!status) return fail(ESTALE, "{}: no longer exists", files_->path_of(""));
    if (state_of(*status) == state_of(datasets_.status_of(*before)) && members_ && members_ == state_of_members()) {
      CODECFS_TRY(datasets_.use(before, folder::Datasets::For::reading));
      return true;
    }
    const DatasetPtr after = datasets_.replace(before, "", Found{root_.kind, *status, {}});
    if (after == nullptr) return fail(EBUSY, "{}: is being opened", files_->path_of(""));
    CODECFS_TRY(datasets_.use(after, folder::Datasets::For::reading));
    ids_.replace_root(root_.object, after);
    const LockGuard lock(mutex_);
    dataset_ = after;
    return false;
  }

 private:
  // Of a Zarr directory, whose own status does not show what changes below it: the directories and metadata files of
  // the objects that have an id. By their paths.
  using Members = std::map<std::string, FileState>;
  static constexpr size_t kMaxMembers = 16384;  // if there are more, the store counts as changed

  [[nodiscard]] std::optional<Members> state_of_members() const {
    Members members;
    if (!S_ISDIR(datasets_.status_of(*now()).st_mode)) return members;
    const auto paths = ids_.paths(kMaxMembers);
    if (!paths) return std::nullopt;
    constexpr std::array kNames{"", "/.zgroup", "/.zarray", "/.zattrs", "/.zmetadata", "/zarr.json"};
    for (const std::string& path : *paths) {
      for (const char* name : kNames) {
        const std::string file = files_->path_of("") + (path.empty() ? "" : "/") + path + name;
        struct stat status{};
        if (::stat(file.c_str(), &status) == 0) members.emplace(file, state_of(status));
      }
    }
    return members;
  }

  [[nodiscard]] DatasetPtr now() const {
    const LockGuard lock(mutex_);
    return dataset_;
  }

  const std::string format_;
  const bool is_zarr3_;
  const bool shares_metadata_;
  const size_t reads_at_once_;
  const Result<> writable_;
  Entry root_;
  std::optional<Members> members_;  // at the latest close_idle(); only that and wake() use it
  mutable Mutex mutex_;
  DatasetPtr dataset_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Source> make_resting(std::unique_ptr<Source> source, const std::string& path, bool may_write,
                                     Open open) {
  if (source->root().kind == EntryKind::folder) return source;
  auto files =
      std::make_unique<OneFile>(*source, std::filesystem::absolute(path).lexically_normal().string(), std::move(open));
  const auto status = files->stat("");
  if (!status || !*status) return source;
  return std::make_unique<RestingSource>(std::move(source), std::move(files), **status, may_write);
}

}  // namespace codecfs

#include "backends/folder/folder_source.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <utility>

#include "backends/api/external_link.h"
#include "backends/api/names.h"
#include "backends/folder/dataset_calls.h"
#include "backends/folder/folder_files.h"
#include "backends/folder/local_files.h"

namespace codecfs {
namespace {

using folder::DatasetCalls;
using folder::DatasetPtr;
using folder::FolderFiles;
using folder::Found;
using folder::Object;

/// Many datasets are open at a time, with a few descriptors each.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

class FolderSource final : public DatasetCalls {
 public:
  FolderSource(std::unique_ptr<FolderFiles> files, bool may_write)
      : DatasetCalls(std::move(files), may_write), may_write_(may_write) {
    root_.kind = EntryKind::folder;
    root_.object = ids_.of("", EntryKind::folder);
  }

  [[nodiscard]] const struct stat& status() const override { return files_->status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return files_->filesystem(); }
  [[nodiscard]] std::string format() const override { return "folder"; }
  [[nodiscard]] bool shares_metadata() const override { return true; }
  [[nodiscard]] size_t reads_at_once() const override { return files_->reads_at_once(); }
  [[nodiscard]] Entry root() const override { return root_; }

  Result<> exclude_path(const std::string& path) override {
    const auto key = files_->key_of(path);
    if (key == "" || path == "/" || files_->path_of("").starts_with(path + "/"))
      return fail(EINVAL, "{}: the folder cannot be mounted over itself, nor over one that holds it", path);
    excluded_ = key;
    return {};
  }

  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) return datasets_.status_of(*object.dataset);
    CODECFS_ASSIGN(const auto status, files_->stat(object.name));
    if (!status) return fail(ENOENT, "{}: no longer exists", files_->path_of(object.name));
    return *status;
  }

  // --- reading

  Result<std::vector<Entry>> list(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) {
      CODECFS_ASSIGN(std::vector<Entry> members, DatasetCalls::list(id));
      for (Entry& member : members) CODECFS_TRY(lead_to_target(object, member));
      return members;
    }
    if (object.kind != EntryKind::folder) return fail(ENOTDIR, "{}: is not a folder", object.name);
    CODECFS_ASSIGN(const auto found, files_->list(object.name, excluded_));
    std::vector<Entry> entries;
    entries.reserve(found.size());
    for (const auto& [name, what] : found) entries.push_back(entry_of(object.name, name, what));
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

  Result<Entry> find(ObjectId id, std::string_view name) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) {
      CODECFS_ASSIGN(Entry member, DatasetCalls::find(id, name));
      CODECFS_TRY(lead_to_target(object, member));
      return member;
    }
    if (object.kind != EntryKind::folder) return fail(ENOTDIR, "{}: is not a folder", object.name);
    const std::string key = folder::join(object.name, name);
    const bool is_name = !name.empty() && name != "." && name != ".." && name.find('/') == name.npos;
    if (!is_name || key == excluded_) return not_there(key);
    CODECFS_ASSIGN(const auto found, files_->look(key));
    if (!found) return not_there(key);
    return entry_of(object.name, std::string(name), *found);
  }

  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset == nullptr) return std::vector<UnreadableMember>();
    return DatasetCalls::unreadable_members(id);
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset == nullptr) return std::vector<Attribute>();
    return DatasetCalls::group_attributes(id);
  }

  Result<UniqueFd> open_file(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.kind != EntryKind::file) return fail(EISDIR, "{}: is not a file", object.name);
    return files_->open_file(object.name);
  }
  Result<std::shared_ptr<const ContentReader>> open_content(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.kind != EntryKind::file) return fail(EISDIR, "{}: is not a file", object.name);
    return files_->open_content(object.name);
  }

  bool keep(ObjectId id) override { return ids_.keep(id); }
  void release(ObjectId id) noexcept override { ids_.release(id); }

  // --- changes

  Result<> writable() override {
    if (!may_write_) return fail(EROFS, "{}: was opened only to be read", files_->path_of(""));
    return {};
  }
  void release_idle(std::chrono::seconds unused_for) override {
    datasets_.close_unused(unused_for);
    ids_.drop_unkept();
  }
  Result<bool> commit_at_interval() override {
    CODECFS_TRY(datasets_.commit_at_interval());
    return true;
  }

 private:
  static std::unexpected<Error> not_there(const std::string& key) {
    return fail(ENOENT, "{}: no such file or object", key);
  }

  Entry entry_of(const std::string& directory, const std::string& name, const Found& found) {
    if (found.kind == EntryKind::symlink) return {name, found.kind, 0, found.target};
    const std::string key = folder::join(directory, name);
    if (found.kind == EntryKind::folder || found.kind == EntryKind::file)
      return {name, found.kind, ids_.of(key, found.kind), {}};
    const DatasetPtr dataset = datasets_.at(key, found);
    const std::string shown = datasets_.key_of(*dataset);
    if (shown == key) return {name, found.kind, ids_.of_root(dataset), {}};
    const auto target = std::filesystem::path("/" + shown).lexically_relative("/" + directory);
    return {name, EntryKind::symlink, 0, target.string()};
  }

  /// An external link of HDF5 leads to its object if the file is in this folder, where HDF5 looks for it: beside the
  /// file of the link, or at its absolute path. Others stay as they are.
  Result<> lead_to_target(const Object& object, Entry& link) {
    if (link.kind != EntryKind::symlink || !link.target.starts_with(kExternalLink)) return {};
    const std::string_view text = std::string_view(link.target).substr(kExternalLink.size());
    const size_t colon = std::min(text.rfind(":/"), text.rfind(':'));
    if (colon == text.npos) return {};
    const std::filesystem::path file(text.substr(0, colon));
    const std::string master = datasets_.key_of(*object.dataset);
    const std::filesystem::path beside = (std::filesystem::path(master).parent_path() / file).lexically_normal();
    const std::optional<std::string> key =
        file.is_absolute() ? files_->key_of(file.lexically_normal().string()) : std::optional(beside.string());
    if (!key || key->empty() || key->starts_with("..")) return {};
    // One that cannot be looked at is led to: following the link gives its error, and the other members are listed.
    const auto found = files_->look(*key);
    if (found && (!*found || ((*found)->kind != EntryKind::group && (*found)->kind != EntryKind::variable))) return {};

    std::filesystem::path target = "/" + *key;
    for (const auto part : std::views::split(text.substr(colon + 1), '/'))
      if (const std::string_view name(part.begin(), part.end()); !name.empty()) target /= escape_name(name);
    std::filesystem::path from = "/" + master;
    for (Object at = object; !at.is_root;) {
      from /= at.name;
      CODECFS_ASSIGN(at, ids_.get(at.group));
    }
    link.target = target.lexically_relative(from).string();
    return {};
  }

  const bool may_write_;
  Entry root_;
  std::optional<std::string> excluded_;  // excluded key; set before the first request
};

}  // namespace

Result<std::unique_ptr<Source>> open_folder(const std::string& path, folder::DatasetOpener opener, bool may_write) {
  CODECFS_ASSIGN(auto files, folder::LocalFiles::open(path, std::move(opener)));
  return open_folder(std::move(files), may_write);
}

Result<std::unique_ptr<Source>> open_folder(std::unique_ptr<folder::FolderFiles> files, bool may_write) {
  allow_many_files();
  return std::make_unique<FolderSource>(std::move(files), may_write);
}

}  // namespace codecfs

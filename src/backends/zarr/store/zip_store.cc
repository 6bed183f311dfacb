#include "backends/zarr/store/zip_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "backends/zarr/store/directory_writer.h"
#include "base/log.h"
#include "base/mutex.h"
#include "model/limits.h"

namespace codecfs::zarr {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

bool holds_file(const ZipDirectory& directory, const char* name) {
  const auto found = directory.members.find(name);
  return found != directory.members.end() && std::holds_alternative<ZipFilePtr>(found->second);
}

class FileInZip final : public StoredFile {
 public:
  FileInZip(const ZipFile& file, std::string key) : place_(file.place), number_(file.number), key_(std::move(key)) {}

  [[nodiscard]] uint64_t size() const override { return size_of(place_); }
  [[nodiscard]] std::string version() const override { return fmt::format("{}", number_); }
  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const override {
    if (offset > this->size() || size > this->size() - offset)
      return fail(EIO, "{}: has {} bytes, too few for {} at {}", key_, this->size(), size, offset);
    if (has_parts(place_)) return read_part(place_, key_, offset, size);
    CODECFS_ASSIGN(Buffer all, read_place(place_, key_, max_chunk_bytes()));
    all.drop_front(offset);
    all.truncate(size);
    return all;
  }

 private:
  ZipPlace place_;
  uint64_t number_;
  std::string key_;
};

constexpr size_t kMaxNamed = 8;  // stores in a message

bool is_store(const ZipDirectory& directory) {
  for (const char* file : {".zgroup", ".zarray", ".nczgroup", ".nczarr", "zarr.json"})
    if (holds_file(directory, file)) return true;
  return false;
}

std::unexpected<Error> no_store(const ZipTree& tree) {
  if (tree.first_name.ends_with(".npy"))
    return fail(EINVAL, "is an archive of NumPy arrays; np.load(FILE) reads it as it is");
  return fail(
      EINVAL,
      "is a zip archive without a Zarr store in it (there is neither .zgroup nor .zarray nor zarr.json); unpack it "
      "with: unzip FILE, and name what is in it");
}

/// Finds the directory in the archive that is the store: the top, else the only candidate.
Result<std::string> find_store(const ZipTree& tree) {
  const SharedLock lock(tree.mutex);
  std::string path;
  for (ZipDirectoryPtr at = tree.top; !is_store(*at);) {
    std::vector<std::pair<std::string, ZipDirectoryPtr>> all;
    std::vector<std::pair<std::string, ZipDirectoryPtr>> stores;
    for (const auto& [name, member] : at->members) {
      const auto* directory = std::get_if<ZipDirectoryPtr>(&member);
      if (directory == nullptr) continue;
      all.emplace_back(name, *directory);
      if (is_store(**directory)) stores.emplace_back(name, *directory);
    }
    if (stores.size() == 1) return join_key(path, stores.front().first);
    if (stores.size() > 1) {
      std::string names;
      for (size_t i = 0; i < std::min(stores.size(), kMaxNamed); ++i)
        names += (i == 0 ? "" : ", ") + join_key(path, stores[i].first);
      return fail(EINVAL, "holds several Zarr stores ({}{}): unpack it, and mount one of them", names,
                  stores.size() > kMaxNamed ? ", ..." : "");
    }
    if (all.size() != 1) return no_store(tree);
    path = join_key(path, all.front().first);
    at = all.front().second;
  }
  return path;
}

/// Determines why the archive cannot be changed.
Result<> check_writable(const std::string& path, const ZipTree& tree) {
  CODECFS_TRY(tree.whole());
  const std::string real = real_path(path);
  const std::string holder = real.substr(0, std::max<size_t>(real.rfind('/'), 1));
  for (const auto& [name, wanted] : {std::pair(real, W_OK), std::pair(holder, W_OK | X_OK)}) {
    if (::faccessat(AT_FDCWD, name.c_str(), wanted, AT_EACCESS) == 0) continue;
    const int code = errno;
    if (code == EROFS) return fail(EROFS, "{}: is on a filesystem that is mounted read-only", name);
    if (name == real) return fail(EROFS, "{}: cannot be written: {}", name, std::strerror(code));
    return fail(EROFS, "{}: cannot be written, but a commit creates the new archive in this directory: {}", name,
                std::strerror(code));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ZipStore>> ZipStore::open(const std::string& path) {
  File file{.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)), .path = path};
  if (!file.fd) return fail_errno(errno, "{}", path);
  CODECFS_ASSIGN(auto store, open(ZipBytes{.file = std::move(file), .object = nullptr}));
  if (auto changeable = check_writable(path, store->tree()); !changeable)
    store->unchangeable_ = std::move(changeable.error());
  return store;
}

Result<std::unique_ptr<ZipStore>> ZipStore::open(std::shared_ptr<remote::ObjectFile> object) {
  File file{.fd = UniqueFd(::fcntl(object->mirror().content().get(), F_DUPFD_CLOEXEC, 0)), .path = object->name()};
  if (!file.fd) return fail_errno(errno, "{}", object->name());
  CODECFS_ASSIGN(auto store, open(ZipBytes{.file = std::move(file), .object = object}));
  store->unchangeable_ = Error{
      EROFS, fmt::format("{}: a zip archive in an object store is only read, because objects cannot be changed in "
                         "part; a Zarr store of many objects can",
                         object->name())};
  store->is_remote_ = true;
  return store;
}

Result<std::unique_ptr<ZipStore>> ZipStore::open(ZipBytes bytes) {
  const std::string path = bytes.file.path;
  CODECFS_ASSIGN(auto tree, ZipTree::open(std::move(bytes)));
  auto name = find_store(*tree);
  if (!name) return fail(name.error().code, "{}: {}", path, name.error().reason);
  tree->store_name = std::move(*name);
  std::unique_ptr<ZipStore> store(new ZipStore(std::move(tree)));
  {
    const SharedLock lock(store->tree().mutex);
    store->status_ = store->archived_ = store->tree().archive->status();
  }
  return store;
}

struct statvfs ZipStore::filesystem() const {
  const SharedLock lock(tree().mutex);
  struct statvfs numbers{};
  if (::fstatvfs(tree().archive->file().fd.get(), &numbers) != 0) numbers = {};
  return numbers;
}

ZipDirectoryPtr ZipStore::root() const {
  if (root_) return root_;
  return find_zip_directory(tree().top, tree().store_name);
}

struct stat ZipStore::status_of(const ZipDirectory& directory) const {
  struct stat status = archived_;
  const mode_t mode = archived_.st_mode & 0666;
  status.st_mode = S_IFDIR | mode | (mode & 0444) >> 2;
  status.st_ino = directory.number;
  status.st_size = 0;
  const int64_t nanoseconds = status.st_mtim.tv_nsec + static_cast<int64_t>(directory.version);
  status.st_mtim = {.tv_sec = status.st_mtim.tv_sec + nanoseconds / kNanoseconds,
                    .tv_nsec = nanoseconds % kNanoseconds};
  return status;
}

Result<std::optional<struct stat>> ZipStore::stat(const std::string& key) const {
  const SharedLock lock(tree().mutex);
  const auto member = find_zip_member(root(), key);
  if (!member) return std::nullopt;
  if (const auto* directory = std::get_if<ZipDirectoryPtr>(&*member)) return status_of(**directory);
  struct stat status = archived_;
  status.st_mode = S_IFREG | (archived_.st_mode & 0666);
  status.st_size = static_cast<off_t>(size_of(std::get<ZipFilePtr>(*member)->place));
  return status;
}

Result<std::optional<Store::Stored>> ZipStore::locate(const std::string& key) const {
  const SharedLock lock(tree().mutex);
  const auto member = find_zip_member(root(), key);
  if (!member || !std::holds_alternative<ZipFilePtr>(*member)) return std::nullopt;
  const ZipPlace& place = std::get<ZipFilePtr>(*member)->place;
  const auto* archived = std::get_if<ArchivedBytes>(&place);
  return Stored{.bytes = archived != nullptr ? archived->entry.stored : size_of(place), .offset = std::nullopt};
}

Result<std::optional<uint64_t>> ZipStore::offset_of(const std::string& key) const {
  ZipPlace place;
  {
    const SharedLock lock(tree().mutex);
    const auto member = find_zip_member(root(), key);
    if (!member || !std::holds_alternative<ZipFilePtr>(*member)) return std::nullopt;
    place = std::get<ZipFilePtr>(*member)->place;
    const auto* archived = std::get_if<ArchivedBytes>(&place);
    if (archived == nullptr || archived->archive != tree().archive || !has_parts(place)) return std::nullopt;
  }
  const auto& archived = std::get<ArchivedBytes>(place);
  CODECFS_ASSIGN(const ZipArchive::Data data, archived.archive->locate(archived.entry, key));
  return data.offset;
}

Result<std::optional<Buffer>> ZipStore::read(const std::string& key, uint64_t limit) const {
  ZipPlace place;
  {
    const SharedLock lock(tree().mutex);
    const auto member = find_zip_member(root(), key);
    if (!member || !std::holds_alternative<ZipFilePtr>(*member)) return std::nullopt;
    place = std::get<ZipFilePtr>(*member)->place;
  }
  CODECFS_ASSIGN(Buffer bytes, read_place(place, key, limit));
  return bytes;
}

void ZipStore::expect(std::span<const std::string> keys, uint64_t) const {
  if (!is_remote_) return;
  std::vector<ZipEntry> entries;
  const SharedLock lock(tree().mutex);
  for (const std::string& key : keys) {
    const auto member = find_zip_member(root(), key);
    if (!member || !std::holds_alternative<ZipFilePtr>(*member)) continue;
    if (const auto* archived = std::get_if<ArchivedBytes>(&std::get<ZipFilePtr>(*member)->place))
      entries.push_back(archived->entry);
  }
  tree().archive->expect(entries);
}

Result<std::shared_ptr<const StoredFile>> ZipStore::open_file(const std::string& key) const {
  const SharedLock lock(tree().mutex);
  const auto member = find_zip_member(root(), key);
  if (!member || !std::holds_alternative<ZipFilePtr>(*member)) return nullptr;
  return std::make_shared<FileInZip>(*std::get<ZipFilePtr>(*member), key);
}

Result<> ZipStore::may_change(const std::string&) const {
  if (unchangeable_) return std::unexpected(*unchangeable_);
  return {};
}

Result<> ZipStore::for_each(const std::string& key,
                            const std::function<Result<>(const char* name, EntryType type)>& visit) const try {
  std::vector<std::pair<std::string, EntryType>> names;  // copied, as the visitor may access the store
  {
    const SharedLock lock(tree().mutex);
    const auto member = find_zip_member(root(), key);
    if (!member) return fail(ENOENT, "{}: does not exist", key);
    const auto* directory = std::get_if<ZipDirectoryPtr>(&*member);
    if (directory == nullptr) return fail(ENOTDIR, "{}: is not a directory", key);
    names.reserve((*directory)->members.size());
    for (const auto& [name, below] : (*directory)->members)
      names.emplace_back(name, std::holds_alternative<ZipDirectoryPtr>(below) ? EntryType::directory : EntryType::file);
  }
  for (const auto& [name, type] : names) CODECFS_TRY(visit(name.c_str(), type));
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list it", key);
}

Result<std::unique_ptr<Store>> ZipStore::below(const std::string& key) const {
  const SharedLock lock(tree().mutex);
  ZipDirectoryPtr directory = find_zip_directory(root(), key);
  if (!directory) return fail(ENOENT, "{}: is not a directory", key);
  std::unique_ptr<ZipStore> store(new ZipStore(tree_));
  store->archived_ = archived_;
  store->status_ = status_of(*directory);
  store->root_ = std::move(directory);
  store->unchangeable_ = unchangeable_;
  store->is_remote_ = is_remote_;
  return store;
}

}  // namespace codecfs::zarr

#include "backends/zarr/store/directory_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <memory>

namespace codecfs::zarr {
namespace {

/// Names for system calls: "" is the directory itself.
const char* c_path(const std::string& key) { return key.empty() ? "." : key.c_str(); }

/// Errors that mean that the file does not exist, as opposed to not accessible. A name can be too long to exist; a path
/// of PATH_MAX bytes may exist, and cannot be opened.
bool means_absent(int code, const std::string& key) {
  return code == ENOENT || code == ENOTDIR || (code == ENAMETOOLONG && key.size() < PATH_MAX);
}

struct OpenFile {
  UniqueFd fd;
  struct stat status = {};
};

/// None if there is no regular file of this name.
Result<std::optional<OpenFile>> open_regular(int root, const std::string& key) {
  // O_NONBLOCK, because opening a FIFO would wait for a writer.
  OpenFile file;
  file.fd = UniqueFd(::openat(root, c_path(key), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.fd) {
    if (means_absent(errno, key) || errno == ENXIO) return std::nullopt;
    return fail_errno(errno, "{}", key);
  }
  if (::fstat(file.fd.get(), &file.status) != 0) return fail_errno(errno, "{}", key);
  if (!S_ISREG(file.status.st_mode)) return std::nullopt;
  return file;
}

Result<Buffer> read_range(int fd, const std::string& key, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(fd, buffer.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "{}", key);
    if (count == 0) return fail(EIO, "{}: became shorter while it was read", key);
    done += static_cast<size_t>(count);
  }
  return buffer;
}

class FileInDirectory final : public StoredFile {
 public:
  FileInDirectory(OpenFile file, std::string key) : file_(std::move(file)), key_(std::move(key)) {}

  [[nodiscard]] uint64_t size() const override { return static_cast<uint64_t>(file_.status.st_size); }
  [[nodiscard]] std::string version() const override {
    const struct stat& now = file_.status;
    return fmt::format("{} {} {} {}.{} {}.{}", now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec,
                       now.st_mtim.tv_nsec, now.st_ctim.tv_sec, now.st_ctim.tv_nsec);
  }
  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const override {
    if (offset > this->size() || size > this->size() - offset)
      return fail(EIO, "{}: has {} bytes, too few for {} at {}", key_, this->size(), size, offset);
    return read_range(file_.fd.get(), key_, offset, size);
  }

 private:
  OpenFile file_;
  std::string key_;
};

}  // namespace

struct statvfs DirectoryStore::filesystem() const {
  struct statvfs numbers{};
  if (::fstatvfs(root_.get(), &numbers) != 0) numbers = {};
  return numbers;
}

Result<DirectoryStore> DirectoryStore::open(const std::string& path) {
  DirectoryStore store;
  store.root_ = UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!store.root_) return fail_errno(errno, "{}", path);
  if (::fstat(store.root_.get(), &store.status_) != 0) return fail_errno(errno, "{}", path);
  return store;
}

Result<DirectoryStore> DirectoryStore::open(const File& directory) {
  DirectoryStore store;
  store.root_ = UniqueFd(::openat(directory.fd.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!store.root_ || ::fstat(store.root_.get(), &store.status_) != 0) return fail_errno(errno, "{}", directory.path);
  return store;
}

Result<std::optional<struct stat>> DirectoryStore::stat(const std::string& key) const {
  struct stat status;
  if (::fstatat(root_.get(), c_path(key), &status, 0) == 0) return status;
  if (means_absent(errno, key)) return std::nullopt;
  return fail_errno(errno, "{}", key);
}

bool DirectoryStore::passes_link(const std::string& key) const {
  // One system call instead of one for each component, whose paths would be resolved from the root each time.
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const UniqueFd found(static_cast<int>(::syscall(SYS_openat2, root_.get(), c_path(key), &how, sizeof how)));
  struct stat itself;
  if (found && ::fstat(found.get(), &itself) == 0) return S_ISLNK(itself.st_mode);
  // The kernel lacks the system call, or the key is not there.
  for (size_t end = 0; end < key.size(); ++end) {
    end = std::min(key.find('/', end), key.size());
    struct stat status;
    if (::fstatat(root_.get(), key.substr(0, end).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(status.st_mode))
      return true;
  }
  return false;
}

Result<std::optional<std::string>> DirectoryStore::link_text(const std::string& key) const {
  std::string text(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(root_.get(), c_path(key), text.data(), text.size());
  if (length < 0 && (errno == EINVAL || means_absent(errno, key))) return std::nullopt;
  if (length < 0) return fail_errno(errno, "{}", key);
  text.resize(static_cast<size_t>(length));
  return text;
}

std::optional<std::string> DirectoryStore::key_of(const std::string& path) const {
  std::error_code error;
  const auto root = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", root_.get()), error);
  const auto target = std::filesystem::path(path).lexically_normal();
  if (error || std::ranges::mismatch(root, target).in1 != root.end()) return std::nullopt;
  const std::string key = target.lexically_relative(root).string();
  return key == "." ? "" : key;
}

Result<std::optional<Buffer>> DirectoryStore::read(const std::string& key, uint64_t limit) const {
  CODECFS_ASSIGN(const auto file, open_regular(root_.get(), key));
  if (!file) return std::nullopt;
  const auto size = static_cast<uint64_t>(file->status.st_size);
  if (size > limit) return fail(EIO, "{}: {} bytes, more than the {} that it can need", key, size, limit);
  CODECFS_ASSIGN(Buffer bytes, read_range(file->fd.get(), key, 0, size));
  return bytes;
}

Result<std::optional<UniqueFd>> DirectoryStore::open_plain(const std::string& key) const {
  CODECFS_ASSIGN(auto file, open_regular(root_.get(), key));
  if (!file) return std::nullopt;
  return std::move(file->fd);
}

Result<std::shared_ptr<const StoredFile>> DirectoryStore::open_file(const std::string& key) const {
  CODECFS_ASSIGN(auto file, open_regular(root_.get(), key));
  if (!file) return nullptr;
  return std::make_shared<FileInDirectory>(*std::move(file), key);
}

Result<File> DirectoryStore::directory(const std::string& key) const {
  // Open each component without following links, so that a link can never redirect a change to outside of the store.
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_NO_SYMLINKS;
  File directory{.fd = UniqueFd(static_cast<int>(::syscall(SYS_openat2, root_.get(), c_path(key), &how, sizeof how))),
                 .path = c_path(key)};
  if (directory.fd) return directory;
  if (errno == ELOOP) errno = ENOTDIR;                                                    // a link, as below
  if (errno != ENOSYS && errno != EPERM) return fail_errno(errno, "{}", directory.path);  // EPERM: of a seccomp filter
  constexpr int kPart = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd holder;
  std::string_view rest = key.empty() ? "." : std::string_view(key);
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    UniqueFd part(::openat(holder ? holder.get() : root_.get(), std::string(rest.substr(0, slash)).c_str(), kPart));
    if (!part) return fail_errno(errno, "{}", key);
    holder = std::move(part);
    rest.remove_prefix(slash + 1);
  }
  directory.fd = UniqueFd(::openat(holder ? holder.get() : root_.get(), std::string(rest).c_str(), kFlags));
  if (!directory.fd) return fail_errno(errno, "{}", directory.path);
  return directory;
}

Result<std::unique_ptr<Store>> DirectoryStore::below(const std::string& key) const {
  CODECFS_ASSIGN(const File found, directory(key));
  CODECFS_ASSIGN(DirectoryStore store, open(found));
  return std::make_unique<DirectoryStore>(std::move(store));
}

Result<> DirectoryStore::check_absence(const std::string& key, const std::string& beside) const {
  struct stat status;
  if (::fstatat(root_.get(), c_path(key), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
    return fail(EIO, "{}: is a symbolic link to a file that is not there", key);
  if (::fstatat(root_.get(), c_path(beside), &status, 0) == 0) return {};
  if (!means_absent(errno, beside)) return fail_errno(errno, "{}", beside);
  return fail(ESTALE, "{}: is not there any more: another program has removed it, or unmounted the filesystem", beside);
}

Result<> DirectoryStore::may_change(const std::string& key) const {
  if (::faccessat(root_.get(), c_path(key), W_OK | X_OK, AT_EACCESS) == 0) return {};
  const int code = errno;
  const char* name = key.empty() ? "the store's directory" : key.c_str();
  if (code == EROFS) return fail(EROFS, "{}: is on a filesystem that is mounted read-only", name);
  return fail(EROFS, "{}: cannot be written: {}", name, std::strerror(code));
}

Result<> DirectoryStore::for_each(const std::string& key,
                                  const std::function<Result<>(const char*, EntryType)>& visit) const {
  UniqueFd fd(::openat(root_.get(), c_path(key), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "{}", key.empty() ? "the store" : key);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) return fail_errno(errno, "{}", key);
  (void)fd.release();  // closedir closes it
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const char* name = entry->d_name;
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
    EntryType type = EntryType::special;
    if (entry->d_type == DT_REG) type = EntryType::file;
    if (entry->d_type == DT_DIR) type = EntryType::directory;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) type = EntryType::unknown;
    CODECFS_TRY(visit(name, type));
  }
  if (errno != 0) return fail_errno(errno, "{}", key);
  return {};
}

}  // namespace codecfs::zarr

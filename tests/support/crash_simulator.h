#pragma once
// Simulates the state of a directory when the program is killed, or the power fails, after any of its file operations.
//
//   Recorder recorder(directory);             // records the initial files as durable
//   work(recorder);                           // a FileIo
//   for (size_t n = 0; n <= recorder.operations().size(); ++n) {
//     place(recorder.after_crash(n, {.unsynced = Crash::Fate::torn, .names = Crash::Fate::dropped, .seed = 1}),
//     directory); recover and check
//   }
//
// The model: a kill keeps every operation. A power failure keeps what was synced, separately for each file and
// directory. Unsynced operations are dropped, kept, or torn: of a write, any subset of the 512-byte sectors; of sizes
// and names, any subset, in order. Times and attributes are durable only after sync(). A sector is written completely
// or not at all.
//
// FileIo is thread-safe, and so are these: operations of several threads are recorded in the order in which they
// happen.
//
// place() keeps a file's inode number if its name stays, and sets its recorded mtime, so that a log that identifies its
// source by these finds it.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/mutex.h"

namespace codecfs::crash_testing {

/// Performs everything except syncs, which would only take time here.
class UnsyncedIo : public FileIo {
 public:
  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    return real_file_io().create(directory, name, mode);
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    return real_file_io().write(file, offset, bytes);
  }
  Result<> truncate(const File& file, uint64_t size) override { return real_file_io().truncate(file, size); }
  Result<> sync_data(const File&) override { return {}; }
  Result<> sync(const File&) override { return {}; }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    return real_file_io().rename(directory, from, to);
  }
  Result<> make_directory(const File&, const std::string&, mode_t) override { return fail(ENOSYS, "not simulated"); }
  Result<> unlink(const File& directory, const std::string& name) override {
    return real_file_io().unlink(directory, name);
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    return real_file_io().move(from_directory, from, to_directory, to);
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    return real_file_io().exchange(directory, one, other);
  }
  Result<> remove_directory(const File&, const std::string&) override { return fail(ENOSYS, "not simulated"); }
};

/// Fails operation number `at` (from 0), or all operations from there on. A write that fails has written its first
/// half, in whole sectors, because the kernel writes pages.
class FaultyIo : public UnsyncedIo {
 public:
  FaultyIo(size_t at, int code, bool lasting) : at_(at), code_(code), lasting_(lasting) {}
  [[nodiscard]] size_t operations() const { return count_; }
  /// Whether the first operation that failed was the removal of what an exchange has replaced: a file that is left
  /// behind is no error.
  [[nodiscard]] bool has_failed_after_exchange() const { return has_failed_after_exchange_; }

  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    if (fails()) return error();
    return UnsyncedIo::create(directory, name, mode);
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    if (!fails()) return UnsyncedIo::write(file, offset, bytes);
    const uint64_t half = (offset + bytes.size() / 2) / 512 * 512;
    if (half > offset) (void)UnsyncedIo::write(file, offset, bytes.first(half - offset));
    return error();
  }
  Result<> truncate(const File& file, uint64_t size) override {
    if (fails()) return error();
    return UnsyncedIo::truncate(file, size);
  }
  Result<> sync_data(const File&) override {
    if (fails()) return error();
    return {};
  }
  Result<> sync(const File&) override {
    if (fails()) return error();
    return {};
  }
  Result<> allocate(const File& file, uint64_t offset, uint64_t size) override {
    if (fails()) return error();
    return UnsyncedIo::allocate(file, offset, size);
  }
  Result<> set_attribute(const File& file, const std::string& name, const std::string& value) override {
    if (fails()) return error();
    return UnsyncedIo::set_attribute(file, name, value);
  }
  Result<> remove_attribute(const File& file, const std::string& name) override {
    if (fails()) return error();
    return UnsyncedIo::remove_attribute(file, name);
  }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    if (fails()) return error();
    return UnsyncedIo::rename(directory, from, to);
  }
  Result<> make_directory(const File&, const std::string&, mode_t) override { return fail(ENOSYS, "not simulated"); }
  Result<> unlink(const File& directory, const std::string& name) override {
    if (fails()) {
      if (count_ == at_ + 1) has_failed_after_exchange_ = exchanged_at_ + 1 == at_;
      return error();
    }
    return UnsyncedIo::unlink(directory, name);
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    if (fails()) return error();
    return UnsyncedIo::move(from_directory, from, to_directory, to);
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    if (fails()) return error();
    exchanged_at_ = count_ - 1;
    return UnsyncedIo::exchange(directory, one, other);
  }

 private:
  bool fails() {
    const size_t number = count_++;
    return lasting_ ? number >= at_ : number == at_;
  }
  [[nodiscard]] std::unexpected<Error> error() const { return fail_errno(code_, "injected"); }

  const size_t at_;
  const int code_;
  const bool lasting_;
  std::atomic<size_t> count_ = 0;
  std::atomic<size_t> exchanged_at_ = SIZE_MAX - 1;  // number of the latest exchange
  std::atomic<bool> has_failed_after_exchange_ = false;
};

using Attributes = std::map<std::string, std::string>;  // extended attributes in the user namespace

struct FileState {
  std::vector<std::byte> content;
  timespec mtime{};
  Attributes attributes{};
};

inline Attributes attributes_of(int fd) {
  std::string names(1024, '\0');
  names.resize(static_cast<size_t>(std::max<ssize_t>(::flistxattr(fd, names.data(), names.size()), 0)));
  Attributes attributes;
  for (size_t at = 0; at < names.size();) {
    const std::string name = names.c_str() + at;
    at += name.size() + 1;
    if (!name.starts_with("user.")) continue;
    std::string value(8192, '\0');
    const ssize_t size = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (size < 0) throw std::runtime_error("fgetxattr");
    attributes[name] = value.substr(0, static_cast<size_t>(size));
  }
  return attributes;
}

/// Files by number, and the names that refer to them (relative to the directory).
struct Disk {
  std::map<int, FileState> files;
  std::map<std::string, int> names;
};

struct Crash {
  enum class Fate { kept, dropped, torn };
  Fate unsynced = Fate::kept;  // content, sizes and times that were not synced
  Fate names = Fate::kept;     // names created, removed or changed without a sync of the directory
  unsigned seed = 0;
};

struct Operation {
  enum class Kind {
    create,
    write,
    truncate,
    set_attribute,
    remove_attribute,
    sync_data,
    sync,
    sync_directory,
    rename,
    exchange,
    unlink
  };
  Kind kind;
  int file = -1;        // its number
  std::string name{};   // of create, rename, exchange, unlink, attribute; the directory ("" or ending in '/') of
                        // sync_directory
  std::string to{};     // of rename, exchange; the value of an attribute
  uint64_t offset = 0;  // of write; the size of truncate
  std::vector<std::byte> bytes{};
  timespec mtime{};  // after a write or truncate
};

class Recorder : public UnsyncedIo {
 public:
  explicit Recorder(const std::filesystem::path& root) : root_(std::filesystem::canonical(root).string() + "/") {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().string().substr(root_.size());
      const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      struct stat status = status_of(fd.get());
      FileState state{.content = std::vector<std::byte>(static_cast<size_t>(status.st_size)),
                      .mtime = status.st_mtim,
                      .attributes = attributes_of(fd.get())};
      if (!read_at(fd.get(), name, 0, state.content)) throw std::runtime_error("cannot read " + name);
      initial_.names[name] = next_;
      numbers_[status.st_ino] = next_;
      initial_.files[next_++] = std::move(state);
    }
  }

  /// After the last operation.
  [[nodiscard]] const std::vector<Operation>& operations() const CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    return operations_;
  }

  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    const LockGuard lock(mutex_);
    auto file = UnsyncedIo::create(directory, name, mode);
    if (!file) return file;
    numbers_[status_of(file->fd.get()).st_ino] = next_;
    operations_.push_back({.kind = Operation::Kind::create,
                           .file = next_++,
                           .name = relative(directory) + name,
                           .mtime = status_of(file->fd.get()).st_mtim});
    return file;
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::write(file, offset, bytes));
    operations_.push_back({.kind = Operation::Kind::write,
                           .file = number(file),
                           .offset = offset,
                           .bytes = {bytes.begin(), bytes.end()},
                           .mtime = status_of(file.fd.get()).st_mtim});
    return {};
  }
  Result<> truncate(const File& file, uint64_t size) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::truncate(file, size));
    operations_.push_back({.kind = Operation::Kind::truncate,
                           .file = number(file),
                           .offset = size,
                           .mtime = status_of(file.fd.get()).st_mtim});
    return {};
  }
  /// Changes at most the times.
  Result<> allocate(const File& file, uint64_t offset, uint64_t size) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::allocate(file, offset, size));
    operations_.push_back(
        {.kind = Operation::Kind::write, .file = number(file), .mtime = status_of(file.fd.get()).st_mtim});
    return {};
  }
  Result<> set_attribute(const File& file, const std::string& name, const std::string& value) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::set_attribute(file, name, value));
    operations_.push_back({.kind = Operation::Kind::set_attribute, .file = number(file), .name = name, .to = value});
    return {};
  }
  Result<> remove_attribute(const File& file, const std::string& name) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::remove_attribute(file, name));
    operations_.push_back({.kind = Operation::Kind::remove_attribute, .file = number(file), .name = name});
    return {};
  }
  Result<> sync_data(const File& file) override {
    const LockGuard lock(mutex_);
    operations_.push_back({.kind = Operation::Kind::sync_data, .file = number(file)});
    return {};
  }
  Result<> sync(const File& file) override {
    const LockGuard lock(mutex_);
    if (S_ISDIR(status_of(file.fd.get()).st_mode)) {
      operations_.push_back({.kind = Operation::Kind::sync_directory, .name = relative(file)});
    } else {
      operations_.push_back({.kind = Operation::Kind::sync, .file = number(file)});
    }
    return {};
  }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::rename(directory, from, to));
    operations_.push_back(
        {.kind = Operation::Kind::rename, .name = relative(directory) + from, .to = relative(directory) + to});
    return {};
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::move(from_directory, from, to_directory, to));
    operations_.push_back(
        {.kind = Operation::Kind::rename, .name = relative(from_directory) + from, .to = relative(to_directory) + to});
    return {};
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::exchange(directory, one, other));
    operations_.push_back(
        {.kind = Operation::Kind::exchange, .name = relative(directory) + one, .to = relative(directory) + other});
    return {};
  }
  Result<> make_directory(const File&, const std::string&, mode_t) override { return fail(ENOSYS, "not simulated"); }
  Result<> unlink(const File& directory, const std::string& name) override {
    const LockGuard lock(mutex_);
    CODECFS_TRY(UnsyncedIo::unlink(directory, name));
    operations_.push_back({.kind = Operation::Kind::unlink, .name = relative(directory) + name});
    return {};
  }

  /// After the last operation: the state of the directory after the first `count` operations and this crash.
  [[nodiscard]] Disk after_crash(size_t count, const Crash& crash) const CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    using Kind = Operation::Kind;
    // The first unsynced operation of each file and of its times, and each directory that is not durable.
    std::map<int, size_t> content_from;
    std::map<int, size_t> times_from;
    std::map<std::string, size_t> names_from;
    for (size_t i = 0; i < count; ++i) {
      const Operation& operation = operations_[i];
      if (operation.kind == Kind::sync || operation.kind == Kind::sync_data) content_from[operation.file] = i;
      if (operation.kind == Kind::sync) times_from[operation.file] = i;
      if (operation.kind == Kind::sync_directory) names_from[operation.name] = i;
    }
    std::mt19937 random(crash.seed);
    const auto survives = [&](const auto& durable, const auto& key, size_t i, Crash::Fate fate) {
      const auto found = durable.find(key);
      if (found != durable.end() && i < found->second) return true;
      if (fate == Crash::Fate::torn) return (random() & 1) != 0;
      return fate == Crash::Fate::kept;
    };

    Disk disk = initial_;
    for (size_t i = 0; i < count; ++i) {
      const Operation& operation = operations_[i];
      switch (operation.kind) {
        case Kind::create:
          disk.files[operation.file].mtime = operation.mtime;
          if (survives(names_from, folder(operation.name), i, crash.names)) {
            disk.names[operation.name] = operation.file;
          }
          break;
        case Kind::rename:
          if (const auto from = disk.names.find(operation.name);
              from != disk.names.end() && survives(names_from, folder(operation.name), i, crash.names)) {
            const int file = from->second;
            disk.names.erase(from);
            disk.names[operation.to] = file;
          }
          break;
        case Kind::exchange: {
          const auto one = disk.names.find(operation.name);
          const auto other = disk.names.find(operation.to);
          if (one != disk.names.end() && other != disk.names.end() &&
              survives(names_from, folder(operation.name), i, crash.names))
            std::swap(one->second, other->second);
          break;
        }
        case Kind::unlink:
          if (survives(names_from, folder(operation.name), i, crash.names)) disk.names.erase(operation.name);
          break;
        case Kind::write: {
          FileState& file = disk.files[operation.file];
          for (size_t done = 0; done < operation.bytes.size();) {
            const uint64_t at = operation.offset + done;
            const size_t sector = std::min<size_t>(operation.bytes.size() - done, 512 - at % 512);
            if (survives(content_from, operation.file, i, crash.unsynced)) {
              if (file.content.size() < at + sector) file.content.resize(at + sector);
              std::copy_n(operation.bytes.begin() + static_cast<ptrdiff_t>(done), sector,
                          file.content.begin() + static_cast<ptrdiff_t>(at));
            }
            done += sector;
          }
          if (survives(times_from, operation.file, i, crash.unsynced)) file.mtime = operation.mtime;
          break;
        }
        case Kind::truncate:
          if (survives(content_from, operation.file, i, crash.unsynced)) {
            disk.files[operation.file].content.resize(operation.offset);
          }
          if (survives(times_from, operation.file, i, crash.unsynced)) {
            disk.files[operation.file].mtime = operation.mtime;
          }
          break;
        case Kind::set_attribute:
          if (survives(times_from, operation.file, i, crash.unsynced))
            disk.files[operation.file].attributes[operation.name] = operation.to;
          break;
        case Kind::remove_attribute:
          if (survives(times_from, operation.file, i, crash.unsynced))
            disk.files[operation.file].attributes.erase(operation.name);
          break;
        case Kind::sync_data:
        case Kind::sync:
        case Kind::sync_directory: break;
      }
    }
    return disk;
  }

 private:
  static struct stat status_of(int fd) {
    struct stat status;
    if (::fstat(fd, &status) != 0) throw std::runtime_error("fstat");
    return status;
  }
  static std::string folder(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }
  [[nodiscard]] std::string relative(const File& directory) const {
    const std::string path = directory.path + "/";
    if (!path.starts_with(root_)) throw std::runtime_error(path + " is not below " + root_);
    return path.substr(root_.size());
  }
  [[nodiscard]] int number(const File& file) const CODECFS_REQUIRES(mutex_) {
    return numbers_.at(status_of(file.fd.get()).st_ino);
  }

  const std::string root_;
  Disk initial_;
  Mutex mutex_;  // held during an operation, too
  std::vector<Operation> operations_ CODECFS_GUARDED_BY(mutex_);
  std::map<ino_t, int> numbers_ CODECFS_GUARDED_BY(mutex_);  // of the files by their current inode numbers
  int next_ CODECFS_GUARDED_BY(mutex_) = 0;
};

/// Makes a directory contain exactly these files. Keeps existing directories and creates missing ones.
inline void place(const Disk& disk, const std::filesystem::path& root) {
  std::vector<std::filesystem::path> surplus;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_directory() && !disk.names.contains(entry.path().lexically_relative(root).string())) {
      surplus.push_back(entry.path());
    }
  }
  for (const auto& path : surplus) std::filesystem::remove(path);
  for (const auto& [name, number] : disk.names) {
    const FileState& state = disk.files.at(number);
    const File file{.fd = UniqueFd(::open((root / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)), .path = name};
    for (const auto& [attribute, value] : attributes_of(file.fd.get()))
      if (!state.attributes.contains(attribute)) ::fremovexattr(file.fd.get(), attribute.c_str());
    for (const auto& [attribute, value] : state.attributes)
      if (::fsetxattr(file.fd.get(), attribute.c_str(), value.data(), value.size(), 0) != 0)
        throw std::runtime_error("cannot set an attribute of " + name);
    const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, state.mtime};
    const bool placed = file.fd && real_file_io().truncate(file, state.content.size()) &&
                        real_file_io().write(file, 0, state.content) && ::futimens(file.fd.get(), times) == 0;
    if (!placed) throw std::runtime_error("cannot write " + name);
  }
}

}  // namespace codecfs::crash_testing

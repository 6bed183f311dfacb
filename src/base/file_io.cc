#include "base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/file_owner.h"

namespace codecfs {
namespace {

/// The errors of renameat2 if the filesystem or the kernel does not support its flags.
bool means_no_flags(int code) { return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP; }

class RealFileIo : public FileIo {
 public:
  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    File file{.fd = {}, .path = directory.path + "/" + name};
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    file.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), kFlags, mode & 0700));
    if (!file.fd) return fail_errno(errno, "cannot create {}", file.path);
    if (const Result<> made = make_in_directory(file.fd.get(), directory.fd.get(), mode); !made) {
      ::unlinkat(directory.fd.get(), name.c_str(), 0);
      return fail(made.error().code, "{}: {}", file.path, made.error().reason);
    }
    return file;
  }

  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    if (offset > kLargestOffset || bytes.size() > kLargestOffset - offset) {
      return fail_errno(EFBIG, "cannot write {} bytes at {} of {}", bytes.size(), offset, file.path);
    }
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(file.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return fail_errno(count < 0 ? errno : EIO, "cannot write {} bytes at {} of {}", bytes.size(), offset,
                          file.path);
      }
      offset += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
  }

  Result<> truncate(const File& file, uint64_t size) override {
    if (size > kLargestOffset) return fail_errno(EFBIG, "cannot set the size of {} to {}", file.path, size);
    int status = 0;
    do {
      status = ::ftruncate(file.fd.get(), static_cast<off_t>(size));
    } while (status != 0 && errno == EINTR);
    if (status != 0) return fail_errno(errno, "cannot set the size of {} to {}", file.path, size);
    return {};
  }

  Result<> sync_data(const File& file) override {
    if (::fdatasync(file.fd.get()) != 0) return fail_errno(errno, "cannot sync {}", file.path);
    return {};
  }

  Result<> sync(const File& file) override {
    if (::fsync(file.fd.get()) != 0) return fail_errno(errno, "cannot sync {}", file.path);
    return {};
  }

  Result<> make_directory(const File& directory, const std::string& name, mode_t mode) override {
    if (::mkdirat(directory.fd.get(), name.c_str(), 0700) != 0) {
      return fail_errno(errno, "cannot make the directory {}/{}", directory.path, name);
    }
    // Open it and check the descriptor: a program that can write to the directory may have replaced the name with a
    // link or with another of our directories.
    CODECFS_ASSIGN(const File made, open_directory(directory, name));
    struct stat status;
    if (::fstat(made.fd.get(), &status) != 0) return fail_errno(errno, "{}", made.path);
    if (status.st_uid != ::geteuid() || (status.st_mode & 0777 & ~mode_t{0700}) != 0)
      return fail(EPERM, "{}: another program has replaced it", made.path);
    if (const Result<> given = make_in_directory(made.fd.get(), directory.fd.get(), mode); !given) {
      ::unlinkat(directory.fd.get(), name.c_str(), AT_REMOVEDIR);
      return fail(given.error().code, "{}: {}", made.path, given.error().reason);
    }
    return {};
  }

  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    if (::renameat(directory.fd.get(), from.c_str(), directory.fd.get(), to.c_str()) != 0) {
      return fail_errno(errno, "cannot rename {} in {} to {}", from, directory.path, to);
    }
    return {};
  }

  Result<> unlink(const File& directory, const std::string& name) override {
    if (::unlinkat(directory.fd.get(), name.c_str(), 0) != 0) {
      return fail_errno(errno, "cannot remove {}/{}", directory.path, name);
    }
    return {};
  }

  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    const auto failed = [&](int code) {
      return fail_errno(code, "cannot move {}/{} to {}/{}", from_directory.path, from, to_directory.path, to);
    };
    const int source = from_directory.fd.get();
    const int target = to_directory.fd.get();
    if (::renameat2(source, from.c_str(), target, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (!means_no_flags(errno)) return failed(errno);
    // Without RENAME_NOREPLACE, check and rename in two steps. Even then rename() does not replace a directory that is
    // not empty.
    struct stat status;
    if (::fstatat(target, to.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return failed(EEXIST);
    if (::renameat(source, from.c_str(), target, to.c_str()) != 0) return failed(errno);
    return {};
  }

  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    const int fd = directory.fd.get();
    if (::renameat2(fd, one.c_str(), fd, other.c_str(), RENAME_EXCHANGE) == 0) return {};
    if (means_no_flags(errno))
      return fail(EOPNOTSUPP, "the filesystem of {} cannot exchange two names in one step (renameat2)", directory.path);
    return fail_errno(errno, "cannot exchange {} and {} in {}", one, other, directory.path);
  }

  Result<> remove_directory(const File& directory, const std::string& name) override {
    if (::unlinkat(directory.fd.get(), name.c_str(), AT_REMOVEDIR) != 0)
      return fail_errno(errno, "cannot remove the directory {}/{}", directory.path, name);
    return {};
  }
};

}  // namespace

Result<> FileIo::allocate(const File& file, uint64_t offset, uint64_t size) {
  if (offset > kLargestOffset || size > kLargestOffset - offset)
    return fail_errno(EFBIG, "cannot allocate {} bytes of disk space at {} of {}", size, offset, file.path);
  int status = 0;
  do {
    status = ::fallocate(file.fd.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
  } while (status != 0 && errno == EINTR);
  if (status != 0)
    return fail_errno(errno, "cannot allocate {} bytes of disk space at {} of {}", size, offset, file.path);
  return {};
}

Result<> FileIo::sync_filesystem(const File& file) {
  if (::syncfs(file.fd.get()) != 0) return fail_errno(errno, "cannot sync the filesystem of {}", file.path);
  return {};
}

Result<> FileIo::set_attribute(const File& file, const std::string& name, const std::string& value) {
  if (::fsetxattr(file.fd.get(), name.c_str(), value.data(), value.size(), 0) != 0)
    return fail_errno(errno, "cannot set the attribute {} of {}", name, file.path);
  return {};
}

Result<> FileIo::remove_attribute(const File& file, const std::string& name) {
  if (::fremovexattr(file.fd.get(), name.c_str()) != 0)
    return fail_errno(errno, "cannot remove the attribute {} of {}", name, file.path);
  return {};
}

FileIo& real_file_io() {
  static RealFileIo io;
  return io;
}

Result<File> open_directory(const std::string& path) {
  File directory{.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), .path = path};
  if (!directory.fd) return fail_errno(errno, "{}", path);
  return directory;
}

Result<> rename_new(const std::string& from, const std::string& to) {
  const auto parent_of = [](const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    return open_directory(parent.empty() ? "." : parent);
  };
  const auto name_of = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  CODECFS_ASSIGN(const File from_directory, parent_of(from));
  CODECFS_ASSIGN(const File to_directory, parent_of(to));
  return real_file_io().move(from_directory, name_of(from), to_directory, name_of(to));
}

Result<File> open_directory(const File& parent, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  File directory{.fd = UniqueFd(::openat(parent.fd.get(), name.c_str(), kFlags)), .path = parent.path + "/" + name};
  if (!directory.fd) return fail_errno(errno, "{}", directory.path);
  return directory;
}

Result<> check_name(const File& directory, const std::string& name, const File& file) {
  struct stat here;
  struct stat there;
  if (::fstat(file.fd.get(), &here) != 0) return fail_errno(errno, "{}", file.path);
  if (::fstatat(directory.fd.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || here.st_dev != there.st_dev ||
      here.st_ino != there.st_ino)
    return fail(ESTALE, "{}: another program has replaced it; try again", file.path);
  return {};
}

Result<size_t> read_at(int fd, const std::string& path, uint64_t offset, MutableBytes to) {
  size_t done = 0;
  while (done < to.size() && offset + done <= kLargestOffset) {
    const ssize_t count = ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "cannot read {} bytes at {} of {}", to.size(), offset, path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace codecfs

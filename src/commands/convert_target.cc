#include "commands/convert_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "backends/api/new_zip.h"
#include "base/file_io.h"
#include "base/unique_fd.h"

namespace codecfs::commands {
namespace {

constexpr size_t kWrittenEarly = size_t{128} << 10;  // bytes; smaller files are written together

class DirectoryTarget final : public ConvertTarget {
 public:
  DirectoryTarget(File root, bool trusts_sizes) : root_(std::move(root)), trusts_sizes_(trusts_sizes) {}

  [[nodiscard]] Directory root() const override { return {root_.path, 0}; }

  Result<Directory> make_directory(const Directory& parent, const std::string& name) override {
    Directory made{parent.path + "/" + name, 0};
    if (mkdir(made.path.c_str(), 0777) != 0 && errno != EEXIST) return fail_errno(errno, "{}", made.path);
    return made;
  }

  Result<> remove_directory(const Directory&, const Directory& directory, const std::string&) override {
    std::error_code error;
    std::filesystem::remove_all(directory.path, error);
    if (error) return fail(error.value(), "{}: {}", directory.path, error.message());
    return {};
  }

  Result<bool> has(const Directory& directory, const std::string& name, uint64_t size) override {
    if (!trusts_sizes_) return false;
    const std::string path = directory.path + "/" + name;
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) return false;
      return fail_errno(errno, "{}", path);
    }
    return S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) == size;
  }

  Result<> write(const Directory& directory, const std::string& name, Bytes content) override {
    const std::string path = directory.path + "/" + name;
    // An interruption leaves it shorter than its content, which has() sees.
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (!file) return fail_errno(errno, "{}", path);
    for (size_t at = 0; at < content.size();) {
      const ssize_t count = ::write(file.get(), &content[at], content.size() - at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fail_errno(errno, "{}", path);
      at += static_cast<size_t>(count);
    }
    // The disk writes it meanwhile, so that finish() has less to wait for. Whether that fails is seen there.
    if (content.size() >= kWrittenEarly) (void)::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    return {};
  }

  Result<> make_link(const Directory& directory, const std::string& name, const std::string& target) override {
    const std::string path = directory.path + "/" + name;
    if (symlink(target.c_str(), path.c_str()) != 0 && errno != EEXIST) return fail_errno(errno, "{}", path);
    return {};
  }

  [[nodiscard]] bool consolidates() const override { return false; }

  Result<> finish() override { return real_file_io().sync_filesystem(root_); }

 private:
  const File root_;  // opened first, because syncing tells of errors since then
  const bool trusts_sizes_;
};

class TreeTarget final : public ConvertTarget {
 public:
  explicit TreeTarget(TreeFiles& tree) : tree_(tree) {}

  [[nodiscard]] Directory root() const override { return {"", TreeFiles::root()}; }
  Result<Directory> make_directory(const Directory& parent, const std::string& name) override {
    CODECFS_ASSIGN(const TreeFiles::Ino made, tree_.make_directory(parent.ino, name));
    return Directory{"", made};
  }
  Result<> remove_directory(const Directory& parent, const Directory& directory, const std::string& name) override {
    return tree_.remove_directory(parent.ino, directory.ino, name);
  }
  /// A chunk has the size that this dataset gives it.
  Result<bool> has(const Directory& directory, const std::string& name, uint64_t) override {
    const Result<TreeFiles::Ino> found = tree_.find(directory.ino, name);
    if (found) return tree_.is_stored(*found);
    if (found.error().code != ENOENT) return std::unexpected(found.error());
    return false;
  }
  Result<> write(const Directory& directory, const std::string& name, Bytes content) override {
    return tree_.write(directory.ino, name, content);
  }
  Result<> make_link(const Directory& directory, const std::string& name, const std::string& target) override {
    return tree_.make_link(directory.ino, name, target);
  }
  Result<> restore_link(const Directory& directory, const std::string& name, const std::string& note) override {
    return tree_.restore_link(directory.ino, name, note);
  }
  [[nodiscard]] bool consolidates() const override { return true; }
  [[nodiscard]] bool takes_file_names() const override { return true; }
  [[nodiscard]] bool is_hdf5() const override {
    Source& source = tree_.filesystem().context().dataset.source();
    return !source.chains_for_numcodecs_in(source.root().object);
  }
  Result<> finish() override { return tree_.finish(); }

 private:
  TreeFiles& tree_;
};

class CheckingTarget final : public ConvertTarget {
 public:
  [[nodiscard]] Directory root() const override { return {}; }
  Result<Directory> make_directory(const Directory&, const std::string&) override { return Directory{}; }
  Result<> remove_directory(const Directory&, const Directory&, const std::string&) override { return {}; }
  Result<bool> has(const Directory&, const std::string&, uint64_t) override { return false; }
  Result<> write(const Directory&, const std::string&, Bytes) override { return {}; }
  Result<> make_link(const Directory&, const std::string&, const std::string&) override { return {}; }
  [[nodiscard]] bool consolidates() const override { return false; }
  Result<> finish() override { return {}; }
};

/// The files of a new archive, by their paths from its top.
class ZipTarget final : public ConvertTarget {
 public:
  ZipTarget(std::unique_ptr<NewZip> archive, std::string top) : archive_(std::move(archive)), top_(std::move(top)) {}

  [[nodiscard]] Directory root() const override { return {top_, 0}; }
  Result<Directory> make_directory(const Directory& parent, const std::string& name) override {
    Directory made{path_in(parent, name), 0};
    CODECFS_TRY(archive_->add_directory(made.path));
    return made;
  }
  Result<> remove_directory(const Directory&, const Directory& directory, const std::string&) override {
    archive_->remove_directory(directory.path);
    return {};
  }
  Result<bool> has(const Directory&, const std::string&, uint64_t) override { return false; }
  Result<> write(const Directory& directory, const std::string& name, Bytes content) override {
    return archive_->write(path_in(directory, name), content);
  }
  Result<> make_link(const Directory&, const std::string&, const std::string&) override {
    return fail(EOPNOTSUPP, "a zip archive has no links");
  }
  [[nodiscard]] bool consolidates() const override { return false; }
  [[nodiscard]] bool keeps_parts() const override { return false; }
  Result<> finish() override { return archive_->finish(); }

 private:
  static std::string path_in(const Directory& directory, const std::string& name) {
    return directory.path.empty() ? name : directory.path + "/" + name;
  }

  const std::unique_ptr<NewZip> archive_;
  const std::string top_;
};

}  // namespace

Result<std::unique_ptr<ConvertTarget>> make_zip_target(const std::string& path, const std::string& top) {
  CODECFS_ASSIGN(auto archive, NewZip::make(path));
  if (!top.empty()) CODECFS_TRY(archive->add_directory(top));
  return std::unique_ptr<ConvertTarget>(std::make_unique<ZipTarget>(std::move(archive), top));
}

std::unique_ptr<ConvertTarget> make_checking_target() { return std::make_unique<CheckingTarget>(); }

Result<std::unique_ptr<ConvertTarget>> make_directory_target(const std::string& path, bool trusts_sizes) {
  CODECFS_ASSIGN(File root, open_directory(path));
  return std::make_unique<DirectoryTarget>(std::move(root), trusts_sizes);
}
std::unique_ptr<ConvertTarget> make_tree_target(TreeFiles& tree) { return std::make_unique<TreeTarget>(tree); }

}  // namespace codecfs::commands

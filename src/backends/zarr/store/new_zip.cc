#include "backends/api/new_zip.h"

#include <sys/stat.h>

#include <limits>
#include <map>
#include <utility>

#include "backends/zarr/store/directory_writer.h"
#include "backends/zarr/store/spill_file.h"
#include "backends/zarr/store/zip_rewrite.h"
#include "base/file_io.h"
#include "base/mutex.h"

namespace codecfs {
namespace {

constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kFile = 0644;
constexpr mode_t kDirectory = 0755;

class SpilledZip final : public NewZip {
 public:
  SpilledZip(File parent, std::string name, std::shared_ptr<zarr::SpillFile> spill)
      : parent_(std::move(parent)), name_(std::move(name)), spill_(std::move(spill)) {}

  Result<> write(const std::string& name, Bytes content) override {
    CODECFS_TRY(check(name));
    CODECFS_ASSIGN(zarr::SpilledPtr bytes, spill_->append(content));
    const LockGuard lock(mutex_);
    entries_.insert_or_assign(name, std::move(bytes));
    return {};
  }

  Result<> add_directory(const std::string& name) override {
    CODECFS_TRY(check(name + "/"));
    const LockGuard lock(mutex_);
    entries_.insert_or_assign(name + "/", nullptr);
    return {};
  }

  void remove_directory(const std::string& name) override {
    const LockGuard lock(mutex_);
    const std::string prefix = name + "/";
    for (auto entry = entries_.lower_bound(prefix); entry != entries_.end() && entry->first.starts_with(prefix);)
      entry = entries_.erase(entry);
  }

  Result<> finish() override {
    std::vector<zarr::NewZipEntry> entries;  // in the order of names, in which folders come first
    {
      const LockGuard lock(mutex_);
      for (const auto& [name, bytes] : entries_) {
        zarr::NewZipEntry entry{.name = name, .bytes = std::monostate(), .mode = kDirectory};
        if (bytes) {
          entry.bytes = bytes;
          entry.mode = kFile;
        }
        entries.push_back(std::move(entry));
      }
    }
    FileIo& io = real_file_io();
    CODECFS_ASSIGN(const File file, io.create(parent_, name_, kPrivateFile));
    Result<> written = [&]() -> Result<> {
      CODECFS_TRY(zarr::write_zip(io, file, entries, {}));
      return io.sync(file);
    }();
    if (!written) (void)io.unlink(parent_, name_);
    return written;
  }

 private:
  static Result<> check(const std::string& name) {
    if (name.size() > std::numeric_limits<uint16_t>::max())
      return fail(ENAMETOOLONG, "{}: is too long a name for a zip archive", name.substr(0, 256));
    return {};
  }

  const File parent_;
  const std::string name_;
  const std::shared_ptr<zarr::SpillFile> spill_;
  Mutex mutex_;
  std::map<std::string, zarr::SpilledPtr> entries_ CODECFS_GUARDED_BY(mutex_);  // null: a folder
};

}  // namespace

Result<std::unique_ptr<NewZip>> NewZip::make(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  CODECFS_ASSIGN(File parent, open_directory(slash == std::string::npos ? "." : path.substr(0, slash + 1)));
  CODECFS_ASSIGN(auto spill, zarr::SpillFile::make(real_file_io(), parent, zarr::temporary_name_of(name, 1)));
  return std::unique_ptr<NewZip>(std::make_unique<SpilledZip>(std::move(parent), std::move(name), std::move(spill)));
}

}  // namespace codecfs

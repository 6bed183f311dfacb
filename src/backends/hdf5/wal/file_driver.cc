// Our file driver; the header describes what it does besides reading and writing.
//
// Callbacks run under the LibraryLock of the thread that called libhdf5. Exceptions must not leave a callback, so
// allocation failures are caught.

#include "backends/hdf5/wal/file_driver.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/captured_reads.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {
namespace {

thread_local LoggedFile* to_open = nullptr;

/// Metadata from a larger read: libhdf5 lists a group by many small reads of its members' headers, one after the other.
struct ReadAhead {
  std::vector<std::byte> bytes;
  haddr_t address = 0;
  haddr_t latest = 0;  // where the latest read began
  unsigned near = 0;   // consecutive reads that began a little after the one before
};

struct DriverFile {
  H5FD_t library{};                 // the base class of libhdf5; must be the first member
  std::unique_ptr<LoggedFile> own;  // of files that were opened without an OpenScope
  LoggedFile* file = nullptr;
  dev_t device = 0;
  ino_t inode = 0;
  haddr_t end_of_allocation = 0;
  bool is_writable = false;
  // Bytes that replace the file's own at this address, for reads.
  haddr_t superblock_address = 0;
  std::vector<std::byte> superblock;
  ReadAhead ahead;
};

DriverFile& of(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& of(const H5FD_t* file) { return *reinterpret_cast<const DriverFile*>(file); }

// All open files. Guarded by the LibraryLock.
std::vector<DriverFile*>& open_files() {
  static auto& files = *new std::vector<DriverFile*>;  // never destroyed: libhdf5 closes files at exit
  return files;
}

// A virtual dataset may use its own file as source: it must see the writes of the file that is open already.
LoggedFile* find_open(const char* name) {
  struct stat status{};
  if (stat(name, &status) != 0) return nullptr;
  const auto same = [&](const DriverFile* file) {
    return !file->own && file->device == status.st_dev && file->inode == status.st_ino;
  };
  const auto found = std::ranges::find_if(open_files(), same);
  return found == open_files().end() ? nullptr : (*found)->file;
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t, haddr_t) {
  if (name == nullptr || (flags & (H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) return nullptr;
  try {
    auto file = std::make_unique<DriverFile>();
    file->file = std::exchange(to_open, nullptr);
    if (file->file == nullptr) file->file = find_open(name);
    if (file->file == nullptr) {
      Result<std::unique_ptr<LoggedFile>> opened = LoggedFile::open(name);
      if (!opened) return nullptr;
      file->own = *std::move(opened);
      file->file = file->own.get();
    }
    struct stat status{};
    if (fstat(file->file->fd(), &status) != 0) return nullptr;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->is_writable = (flags & H5F_ACC_RDWR) != 0;
    if (const auto at = find_signature(file->file->fd())) {
      file->superblock_address = *at;
      if (auto block = unmarked_superblock(file->file->fd(), *at)) file->superblock = std::move(*block);
    }
    open_files().push_back(file.get());
    return &file.release()->library;
  } catch (const std::exception&) {
    return nullptr;
  }
}

herr_t driver_close(H5FD_t* file) {
  std::erase(open_files(), &of(file));
  delete &of(file);
  return 0;
}

int driver_compare(const H5FD_t* left, const H5FD_t* right) {
  const DriverFile& a = of(left);
  const DriverFile& b = of(right);
  if (a.device != b.device) return a.device < b.device ? -1 : 1;
  if (a.inode != b.inode) return a.inode < b.inode ? -1 : 1;
  return 0;
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  }
  return 0;
}

haddr_t driver_end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return of(file).end_of_allocation; }

herr_t driver_set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).end_of_allocation = address;
  return 0;
}

haddr_t driver_end_of_file(const H5FD_t* file, H5FD_mem_t) { return of(file).file->size(); }

// As LoggedFile::read(). Nothing is kept of a file that this or another program writes.
Result<size_t> read_metadata(DriverFile& file, haddr_t address, MutableBytes to) {
  constexpr size_t kBytes = size_t{32} << 10;
  constexpr haddr_t kNear = 4096;  // bytes
  constexpr unsigned kBegin = 4;   // reads
  ReadAhead& ahead = file.ahead;
  if (file.file->writing() || file.file->locked_by_another()) {
    ahead = {};
    return file.file->read(address, to);
  }
  ahead.near = address >= ahead.latest && address - ahead.latest <= kNear ? ahead.near + 1 : 0;
  ahead.latest = address;
  const auto copy = [&]() -> std::optional<size_t> {
    if (address < ahead.address || address - ahead.address > ahead.bytes.size()) return std::nullopt;
    const auto rest = std::span(ahead.bytes).subspan(address - ahead.address);
    if (rest.size() < to.size()) return std::nullopt;
    std::memcpy(to.data(), rest.data(), to.size());
    return to.size();
  };
  if (const auto copied = copy()) return *copied;
  if (ahead.near < kBegin || to.size() > kBytes) return file.file->read(address, to);
  ahead.bytes.resize(kBytes);
  ahead.address = address;
  const Result<size_t> count = file.file->read(address, ahead.bytes);
  ahead.bytes.resize(count.value_or(0));
  if (const auto copied = copy()) return *copied;
  return file.file->read(address, to);
}

herr_t driver_read(H5FD_t* library_file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* buffer) {
  DriverFile& file = of(library_file);
  if (type == H5FD_MEM_DRAW && CapturedReads::note(address, size)) return 0;
  if (address > kLargestOffset || size > kLargestOffset - address) return -1;
  auto* to = static_cast<std::byte*>(buffer);
  Result<size_t> count = size_t{0};
  try {
    count = type == H5FD_MEM_DRAW ? file.file->read(address, {to, size}) : read_metadata(file, address, {to, size});
  } catch (const std::exception&) {
    return -1;
  }
  if (!count) return -1;
  const size_t have = *count;
  if (have < size) {
    // Reads of raw data beyond the end fail, unless the space is allocated and was never written.
    if (type == H5FD_MEM_DRAW && !is_allocated(*file.file, address, size)) return -1;
    // libhdf5 reads a little beyond the end when it guesses sizes. A damaged file may make it read gigabytes there.
    constexpr size_t kMaxBeyondEnd = size_t{1} << 20;  // bytes
    if (type != H5FD_MEM_DRAW && size - have > kMaxBeyondEnd) return -1;
    std::memset(to + have, 0, size - have);
  }
  // The overlap of the read and the superblock that replaces the file's own.
  const haddr_t from = std::max(address, file.superblock_address);
  const haddr_t until = std::min(address + size, file.superblock_address + file.superblock.size());
  if (from < until) {
    std::memcpy(to + (from - address), file.superblock.data() + (from - file.superblock_address), until - from);
  }
  return 0;
}

herr_t driver_write(H5FD_t* library_file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  DriverFile& file = of(library_file);
  const Bytes bytes(static_cast<const std::byte*>(buffer), size);
  file.ahead = {};
  try {
    if (address != file.superblock_address) return file.file->write(address, bytes) ? 0 : -1;
    std::vector<std::byte> block(bytes.begin(), bytes.end());
    clear_marks(block);
    file.superblock.clear();  // a write replaces the shown superblock
    return file.file->write(address, block) ? 0 : -1;
  } catch (const std::exception&) {
    return -1;
  }
}

// The end of the file is the end of the allocated space.
herr_t driver_truncate(H5FD_t* library_file, hid_t, hbool_t) {
  DriverFile& file = of(library_file);
  if (file.file->size() == file.end_of_allocation) return 0;
  file.ahead = {};
  return file.file->set_size(file.end_of_allocation) ? 0 : -1;
}

// Ignore libhdf5's flushes: only a commit of the whole file is a consistent state.
herr_t driver_flush(H5FD_t*, hid_t, hbool_t) { return 0; }

H5FD_class_t driver_class(const char* name) {
  H5FD_class_t driver{};
  set_driver_version(driver);
  driver.name = name;
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = driver_open;
  driver.close = driver_close;
  driver.cmp = driver_compare;
  driver.query = driver_query;
  driver.get_eoa = driver_end_of_allocation;
  driver.set_eoa = driver_set_end_of_allocation;
  driver.get_eof = driver_end_of_file;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.flush = driver_flush;
  driver.truncate = driver_truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::memcpy(driver.fl_map, map, sizeof map);
  return driver;
}

}  // namespace

hid_t file_driver(bool family) {
  static const H5FD_class_t driver = driver_class("codecfs");
  static const hid_t id = H5FDregister(&driver);
  if (!family) return id;
  static const H5FD_class_t family_driver = driver_class("family");
  static const hid_t family_id = H5FDregister(&family_driver);
  return family_id;
}

bool is_allocated(const LoggedFile& file, uint64_t address, uint64_t size) {
  return std::ranges::any_of(open_files(), [&](const DriverFile* open) {
    const uint64_t end = open->end_of_allocation;
    return open->file == &file && open->is_writable && size <= end && address <= end - size;
  });
}

bool marked_as_open(int fd) {
  const auto at = find_signature(fd);
  return at && unmarked_superblock(fd, *at).has_value();
}

OpenScope::OpenScope(LoggedFile& file) { to_open = &file; }
OpenScope::~OpenScope() { to_open = nullptr; }

}  // namespace codecfs::hdf5

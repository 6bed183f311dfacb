// Our file driver: see the header for what it does beyond reading.
//
// Callbacks run under the LibraryLock of the thread that called libhdf5; a file has no state of its own but its end of
// allocation. Exceptions cannot leave a callback: what allocates is caught.

#include "backends/hdf5/file_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/superblock.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {
namespace {

thread_local Captured* capture = nullptr;

struct DriverFile {
  H5FD_t library{};  // libhdf5 sees this; it must come first
  UniqueFd fd;
  dev_t device = 0;
  ino_t inode = 0;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
  // Bytes shown instead of the file's own, at this address.
  haddr_t superblock_address = 0;
  std::vector<std::byte> superblock;
};

DriverFile& of(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& of(const H5FD_t* file) { return *reinterpret_cast<const DriverFile*>(file); }

H5FD_t* driver_open(const char* name, unsigned flags, hid_t, haddr_t) {
  if (name == nullptr || (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) return nullptr;
  try {
    auto file = std::make_unique<DriverFile>();
    file->fd = UniqueFd(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a fifo must not block us
    struct stat status{};
    if (!file->fd || fstat(file->fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->end_of_file = static_cast<haddr_t>(status.st_size);
    if (const auto at = find_signature(file->fd.get())) {
      if (auto block = unmarked_superblock(file->fd.get(), *at)) {
        file->superblock_address = *at;
        file->superblock = std::move(*block);
      }
    }
    return &file.release()->library;
  } catch (const std::exception&) {
    return nullptr;
  }
}

herr_t driver_close(H5FD_t* file) {
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

haddr_t driver_end_of_file(const H5FD_t* file, H5FD_mem_t) { return of(file).end_of_file; }

// As much of [address, address + size) as there is; -1 on an error.
ssize_t read_some(int fd, haddr_t address, size_t size, std::byte* to) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, to + done, size - done, static_cast<off_t>(address + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

herr_t driver_read(H5FD_t* library_file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* buffer) {
  const DriverFile& file = of(library_file);
  if (type == H5FD_MEM_DRAW && capture != nullptr) {
    capture->address = address;
    capture->size = size;
    ++capture->reads;
    return 0;
  }
  constexpr haddr_t kLargest = INT64_MAX;
  if (address > kLargest || size > kLargest - address) return -1;
  auto* to = static_cast<std::byte*>(buffer);
  const ssize_t count = read_some(file.fd.get(), address, size, to);
  if (count < 0) return -1;
  const auto have = static_cast<size_t>(count);
  if (have < size) {
    if (type == H5FD_MEM_DRAW) return -1;  // data that is not there is no zeros
    // libhdf5 reads a little beyond the end when it guesses sizes. A damaged file may make it ask for gigabytes of
    // nothing.
    constexpr size_t kMostBeyondEnd = size_t{1} << 20;  // bytes
    if (size - have > kMostBeyondEnd) return -1;
    std::memset(to + have, 0, size - have);
  }
  // Where the read and the superblock that we show overlap.
  const haddr_t from = std::max(address, file.superblock_address);
  const haddr_t until = std::min(address + size, file.superblock_address + file.superblock.size());
  if (from < until) {
    std::memcpy(to + (from - address), file.superblock.data() + (from - file.superblock_address), until - from);
  }
  return 0;
}

herr_t driver_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
  set_driver_version(driver);
  driver.name = "codecfs";
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
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::memcpy(driver.fl_map, map, sizeof map);
  return driver;
}

}  // namespace

hid_t file_driver() {
  static const H5FD_class_t driver = driver_class();
  static const hid_t id = H5FDregister(&driver);
  return id;
}

bool marked_as_open(int fd) {
  const auto at = find_signature(fd);
  return at && unmarked_superblock(fd, *at).has_value();
}

CaptureScope::CaptureScope() { capture = &seen_; }
CaptureScope::~CaptureScope() { capture = nullptr; }

}  // namespace codecfs::hdf5
